"""The accounts of an installation that are open, as use cases ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.institution import OpenAccount


class Institutions(Protocol):
    """The accounts of the installation, as one process has them open."""

    async def list_all(self) -> Sequence[InstitutionAccount]: ...

    async def list_active(self) -> Sequence[InstitutionAccount]: ...

    async def find(self, account_id: int) -> OpenAccount | None:
        """An account over which money may leave; ``None`` if it is paused, closed or unknown."""
        ...

    async def find_receiving(self, account_id: int) -> OpenAccount | None:
        """An account at which charges are opened: one that is active, or that somebody or an alarm has paused."""
        ...

    async def find_read(self, account_id: int) -> OpenAccount | None:
        """An account that is read: every one that is not closed."""
        ...


class NoInstitutions:
    """Of an installation whose mode has none."""

    async def list_all(self) -> Sequence[InstitutionAccount]:
        return ()

    async def list_active(self) -> Sequence[InstitutionAccount]:
        return ()

    async def find(self, account_id: int) -> OpenAccount | None:
        return None

    find_receiving = find_read = find
