"""A table or a row that is gone is found, and keeps nothing else from being looked at."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from pixconnect.features.proof.service.verify import RULES, ProofRequest, Verification, verify
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.proof import Extent
from support.postgres import Addresses, as_owner
from support.service import Service
from support.verifier import be_started, open_book_reader

# In order of the checks: those of a run itself, of the shape, and some others.
TABLES = (
    "clock", "balance", "ledger_entry", "holder", "institution_account", "event_partition", "allowed_posting",
    "schema_version",
)  # fmt: skip
ASKS_THE_MODE = {
    rule.name for rule in RULES if "{runs_on}" in rule.broken or "from installation where mode = 'live'" in rule.broken
}


@pytest.fixture
async def owner(caller: Caller, database: Addresses) -> AsyncIterator[asyncpg.Connection]:
    async with as_owner(database) as connection:
        yield connection


async def look(service: Service, database: Addresses, extent: Extent = "whole") -> Verification:
    async with open_book_reader(service, database) as reader:
        return await verify(reader, ProofRequest(extent=extent, again_after_s=0), lambda *_: None)


async def lose_mode(owner: asyncpg.Connection) -> None:
    await owner.execute("set session_replication_role = replica")
    await owner.execute("delete from installation")
    await owner.execute("set session_replication_role = origin")


@pytest.mark.parametrize("table", TABLES)
async def test_a_table_that_is_gone_is_found_and_the_other_rules_go_on(
    service: Service, owner: asyncpg.Connection, database: Addresses, table: str
) -> None:
    await be_started(service)
    await owner.execute(f"drop table {table} cascade")
    await owner.execute("alter table refund disable trigger check_moved")
    found = await look(service, database)
    told = {(each.rule, *each.ids) for each in found.findings}
    assert ("tables_are_as_made", f"table {table}") in told
    assert ("tables_are_as_made", "table refund") in told
    unread = [each for each in found.judgements if f'"{table}" does not exist' in (each.reason or "")]
    assert {each.verdict for each in unread} <= {"not_checkable"}
    assert found.unreadable_count == 0 or unread
    # Checks of holders that were not possible are made once they are.
    of_holders = {rule.name for rule in RULES if rule.of == "holders"} & {each.rule for each in unread}
    assert not (of_holders and await owner.fetchval("select exists (select from verify.proof_checkpoint)"))


@pytest.mark.long
async def test_a_renamed_table_is_found(service: Service, owner: asyncpg.Connection, database: Addresses) -> None:
    tables = await owner.fetch(
        "select relname::text as name from pg_class where relnamespace = 'pixconnect'::regnamespace "
        "and relkind in ('r', 'p') and not relispartition order by 1"
    )
    async with open_book_reader(service, database) as reader:
        for (table,) in tables:
            await owner.execute(f"alter table {table} rename to another")
            found = await verify(reader, ProofRequest(again_after_s=0), lambda *_: None)
            named = {name for each in found.findings if each.rule == "tables_are_as_made" for name in each.ids}
            assert {f"table {table}", "table another"} <= named, table
            await owner.execute(f"alter table another rename to {table}")


async def test_a_lost_mode_is_found_and_said(service: Service, owner: asyncpg.Connection, database: Addresses) -> None:
    async with open_book_reader(service, database) as reader:
        await lose_mode(owner)
        found = await verify(reader, ProofRequest(extent="whole", again_after_s=0), lambda *_: None)
        by_name = ProofRequest(extent="whole", rules=["live_has_no_play_money"], again_after_s=0)
        alone = await verify(reader, by_name, lambda *_: None)
    assert ("installation_is_known", ("row of installation",)) in {(each.rule, each.ids) for each in found.findings}
    partial = {each.rule for each in found.judgements if "the row of `installation` is lost" in (each.reason or "")}
    assert partial == ASKS_THE_MODE >= {"fact_has_its_entries", "live_has_no_play_money", "charge_says_what_it_asks_for"}
    assert found.unreadable_count == len(ASKS_THE_MODE)
    assert (alone.findings, alone.unreadable_count) == ([], 1)
    assert not await owner.fetchval("select exists (select from verify.proof_checkpoint)")


async def test_a_lost_clock_is_found(service: Service, owner: asyncpg.Connection, database: Addresses) -> None:
    await owner.execute("delete from clock")
    found = await look(service, database)
    assert ("installation_is_known", ("row of clock",)) in {(each.rule, each.ids) for each in found.findings}
