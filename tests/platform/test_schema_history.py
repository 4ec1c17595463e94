import asyncio
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from msgspec import structs

from pixconnect.doors.cli import failures
from pixconnect.kernel.baseline import read_service_steps
from pixconnect.platform import migrations, pool
from pixconnect.platform import migrations as schema_history
from pixconnect.platform.config import Settings
from pixconnect.platform.local.postgres_placement import find_programs
from pixconnect.platform.migrations import OUTSIDE_A_TRANSACTION, Migration, Steps, TablesAreHeldError
from pixconnect.running import migrate
from support import postgres

STORE = read_service_steps()
RELEASED = sorted((Path(__file__).resolve().parents[1] / "vectors" / "baselines").glob("*.sql"))
"""The baselines of releases by version: the tables that migrations begin from."""


@pytest.fixture
async def owner(database: postgres.Addresses) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(database.owner_url)
    await connection.execute("set search_path = pixconnect")
    yield connection
    await connection.close()


async def start(database: postgres.Addresses) -> None:
    """The steps of every program that starts on these tables."""
    connection = await pool.connect(database.service_url, role="pixconnect_service", schema="pixconnect", name="test")
    try:
        await schema_history.refuse_other_tables(connection, "pixconnect", STORE)
    finally:
        await connection.close()


async def explain_both(database: postgres.Addresses) -> list[str]:
    """The operator's lines: of ``migrate`` or ``run``, and of programs that start."""
    settings = Settings(database_url=database.service_url, owner_database_url=database.owner_url)
    outcomes = await asyncio.gather(migrate.bring_up_to_date(settings), return_exceptions=True)
    outcomes += await asyncio.gather(start(database), return_exceptions=True)
    lines = [failures.explain(outcome) for outcome in outcomes if isinstance(outcome, Exception)]
    return [line for line in lines if line is not None]


async def test_the_baseline_is_noted_with_its_checksum(
    owner: "asyncpg.Connection[asyncpg.Record]", database: postgres.Addresses
) -> None:
    rows = await owner.fetch("select version, name, checksum from schema_version")
    assert [tuple(row) for row in rows] == [(STORE.baseline.version, "baseline", STORE.baseline.checksum)]
    await start(database)
    assert await explain_both(database) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("update schema_version set checksum = 'x'", "made by another version, from which no migration leads here"),
        ("insert into schema_version (version, name, checksum) values (999, 'x', 'x')", "is at version 999"),
        ("update schema_version set name = 'holders_and_ledger'", "made by a development version"),
        (
            "update schema_version set name = 'holders_and_ledger'; alter table schema_version drop column checksum",
            "made by a development version",
        ),
        ("delete from schema_version", "has tables and no record of a baseline"),
        ("drop table schema_version", "has tables and no record of a baseline"),
    ],
)
async def test_tables_with_another_history_are_refused_in_one_line(
    owner: "asyncpg.Connection[asyncpg.Record]", database: postgres.Addresses, change: str, reason: str
) -> None:
    await owner.execute(change)
    tables = "select array_agg(format('%s %s', relname, relacl) order by oid) from pg_class where relkind in ('r', 'p')"
    before = await owner.fetchval(tables)
    lines = await explain_both(database)
    assert len(lines) == 2
    for line in lines:
        assert reason in line
        assert "\n" not in line
        assert "use " in line or "run" in line
    assert await owner.fetchval(tables) == before


async def test_a_baseline_that_fails_leaves_nothing(owner: "asyncpg.Connection[asyncpg.Record]") -> None:
    cut_off = structs.replace(STORE.baseline, sql=f"{STORE.baseline.sql}\nselect no_such_column;")
    await owner.execute("drop schema pixconnect cascade")
    with pytest.raises(asyncpg.UndefinedColumnError):
        await schema_history.migrate(owner, "pixconnect", Steps(baseline=cut_off))
    assert await owner.fetchval("select to_regnamespace('pixconnect') is null")
    await schema_history.migrate(owner, "pixconnect", STORE)


async def test_nothing_starts_on_a_database_without_tables(
    owner: "asyncpg.Connection[asyncpg.Record]", database: postgres.Addresses
) -> None:
    await owner.execute("drop table schema_version; alter schema pixconnect rename to elsewhere; create schema pixconnect")
    await owner.execute("grant usage on schema pixconnect to pixconnect_service")
    with pytest.raises(schema_history.OutdatedSchemaError, match="run `pixconnect migrate`"):
        await start(database)


