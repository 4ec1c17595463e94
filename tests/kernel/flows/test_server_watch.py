"""After a loss no id is assigned twice, and no money is returned for orders that the lost server had submitted."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest
from msgspec import Struct, structs
from structlog.testing import capture_logs

from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.features.webhooks.tables import feed as feed_store
from pixconnect.kernel.flows import installation
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.handover import move_due
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.server_watch import ServerWatch
from pixconnect.kernel.flows.settlement import GivenUp, end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.ledger import Held
from pixconnect.kernel.rules.rail import NeverTaken, RailUnavailable, Rejected, Settled
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.tables import clock as clock_store
from pixconnect.kernel.tables import database_loss as loss_store
from pixconnect.kernel.tables import installation as installation_store
from pixconnect.kernel.tables import lease as lease_store
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import order as order_store
from pixconnect.kernel.tables.clock import IdBlocks
from pixconnect.platform.adapters.system import ServerFile
from pixconnect.platform.base import errors
from pixconnect.platform.base.database_server import DatabaseServer
from pixconnect.platform.local.postgres_placement import PostgresVersion, find_programs
from pixconnect.platform.pool import Connection
from support.books import check_books
from support.operators import as_operator
from support.postgres import Addresses, as_owner
from support.service import (
    STARTED_AT,
    Service,
    credit_report,
    no_fence,
    open_holder,
    open_service,
    open_watched_pool,
    read_funds,
    send_out,
)

SEQUENCES = [
    "charge_id", "transfer_id", "refund_id", "location_id", "write_group_id", "delivery_id", "webhook_endpoint_id",
    "event_feed_position",
]  # fmt: skip
# Recorded as if the server had been another one before, or had started earlier.
CHANGES = {
    "timeline": "update installation set timeline = timeline - 1",
    "system identifier": "update installation set system_identifier = system_identifier - 1",
    "database": "update installation set database_oid = database_oid - 1",
    "tables": "update installation set tables_oid = tables_oid - 1",
}
STARTED_EARLIER = "update installation set started_at = started_at - interval '1 hour'"


class KilledError(Exception):
    """The process dies here."""


class Notes:
    """Kept outside of the data."""

    def __init__(self, server: DatabaseServer | None = None) -> None:
        self.server = server

    def read(self) -> DatabaseServer | None:
        return self.server

    def write(self, server: DatabaseServer) -> None:
        self.server = server


@asynccontextmanager
async def connected(database: Addresses, watch: ServerWatch) -> AsyncIterator[Connection]:
    pool = await open_watched_pool(database, watch, 2)
    try:
        async with pool.acquire() as connection:
            await installation.check_mode(connection, "sandbox")
            await watch.begin(connection)
            yield connection
    finally:
        await pool.close()


async def start(database: Addresses, watch: ServerWatch | None = None) -> None:
    async with connected(database, watch or ServerWatch()):
        pass


async def own(database: Addresses, statement: str) -> None:
    async with as_owner(database) as owner:
        await owner.execute(statement)


async def next_ids(connection: Connection) -> dict[str, int]:
    return {name: await connection.fetchval(f"select nextval('{name}')") for name in SEQUENCES}


class Outlived(Struct, frozen=True, kw_only=True):
    """An accepted transfer and refund; everything later is lost."""

    service: Service
    caller: Caller
    names: list[str]

    async def work(self) -> None:
        long_ago = STARTED_AT - timedelta(days=400)
        await move_due(self.service.context, no_fence, range(256), long_ago, self.service.clock.now(), 256)

    async def states(self) -> list[str]:
        await check_books(self.service)
        rows = await self.service.fetch(
            "select status from transfer where direction = 'OUT' union all select status from refund where flow = 'OUT'"
        )
        return [row["status"] for row in rows]

    @property
    def sent(self) -> list[str]:
        rail = self.service.rail
        return [each.end_to_end_id for each in rail.orders] + [each.return_id for each in rail.refund_orders]


@pytest.fixture
async def outlived(database: Addresses) -> AsyncIterator[Outlived]:
    await start(database)
    async with open_service(database) as service:
        caller = await open_holder(service, funds_cents=1000)
        report = credit_report(service, amount_cents=400)
        await receive_credit(service.context, report)
        transfer = await send_out(service, caller, 500)
        refund = await refund_usecases.start_refund(
            service.context, caller, RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=400)
        )
        yield Outlived(service=service, caller=caller, names=[transfer.end_to_end_id, refund.return_id])


@pytest.fixture(params=CHANGES.values(), ids=CHANGES)
def change(request: pytest.FixtureRequest) -> str:
    return request.param


async def meet(outlived: Outlived, statement: str) -> None:
    """The service's process meets the server after a change."""
    await own(outlived.service.database, statement)
    await start(outlived.service.database, outlived.service.context.server)


