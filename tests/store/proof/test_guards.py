"""What somebody has changed in the tables themselves is found, by its name."""

import asyncio
import re
import subprocess
from typing import cast

import asyncpg
import pytest

from pixconnect.config import PostgresVersion
from pixconnect.domain.identity.access import Caller
from pixconnect.local.postgres_programs import find_programs
from pixconnect.store.proof.rules import RULES
from pixconnect.usecases.proof.verify import ProofRequest, verify
from support.postgres import Addresses, drop_copy, make_empty
from support.service import Service
from support.verifier import open_book_reader

OF_INSTALLATION = ProofRequest(rules=[rule.name for rule in RULES if rule.of != "holders"], again_after_s=0)
# Servers of tests are forgetful on purpose.
FORGETFUL = {f"setting {name}" for name in ("fsync", "full_page_writes", "synchronous_commit")}
DAMAGE = {
    "alter table transfer disable trigger check_moved": {"trigger transfer.check_moved"},
    "alter table refund enable always trigger check_new": {"trigger refund.check_new"},
    "drop trigger movement_is_append_only on movement": {"trigger movement.movement_is_append_only"},
    "create or replace function refuse_old_session() returns boolean language sql as 'select true'": {
        "function refuse_old_session()"
    },
    "alter table client drop constraint client_client_id_check": {"constraint client.client_client_id_check"},
    "insert into allowed_transition values ('transfer', 'OUT', false, 'CONFIRMED', 'CANCELLED', 'service')": {
        "transition transfer OUT f CONFIRMED CANCELLED service"
    },
    "delete from allowed_posting where kind = 'repayment'": {"posting repayment OUT f MADE available deficit service"},
    "create rule hidden as on insert to kept_report do instead nothing": {"rule kept_report.hidden"},
    "alter table holder add column nickname text": {"column holder.nickname"},
    "create table mine (id bigint)": {"table mine", "column mine.id"},
    # PostgreSQL refuses to tell how it is made, which kept every other rule from being asked.
    "create aggregate summed(bigint) (sfunc = int8pl, stype = bigint)": {
        "function summed(bigint)",
        "grant everybody may EXECUTE summed()",
    },
    "create or replace view entry_facts as select id, holder_id, ''::text as facts, null::text as person from ledger_entry": {
        "rule entry_facts._RETURN"
    },
    "drop index transfer_accepted": {"index transfer_accepted"},
    "alter table deposit alter column amount_cents set default 100": {"column deposit.amount_cents"},
    "alter table movement owner to pixconnect_operator": {"owner movement"},
    "grant update on ledger_entry to pixconnect_service": {"grant pixconnect_service may UPDATE ledger_entry"},
    "grant select on holder to public": {"grant everybody may SELECT holder"},
    "revoke select on deposit from pixconnect_service": {"grant pixconnect_service may SELECT deposit"},
    "grant select (secret_hash) on client to pixconnect_verifier": {
        "grant pixconnect_verifier may SELECT client.secret_hash"
    },
    "grant update on balance to pixconnect_funding": {"grant pixconnect_funding may UPDATE balance"},
    "grant select on client to pixconnect_verifier": {"grant pixconnect_verifier may SELECT client"},
    "grant execute on function chain_records to pixconnect_verifier": {
        "grant pixconnect_verifier may EXECUTE chain_records()"
    },
    "alter default privileges in schema pixconnect grant delete on tables to public": {
        "grant everybody may DELETE what comes"
    },
    # What hangs on a table is asked for as the table is.
    "grant delete on {older} to pixconnect_service": {"grant pixconnect_service may DELETE {older}"},
    "alter table {older} owner to pixconnect_operator": {"owner {older}"},
    "create trigger eats before insert on {older} for each row execute function refuse_change()": {
        "trigger {older}.eats"
    },
    "create table public.heir () inherits (refund)": {"table public.heir inherits refund"},
    "alter table console_session set unlogged": {
        "table console_session unlogged",
        "table console_session_id_seq unlogged",
    },
    "alter view origin set (security_invoker = true)": {"table origin with options"},
    "alter sequence charge_id cache 1000": {"sequence charge_id"},
    "update schema_version set checksum = repeat('0', 64) where version = 90": {"migration 90 {migration}"},
    """do $$ begin execute (
        select format('alter table refund disable trigger %I', tgname) from pg_trigger
        join pg_constraint on pg_constraint.oid = tgconstraint
        where conname = 'return_name_refund_id_holder_id_fkey' and tgrelid = 'refund'::regclass limit 1
    ); end $$""": {"trigger refund.return_name_refund_id_holder_id_fkey of PostgreSQL"},
    "select setval('write_group_id', 1, false)": {"sequence write_group_id"},
    "alter table event detach partition {partition}": {"partition {partition}"},
}


