"""Changes of the schema itself are found, by name."""

import asyncio
import re
import subprocess
from typing import cast

import asyncpg
import pytest

from pixconnect.features.proof.service.verify import RULES, ProofRequest, verify
from pixconnect.features.proof.tables.shape import find_changed
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform.config import PostgresVersion
from pixconnect.platform.local.postgres_placement import find_programs
from support.postgres import Addresses, as_owner, drop_copy, make_empty
from support.service import Service
from support.verifier import open_book_reader

OF_INSTALLATION = ProofRequest(rules=[rule.name for rule in RULES if rule.of != "holders"], again_after_s=0)
# Servers of tests are forgetful on purpose.
FORGETFUL = {f"setting {name}" for name in ("fsync", "full_page_writes", "synchronous_commit")}
DAMAGE = {
    "alter table transfer disable trigger check_moved": {"table transfer"},
    "alter table refund enable always trigger check_new": {"table refund"},
    "drop trigger movement_is_append_only on movement": {"table movement"},
    "create or replace function refuse_old_session() returns boolean language sql as 'select true'": {
        "function refuse_old_session()"
    },
    "alter table client drop constraint client_client_id_check": {"table client"},
    "alter table client add constraint more check (client_id <> '') not valid": {"table client"},
    "insert into allowed_transition values ('transfer', 'OUT', false, 'CONFIRMED', 'CANCELLED', 'service')": {
        "rows of allowed_transition"
    },
    "delete from allowed_posting where kind = 'repayment'": {"rows of allowed_posting"},
    "create rule hidden as on insert to kept_report do instead nothing": {"table kept_report"},
    "alter table holder enable row level security": {"table holder"},
    "create policy hidden on holder using (id > 1)": {"table holder"},
    "alter table holder add column nickname text": {"table holder"},
    "alter table holder alter column name drop not null": {"table holder"},
    "alter table console_operator alter column role type varchar(32)": {"table console_operator"},
    "create table mine (id bigint)": {"table mine"},
    "drop table account_alarm": {"table account_alarm"},
    # PostgreSQL has no definition of it, and raises an error for it.
    "create aggregate summed(bigint) (sfunc = int8pl, stype = bigint)": {"function summed(bigint)"},
    "create or replace view entry_facts as select id, holder_id, ''::text as facts, null::text as person from ledger_entry": {
        "table entry_facts"
    },
    "alter view origin set (security_invoker = true)": {"table origin"},
    "create type mine as enum ('one')": {"type mine"},
    "alter type ledger_account add value 'mine'": {"type ledger_account"},
    "drop index transfer_accepted": {"table transfer"},
    "alter table deposit alter column amount_cents set default 100": {"table deposit"},
    "alter table movement owner to pixconnect_operator": {"table movement"},
    "alter function refuse_change() owner to pixconnect_operator": {"function refuse_change()"},
    "grant update on ledger_entry to pixconnect_service": {"table ledger_entry"},
    "grant select on holder to public": {"table holder"},
    "revoke select on deposit from pixconnect_service": {"table deposit"},
    "grant select (secret_hash) on client to pixconnect_verifier": {"table client"},
    "grant update on balance to pixconnect_funding": {"table balance"},
    "grant select on client to pixconnect_verifier": {"table client"},
    "grant execute on function chain_audit to pixconnect_verifier": {"function chain_audit(count_max integer)"},
    "grant usage on schema pixconnect to public": {"schema pixconnect"},
    "alter default privileges in schema pixconnect grant delete on tables to public": {"schema pixconnect"},
    "grant pixconnect_operator to pixconnect_verifier": {"roles"},
    "grant pixconnect_owner to pixconnect_login": {"roles"},
    "alter role pixconnect_service createdb": {"roles"},
    "grant set on parameter session_replication_role to pixconnect_service": {"roles"},
    "create table public.heir () inherits (refund)": {"table refund"},
    "alter table console_session set unlogged": {"table console_session"},
    "alter sequence charge_id cache 1000": {"sequence charge_id"},
    "alter table verify.proof_run drop constraint proof_run_check": {"table verify.proof_run"},
    # The trigger by which PostgreSQL keeps a foreign key.
    """do $$ begin execute (
        select format('alter table refund disable trigger %I', tgname) from pg_trigger
        join pg_constraint on pg_constraint.oid = tgconstraint
        where conname = 'return_name_refund_id_holder_id_fkey' and tgrelid = 'refund'::regclass limit 1
    ); end $$""": {"table refund"},
    # A partition is listed once it was changed.
    "grant delete on {partition} to pixconnect_service": {"table {partition}"},
    "alter table {partition} owner to pixconnect_operator": {"table {partition}"},
    "alter table {partition} enable row level security": {"table {partition}"},
    "create trigger eats before insert on {partition} for each row execute function refuse_change()": {"table {partition}"},
    "alter table event detach partition {partition}": {"table {partition}"},
}


async def test_the_baseline_leaves_nothing_to_find(service: Service, database: Addresses) -> None:
    assert await _find(service, database) == FORGETFUL


async def test_each_change_is_found_by_its_name(service: Service, caller: Caller, database: Addresses) -> None:
    async with as_owner(database) as owner:
        partition = await owner.fetchval("select max(name) from event_partition where parent = 'event'")
        for statement, names in DAMAGE.items():
            change = owner.transaction()
            await change.start()
            await owner.execute(statement.format(partition=partition))
            found = {name for each in await find_changed(owner) for name in each.ids}
            await change.rollback()
            assert found == {name.format(partition=partition) for name in names}, statement


async def test_a_finding_shows_source_and_difference(service: Service, caller: Caller, database: Addresses) -> None:
    async with as_owner(database) as owner:
        await owner.execute("alter table transfer disable trigger check_moved")
        await owner.execute("create table mine (id bigint)")
        await owner.execute("select setval('write_group_id', 1, false)")
    async with open_book_reader(service, database) as reader:
        found = await verify(reader, OF_INSTALLATION, lambda *_: None)
    by_name = {each.ids[0]: each for each in found.findings}
    assert by_name.keys() - FORGETFUL == {"table transfer", "table mine", "sequence write_group_id"}
    transfer = by_name["table transfer"]
    assert str(transfer.expected).endswith(", the digest of pixconnect/kernel/schema and pixconnect/features/*/schema.sql")
    assert "; trigger check_moved OFF" in str(transfer.found)
    assert by_name["table mine"].expected is None


async def test_a_column_added_by_hand_hides_nothing(service: Service, caller: Caller, database: Addresses) -> None:
    async with as_owner(database) as owner:
        await owner.execute("alter table transfer add column remark text")
        # As a superuser does.
        await owner.execute("set session_replication_role = replica")
        await owner.execute("update balance set available_cents = available_cents + 1, settlement_cents = settlement_cents - 1")
    async with open_book_reader(service, database) as reader:
        found = await verify(reader, ProofRequest(extent="whole", again_after_s=0), lambda *_: None)
    assert {"tables_are_as_made", "balance_is_sum"} <= {each.rule for each in found.findings}
    assert "table transfer" in {name for each in found.findings for name in each.ids}
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
