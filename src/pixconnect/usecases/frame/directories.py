"""Payees in other cells of the installation, as use cases ask for them: a Pix to one of them goes over the rail."""

from __future__ import annotations

from typing import Protocol

from pixconnect.domain.money.charge import Charge
from pixconnect.usecases.frame.directory import HolderDirectory, OwnAccount


class Directories(Protocol):
    """The other cells' directories; all raise ``ServiceUnavailable`` while one that may know the payee gives no answer."""

    async def find_owner(self, asking: int, key: str) -> OwnAccount | None:
        """The account that a normalised key leads to; ``asking`` is the cell whose key it is not."""
        ...

    async def find_account(self, asking: int, branch: str, account_number: str) -> OwnAccount | None:
        """The account with this number."""
        ...

    async def find_served(self, asking: int, path: str) -> tuple[HolderDirectory, Charge] | None:
        """The charge at a location of ours, and the directory of the cell that has it."""
        ...


class NoDirectories:
    """Where there is one cell, and in live mode, where payees of other cells are on other accounts."""

    async def find_owner(self, asking: int, key: str) -> OwnAccount | None:
        return None

    async def find_account(self, asking: int, branch: str, account_number: str) -> OwnAccount | None:
        return None

    async def find_served(self, asking: int, path: str) -> tuple[HolderDirectory, Charge] | None:
        return None
