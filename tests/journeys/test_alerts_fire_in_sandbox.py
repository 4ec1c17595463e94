"""Alerts fire by their real causes and end: those that a sandbox can cause, in a whole installation with a second worker.

Alerts of institutions are in ``test_alerts_fire``.
"""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import httpx
import pytest
from msgspec import Struct

from journeys.test_rail_edges import close, reports, running
from pixconnect.platform.adapters.system import ServerFile
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from support.account_at_face import run
from support.installation import PIXCONNECT, standing_still
from support.ports import reserved_pair, reserved_port
from support.postgres import as_owner, execute
from support.prometheus import find_program
from support.small_disk import server_on_small_disk
from support.waiting import wait_until
from support.watching import Watching, watching
from support.whole_installation import Account, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("alerts")]

HERE = {
    "TransferUnapproved", "CaseAges", "ReportWaits", "DatabaseForgot", "SigningKeyUnusable", "ErrorsAnswered",
    "OrdersQueue", "DeliveriesLate", "DeliveriesGivenUp", "FeedLate", "PartitionsMissing", "ReceiverFails",
}  # fmt: skip
ORDERS_COUNT, CALLERS_COUNT = 1200, 16
RETRIED_FOR_S = 30 * 86_400
FORGOTTEN = (("open_order", "name"), ("transfer", "end_to_end_id"))
COUNTER = "pixconnect_feed_positions_total"
PAYEE = dict(key="settle@sandbox.pix.example", key_type="EMAIL")


class Watched(Struct, frozen=True, kw_only=True):
    service: WholeInstallation
    server: EmbeddedPostgres
    runner: Any
    seen: Watching
    account: Account
    workers: tuple[int, ...]  # two worker processes that share the work
    worker_ports: tuple[int, ...]
    names: Any

    def sql(self, *statements: str) -> None:
        """As the owner of the tables."""
        for statement in statements:
            execute(self.server.owner_url, f"set search_path = pixconnect; {statement}")

    def read(self, query: str) -> list[Any]:
        async def ask() -> list[Any]:
            async with as_owner(self.server) as connection:
                return await connection.fetch(query)

        return self.runner.run(ask())

    def transfer(self, cents: int = 1) -> dict[str, Any]:
        body = dict(amount=cents, external_id=f"alert-{next(self.names)}", **PAYEE)
        return self.service.insist(self.account, "POST", "/v1/connect/transfer/key", body).data

    def verb(self, *words: str) -> Any:
        return run(self.service.installation, *words)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    find_program("prometheus")
    folder = tmp_path_factory.mktemp("alerts")
    with ExitStack() as ended:
        server, runner = ended.enter_context(server_on_small_disk())
        metrics, second = ended.enter_context(reserved_pair()), ended.enter_context(reserved_port())
        addresses = dict(database_url=server.login_url, owner_database_url=server.owner_url)
        settings = addresses | dict(metrics_port=str(metrics))
        # However long a queue stands, nothing in it is given up.
        policy = {"handover_timeout_s": 7200}
        service = ended.enter_context(open_whole_installation(policy=policy, **settings))
        other = ended.enter_context(second_worker(service, server, second))
        ports = {"work": [metrics, second], "serve": [metrics + 1]}
        seen = ended.enter_context(watching(folder, ports))
        (first,) = service.installation.children("work")
        account = service.open_account(1_000_000)
        yield Watched(
            service=service, server=server, runner=runner, seen=seen, account=account, workers=(first, other),
            worker_ports=(metrics, second), names=count(1),
        )  # fmt: skip


