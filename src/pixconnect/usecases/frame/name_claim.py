"""A name in another cell than the home cell: the home cell says whose it is before that cell has it, so no two cells do.

::

    claim ─────── committed in the home cell; from now on nobody else can have the name
    write ─────── in the cell, which must be over ``LASTS_S`` after the claim; it decides who has the name
    removal ───── in the cell alone; the claim goes later, by the sweep (``usecases/running/name_sweep.py``)

Killed between the first two, the claim is left, and the sweep forgets it. Whoever claims for the same cell again goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from msgspec import Struct

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import Clock
from pixconnect.domain.money import account as account_rules
from pixconnect.foundation.pool import Connection
from pixconnect.store.running import name_cell as name_store
from pixconnect.store.running.name_cell import NameKind
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.usecases.frame.operator import OperatorContext

LASTS_S: Final = 30.0
"""Much longer than any transaction of ours may take, and much shorter than ``FORGOTTEN_AFTER``."""
FORGOTTEN_AFTER: Final = timedelta(minutes=5)
"""So long after it was claimed a name that its cell does not have is forgotten."""
ACCOUNT_TAKEN: Final = "account_number: another holder has it"


class NameClaim(Struct, frozen=True, kw_only=True):
    clock: Clock
    claimed_s: float

    def check(self) -> None:
        """Raise ``ServiceUnavailable`` if the claim may be forgotten before what is written commits: call it at the end."""
        # A process may have been stopped in between, and the sweep has seen no such name in the cell.
        if self.clock.monotonic_s() - self.claimed_s > LASTS_S:
            raise errors.ServiceUnavailable("it took too long; nothing was done")


async def claim_name(
    context: OperatorContext,
    kind: NameKind,
    name: str,
    taken: errors.Refusal,
    judge: Callable[[Connection], Awaitable[None]] | None = None,
) -> NameClaim | None:
    """Claim a name for the context's cell; ``None`` for the home cell, whose own tables are enough.

    Args:
        taken: Is raised where another cell has it.
        judge: Raises what the home cell has against it otherwise.
    """
    if context.home is None:
        return None
    claim = NameClaim(clock=context.clock, claimed_s=context.clock.monotonic_s())
    async with write_alone(context.home) as connection:
        if not await name_store.claim(connection, kind, name, context.policy.cell):
            raise taken
        if judge is not None:
            await judge(connection)
    return claim


async def claim_account(context: OperatorContext, branch: str, account_number: str) -> NameClaim | None:
    """Claim an account number for a holder who is about to be opened; it is judged once more with all else of the holder."""
    account_rules.check_account(branch, account_number, context.policy.ispb)
    return await claim_name(context, "account", account_number, errors.InvalidAccount(ACCOUNT_TAKEN))


def check_claim(claim: NameClaim | None) -> None:
    """As ``NameClaim.check``, where there is one."""
    if claim is not None:
        claim.check()
