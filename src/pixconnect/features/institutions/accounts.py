"""The accounts at institutions that a process has open, and the one whose reports a context takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from pixconnect.features.institutions.rules.account import ABILITIES, InstitutionAccount, abilities_of
from pixconnect.features.institutions.rules.institution import OpenAccount
from pixconnect.kernel.flows.context import Context, Port
from pixconnect.kernel.rules.rail import Abilities
from pixconnect.platform.base import errors

_PAUSED_S: Final = 60
"""When to come back while an account is paused."""


class Institutions(Protocol):
    """The accounts of the installation, as one process has them open."""

    async def list_all(self) -> Sequence[InstitutionAccount]:
        return ()

    async def list_active(self) -> Sequence[InstitutionAccount]:
        return ()

    async def find(self, account_id: int) -> OpenAccount | None:
        """An account over which money may leave; ``None`` if it is paused, closed or unknown."""
        return None

    async def find_receiving(self, account_id: int) -> OpenAccount | None:
        """An account at which charges are opened: an active one, or one paused by an operator or an alarm."""
        return None

    async def find_read(self, account_id: int) -> OpenAccount | None:
        """An account that is read: every one that is not closed."""
        return None


class NoInstitutions(Institutions):
    """Of an installation whose mode has none."""


INSTITUTIONS: Final = Port[Institutions]("accounts at institutions", NoInstitutions())
ACCOUNT: Final = Port[InstitutionAccount | None]("account", None)
"""The account at an institution whose rail the context has; ``None`` is the rail of the whole installation."""


async def is_lost(institutions: Institutions, account_id: int) -> bool:
    """Whether the database has forgotten something of an account, and no operator has said that it is in the books again."""
    return account_id in {account.id for account in await institutions.list_all() if account.lost_at is not None}


async def find_abilities(context: Context, account_id: int | None) -> Abilities:
    """The abilities of an account's rail, or of the installation's own."""
    if account_id is None:
        return context.policy.abilities
    found = next((account for account in await context.port(INSTITUTIONS).list_all() if account.id == account_id), None)
    return ABILITIES if found is None else abilities_of(found)


async def explain_pause(institutions: Institutions, account_id: int) -> errors.ServiceUnavailable:
    """Why no money leaves an account; after a loss it is unknown whether a repeated request was done before it."""
    why = "paused; nothing was done"
    may_be_done = await is_lost(institutions, account_id)
    if may_be_done:
        why = (
            "paused since the database was restored: this request may have been done before that. Repeat it later under the "
            "same external_id, and under no other"
        )
    message = f"the holder's account at its institution is {why}"
    return errors.ServiceUnavailable(message, retry_after_s=_PAUSED_S, may_be_done=may_be_done)