@contextmanager
def second_worker(service: WholeInstallation, server: EmbeddedPostgres, port: int) -> Iterator[int]:
    """A second worker, which takes over abandoned work; yields its process id."""
    given = dict(DATABASE_URL=server.login_url, RAIL_URL=running(service)["rail_url"], METRICS_PORT=str(port))
    environment = service.installation.environment | {f"PIXCONNECT_{name}": value for name, value in given.items()}
    process = subprocess.Popen([*PIXCONNECT, "work"], env=environment, stdout=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait(60)


def test_a_transfer_that_waits_for_an_operators_yes_is_told_until_it_has_it(watched: Watched) -> None:
    holder = ("--holder-id", str(watched.account.holder_id))
    watched.verb("holder", "set", *holder, "--approve-above", "5000", "--json")
    sent = watched.transfer(5001)
    watched.seen.wait_until_firing("TransferUnapproved")
    watched.verb("operator", "transfer", "approve", str(sent["id"]), "--json")
    watched.seen.wait_until_quiet("TransferUnapproved")
    watched.verb("holder", "set", *holder, "--approve-above", "none", "--json")


def test_what_nobody_sends_is_late_until_a_worker_goes_on(watched: Watched) -> None:
    with standing_still(*watched.workers):
        make_charge(watched)
        # No worker reports it, so an API process does.
        watched.seen.wait_until_firing("DeliveriesLate")
    watched.seen.wait_until_quiet("DeliveriesLate")


def test_events_have_no_position_in_the_feed_until_another_worker_has_taken_over(watched: Watched) -> None:
    with standing_still(find_who_feeds(watched)):
        make_charge(watched)
        watched.seen.wait_until_firing("FeedLate")
        watched.seen.wait_until_quiet("FeedLate")


def make_charge(watched: Watched) -> None:
    charge = dict(amount=100, key=watched.account.key, external_id=f"alert-{next(watched.names)}")
    watched.service.insist(watched.account, "POST", "/v1/connect/charge", charge)


def find_who_feeds(watched: Watched) -> int:
    """The worker that gives events their positions."""

    def read() -> list[float]:
        said: list[float] = []
        for port in watched.worker_ports:
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                lines = answer.read().decode().splitlines()
            said.append(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(COUNTER)))
        return said

    before, grown = read(), list[int]()
    make_charge(watched)

    def has_grown() -> bool:
        grown[:] = [pid for pid, was, now in zip(watched.workers, before, read(), strict=True) if now > was]
        return bool(grown)

    wait_until(has_grown, "a worker has given a position")
    return grown[0]


def test_orders_that_a_rail_does_not_take_are_told_until_it_does(watched: Watched) -> None:
    party = dict(ispb="99999004", branch="0001", account_number="1001", account_type="CHECKING")
    whose = dict(name="Sandbox Settle", tax_id="50023097396")
    bodies = [dict(amount=1, external_id=f"queued-{number}", credit_party=party | whose) for number in range(ORDERS_COUNT)]
    headers = {"Authorization": f"Bearer {watched.service.log_in(watched.account)}"}
    with standing_still(*watched.service.installation.children("sandbox")):
        with (
            httpx.Client(base_url=watched.service.installation.base_url, headers=headers, timeout=120) as http,
            ThreadPoolExecutor(CALLERS_COUNT) as callers,
        ):
            statuses = callers.map(lambda body: http.post("/v1/connect/transfer/manual", json=body).status_code, bodies)
            assert {*statuses} == {200}
        watched.seen.wait_until_firing("OrdersQueue", kind="transfer")
    watched.seen.wait_until_quiet("OrdersQueue")


def test_a_table_that_is_not_as_the_program_knows_it_is_told_by_the_500s_of_callers(watched: Watched) -> None:
    watched.sql("alter table webhook_endpoint rename column url to address")
    try:
        answer = httpx.get(
            f"{watched.service.installation.base_url}/v1/webhook/endpoints",
            headers={"Authorization": f"Bearer {watched.service.log_in(watched.account)}"},
            timeout=60,
        )
    finally:
        watched.sql("alter table webhook_endpoint rename column address to url")
    assert answer.status_code == 500
    # It was one.
    watched.seen.wait_until_firing("ErrorsAnswered", operation="list_webhook_endpoints")
    watched.seen.wait_until_quiet("ErrorsAnswered")


