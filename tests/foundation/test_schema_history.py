import asyncio
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path

import asyncpg
import pytest

from pixconnect.cli.frame import failures
from pixconnect.cli.running import migrate
from pixconnect.config import Settings
from pixconnect.foundation import migrations, pool, schema_history
from pixconnect.foundation.migrations import OUTSIDE_A_TRANSACTION, Migration, TablesAreHeldError
from support import postgres

STORE = migrations.read_migrations("pixconnect.store")
FIRST_FILES_COUNT = 4
"""Those that were applied by programs that noted no checksums."""


@pytest.fixture
async def owner(database: postgres.Addresses) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(database.owner_url)
    await connection.execute("set search_path = pixconnect")
    yield connection
    await connection.close()


async def start(database: postgres.Addresses) -> None:
    """What everything does that starts on these tables."""
    connection = await pool.connect(database.service_url, role="pixconnect_service", schema="pixconnect", name="test")
    try:
        await schema_history.refuse_other_tables(connection, "pixconnect", "pixconnect.store")
    finally:
        await connection.close()


async def explain_both(database: postgres.Addresses) -> list[str]:
    """The lines that the operator reads: of ``migrate`` or ``run``, and of what starts."""
    settings = Settings(database_url=database.service_url, owner_database_url=database.owner_url)
    outcomes = await asyncio.gather(migrate.bring_up_to_date(settings), return_exceptions=True)
    outcomes += await asyncio.gather(start(database), return_exceptions=True)
    lines = [failures.explain(outcome) for outcome in outcomes if isinstance(outcome, Exception)]
    return [line for line in lines if line is not None]


async def test_each_step_is_noted_with_its_checksum(
    owner: "asyncpg.Connection[asyncpg.Record]", database: postgres.Addresses
) -> None:
    rows = await owner.fetch("select version, name, checksum from schema_version order by version")
    assert [tuple(row) for row in rows] == [(step.version, step.name, step.checksum) for step in STORE]
    await start(database)
    assert await explain_both(database) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("update schema_version set checksum = 'x' where version = 2", "was made by another step 0002"),
        ("delete from schema_version where version = 3", "lacks step 0003"),
        ("insert into schema_version (version, name, checksum) values (999, 'x', 'x')", "is at version 999"),
    ],
)
async def test_tables_with_another_history_are_refused_in_one_line(
    owner: "asyncpg.Connection[asyncpg.Record]", database: postgres.Addresses, change: str, reason: str
) -> None:
    await owner.execute(change)
    lines = await explain_both(database)
    assert len(lines) == 2
    for line in lines:
        assert reason in line
        assert "\n" not in line
        assert "use " in line or "run " in line


async def test_nothing_starts_on_tables_that_lack_a_step(
    owner: "asyncpg.Connection[asyncpg.Record]", database: postgres.Addresses
) -> None:
    await owner.execute("delete from schema_version where version = (select max(version) from schema_version)")
    with pytest.raises(schema_history.OutdatedSchemaError, match="run `pixconnect migrate`"):
        await start(database)


async def make_first_home(owner: "asyncpg.Connection[asyncpg.Record]", schema: str, package: str, count: int) -> None:
    """Tables as the program made them that noted no checksums."""
    await owner.execute(f"drop schema {schema} cascade; create schema {schema}; set search_path = {schema}")
    await owner.execute(
        "create table schema_version (version integer primary key, name text not null, "
        "applied_at timestamptz not null default clock_timestamp())"
    )
    for step in migrations.read_migrations(package)[:count]:
        await owner.execute(
            (Path(str(files(package))) / "migrations" / f"{step.version:04d}_{step.name}.sql").read_text()
        )
        await owner.execute("insert into schema_version (version, name) values ($1, $2)", step.version, step.name)
    await owner.execute("set search_path = pixconnect")