async def test_the_migrations_leave_nothing_to_find(service: Service, database: Addresses) -> None:
    assert await _find(service, database) == FORGETFUL


async def test_each_change_of_the_tables_is_found_by_its_name(
    service: Service, caller: Caller, database: Addresses
) -> None:
    owner = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        partition = await owner.fetchval("select max(name) from event_partition where parent = 'event'")
        names = dict(
            partition=partition,
            older=await owner.fetchval("select min(name) from event_partition where parent = 'event'"),
            migration=await owner.fetchval("select name from schema_version where version = 90"),
        )
        for statement in DAMAGE:
            await owner.execute(statement.format(**names))
    finally:
        await owner.close()
    expected = {name.format(**names) for expected in DAMAGE.values() for name in expected}
    found = await _find(service, database)
    # What hung on its table by its parts is there as a table of its own.
    assert expected == {name for name in found - FORGETFUL if f" {partition}" not in name or name in expected}


async def test_a_column_that_was_added_by_hand_is_found_and_hides_no_other_finding(
    service: Service, caller: Caller, database: Addresses
) -> None:
    owner = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        await owner.execute("alter table transfer add column remark text")
        # As somebody does who may do everything.
        await owner.execute("set session_replication_role = replica")
        await owner.execute(
            "update balance set available_cents = available_cents + 1, settlement_cents = settlement_cents - 1"
        )
    finally:
        await owner.close()
    async with open_book_reader(service, database) as reader:
        found = await verify(reader, ProofRequest(extent="whole", again_after_s=0), lambda *_: None)
    assert {"tables_are_as_made", "balance_is_sum"} <= {each.rule for each in found.findings}
    assert "column transfer.remark" in {name for each in found.findings for name in each.ids}
    unread = [each for each in found.judgements if "permission denied for table transfer" in (each.reason or "")]
    assert {each.verdict for each in unread} == {"not_checkable"}


async def _find(service: Service, database: Addresses) -> set[str]:
    async with open_book_reader(service, database) as reader:
        found = await verify(reader, OF_INSTALLATION, lambda *_: None)
    return {name for each in found.findings for name in each.ids}


async def test_a_database_that_was_restored_from_a_dump_is_as_it_was_made(
    postgres_server: Addresses, service: Service, database: Addresses, request: pytest.FixtureRequest
) -> None:
    assert await _find(service, database) == FORGETFUL
    # A restore reads PostgreSQL's own words for a check, and says them with fewer parentheses afterwards.
    version = cast("PostgresVersion", request.config.getoption("postgres_version"))
    program = find_programs(version) / "bin" / "pg_dump"
    dumped = await asyncio.to_thread(
        subprocess.run,
        [program, "--inserts", "--no-owner", f"--dbname={database.owner_url}"],
        capture_output=True,
        text=True,
        check=True,
    )
    restored = await make_empty(postgres_server, "from_a_dump")
    try:
        owner = await asyncpg.connect(restored.owner_url)
        await owner.execute(re.sub(r"^\\.*$", "", dumped.stdout, flags=re.MULTILINE))
        await owner.close()
        assert await _find(service, restored) == FORGETFUL
    finally:
        await drop_copy(postgres_server, "from_a_dump")


async def test_a_partition_on_its_way_out_is_no_finding(service: Service, caller: Caller, database: Addresses) -> None:
    # A worker takes it off its table, and drops it afterwards; it may end between the two.
    owner = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        await owner.execute("create table event_0 (id bigint)")
        await owner.execute(
            "insert into event_partition (name, parent, first_id, end_id, detached_at) values ('event_0', 'event', 0, 1, now())"
        )
        assert await _find(service, database) == FORGETFUL
    finally:
        await owner.execute("drop table event_0")
        await owner.close()
