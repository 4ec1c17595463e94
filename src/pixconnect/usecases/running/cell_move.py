"""A cell moves to another database while it is served, by steps each of which may be the last; whoever runs them again goes on.

::

    refused, or a row MOVING           where to, and since when; nothing was written before
    tables are made at the target      by the migrations, as for any cell, and emptied
    publication, slot, subscription    PostgreSQL copies all tables, and follows what is written meanwhile
    the target has caught up           all processes look often at the row by now
    accounts are held                  no money leaves, and no call at an institution is under way (``account_hold``)
    ┌ the source is renamed            all its sessions are ended, and nobody finds it again: this is the gate
    │ what it had last arrives         and is compared; sequences are copied
    │ the target's server is noted     so that processes do not take it for one that has forgotten something; it may send
    └ the row is OPEN at the target    before its COMMIT whatever fails is undone: the source gets its name back
    the target notes that it has ended the home cell may be put back to before that
    the subscription is dropped        and the slot with it, which would fill the source's disk

The row is all that is remembered; what else is done is seen at the two servers. While it is ``MOVING`` the source is the cell,
and nobody has written to the target, unless that shows otherwise (``cell_moved.py``): a source that was renamed by somebody who
died gets its name back, and the target follows on. Only who has the lock of the home cell (``known_cells.adding_alone``)
changes anything, and the row is changed by the connection that has it. A publication keeps migrations away
(``refuse_while_copied``), and is made under their lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final

import asyncpg
from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.running.known_cell import HOME_NAME, KnownCell, in_other_database
from pixconnect.foundation import migrations, schema_history
from pixconnect.foundation.database_failure import DATABASE_AWAY, DATABASE_FAILED
from pixconnect.foundation.pool import Connection
from pixconnect.foundation.schema_history import SchemaError
from pixconnect.store.institutions import account_hold as hold_store
from pixconnect.store.running import cell as cell_store
from pixconnect.store.running import cell_closing, cell_copy, cell_ids
from pixconnect.store.running import installation as installation_store
from pixconnect.store.running import partition as partition_store
from pixconnect.usecases.frame.cells import NO_ANSWER
from pixconnect.usecases.running import known_cells
from pixconnect.usecases.running.account_hold import CheckHold, holding_accounts
from pixconnect.usecases.running.cell_move_wait import try_while_silent
from pixconnect.usecases.running.cell_moved import SilentEndError, let_know, may_be_closed, silent_source
from pixconnect.usecases.running.cell_mover import (
    BESIDE,
    CellMove,
    end_copy,
    record_row,
    reopen_source,
    until_done,
    writing_row,
)
from pixconnect.usecases.running.cell_source import refuse_ahead, refuse_source, refuse_unmet
from pixconnect.usecases.running.installation import InstallationError

_POLL_S: Final = 0.01


async def move_cell(move: CellMove, name: str, address: str) -> KnownCell:
    """Move a cell to the empty database at an address, or go on where that was cut off.

    Raises:
        InstallationError: It cannot be moved, or not now; its holders are served where they were, unless it says otherwise.
    """
    return await try_while_silent(move, lambda: _move(move, name, address))


async def _move(move: CellMove, name: str, address: str) -> KnownCell:
    async with known_cells.adding_alone(move.context) as home:
        known = await _begin(move, home, name, address)
        if known.state == "MOVING":
            known = await let_know(move, home, known)
        if known.state == "MOVING":
            await _go_back(move, known)
            async with move.connect(known.address) as source:
                await refuse_ahead(source, known)
            await _follow_on(move, known)
            async with move.connect(known.address) as source, move.connect(address) as target:
                await _begin_copy(move, known, source, target)
                await _catch_up(move, known, source, target)
                # It may have been put back while nobody was at it.
                await refuse_unmet(source)
                await refuse_ahead(source, known)
                tables = await cell_copy.list_tables(source, [*move.schemas])
                comparison = await cell_copy.write_comparison(source, [*tables])
                async with holding_accounts(move, known, source) as check_hold:
                    known = await _switch(move, home, known, comparison, check_hold)
        try:
            await end_copy(move, known)
        except DATABASE_AWAY as error:
            raise InstallationError(
                f"the cell {name} has moved to {address}, and its database was lost just then "
                f"({str(error) or type(error).__name__}): run this again once it answers, which ends what is left of the move"
            ) from error
        return known


async def _begin(move: CellMove, home: Connection, name: str, address: str) -> KnownCell:
    """The row of a move that is begun, or has ended already."""
    if name == HOME_NAME:
        raise InstallationError(
            "the home cell is where the settings say: restore it elsewhere, and change DATABASE_URL"
        )
    known = await known_cells.read_known_cell(move.context, name)
    if not known.is_open:
        raise InstallationError(f"the cell {name} is not open yet: end `pixconnect cell add {name}` first")
    if known.state == "MOVING":
        if known.other_address != address:
            raise InstallationError(
                f"the cell {name} is being moved to {known.other_address}: go on there, or take it back with "
                f"`pixconnect cell move {name} --cancel`"
            )
        return known
    if known.address == address:
        return known
    for each in await cell_store.list_all(home):
        if address in {each.address, each.other_address}:
            raise InstallationError(f"the database at {address} is that of the cell {each.name}")
    try:
        async with move.connect(known.address) as source:
            await known_cells.refuse_other_cell(source, known)
            await refuse_source(source)
            await refuse_unmet(source)
            await _refuse_other_steps(source, move.schemas)
    except asyncpg.InvalidCatalogNameError as error:
        raise InstallationError(f"{error}: `pixconnect cell check {name}` says what to do") from None
    async with _connected_to_empty(move, address) as target:
        await move.check_server(target)
        await known_cells.refuse_unfit(target, await installation_store.read_database(home), None, [*move.schemas])
    # Where its last move was not ended: this database is a copy by a subscription still, and its former server keeps the log.
    await end_copy(move, known)
    async with move.connect(known.address) as source:
        last_move = await installation_store.find_last_move(source)
    async with writing_row(move, home) as connection:
        begun = await cell_store.begin_move(connection, known, address, last_move)
        return await record_row(move, connection, known, begun)


@asynccontextmanager
async def _connected_to_empty(move: CellMove, address: str) -> AsyncGenerator[asyncpg.Connection]:
    try:
        async with move.connect(address) as target:
            yield target
    except asyncpg.InvalidCatalogNameError as error:
        raise InstallationError(f"there is no such database ({error}): make an empty one at {address} first") from None


async def _refuse_other_steps(connection: Connection, schemas: Mapping[str, str]) -> None:
    for schema, package in schemas.items():
        await connection.execute(f"set search_path = {schema}")
        if await schema_history.list_missing(connection, schema, migrations.read_migrations(package)):
            raise SchemaError(
                f"the tables of the schema {schema} lack steps of this version: run `pixconnect migrate` first, and end a move "
                "that was begun with the version that began it"
            )
    await connection.execute("reset search_path")


async def _go_back(move: CellMove, known: KnownCell) -> None:
    """Let the cell be used at the source, where somebody died who had kept it from that, or the target failed."""
    try:
        await reopen_source(move, known)
    except DATABASE_AWAY as error:
        raise silent_source(known, error) from error


async def _follow_on(move: CellMove, known: KnownCell) -> None:
    """Let the target follow the source, if it had begun to."""
    async with move.connect(errors.require(known.other_address, "it is being moved")) as target:
        if await cell_copy.find_subscription(target) == known.copy_name:
            await cell_copy.follow(target, known.copy_name, move.url_of(known.address))


async def _begin_copy(move: CellMove, known: KnownCell, source: asyncpg.Connection, target: Connection) -> None:
    """Do what is missing before PostgreSQL copies by itself."""
    await known_cells.refuse_other_cell(source, known)
    name, schemas = known.copy_name, [*move.schemas]
    async with migrations.alone(source, schemas[0]):
        await _refuse_other_steps(source, move.schemas)
        await source.execute(f"set search_path = {schemas[0]}")
        if not await cell_copy.is_published(source, name):
            # What is being dropped would be missing at the target when it is counted.
            await cell_copy.write_mark(source)
            while await partition_store.drop_detached(source):
                pass
            tables = await cell_copy.list_tables(source, schemas)
            without_key = [table for table, has_key in tables.items() if not has_key]
            errors.ensure(not without_key, f"no row of {without_key} can be found at another server")
            await cell_copy.publish(source, name, [*tables])
    following = await cell_copy.find_subscription(target)
    if following is not None and following != name:
        raise InstallationError(
            f"the target has the subscription {following} of another move: take this move back with --cancel, and begin with "
            "an empty database"
        )
    if following is not None:
        await _refuse_other_steps(target, move.schemas)
        if await cell_copy.find_slot(source, name) is None:
            raise _lost_log(known)
        return
    async with move.context.pool.acquire() as home:
        await known_cells.refuse_unfit(target, await installation_store.read_database(home), known, schemas)
    if await target.fetchval("select to_regclass('holder') is not null") and await cell_copy.find_rows(target):
        raise InstallationError(
            "the target has holders, and does not follow the cell: take the move back with --cancel, and begin with an empty "
            "database"
        )
    address = errors.require(known.other_address, "it is being moved")
    as_open = structs.replace(known, state="OPEN", address=address, other_address=None, moving_since=None)
    await cell_closing.let_services_in(target)
    await move.make_tables(as_open)
    await cell_copy.empty(target, [*await cell_copy.list_tables(target, schemas)])
    if await cell_copy.find_slot(source, name) is None:
        await _make_slot(move, known, source)
    try:
        await cell_copy.subscribe(target, name, move.url_of(known.address))
    except asyncpg.PostgresConnectionError as error:
        if target.is_closed():
            raise
        raise InstallationError(
            f"the target's server does not reach the cell's by its address, as the owner of the tables: {error}"
        ) from None


async def _make_slot(move: CellMove, known: KnownCell, source: Connection) -> None:
    """Make the slot, which waits for transactions of all databases there; says for which."""
    making = asyncio.ensure_future(cell_copy.make_slot(source, known.copy_name))
    try:
        async with move.connect(known.address, BESIDE) as beside:
            while not (await asyncio.wait([making], timeout=move.bounds.silent_max_s))[0]:
                oldest = await cell_copy.describe_oldest_write(beside)
                if oldest is not None:
                    move.say(f"waiting at the cell's server until a transaction that writes has ended: {oldest}")
    except BaseException:
        making.cancel()
        await asyncio.wait([making])
        raise
    await making


def _lost_log(known: KnownCell) -> InstallationError:
    return InstallationError(
        "the cell's server does not have the log any more that the copy lacks (max_slot_wal_keep_size), or its database was "
        "restored from a dump: run "
        f"`pixconnect cell move {known.name} --cancel`, and begin with an empty database"
    )


async def _catch_up(move: CellMove, known: KnownCell, source: Connection, target: Connection) -> None:
    """Wait until all tables are copied, what is written now arrives at once, and all processes look out for the change."""
    began_at_s = move.context.clock.monotonic_s()
    lost_since_s: dict[str, float] = {}
    while True:
        await refuse_ahead(source, known)
        slot = await cell_copy.find_slot(source, known.copy_name)
        if slot is None or slot.is_lost:
            raise _lost_log(known)
        progress = await cell_copy.measure_copy(source, target, known.copy_name, slot.behind_bytes or 0)
        move.tell(progress)
        lost = await cell_copy.find_lost_slots(source, target, known.copy_name)
        now_s = move.context.clock.monotonic_s()
        lost_since_s = {each: lost_since_s.get(each, now_s) for each in lost}
        if any(now_s >= since_s + move.bounds.lost_after_s for since_s in lost_since_s.values()):
            raise InstallationError(
                "the copy of a table cannot go on, for the target was killed in the moment in which that had ended: run "
                f"`pixconnect cell move {known.name} --cancel`, and begin with an empty database"
            )
        there, here = await cell_copy.list_partitions(target), await cell_copy.list_partitions(source)
        await cell_copy.add_partitions(target, here - there)
        # Should the source be lost, the target begins where it was a moment ago.
        await cell_ids.copy_sequences(source, target, [*move.schemas])
        mark = await cell_copy.write_mark(source)
        if progress.is_complete and move.context.clock.monotonic_s() >= began_at_s + move.bounds.seen_within_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(move.bounds.arrives_within_s):
                    await _wait_for_mark(target, mark)
                await cell_copy.drop_partitions(target, there - here)
                return
        await asyncio.sleep(move.bounds.look_every_s)


async def _wait_for_mark(target: Connection, mark: object) -> None:
    while await cell_copy.read_mark(target) != mark:  # noqa: ASYNC110  the server tells nobody
        await asyncio.sleep(_POLL_S)


async def _switch(
    move: CellMove, home: Connection, known: KnownCell, comparison: str, check_hold: CheckHold
) -> KnownCell:
    """Close the source and open the target; the source again, if anything fails before the COMMIT."""
    address = errors.require(known.other_address, "it is being moved")
    async with AsyncExitStack() as opened:
        beside, another = [await opened.enter_async_context(move.connect(known.address, BESIDE)) for _ in range(2)]
        target = await opened.enter_async_context(move.connect(address))
        # Who has lost the lock closes nothing.
        await home.execute("select 1")
        try:
            # The cell is served meanwhile, but nobody waits for ever.
            async with asyncio.timeout(move.bounds.pause_max_s):
                await cell_copy.pause(target, known.copy_name)
            await check_hold()
            async with asyncio.timeout(move.bounds.gate_max_s):
                await cell_closing.rename_database(beside, another, known.database, known.closed_database)
                await _take_last(move, known, target, comparison)
            async with writing_row(move, home) as connection:
                await cell_store.wait_at_most(connection, move.bounds.row_max_s)
                opened_there = await cell_store.end_move(connection, known, address)
                return await record_row(move, connection, known, opened_there)
        except errors.OutcomeUnknown:
            # At once: whoever stops the verb now hears nothing else.
            move.say(may_be_closed(known))
            raise
        except BaseException as error:
            follows = await until_done(_undo(move, home, known))
            if not isinstance(error, (InstallationError, *DATABASE_FAILED)):
                raise
            why = "what it had last did not arrive in time" if isinstance(error, TimeoutError) else str(error)
            raise InstallationError(
                f"the cell {known.name} was not moved, and is served where it was: {why}; its copy "
                + ("follows it, so run this again" if follows else "does not answer: run this again once it does")
            ) from error


async def _take_last(move: CellMove, known: KnownCell, target: Connection, comparison: str) -> None:
    """Let the target have all that the source, which is closed, has had."""
    schemas = [*move.schemas]
    await cell_copy.follow(
        target, known.copy_name, in_other_database(move.url_of(known.address), known.closed_database)
    )
    async with move.connect(known.address, known.closed_database) as source:
        # A server that was killed says more than was given out; of what was set it says just that.
        await cell_ids.copy_sequences(source, source, schemas)
        mark = await cell_copy.write_mark(source)
        here = await cell_copy.list_partitions(source)
        await cell_copy.add_partitions(target, here - await cell_copy.list_partitions(target))
        await cell_ids.copy_sequences(source, target, schemas)
        await _wait_for_mark(target, mark)
        unlike = await cell_copy.find_unlike(source, target, comparison)
        if unlike is not None or here != await cell_copy.list_partitions(target):
            raise InstallationError(f"the copy is not like the cell ({unlike or 'partitions'})")
    await cell_copy.pause(target, known.copy_name)
    await installation_store.note_server(target, await installation_store.read_server(target), has_come=True)
    await hold_store.let_send(target)
    await cell_closing.let_services_in(target)


async def _undo(move: CellMove, home: Connection, known: KnownCell) -> bool:
    """Open the source again; whether the target follows it."""
    try:
        row = await cell_store.find(home, known.name)
    except NO_ANSWER as error:
        # Whoever has the lock by now may have opened the target.
        move.say(may_be_closed(known))
        raise errors.OutcomeUnknown(
            f"the home cell was lost while the cell {known.name} was closed: run this again"
        ) from error
    # Whoever is stopped in the COMMIT may have changed it.
    if row == known:
        try:
            await _go_back(move, known)
        except Exception as error:
            move.say(may_be_closed(known))
            if isinstance(error, SilentEndError):
                raise errors.OutcomeUnknown(str(error)) from error
            raise
        # It may be the target that failed, and holders are served without it.
        try:
            await _follow_on(move, known)
        except DATABASE_FAILED:
            return False
    return True