async def test_a_home_from_before_checksums_is_taken_over_if_it_is_what_the_steps_make(
    owner: "asyncpg.Connection[asyncpg.Record]", database: postgres.Addresses
) -> None:
    await make_first_home(owner, "pixconnect", "pixconnect.store", FIRST_FILES_COUNT)
    await make_first_home(owner, "sandbox", "pixconnect.sandbox", 1)
    # Housekeeping has worked on it meanwhile.
    await owner.execute("create table event_9 (like event including defaults including constraints)")
    await owner.execute("alter table event attach partition event_9 for values from (17179869184) to (34359738368)")
    with pytest.raises(schema_history.OutdatedSchemaError):
        await start(database)
    assert await explain_both(database) == []
    rows = await owner.fetch("select version, checksum from schema_version order by version")
    assert [tuple(row) for row in rows] == [(step.version, step.checksum) for step in STORE]
    assert not await owner.fetchval("select exists (select from pg_namespace where nspname like '%anew')")


async def test_such_a_home_is_taken_over_after_it_was_restored_from_a_dump_too(
    owner: "asyncpg.Connection[asyncpg.Record]", database: postgres.Addresses
) -> None:
    await make_first_home(owner, "pixconnect", "pixconnect.store", FIRST_FILES_COUNT)
    # What PostgreSQL says of a check is what stands in a dump; read back, it says it with fewer parentheses.
    read = "select pg_get_constraintdef(oid) from pg_constraint where conname = 'scopes_exist'"
    said = await owner.fetchval(read)
    await owner.execute(f"alter table client drop constraint scopes_exist, add constraint scopes_exist {said}")
    assert await owner.fetchval(read) != said
    assert await explain_both(database) == []


@pytest.mark.parametrize(
    "difference",
    [
        "alter table tally drop constraint tally_kind_check; "
        "alter table tally add check (kind in ('charge', 'transfer', 'refund'))",
        "create or replace function refuse_change() returns trigger language plpgsql as 'begin return new; end'",
        "drop trigger ledger_entry_is_append_only on ledger_entry",
        "grant update on balance to pixconnect_service",
        "drop index charge_is_paid_once",
        "alter sequence charge_id increment 64",
        "delete from schema_version where version = 2",
    ],
)
async def test_a_home_from_before_checksums_is_refused_if_it_is_anything_else(
    owner: "asyncpg.Connection[asyncpg.Record]", database: postgres.Addresses, difference: str
) -> None:
    await make_first_home(owner, "pixconnect", "pixconnect.store", FIRST_FILES_COUNT)
    await owner.execute(difference)
    lines = await explain_both(database)
    assert "made by an earlier program that noted no checksums" in lines[0]
    assert "begin with another home" in lines[0]
    assert len(lines) == 2


def _further(sql: str) -> list[Migration]:
    return [*STORE, Migration(version=len(STORE) + 1, name="further", sql=sql)]


async def test_an_index_that_could_not_be_finished_is_made_again(owner: "asyncpg.Connection[asyncpg.Record]") -> None:
    await owner.execute("create table twin (id bigint); insert into twin values (1), (1)")
    further = _further(OUTSIDE_A_TRANSACTION + "-- one each;\ncreate unique index concurrently twin_id on twin (id);\n")
    with pytest.raises(asyncpg.UniqueViolationError):
        await schema_history.migrate(owner, "pixconnect", further)
    await owner.execute("set search_path = pixconnect")
    is_valid = "select indisvalid from pg_index where indexrelid = 'twin_id'::regclass"
    assert await owner.fetchval(is_valid) is False
    await owner.execute("truncate twin")
    assert await schema_history.migrate(owner, "pixconnect", further) == further[-1:]
    await owner.execute("set search_path = pixconnect")
    assert await owner.fetchval(is_valid) is True
    assert await schema_history.migrate(owner, "pixconnect", further) == []


