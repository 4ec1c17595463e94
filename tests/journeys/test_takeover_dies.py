"""Processes are killed at each step of finding the new primary: nothing is forgotten or assigned twice."""

import asyncio

import asyncpg
import pytest

from support.killed_process import POINTS_OF_A_TAKEOVER
from support.postgres import Addresses, as_owner
from support.standby import CLUSTER, Standby, open_pair
from support.waiting import wait_until
from support.whole_installation import Account, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("kill points")]

FUNDS_CENTS, AMOUNT_CENTS = 100_000, 700


def lead_to_either(addresses: Addresses, standby: Standby) -> dict[str, str]:
    """Both servers in one address, of which the primary is used, as in the guide without HAProxy."""

    def join(one: str, other: str) -> str:
        return f"{one},{other.partition('host=')[2]}&target_session_attrs=primary"

    return dict(
        database_url=join(addresses.service_url, standby.addresses.service_url),
        owner_database_url=join(addresses.owner_url, standby.addresses.owner_url),
    )


def send(service: WholeInstallation, account: Account, name: str) -> int:
    body = dict(amount=AMOUNT_CENTS, key="settle@sandbox.pix.example", key_type="EMAIL", external_id=name)
    return service.insist(account, "POST", "/v1/connect/transfer/key", body).data["id"]


async def read(standby: Standby, question: str) -> list[asyncpg.Record]:
    async with as_owner(standby.addresses) as connection:
        return await connection.fetch(question)


def test_whichever_process_dies_at_whichever_step_of_meeting_the_new_primary_it_is_met_once() -> None:
    with asyncio.Runner() as runner:
        pair = open_pair()
        primary, addresses, standby = runner.run(pair.__aenter__())
        settings = lead_to_either(addresses, standby)
        try:
            with open_whole_installation(database_cluster=CLUSTER, **settings) as service:
                account = service.open_account(FUNDS_CENTS)
                first = send(service, account, "before")
                noted = "select waiting_cluster, timeline from installation"
                wait_until(lambda: runner.run(read(standby, noted))[0]["waiting_cluster"] == CLUSTER, "it is noted")
                for point in POINTS_OF_A_TAKEOVER:
                    service.points.arm(point)
                runner.run(primary.stop(timeout_s=0))
                runner.run(standby.promote())
                for statement in ("alter system reset synchronous_standby_names", "select pg_reload_conf()"):
                    runner.run(standby.ask(statement))
                wait_until(lambda: all(map(service.points.has_killed, POINTS_OF_A_TAKEOVER)), "everybody has died")
                second = send(service, account, "after")
                assert second > first
                # The same name returns the same transfer, also at the new primary.
                assert send(service, account, "before") == first
                service.settle([account])
                assert [row["timeline"] for row in runner.run(read(standby, noted))] == [2]
                assert runner.run(read(standby, "select from database_loss")) == []
                service.check_books()
                service.check_heard([account])
        finally:
            runner.run(pair.__aexit__(None, None, None))
