"""Compares accounts' balances at their institutions with the books, and opens a case for a difference.

::

    balance, lines of today, balance again ──► a whole reading of what came in, begun later ──► compared
                                                                                                  │
       a difference, for the first time: the last days and returns are read once more ◄──────────┤
       the same difference a second time: a case (`account`), one for each account ◄──────────────┤
       the books agree: the case ends ◄───────────────────────────────────────────────────────────┘

The first comparison's result is in the worker's memory alone: another worker starts over.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.features.cases import tables as case_store
from pixconnect.features.cases.rules import Difference
from pixconnect.features.institutions.profiles.account_traits import BalanceMeaning
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.comparison import BalanceReading, DifferenceRange, find_difference, judge
from pixconnect.features.institutions.rules.institution import InstitutionUnavailable, OpenAccount, find_day_source
from pixconnect.features.institutions.rules.sweep import Pace
from pixconnect.features.institutions.service.open_accounts import OpenInstitution, open_for_operator
from pixconnect.features.institutions.service.returns import follow_sent_returns
from pixconnect.features.institutions.service.statement_account import find_balance_meaning
from pixconnect.features.institutions.service.statement_sweep import read_day_of_now
from pixconnect.features.institutions.service.sweep import sweep
from pixconnect.features.institutions.tables import books as books_store
from pixconnect.features.institutions.tables import day as sweep_store
from pixconnect.kernel.flows.context import Context, Operator
from pixconnect.kernel.flows.settlement import Fence
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS

COMPARE_EVERY_S: Final = 600.0
AGAIN_AFTER_S: Final = 180.0  # after a first difference
READ_FURTHER_EVERY: Final = timedelta(minutes=10)
_FORGOTTEN_AFTER: Final = timedelta(minutes=30)
_NAME: Final = "balance"
_EVER: Final = datetime(1, 1, 2, tzinfo=UTC)


class BalanceThere(Struct, frozen=True, kw_only=True):
    """The institution's present balance; none if it has no balance or gives no answer."""

    cents: int | None = None
    means: BalanceMeaning | None = None
    read_at: datetime | None = None


async def read_balance_at_institution(
    context: Operator, open_institution: OpenInstitution, account: InstitutionAccount
) -> BalanceThere:
    async with open_for_operator(context, open_institution, account) as institution:
        if not institution.traits.has_balance:
            return BalanceThere()
        means = find_balance_meaning(account)
        try:
            cents = await institution.read_balance()
        except InstitutionUnavailable:
            return BalanceThere()
        return BalanceThere(cents=cents, means=means, read_at=context.clock.real_now())


class _Kept(Struct, kw_only=True):
    """The state in memory of one account."""

    due_s: float
    reading: BalanceReading | None = None
    seen: DifferenceRange | None = None


class BalanceComparisons:
    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}

    async def compare(self, context: Context, opened: OpenAccount, fence: Fence, called: Collection[Pace]) -> None:
        """Do the next step of an account's comparison, if one is due; due again after ``InstitutionUnavailable``."""
        now_s = context.clock.monotonic_s()
        # A first comparison proves nothing about facts begun a moment ago, as for an account that was just added.
        kept = self._kept.setdefault(opened.account.id, _Kept(due_s=now_s + COMPARE_EVERY_S))
        if kept.reading is None:
            if opened.institution.traits.has_balance and now_s >= kept.due_s:
                kept.reading = await _read_balance(context, opened)
                kept.due_s = now_s + COMPARE_EVERY_S
        elif context.clock.real_now() - kept.reading.ended_at > _FORGOTTEN_AFTER:
            kept.reading = None
        elif await _is_read_since(context, opened, kept.reading):
            seen = await _conclude(context, opened, kept.reading, kept.seen)
            kept.reading = None
            if seen not in (None, kept.seen):
                kept.due_s = min(kept.due_s, now_s + AGAIN_AFTER_S)
            kept.seen = seen


async def _read_balance(context: Context, opened: OpenAccount) -> BalanceReading:
    account, institution = opened.account, opened.institution
    began_at = context.clock.real_now()
    called = await books_store.read_called(context.pool, account.id)
    before_cents = await institution.read_balance()
    if institution.traits.has_statement:
        await read_day_of_now(context, account, institution)
    after_cents = await institution.read_balance()
    return BalanceReading(
        before_cents=before_cents, after_cents=after_cents, began_at=began_at, ended_at=context.clock.real_now(), called=called
    )


async def _is_read_since(context: Context, opened: OpenAccount, reading: BalanceReading) -> bool:
    """Whether everything that had come in when the balance was read has been recorded or kept since."""
    near = await sweep_store.find(context.pool, opened.account.id, "near")
    return near is not None and near.began_at >= reading.ended_at + opened.institution.traits.list_lag


async def _conclude(
    context: Context, opened: OpenAccount, reading: BalanceReading, seen: DifferenceRange | None
) -> DifferenceRange | None:
    """Compare, and open or end the account's case; return what the next comparison has to confirm."""
    account = opened.account
    is_later = find_day_source(opened.institution) != "api"
    books = await books_store.read_books(context.pool, account.id, reading.began_at, tells_fees_later=is_later)
    found = find_difference(reading, books, find_balance_meaning(opened.account))
    async with context.pool.acquire() as connection, connection.transaction():
        if not await case_store.try_lock(connection):
            return seen
        case = await case_store.find_named(connection, "account", account.id, _NAME)
        case_cents = None if case is None or case.ended_as == "recorded" else case.amount_cents
        verdict = judge(found, seen, case_cents)
        differences = [_describe_difference(account, verdict.seen, context.clock.now())] if verdict.seen is not None else []
        if verdict.act == "report" or (verdict.act == "end" and case is not None):
            await case_store.keep(connection, ("account",), account.id, _EVER, differences)
    if verdict.act == "report":
        return None
    if verdict.seen is not None and verdict.seen != seen:
        # Recent readings may lack facts: payments that were listed late, and returns of older ones, either way.
        lasts, now = await sweep_store.list_last_of(context.pool, account.id), context.clock.real_now()
        for pace in ("wide", "deep"):
            if pace not in lasts or now - lasts[pace].began_at >= READ_FURTHER_EVERY:
                await sweep(context, opened.institution, pace)
        await follow_sent_returns(context, opened, is_called=True)
    return verdict.seen


def _describe_difference(account: InstitutionAccount, found: DifferenceRange, now: datetime) -> Difference:
    least = "" if found.low_cents == found.high_cents else " by at least so much"
    return Difference(
        kind="account",
        institution_id=account.id,
        holder_id=account.house_id,
        name=_NAME,
        amount_cents=max(-AMOUNT_MAX_CENTS, min(found.certain_cents, AMOUNT_MAX_CENTS)),
        facts=f"the balance at the institution differs{least} from the books, open orders and waiting lines counted",
        since=now,
    )
