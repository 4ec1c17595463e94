"""Payees in other cells of the installation, as use cases ask for them: a Pix to one of them goes over the rail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, Protocol

from pixconnect.domain.frame import errors
from pixconnect.usecases.frame.directory import HolderDirectory

ANSWERED_WITHIN_S: Final = 3.0
"""How long another cell's database may take to say who a payee is."""


@asynccontextmanager
async def asking_elsewhere() -> AsyncGenerator[None]:
    """Ask another cell in the block; ``ServiceUnavailable`` if it hangs."""
    try:
        async with asyncio.timeout(ANSWERED_WITHIN_S):
            yield
    except TimeoutError:
        raise errors.ServiceUnavailable(
            "a database that may know the payee does not answer; nothing was done"
        ) from None


class Directories(Protocol):
    """The other cells' directories; all raise ``ServiceUnavailable`` while one that may know the payee gives no answer."""

    async def find_by_key(self, asking: int, key: str) -> HolderDirectory | None:
        """That of the cell which has a normalised key; ``asking`` is the cell that has it not."""
        ...

    async def find_by_account(self, asking: int, account_number: str) -> HolderDirectory | None:
        """That of the cell which has an account number."""
        ...

    async def find_by_location(self, asking: int, path: str) -> HolderDirectory | None:
        """That of the cell which serves a location of ours."""
        ...


class NoDirectories:
    """Where there is one cell, and in live mode, where payees of other cells are on other accounts."""

    async def find_by_key(self, asking: int, key: str) -> HolderDirectory | None:
        return None

    async def find_by_account(self, asking: int, account_number: str) -> HolderDirectory | None:
        return None

    async def find_by_location(self, asking: int, path: str) -> HolderDirectory | None:
        return None
