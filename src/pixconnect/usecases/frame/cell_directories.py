"""Which other cell a payee is in: what the home cell knows of keys and account numbers, and where a location's token leads.

::

    key, account ── a row of ``key_cell`` or ``account_cell`` ── that cell's
                    none ─────────────────────────────────────── the home cell's own, or nobody's
    location ────── where its token leads, then all

A row says where to ask, and the cell decides: one that has lost a key has no payee.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pixconnect.domain.frame import cell, errors
from pixconnect.domain.money.charge import Charge
from pixconnect.store.running import name_cell as name_store
from pixconnect.store.running.name_cell import NameKind
from pixconnect.usecases.frame.cells import ANSWER_WITHIN_S, NO_ANSWER, RETRY_AFTER_S, Cells
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.frame.directory import HolderDirectory, OwnAccount


class CellDirectories:
    """Those of all cells that one process serves, or none before it serves any."""

    def __init__(self) -> None:
        self.cells: Cells | None = None

    async def find_owner(self, asking: int, key: str) -> OwnAccount | None:
        cells = self._find_others()
        if cells is None:
            return None
        async with _asking():
            directory = await _find_named(cells, asking, "key", key)
            holder_id = None if directory is None else await directory.find_owner(key)
            return None if directory is None or holder_id is None else await directory.read_account(holder_id)

    async def find_account(self, asking: int, branch: str, account_number: str) -> OwnAccount | None:
        cells = self._find_others()
        if cells is None:
            return None
        async with _asking():
            directory = await _find_named(cells, asking, "account", account_number)
            return None if directory is None else await directory.find_account(branch, account_number)

    async def find_served(self, asking: int, path: str) -> tuple[HolderDirectory, Charge] | None:
        cells = self._find_others()
        if cells is None:
            return None

        async def look(context: Context) -> tuple[HolderDirectory, Charge]:
            charge = None if context.policy.cell == asking else await context.directory.find_served(path)
            if charge is None:
                raise errors.NotFound("not this cell's")
            return context.directory, charge

        try:
            async with _asking():
                return await cells.find(look, path)
        except errors.NotFound:
            return None

    def _find_others(self) -> Cells | None:
        """All cells, where there is more than one."""
        return None if self.cells is None or self.cells.is_alone else self.cells


@asynccontextmanager
async def _asking() -> AsyncGenerator[None]:
    """Ask another cell in the block; ``ServiceUnavailable`` if it hangs."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            yield
    except TimeoutError:
        raise errors.ServiceUnavailable(
            "a database that may know the payee does not answer; nothing was done"
        ) from None


async def _find_named(cells: Cells, asking: int, kind: NameKind, name: str) -> HolderDirectory | None:
    try:
        found = await name_store.find_cells(cells.home.pool, kind, [name])
    except NO_ANSWER:
        raise errors.ServiceUnavailable(
            "the database that knows whose it is cannot be reached; nothing was done", RETRY_AFTER_S
        ) from None
    number = found.get(name, cell.HOME)
    return None if number == asking else cells.at(number).directory
