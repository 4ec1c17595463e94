"""Whether a cell is what the home cell knows it as: each finding is one line that says what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

from msgspec import Struct

from pixconnect.domain.frame.cell import HOME
from pixconnect.domain.frame.secret_box import SealBroken
from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.foundation import migrations, schema_history
from pixconnect.foundation.migrations import SchemaError
from pixconnect.foundation.pool import Connection
from pixconnect.store.running import cell as cell_store
from pixconnect.store.running import cell_copy
from pixconnect.store.running import installation as installation_store
from pixconnect.store.running.cell import Claim
from pixconnect.store.running.cell_closing import ClosedDatabase
from pixconnect.store.running.installation import Mode
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.identity.secret_key import refuse_other_key
from pixconnect.usecases.running import installation
from pixconnect.usecases.running.installation import InstallationError

_SCHEMA: Final = "pixconnect"
_PACKAGE: Final = "pixconnect.store"


class CellLook(Struct, frozen=True, kw_only=True):
    """What the database of a cell says of itself; what is ``None`` it does not say yet."""

    claim: Claim | None
    mode: Mode | None
    postgresql: str
    cluster: str
    system_identifier: int
    database_oid: int
    is_standby: bool


async def judge_move(context: OperatorContext, known: KnownCell) -> AsyncIterator[str]:
    """What was left of a move of this cell, as the home cell knows it, while nobody is at it."""
    if known.state != "MOVING":
        return
    async with context.pool.acquire() as home, cell_store.adding_cells(home) as is_alone:
        if is_alone:
            again = f"pixconnect cell move {known.name}"
            yield (
                f"its move to {known.other_address} was cut off: run `{again} --to {known.other_address}` again, or "
                f"`{again} --cancel`; the log that its server keeps for the copy fills the disk"
            )


def say_closed(known: KnownCell) -> str | None:
    """What is to be said of a cell whose database is not there, if a move may have closed it."""
    if known.state != "MOVING":
        return None
    return (
        "its holders are not served while a move has it closed: what was renamed gets its name back when `pixconnect cell "
        f"move` runs again; make no database {known.database}, which would be in its place"
    )


def say_missing(known: KnownCell, closed: Sequence[ClosedDatabase]) -> str:
    """What is to be said of a cell that nobody moves, as far as the home cell knows, whose database is not there.

    Args:
        closed: Those that moves have closed there, oldest first; the home cell may have been put back to before one of them.
    """
    if not known.is_open:
        return (
            f"it has no database {known.database}: make an empty one, and run `pixconnect cell add {known.name}` again"
        )
    line = f"it has no database {known.database} any more: find the one in which it is, and say so by `pixconnect cell set`"
    unended = [each for each in closed if each.slot is not None]
    if unended:
        line += (
            f"; a move that has not ended has closed {unended[-1].name} there: if the cell is at no other address, rename that "
            f"to {known.database}, and drop its replication slot {unended[-1].slot}, which keeps the log for nobody"
        )
    return f"{line}; make no empty one in its place"


async def look_at_cell(connection: Connection) -> CellLook:
    system_identifier, database_oid = await installation_store.read_database(connection)
    return CellLook(
        claim=await cell_store.find_claim(connection),
        mode=await installation_store.find_mode(connection),
        postgresql=await connection.fetchval("select current_setting('server_version')"),
        cluster=await connection.fetchval("select current_setting('cluster_name')"),
        system_identifier=system_identifier,
        database_oid=database_oid,
        is_standby=await connection.fetchval("select pg_is_in_recovery()"),
    )


async def judge_cell(
    context: OperatorContext, connection: Connection, known: KnownCell | None, mode: Mode
) -> AsyncIterator[str]:
    """What is wrong with a cell; for any of it ``cell add``, ``cell set`` and ``cell move`` refuse the database.

    Args:
        context: Of the home cell.
        connection: As an operator, to the database at the address of the cell.
        known: What the home cell knows; ``None`` for the home cell itself.
        mode: That of the settings.
    """
    look = await look_at_cell(connection)
    if look.claim is None:
        # All else would be a consequence.
        yield "its database has no tables of ours: restore it, or look at its address"
        return
    number, identity = (HOME, None) if known is None else (known.number, known.identity)
    if look.claim.number != number:
        yield f"its database says that it is cell {look.claim.number}, and not {number}: look at its address"
    elif look.claim.identity != identity:
        yield "its database is a cell of another installation, with the same number: look at its address"
    if look.mode != mode:
        yield f"its database is in {look.mode} mode, and the settings say {mode}: look at its address, and at PIXCONNECT_MODE"
    for finding in _judge_server(look, known):
        yield finding
    for finding in await _judge_tables(connection):
        yield finding
    if mode == "live":
        try:
            await installation.check_durability(connection, mode)
        except InstallationError as error:
            yield str(error)
    try:
        await refuse_other_key(connection, context.secret_box)
    except SealBroken:
        yield "its secrets were sealed with another key: set PIXCONNECT_SECRET_KEY_PREVIOUS to that one"


def _judge_server(look: CellLook, known: KnownCell | None) -> Iterator[str]:
    if known is not None and known.cluster and look.cluster != known.cluster:
        yield (
            f'its server is of the cluster "{look.cluster}", and its address names "{known.cluster}": look at which server '
            "that is, or let `pixconnect cell set` say so"
        )
    if look.is_standby:
        yield "its database only reads: promote it, or name the server that it follows"


async def count_missing_steps(connection: Connection) -> int:
    """How many of this version's migrations the tables lack; ``SchemaError`` where they are another program's."""
    return len(await schema_history.list_missing(connection, _SCHEMA, migrations.read_migrations(_PACKAGE)))


async def _judge_tables(connection: Connection) -> list[str]:
    try:
        missing_count = await count_missing_steps(connection)
    except SchemaError as error:
        return [str(error)]
    if await cell_copy.find_subscription(connection) is not None:
        return [
            "it has moved, and its subscription is left: run `pixconnect cell move` again with --to and its address"
        ]
    return [f"its tables lack {missing_count} steps of this version: run `pixconnect migrate`"] if missing_count else []