async def test_what_was_done_outside_a_transaction_before_a_kill_is_not_done_again(
    owner: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    further = _further(OUTSIDE_A_TRANSACTION + "create index concurrently charge_by_slot on charge (slot);")
    await schema_history.migrate(owner, "pixconnect", further)
    await owner.execute("set search_path = pixconnect; delete from schema_version where name = 'further'")
    before = await owner.fetchval("select 'charge_by_slot'::regclass::oid")
    await schema_history.migrate(owner, "pixconnect", further)
    await owner.execute("set search_path = pixconnect")
    assert await owner.fetchval("select 'charge_by_slot'::regclass::oid") == before


@pytest.mark.parametrize("sql", ["update charge set slot = 1;", "create index charge_by_slot on charge (slot);"])
def test_only_what_can_be_repeated_and_keeps_nobody_waiting_runs_outside_a_transaction(sql: str) -> None:
    with pytest.raises(AssertionError, match="does not run outside a transaction"):
        migrations.split_statements(OUTSIDE_A_TRANSACTION + sql)


_TWO_AT_A_TIME = (
    "-- in batches\nwith seen as (select id from mark where id > $1 order by id limit 2), "
    "copied as (insert into copy select id from seen) select max(id) from seen;\n"
)


async def test_a_step_in_batches_that_was_cut_off_goes_on_where_it_was(
    owner: "asyncpg.Connection[asyncpg.Record]", monkeypatch: pytest.MonkeyPatch
) -> None:
    await owner.execute("create table mark (id bigint); insert into mark select generate_series(10, 50, 10)")
    await owner.execute("create table copy (id bigint)")  # no key: what was done twice would stand there twice
    further, run_batch, looked_at = _further(_TWO_AT_A_TIME), migrations._run_batch, list[bool]()

    async def cut_off_in_the_second(connection: asyncpg.Connection, schema: str, step: Migration) -> bool:
        looked_at.append(await run_batch(connection, schema, step))
        if len(looked_at) == 2:
            raise ConnectionError
        return looked_at[-1]

    monkeypatch.setattr(migrations, "_run_batch", cut_off_in_the_second)
    with pytest.raises(ConnectionError):
        await schema_history.migrate(owner, "pixconnect", further)
    await owner.execute("set search_path = pixconnect")
    assert [row["id"] for row in await owner.fetch("select id from copy order by id")] == [10, 20]
    assert await schema_history.migrate(owner, "pixconnect", further) == further[-1:]
    await owner.execute("set search_path = pixconnect")
    assert [row["id"] for row in await owner.fetch("select id from copy order by id")] == [10, 20, 30, 40, 50]
    assert await owner.fetchval("select to_regclass('schema_progress')") is None


async def test_a_step_in_batches_that_does_not_go_on_is_refused(owner: "asyncpg.Connection[asyncpg.Record]") -> None:
    with pytest.raises(AssertionError, match="does not go on behind 0"):
        await schema_history.migrate(owner, "pixconnect", _further("-- in batches\nselect $1::bigint;\n"))


async def test_a_step_that_waits_for_a_table_lets_others_pass_and_gives_up_in_the_end(
    owner: "asyncpg.Connection[asyncpg.Record]", database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "_TABLE_LOCK_TIMEOUT", "50ms")
    monkeypatch.setattr(migrations, "_TABLE_LOCK_PAUSE_S", 0.05)
    reader = await asyncpg.connect(database.owner_url)
    further = _further("alter table charge add column rank bigint")
    async with reader.transaction():
        await reader.fetch("select * from pixconnect.charge")
        with pytest.raises(TablesAreHeldError, match="end long transactions"):
            await schema_history.migrate(owner, "pixconnect", further)
    await reader.close()
    assert await schema_history.migrate(owner, "pixconnect", further) == further[-1:]


async def test_two_that_migrate_at_once_apply_each_step_once(
    owner: "asyncpg.Connection[asyncpg.Record]", database: postgres.Addresses
) -> None:
    await owner.execute("create table wide (id bigint)")
    further = _further(OUTSIDE_A_TRANSACTION + "create index concurrently wide_id on wide (id);")
    other = await asyncpg.connect(database.owner_url)
    applied = await asyncio.gather(
        schema_history.migrate(owner, "pixconnect", further), schema_history.migrate(other, "pixconnect", further)
    )
    await other.close()
    assert sorted(len(steps) for steps in applied) == [0, 1]


async def test_nobody_but_its_owner_may_execute_a_function_that_was_not_granted(
    owner: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await schema_history.migrate(
        owner,
        "pixconnect",
        _further("create function answer() returns int language sql security definer as 'select 42'"),
    )
    executable = await owner.fetch(
        """select proname from pg_proc cross join aclexplode(coalesce(proacl, acldefault('f', proowner))) as granted
        where pronamespace = 'pixconnect'::regnamespace and granted.grantee = 0"""  # everybody
    )
    assert executable == []
