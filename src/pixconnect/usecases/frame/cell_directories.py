"""Which other cell a payee is in: what the home cell knows of keys and account numbers, and where a location's token leads.

::

    key, account ── a row of ``key_cell`` or ``account_cell`` ── that cell's
                    none ─────────────────────────────────────── the home cell's own, or nobody's
    location ────── where its token leads, then all

A row says where to ask, and the cell decides: one that has lost a key has no payee.
"""

from __future__ import annotations

from pixconnect.domain.frame import cell, errors
from pixconnect.store.running import name_cell as name_store
from pixconnect.store.running.name_cell import NameKind
from pixconnect.usecases.frame.cells import NO_ANSWER, RETRY_AFTER_S, Cells
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.frame.directory import HolderDirectory


class CellDirectories:
    """Those of all cells that one process serves, or none before it serves any."""

    def __init__(self) -> None:
        self.cells: Cells | None = None

    async def find_by_key(self, asking: int, key: str) -> HolderDirectory | None:
        return await self._find_named(asking, "key", key)

    async def find_by_account(self, asking: int, account_number: str) -> HolderDirectory | None:
        return await self._find_named(asking, "account", account_number)

    async def find_by_location(self, asking: int, path: str) -> HolderDirectory | None:
        cells = self.cells
        if cells is None or cells.is_alone:
            return None

        async def look(context: Context) -> HolderDirectory:
            if context.policy.cell == asking or await context.directory.find_served(path) is None:
                raise errors.NotFound("not this cell's")
            return context.directory

        try:
            return await cells.find(look, path)
        except errors.NotFound:
            return None

    async def _find_named(self, asking: int, kind: NameKind, name: str) -> HolderDirectory | None:
        cells = self.cells
        if cells is None or cells.is_alone:
            return None
        try:
            found = await name_store.find_cells(cells.home.pool, kind, [name])
        except NO_ANSWER:
            raise errors.ServiceUnavailable(
                "the database that knows whose it is cannot be reached; nothing was done", RETRY_AFTER_S
            ) from None
        number = found.get(name, cell.HOME)
        return None if number == asking else cells.at(number).directory
