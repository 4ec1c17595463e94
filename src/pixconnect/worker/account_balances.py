"""What institutions say is on accounts from which orders wait to leave, as this worker last read it: for metrics alone.

A balance is asked for only while something is queued, at most once a minute, and forgotten when nothing is: an account that
rests costs its institution no call.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pixconnect.domain.institutions.institution import InstitutionUnavailable, OpenAccount
from pixconnect.domain.institutions.sweep import Pace
from pixconnect.store.institutions import account_figures as figures_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.money.settlement import Fence

READ_EVERY_S: Final = 60.0


class AccountBalances:
    def __init__(self) -> None:
        self.cents: dict[str, int] = {}
        """By the account's name."""
        self._next_s: dict[int, float] = {}

    def keep_only(self, names: Collection[str]) -> None:
        """Forget the balances of all other accounts."""
        for name in self.cents.keys() - set(names):
            del self.cents[name]

    async def watch(self, context: Context, opened: OpenAccount, fence: Fence, told: Collection[Pace]) -> None:
        """Read an account's balance where that is due.

        Raises:
            InstitutionUnavailable: The last one is forgotten.
        """
        account, institution = opened.account, opened.institution
        now_s = context.clock.monotonic_s()
        if not institution.traits.has_balance or now_s < self._next_s.get(account.id, now_s):
            return
        # Before the answer: what fails is not asked again at once either.
        self._next_s[account.id] = now_s + READ_EVERY_S
        if not await figures_store.is_queued(context.pool, account.id):
            self.cents.pop(account.name, None)
            return
        try:
            self.cents[account.name] = await institution.read_balance()
        # An old balance would pass for one of now, and an alert would compare with it: none is told instead.
        except InstitutionUnavailable:
            self.cents.pop(account.name, None)
            raise