def test_partitions_that_nobody_may_make_any_more_are_told_until_somebody_may(watched: Watched) -> None:
    watched.sql("revoke execute on function make_partitions(text) from pixconnect_service")
    made = "from event_partition where parent = 'event' and first_id > last_id_given('event')"
    try:
        # As time passes without other work.
        for (name,) in watched.read(f"select name {made}"):
            watched.sql(f"alter table event detach partition {name}", f"drop table {name}")
        watched.sql(f"delete {made}")
        watched.seen.wait_until_firing("PartitionsMissing", table="event")
    finally:
        watched.sql("grant execute on function make_partitions(text) to pixconnect_service")
    watched.seen.wait_until_quiet("PartitionsMissing")


def test_keys_that_cannot_be_read_are_told_until_they_can(watched: Watched) -> None:
    watched.sql("revoke select on signing_key from pixconnect_service")
    try:
        watched.seen.wait_until_firing("SigningKeyUnusable")
    finally:
        watched.sql("grant select on signing_key to pixconnect_service")
    watched.seen.wait_until_quiet("SigningKeyUnusable")


def test_webhooks_that_are_given_up_are_told(watched: Watched) -> None:
    watched.service.listener.is_deaf = True
    make_charge(watched)
    watched.service.advance_clock(watched.account, 5 * 3600)
    watched.seen.wait_until_firing("ReceiverFails")
    # A receiver that is deaf for as long as a delivery is tried.
    watched.service.advance_clock(watched.account, RETRIED_FOR_S)
    watched.seen.wait_until_firing("DeliveriesGivenUp")
    watched.service.listener.is_deaf = False
    make_charge(watched)
    watched.seen.wait_until_quiet("DeliveriesGivenUp")
    watched.seen.wait_until_quiet("ReceiverFails")


def test_an_end_of_an_order_that_nobody_here_knows_waits_for_an_operator(watched: Watched) -> None:
    service, account = watched.service, watched.account
    # It settles when the clock is moved, so its rows are gone by then on any machine.
    rule = {"match": {"operation": "submit"}, "effect": "delay:3600000", "times": 1}
    service.insist(account, "PUT", "/sandbox/v1/faults", {"rules": [rule]})
    name = watched.transfer(700)["end_to_end_id"]
    wait_until(lambda: watched.read(f"select 1 from sandbox.settlement where id = '{name}'"), "the rail has it")
    forget = [f"delete from {table} where {column} = '{name}'" for table, column in FORGOTTEN]
    watched.sql(*(f"set session_replication_role = replica; {each}" for each in forget))
    service.advance_clock(account, 3600)
    watched.seen.wait_until_firing("ReportWaits", reason="unknown_order")
    watched.seen.wait_until_firing("CaseAges", kind="report")
    (kept,) = reports(service)
    close(service, kept["id"])
    watched.seen.wait_until_quiet("ReportWaits")
    watched.seen.wait_until_quiet("CaseAges")


def test_a_forgetful_database_is_told_until_an_operator_mends_it(watched: Watched, tmp_path: Path) -> None:
    data, log = watched.server.data_folder, (watched.server.data_folder / "pg_wal").resolve()
    kept = {data: tmp_path / "data", log: tmp_path / "log"}
    watched.runner.run(watched.server.stop())
    for folder, copy in kept.items():
        subprocess.run(["cp", "-a", folder, copy], check=True)
    watched.runner.run(watched.server.start())
    watched.transfer()
    # Nothing unrecorded can be missed, and a restored copy writes a little at its start.
    [reached] = watched.read("select pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint as position")
    noted = ServerFile(watched.service.installation.home)
    wait_until(
        lambda: (server := noted.read()) is not None and server.position >= reached["position"],
        "a process has noted how far the server is",
    )
    watched.runner.run(watched.server.stop())
    for folder, copy in kept.items():
        subprocess.run(["find", folder, "-mindepth", "1", "-delete"], check=True)
        subprocess.run(["cp", "-a", f"{copy}/.", folder], check=True)
    watched.runner.run(watched.server.start())
    watched.seen.wait_until_firing("DatabaseForgot")
    watched.verb("database", "recovered")
    watched.seen.wait_until_quiet("DatabaseForgot")
