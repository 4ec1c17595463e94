"""How much is in a cell, and whether holders are opened there: those who are in a drained one stay and work as ever."""

from __future__ import annotations

from collections.abc import Sequence

from pixconnect.domain.frame import errors
from pixconnect.domain.running.known_cell import CellFigures
from pixconnect.foundation.pool import Connection
from pixconnect.store.running import cell as cell_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.usecases.frame.operator import OperatorContext


async def read_cell_figures(context: OperatorContext) -> CellFigures:
    """Of the cell of this context. Size is what a cell runs out of first, and asking for it reads no table of holders."""
    return await cell_store.read_cell_figures(context.pool)


async def drain_cell(context: OperatorContext, name: str, *, is_over: bool = False) -> CellFigures:
    """Let no holder be opened in the cell of this context any more; the same twice changes nothing.

    Args:
        is_over: Let them be opened there again.
        name: What the home cell calls it, for the audit.
    """
    async with write_alone(context.pool) as connection:
        before = await cell_store.read_cell_figures(connection)
        if before.is_drained != is_over:
            return before
        after = await cell_store.drain(connection, None if is_over else context.clock.real_now())
        await audit.record(context, connection, "cell drain", f"cell {name}", before=before, after=after)
    return after


async def refuse_drained(connection: Connection) -> None:
    """Raise ``BadRequest`` where no holder is opened in the cell of this connection, until whose transaction it stays open."""
    if await cell_store.is_drained(connection):
        raise errors.BadRequest(
            "cell: no holder is opened in this one any more, it is drained: choose another, or `pixconnect cell drain NAME "
            "--cancel`"
        )


def choose_emptiest(sizes: Sequence[tuple[int, CellFigures]]) -> int:
    """Which of these cells, by number, the next holder is to be opened in.

    Raises:
        BadRequest: All of them are drained.
    """
    taking = [(size.octets, number) for number, size in sizes if not size.is_drained]
    if not taking:
        raise errors.BadRequest(
            "cell: all that answer are drained: `pixconnect cell drain NAME --cancel`, or add another one"
        )
    return min(taking)[1]