@pytest.mark.parametrize("released", [*RELEASED, None], ids=str)
async def test_the_tables_of_a_release_become_those_of_a_new_database(
    owner: "asyncpg.Connection[asyncpg.Record]", database: postgres.Addresses, released: Path | None
) -> None:
    # While there is no release, a next one is invented: another table, in the baseline and in a migration.
    if released is None:
        first, table = STORE.baseline, "create table twin (id bigint primary key);"
        steps = Steps(
            baseline=structs.replace(first, version=first.version + 1, sql=f"{first.sql}\n{table}"),
            migrations=[Migration(version=first.version + 1, name="twin", sql=f"-- from {first.checksum}\n{table}")],
        )
    else:
        first, steps = Migration(version=int(released.stem), name="baseline", sql=released.read_text()), STORE
    made = [await _dump_of(owner, database, Steps(baseline=first), steps), await _dump_of(owner, database, steps)]
    assert made[0] == made[1]


async def _dump_of(owner: "asyncpg.Connection[asyncpg.Record]", database: postgres.Addresses, *each: Steps) -> set[str]:
    """The statements of pg_dump for a database that had these steps, in order."""
    await owner.execute("drop schema pixconnect cascade")
    for steps in each:
        await schema_history.migrate(owner, "pixconnect", steps)
    dump = [find_programs("18") / "bin" / "pg_dump", "--schema-only", "--schema=pixconnect", f"--dbname={database.owner_url}"]
    done = await asyncio.to_thread(subprocess.run, dump, capture_output=True, text=True, check=True)
    text = re.sub(r"^(?:--|\\(?:un)?restrict ).*$", "", done.stdout, flags=re.MULTILINE)
    # Tables are dumped by name, but their columns in order of creation.
    return {" ".join(statement.split()) for statement in text.split(";\n")}


async def test_a_migration_of_another_baseline_is_not_applied(owner: "asyncpg.Connection[asyncpg.Record]") -> None:
    sql = f"-- from {'0' * 64}\ncreate table twin (id bigint);"
    with pytest.raises(schema_history.ForeignHistoryError, match="no migration leads here"):
        await schema_history.migrate(owner, "pixconnect", _further(sql, begins_from=None))


def _further(sql: str, *, begins_from: str | None = STORE.baseline.checksum) -> Steps:
    """The installation of a next release with one migration."""
    version = STORE.baseline.version + 1
    head = f"-- from {begins_from}\n" if begins_from else ""
    further = Migration(version=version, name="further", sql=head + sql)
    return Steps(baseline=structs.replace(STORE.baseline, version=version), migrations=[further])


async def test_an_index_that_could_not_be_finished_is_made_again(owner: "asyncpg.Connection[asyncpg.Record]") -> None:
    await owner.execute("create table twin (id bigint); insert into twin values (1), (1)")
    further = _further(OUTSIDE_A_TRANSACTION + "-- one each;\ncreate unique index concurrently twin_id on twin (id);\n")
    with pytest.raises(asyncpg.UniqueViolationError):
        await schema_history.migrate(owner, "pixconnect", further)
    await owner.execute("set search_path = pixconnect")
    is_valid = "select indisvalid from pg_index where indexrelid = 'twin_id'::regclass"
    assert await owner.fetchval(is_valid) is False
    await owner.execute("truncate twin")
    assert await schema_history.migrate(owner, "pixconnect", further) == further.migrations
    await owner.execute("set search_path = pixconnect")
    assert await owner.fetchval(is_valid) is True
    assert await schema_history.migrate(owner, "pixconnect", further) == []


async def test_what_ran_outside_a_transaction_is_not_done_again(owner: "asyncpg.Connection[asyncpg.Record]") -> None:
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
    await owner.execute("create table copy (id bigint)")  # without a key, so a repetition would show
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
    assert await schema_history.migrate(owner, "pixconnect", further) == further.migrations
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
    assert await schema_history.migrate(owner, "pixconnect", further) == further.migrations


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


async def test_only_its_owner_may_execute_an_ungranted_function(owner: "asyncpg.Connection[asyncpg.Record]") -> None:
    await schema_history.migrate(
        owner, "pixconnect", _further("create function answer() returns int language sql security definer as 'select 42'")
    )
    executable = await owner.fetch(
        """select proname from pg_proc cross join aclexplode(coalesce(proacl, acldefault('f', proowner))) as granted
        where pronamespace = 'pixconnect'::regnamespace and granted.grantee = 0"""  # everybody
    )
    assert executable == []