async def test_nothing_is_given_back_for_what_a_server_had_sent_that_is_gone(outlived: Outlived, change: str) -> None:
    service = outlived.service
    for name in outlived.names:
        service.rail.outcomes[name] = Settled(settled_at=STARTED_AT)
    # The other server had submitted both, and their reports were acknowledged there: they never come again.
    service.clock.advance(seconds=61)
    await meet(outlived, change)
    await outlived.work()
    assert sorted(service.rail.queried) == sorted(outlived.names)
    assert outlived.sent == []
    assert await outlived.states() == ["CONFIRMED", "RETURNED"]
    assert await read_funds(service, outlived.caller) == (500, 0)


async def test_every_open_order_counts_as_handed_over_before_the_server_is_noted(
    outlived: Outlived, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(installation_store, "note_server", die)
        with pytest.raises(KilledError):
            await meet(outlived, change)
    rows = await outlived.service.fetch("select handed_at from open_order")
    assert [row["handed_at"] for row in rows] == [None, None]
    assert await outlived.service.fetch("select from database_loss") == []
    # The next process does all of it, and of two at once the second finds it done.
    await asyncio.gather(*(start(outlived.service.database) for _ in range(3)))
    rows = await outlived.service.fetch("select handed_at is not null as is_handed, asked_count from open_order")
    assert [tuple(row) for row in rows] == [(True, 1), (True, 1)]
    losses = await outlived.service.fetch("select orders_count from database_loss")
    assert [row["orders_count"] for row in losses] == [2]


async def test_a_worker_that_holds_an_order_in_memory_gives_up_none_of_another_server(outlived: Outlived) -> None:
    service = outlived.service
    service.clock.advance(seconds=61)
    await own(service.database, CHANGES["timeline"])
    await start(service.database)  # another process has met it
    await end_orders(service.context, [(name, GivenUp()) for name in outlived.names])
    assert await outlived.states() == ["PROCESSING", "PROCESSING"]


async def test_after_any_start_what_is_too_late_is_asked_and_neither_given_up_nor_sent(outlived: Outlived) -> None:
    service = outlived.service
    await meet(outlived, STARTED_EARLIER)
    service.clock.advance(seconds=61)
    await end_orders(service.context, [(name, GivenUp()) for name in outlived.names])
    for _ in range(3):
        await outlived.work()
        service.clock.advance(minutes=6)
    assert outlived.sent == []
    assert set(service.rail.queried) == set(outlived.names)
    assert await outlived.states() == ["PROCESSING", "PROCESSING"]
    transfer, refund = outlived.names
    service.rail.outcomes = {transfer: Rejected(code="AC03", reason="no such account"), refund: NeverTaken()}
    service.clock.advance(hours=12)
    await outlived.work()
    assert await outlived.states() == ["ERROR", "ERROR"]
    assert await read_funds(service, outlived.caller) == (1400, 0)
    assert await loss_store.find_losses(service.context.pool) == []


async def test_what_was_young_at_a_start_is_asked_about_and_sent(outlived: Outlived) -> None:
    await meet(outlived, STARTED_EARLIER)
    # It may have been submitted in a lost history: refused as a duplicate, it is asked about and not returned.
    outlived.service.rail.answer(*2 * [Rejected(code="ED05", reason="duplicate")])
    await outlived.work()
    assert sorted(outlived.service.rail.queried) == sorted(outlived.names)
    assert sorted(outlived.sent) == sorted(outlived.names)
    assert await outlived.states() == ["PROCESSING", "PROCESSING"]


async def test_what_is_accepted_after_a_start_is_given_up_as_ever(outlived: Outlived) -> None:
    service = outlived.service
    await meet(outlived, STARTED_EARLIER)
    later = await send_out(service, outlived.caller, 1)
    service.clock.advance(seconds=61)
    await outlived.work()
    read = (await transfer_usecases.read_transfer_by_id(service.context, outlived.caller, later.id)).transfer
    assert read.status == "CANCELLED"


@pytest.mark.long
@pytest.mark.parametrize("what", [STARTED_EARLIER, *CHANGES.values()])
async def test_without_a_rail_orders_are_given_up_after_a_start_or_a_loss_too(database: Addresses, what: str) -> None:
    await start(database)
    async with open_service(database, has_rail=False) as service:
        caller = await open_holder(service, funds_cents=1000)
        await send_out(service, caller, 500)
        outlived = Outlived(service=service, caller=caller, names=[])
        await meet(outlived, what)
        service.clock.advance(seconds=61)
        await outlived.work()
        assert await outlived.states() == ["CANCELLED"]


async def test_a_copy_that_is_put_back_gives_out_no_id_that_was_given_out_since(database: Addresses) -> None:
    await start(database)
    async with connected(database, ServerWatch()) as connection:
        before = await next_ids(connection)
        copy = await connection.fetch(
            "select sequence, pg_sequence_last_value(sequence::regclass) as last_id, high.last_id as noted_id, noted_at::text"
            " from id_high_water as high"
        )
    await own(database, STARTED_EARLIER)
    async with connected(database, ServerWatch()) as connection:
        forgotten = await next_ids(connection)
        for _ in range(20):
            forgotten = await next_ids(connection)
    assert all(forgotten[name] > before[name] for name in SEQUENCES)
    # What a copy restores: sequences, and the records about them and the server.
    await own(database, ";".join(f"select setval('{row['sequence']}', {row['last_id']})" for row in copy))
    await own(
        database,
        ";".join(
            # A minute later, because a test draws ids faster than any service, and the missing range depends on time.
            f"update id_high_water set last_id = {row['noted_id']}, "
            f"noted_at = timestamptz '{row['noted_at']}' - interval '1 min' where sequence = '{row['sequence']}'"
            for row in copy
        ),
    )
    await own(database, STARTED_EARLIER)
    async with connected(database, ServerWatch()) as connection:
        again = await next_ids(connection)
        assert {name: again[name] > forgotten[name] for name in SEQUENCES} == dict.fromkeys(SEQUENCES, True)
        # There are partitions for the coming rows.
        assert await connection.fetchval("select count(*) from make_partitions()") == 0
        assert max(again.values()) < 2**53 / 2**10


async def test_ids_last_for_ten_thousand_million_starts_and_a_clock_that_was_wrong(database: Addresses) -> None:
    await start(database)
    await own(database, "update id_high_water set noted_at = noted_at + interval '1 day'")  # the clock went back
    async with connected(database, ServerWatch()) as connection:
        before = await next_ids(connection)
        for _ in range(3):
            await own(database, "update id_high_water set noted_at = noted_at + interval '1 day'")
            await connection.execute("select move_ids_ahead()")
        after = await next_ids(connection)
    assert all(before[name] < after[name] for name in SEQUENCES)
    assert all((after[name] - before[name]) / 3 * 10**10 < 2**53 for name in SEQUENCES)
    await own(database, "update id_high_water set noted_at = noted_at - interval '4000 years'")
    await own(database, STARTED_EARLIER)
    async with connected(database, ServerWatch()) as connection:
        assert max((await next_ids(connection)).values()) < 2**53 / 60


async def test_partitions_that_are_passed_over_are_not_kept(database: Addresses) -> None:
    await start(database)
    await own(database, "select make_partitions()")
    counts = []
    for days in (3, 3, 3):
        await own(database, f"update id_high_water set noted_at = noted_at - interval '{days} days'")
        await own(database, STARTED_EARLIER)
        async with connected(database, ServerWatch()) as connection:
            rows = await connection.fetch("select parent, count(*) from event_partition group by 1 order by 1")
            counts.append({row["parent"]: row["count"] for row in rows})
            await connection.execute("select note_partitions()")
    # One more each time, the one that was in use.
    assert {counts[2][name] - counts[1][name] for name in counts[0]} == {1}


async def test_a_long_read_of_what_is_passed_over_keeps_nobody_from_beginning(database: Addresses) -> None:
    await start(database)
    await own(database, "select make_partitions()")
    await own(database, "update id_high_water set noted_at = noted_at - interval '3 days'")
    await own(database, STARTED_EARLIER)
    unused = "select count(*) from event_partition where begun_at is null and end_id <= last_id_given(parent)"
    async with as_owner(database) as reader:
        # As a dump that began at a standby, and goes on when that takes over.
        async with reader.transaction():
            await reader.execute("lock table event, delivery, delivery_attempt, event_feed in access share mode")
            await start(database)
            assert await reader.fetchval(unused) > 0
        await own(database, STARTED_EARLIER)
        await start(database)
        assert await reader.fetchval(unused) == 0


async def test_a_sequence_is_moved_at_once_over_what_a_long_stop_left_out(outlived: Outlived) -> None:
    database = outlived.service.database
    await own(database, "update id_high_water set noted_at = noted_at - interval '300 days'")
    await own(database, STARTED_EARLIER)
    await start(database)
    await receive_credit(outlived.service.context, credit_report(outlived.service, amount_cents=1))
    await own(database, "select setval('write_group_id', 1, false)")
    # As with replicas of tables only; asked for one by one, its ids would take hours.
    async with connected(database, ServerWatch()) as connection:
        largest = await connection.fetchval("select max(id) from ledger_entry")
        assert largest > 10**13
        assert await connection.fetchval("select nextval('write_group_id')") > largest


async def test_a_start_is_met_once_a_process_and_what_it_kept_in_memory_is_dropped(database: Addresses) -> None:
    dropped: list[int] = []
    watch = ServerWatch()
    watch.on_start(lambda: dropped.append(1))
    async with connected(database, watch) as connection:
        assert dropped == [1]
        await watch.look(connection)
        assert dropped == [1]
        first = await connection.fetchval("select nextval('charge_id')")
        await watch.look(connection)
        assert await connection.fetchval("select nextval('charge_id')") == first + 512
        with capture_logs() as logs:
            await own(database, STARTED_EARLIER)
            await start(database)
        assert logs == []


async def test_what_a_copied_context_has_in_memory_is_dropped_once(service: Service) -> None:
    """The console copies its context at each act of a visitor, and runs for weeks."""
    watch = service.context.server
    known = list(watch._forgetters)
    for _ in range(3):
        structs.replace(service.context, pool=service.context.pool)
    assert watch._forgetters == known


async def test_a_log_behind_the_note_outside_is_seen_once(outlived: Outlived, tmp_path: Path) -> None:
    database, kept = outlived.service.database, ServerFile(tmp_path)
    watch = ServerWatch(kept)
    async with connected(database, watch) as connection:
        assert await watch.note(connection) in {False, True}
    read = kept.read()
    assert read is not None
    noted = structs.replace(read, started_at=read.started_at - timedelta(hours=1))
    kept.write(structs.replace(noted, position=noted.position + 10**12))
    with capture_logs() as logs:
        await start(database, ServerWatch(kept))
    (line,) = [line for line in logs if line["log_level"] == "critical"]
    assert (line["orders_count"], "write-ahead log" in line["seen"]) == (2, True)
    assert (kept.read() or noted).position < noted.position + 10**12
    # Another machine's process has recorded as much of the log and begins later.
    late = Notes()
    late.server = structs.replace(noted, position=noted.position + 10**11)
    with capture_logs() as logs:
        await start(database, ServerWatch(late))
    assert [line for line in logs if line["log_level"] == "critical"] == []
    # An unknown server is not behind.
    late.server = structs.replace(noted, position=2**60, system_identifier=1)
    await start(database, ServerWatch(late))
    losses = await loss_store.find_losses(outlived.service.context.pool)
    assert len(losses) == 1


@pytest.mark.parametrize("place", [dict(system_identifier=1), dict(database_oid=1), dict(tables_oid=1)])
async def test_a_former_database_of_the_installation_has_forgotten(outlived: Outlived, place: dict[str, Any]) -> None:
    database = outlived.service.database
    notes = Notes()
    await start(database, ServerWatch(notes))
    assert notes.server is not None
    known = notes.server
    met_an_hour_ago = "update installation set seen_at = seen_at - interval '1 hour'"
    for count in (1, 2):
        await own(database, met_an_hour_ago)
        # The installation went to a copy, whose log and records may be behind this one's, and comes back.
        elsewhere = structs.replace(known, **place, position=1, notes_count=0, seen_at=datetime.now(UTC))
        # A process without a memory, or with no more than its own presence, does not hide the loss from others.
        await start(database)
        await start(database, ServerWatch(Notes(known)))
        for _ in range(2):
            # A second process that remembers that place too finds the loss counted.
            notes.server = elsewhere
            await start(database, ServerWatch(notes))
        losses = await loss_store.find_losses(outlived.service.context.pool)
        assert [loss.reason.partition(",")[0] for loss in losses] == ["its tables were at another place since"] * count
        assert losses[0].orders_count == 2
    await own(database, met_an_hour_ago)
    # Records of another installation prove nothing here, nor do those read before these servers were met.
    now = datetime.now(UTC)
    for other in (dict(made_at=STARTED_AT, seen_at=now), dict(seen_at=STARTED_AT)):
        notes.server = structs.replace(known, **place, **other)
        await start(database, ServerWatch(notes))
    assert len(await loss_store.find_losses(outlived.service.context.pool)) == 2


async def test_who_only_looks_at_a_copy_is_not_remembered_as_having_served_there(database: Addresses) -> None:
    notes = Notes()
    await start(database, ServerWatch(notes, is_remembered=False))
    assert notes.server is None
    # A restart is recorded by the processes that work there.
    met = "select started_at = pg_postmaster_start_time() from installation"
    await own(database, STARTED_EARLIER)
    async with connected(database, ServerWatch(is_remembered=False)) as connection:
        assert not await connection.fetchval(met)
    async with connected(database, ServerWatch()) as connection:
        assert await connection.fetchval(met)


async def test_a_second_loss_is_seen_before_the_log_is_back_at_the_first(database: Addresses) -> None:
    notes = Notes()
    await start(database, ServerWatch(notes))
    for position in (10**12, 10**11):
        assert notes.server is not None
        notes.server = structs.replace(notes.server, position=notes.server.position + position)
        # Its data is restored, and it is started on them.
        before = notes.server.started_at - timedelta(hours=1)
        notes.server = structs.replace(notes.server, started_at=before)
        await own(database, "update database_loss set started_at = started_at - interval '1 hour'")
        await own(database, STARTED_EARLIER)
        await start(database, ServerWatch(notes))
    async with connected(database, ServerWatch()) as connection:
        assert len(await loss_store.find_losses(connection)) == 2


async def test_a_data_folder_put_back_is_seen_though_its_log_is_ahead(database: Addresses) -> None:
    notes = Notes()
    async with connected(database, ServerWatch(notes)) as connection:
        await installation_store.note_high_water(connection)
        assert notes.server is not None
        known = await installation_store.read_server(connection)
    assert known.notes_count > notes.server.notes_count
    # The memory of a process that worked on the lost data.
    before = known.started_at - timedelta(hours=1)
    notes.server = structs.replace(known, notes_count=known.notes_count + 1, position=1, started_at=before)
    await own(database, STARTED_EARLIER)
    with capture_logs() as logs:
        await start(database, ServerWatch(notes))
    (line,) = [line for line in logs if line["log_level"] == "critical"]
    assert "older data was put back" in line["seen"]
    await start(database, ServerWatch(notes))
    async with connected(database, ServerWatch()) as connection:
        assert len(await loss_store.find_losses(connection)) == 1


async def test_a_dump_of_an_older_program_is_seen_by_what_we_remember(database: Addresses) -> None:
    notes = Notes()
    await start(database, ServerWatch(notes))
    assert notes.server is not None
    notes.server = structs.replace(notes.server, tables_oid=notes.server.tables_oid - 1)
    await own(database, "update installation set tables_oid = null")
    await start(database, ServerWatch(notes))
    async with connected(database, ServerWatch()) as connection:
        (loss,) = await loss_store.find_losses(connection)
        assert "restored over them" in loss.reason


@pytest.mark.long
async def test_a_restored_dump_is_seen_live(outlived: Outlived, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    database, watch = outlived.service.database, ServerWatch()
    programs = find_programs(cast("PostgresVersion", request.config.getoption("postgres_version"))) / "bin"
    words = ["--format=custom", "--schema=pixconnect", f"--file={tmp_path}/dump", f"--dbname={database.owner_url}"]
    async with connected(database, watch) as connection:
        await asyncio.to_thread(subprocess.run, [programs / "pg_dump", *words], check=True)
        lost = await clock_store.take_block(connection)
        pool = await open_watched_pool(database, watch, 2)
        watch.on_start(pool.expire)
        async with pool.acquire() as one, pool.acquire():  # both precede the restore
            await own(database, "drop schema pixconnect cascade")
            words = ["--exit-on-error", f"--dbname={database.owner_url}", f"{tmp_path}/dump"]
            await asyncio.to_thread(subprocess.run, [programs / "pg_restore", *words], check=True)
            assert await one.fetchval("select count(*) from open_order where handed_at is null") == 2
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                await lease_store.fence(one, {1: 0})
        noting = asyncio.create_task(watch.keep_noting(pool, for_others=True, every_s=0.05))
        try:
            async with asyncio.timeout(60):
                while not await pool.fetchval("select count(*) from database_loss"):  # noqa: ASYNC110  nothing tells
                    await asyncio.sleep(0.05)
            assert await pool.fetchval("select count(*) from open_order where asked_count > 0") == 2
            assert await clock_store.take_block(pool) > lost
            assert await pool.fetchval("select count(*) from database_loss") == 1
        finally:
            noting.cancel()
            await pool.close()


async def test_a_session_of_before_the_tables_were_put_back_takes_no_id_and_holds_no_slot(database: Addresses) -> None:
    async with connected(database, ServerWatch()) as connection:
        ids = IdBlocks(connection)
        held = Held(balances=frozenset({1}), statements=frozenset({1}))
        asked = {
            "a batch": lambda: clock_store.open_group(connection),
            "balances": lambda: ledger_store.lock_balances(connection, held),
            "a block": lambda: clock_store.take_block(connection),
            "ids": ids.charge_id,
            "an endpoint": lambda: endpoint_store.next_id(connection),
            "the clock": lambda: clock_store.read(connection),
            "a fence": lambda: lease_store.fence(connection, {1: 0}),
            "a mark": lambda: order_store.mark_handed(connection, {1: 0}, ["E"], STARTED_AT, STARTED_AT),
            "positions": lambda: feed_store.give_positions(connection, 1),
            "a sweep": lambda: feed_store.sweep_positions(connection, 1),
            "a note": lambda: installation_store.note_high_water(connection),
            "the server": lambda: installation_store.read_server(connection),
        }
        await connection.execute("select set_config('session.tables_oid', '1', false)")
        for ask in asked.values():
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                await ask()


async def test_a_process_sees_by_its_own_memory_that_the_log_went_back(database: Addresses) -> None:
    watch = ServerWatch()
    async with connected(database, watch) as connection:
        found = await installation_store.read_server(connection)
        watch._latest = structs.replace(found, position=found.position + 10**12)
        await watch.look(connection)
        assert len(await loss_store.find_losses(connection)) == 1
        await watch.look(connection)
        assert len(await loss_store.find_losses(connection)) == 1


async def test_health_is_degraded_until_an_operator_has_read_of_the_loss(outlived: Outlived) -> None:
    pool = outlived.service.context.pool
    await installation.check_losses(pool)
    operator = as_operator(outlived.service.context)
    with pytest.raises(errors.NotFound):
        await installation.close_losses(operator)
    await meet(outlived, CHANGES["database"])
    with pytest.raises(errors.ServiceUnavailable, match=r"another database.*`pixconnect database recovered`"):
        await installation.check_losses(pool)
    (loss,) = await installation.close_losses(operator)
    assert (loss.orders_count, "another database" in loss.reason) == (2, True)
    await installation.check_losses(pool)


async def test_what_an_older_program_has_not_noted_is_no_loss(database: Addresses) -> None:
    await start(database)
    await own(database, "update installation set database_oid = null, started_at = null")
    async with connected(database, ServerWatch()) as connection:
        assert await loss_store.find_losses(connection) == []


async def test_the_database_of_another_installation_is_not_used_and_nothing_is_written_there(database: Addresses) -> None:
    """As if a name leads to the wrong server, which its own processes know."""
    notes = Notes()
    watch = ServerWatch(notes)
    await start(database, watch)
    known = notes.server
    look = "select to_jsonb(installation) from installation"
    await own(database, "update installation set made_at = made_at + interval '1 microsecond', timeline = 7")
    async with connected(database, ServerWatch()) as of_its_own:
        before = await of_its_own.fetchval(look)
        with capture_logs() as logs:
            for _ in range(2):
                with pytest.raises(ConnectionRefusedError, match="the database is that of another installation"):
                    await start(database, watch)
        assert await of_its_own.fetchval(look) == before
    assert notes.server == known
    assert [line["log_level"] for line in logs] == ["critical"]
    await own(database, "update installation set made_at = made_at - interval '1 microsecond'")
    await start(database, watch)


def test_the_file_is_read_only_where_it_says_what_it_should(tmp_path: Path) -> None:
    kept = ServerFile(tmp_path)
    assert kept.read() is None
    server = DatabaseServer(
        system_identifier=2**62, timeline=1, database_oid=5, started_at=datetime(2026, 7, 1, tzinfo=UTC), position=7
    )
    kept.write(server)
    assert kept.read() == server
    (tmp_path / "database.json").write_bytes(b"")
    assert kept.read() is None
    with capture_logs() as logged:
        nowhere = ServerFile(tmp_path / "nowhere")
        nowhere.write(server)
        nowhere.write(server)
    assert [line["log_level"] for line in logged].count("warning") == 1


async def test_the_rail_that_cannot_be_reached_leaves_what_outlived_a_start_open(outlived: Outlived) -> None:
    await meet(outlived, STARTED_EARLIER)
    outlived.service.rail.is_reachable = False
    outlived.service.clock.advance(seconds=61)
    await outlived.work()
    with pytest.raises(RailUnavailable):
        await outlived.service.rail.query(outlived.names)
    assert await outlived.states() == ["PROCESSING", "PROCESSING"]
