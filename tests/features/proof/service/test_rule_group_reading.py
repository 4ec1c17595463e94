"""Runs over the books that read them at a real standby."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from pixconnect.features.proof.service.rule_group import BookReader
from pixconnect.features.proof.service.verify import ProofRequest, Verification, verify
from pixconnect.platform import pool
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.privileges import VERIFIER_ROLE
from support import standby as servers
from support.books import chain_all
from support.postgres import Addresses, execute_as_owner
from support.service import Service, open_holder, open_service
from support.verifier import open_book_reader

pytestmark = [pytest.mark.long]

REQUEST = ProofRequest(extent="whole", again_after_s=0)
FOLLOWS_WITHIN_S = 20.0


@asynccontextmanager
async def open_reader(
    service: Service, addresses: Addresses, server: servers.Standby, within_s: float = FOLLOWS_WITHIN_S
) -> AsyncIterator[BookReader]:
    async with open_book_reader(service, addresses) as reader:
        standby = await pool.connect(
            server.addresses.service_url, role=VERIFIER_ROLE, schema="pixconnect, verify", name="verify standby",
            reads_tables=True,
        )  # fmt: skip
        try:
            yield structs.replace(reader, standby=standby, standby_age_max_s=within_s)
        finally:
            standby.terminate()


async def run(reader: BookReader) -> Verification:
    return await verify(reader, REQUEST, lambda *_: None)


async def test_a_run_reads_holders_at_a_standby_that_has_its_beginning_and_keeps_what_it_finds_at_the_primary() -> None:
    async with (
        servers.open_pair(waits=False) as (_, addresses, server),
        open_service(addresses, clock=SystemClock()) as service,
    ):
        caller = await open_holder(service, funds_cents=1_000)
        await chain_all(service.context)
        asked = list[str]()
        async with open_reader(service, addresses, server) as reader:
            assert reader.standby is not None
            reader.standby.add_query_logger(lambda query: asked.append(query.query))
            assert not (await run(reader)).findings
        assert any("balance" in each for each in asked)

        # Errors at both are found there, and checked again here.
        await execute_as_owner(
            addresses,
            "set session_replication_role = replica; update pixconnect.balance set available_cents = available_cents + 1,"
            " settlement_cents = settlement_cents - 1",
        )
        async with open_reader(service, addresses, server) as reader:
            found = await run(reader)
            assert {each.rule for each in found.findings} >= {"balance_is_sum"}
            assert {each.holder_id for each in found.findings if each.rule == "balance_is_sum"} == {caller.holder_id}

        # One that does not follow is left after a while, and one that dies too.
        await server.ask("select pg_wal_replay_pause()")
        with capture_logs() as lines:
            async with open_reader(service, addresses, server, within_s=1.0) as reader:
                assert {each.rule for each in (await run(reader)).findings} >= {"balance_is_sum"}
        assert [line["reason"] for line in lines] == ["after 1 s it does not have the beginning of this run"]
        await server.ask("select pg_wal_replay_resume()")
        async with open_reader(service, addresses, server) as reader:
            server.end()
            await asyncio.sleep(0.2)
            assert {each.rule for each in (await run(reader)).findings} >= {"balance_is_sum"}
