"""What the console has of each cell, and how it opens those beside the home cell."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from pixconnect.assembly.base import Base
from pixconnect.assembly.cells import OpenedCell, open_cells
from pixconnect.assembly.operators import open_operator
from pixconnect.config import Settings
from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.foundation.privileges import CONSOLE_ROLE
from pixconnect.usecases.frame.cells import ByCell, UnreachableCells
from pixconnect.usecases.frame.operator import Operator
from pixconnect.usecases.running.health_watches import CellHealth

_OPERATOR_CONNECTIONS_MAX = 4


class ConsoleCells:
    """Contexts with the service's rights, and operators with the console's, each by cell."""

    def __init__(self, base: Base, operator: Operator) -> None:
        away = UnreachableCells()
        self.contexts = ByCell(base.context, away)
        self.operators = ByCell(operator, away)
        self._keyrings = ByCell(base.keyring, away)
        self.health = CellHealth(self.contexts, self._keyrings, away)
        self._base = base
        self._away = away

    def open_others(self) -> AbstractAsyncContextManager[None]:
        """Serve the other cells too, beside the block."""
        return open_cells(self._base, "pixconnect console", self._away, self._serve)

    async def _serve(self, cell: OpenedCell) -> None:
        number, base = cell.number, cell.base
        async with _open_operator(base.settings, cell.known) as operator:
            self._keyrings.add(number, base.keyring)
            self.operators.add(number, operator)
            self.contexts.add(number, base.context)
            cell.report_ready()
            try:
                await cell.stop.wait()
            finally:
                self.contexts.remove(number, base.context)
                self.operators.remove(number, operator)
                self._keyrings.remove(number, base.keyring)


@asynccontextmanager
async def open_console_cells(settings: Settings, base: Base) -> AsyncGenerator[ConsoleCells]:
    """Open what the console has of the home cell; the others are not asked yet."""
    async with _open_operator(settings) as operator:
        yield ConsoleCells(base, operator)


def _open_operator(settings: Settings, known: KnownCell | None = None) -> AbstractAsyncContextManager[Operator]:
    return open_operator(
        settings,
        url=settings.console_login_url,
        role=CONSOLE_ROLE,
        connections_max=_OPERATOR_CONNECTIONS_MAX,
        known=known,
    )
