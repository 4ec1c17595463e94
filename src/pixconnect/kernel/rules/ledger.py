"""Double entry, one holder at a time.

A ledger entry moves a positive amount from one account of a holder (debit) to another (credit), so that no entry can be
unbalanced::

    funding ──deposit──► available ──reserve──► reserved ──settle──► settlement
                             ▲──────release────────┘
    settlement ──receive, move──► available
    available ──move──► settlement
    deficit ──move──► settlement        what the institution took, or returned, beyond the available balance
    available ──repay──► deficit
    available ◄──adjust──► difference   adjustments by two operators, until explained or written off
    available ◄──block──► blocked       money that the institution has blocked (``block.py``)

``available``, ``reserved`` and ``blocked`` together are the holder's current funds. ``deficit`` is owed: its postings count the
other way. Money that becomes available repays the deficit first, so that nothing is available while there is one; then it
covers blocks at the institution that are not covered yet.

An entry that changes current funds has the holder's next number, the current funds after it, and an instant later than the
numbered entry before: a statement is a range of numbers.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

import msgspec
from msgspec import Struct

from pixconnect.kernel.rules.limit import ApprovalRule, Limits
from pixconnect.platform.base import errors

Account = Literal["available", "reserved", "blocked", "deficit", "settlement", "funding", "difference"]

_FUNDS: frozenset[Account] = frozenset({"available", "reserved", "blocked"})
_TICK = timedelta(microseconds=1)


class Funds(Struct, frozen=True, kw_only=True):
    """A holder's money as operators list it, in cents."""

    available_cents: int
    reserved_cents: int
    blocked_cents: int
    deficit_cents: int


class Balance(Struct, frozen=True, kw_only=True):
    """A holder's money, as the last entry left it."""

    holder_id: int
    available_cents: int  # can be spent; never below zero
    reserved_cents: int  # held for orders under way; never below zero
    deficit_cents: int  # owed because the institution took more than the available balance; never below zero
    last_number: int  # the number of the last entry that changed current funds, and ``last_entry_at`` its time
    last_entry_at: datetime
    modified_at: datetime
    may_deposit: bool
    may_withdraw: bool
    may_lend: bool
    limits: Limits
    approval: ApprovalRule = ApprovalRule()
    blocked_cents: int = 0  # blocked by the institution; never below zero
    blocks_count: int = 0  # how many of its blocks are open
    institution_id: int | None = None  # the account at an institution that has it

    @property
    def current_cents(self) -> int:
        return self.available_cents + self.reserved_cents + self.blocked_cents

    @property
    def repayable_cents(self) -> int:
        """The part of the deficit that must be repaid at once."""
        return min(self.available_cents, self.deficit_cents)


def part_taken(balance: Balance, amount_cents: int) -> list[tuple[Account, int]]:
    """Split an amount that is already gone: from the available balance, and the rest into the deficit.

    Money that the institution had blocked for it comes before both (``HeldBlocks.take_returned``).
    """
    available_cents = min(amount_cents, balance.available_cents)
    parts: list[tuple[Account, int]] = [("available", available_cents), ("deficit", amount_cents - available_cents)]
    return [(account, cents) for account, cents in parts if cents]


def check_funds(balance: Balance, amount_cents: int) -> None:
    """Refuse an amount that a holder does not have, and every amount while the holder owes something."""
    if balance.deficit_cents > 0:
        raise errors.InsufficientFunds(
            f"amount: the account owes {balance.deficit_cents} cents that its institution took; what comes in repays it first"
        )
    if balance.available_cents < amount_cents:
        raise errors.InsufficientFunds("amount: is more than the available funds")


def check_may_withdraw(balance: Balance) -> None:
    if not balance.may_withdraw:
        raise errors.HolderBlocked("the holder may not withdraw")


class Cause(Struct, frozen=True):
    """The cause of an entry, in the state that moves its money."""

    kind: str  # the table of the row that caused the entry
    state: str
    id: int | None = None  # ``None`` is the id of the entry itself


class LedgerEntry(Struct, frozen=True, kw_only=True):
    id: int
    holder_id: int
    debit_account: Account
    credit_account: Account
    amount_cents: int
    number: int | None  # the holder's next number, if current funds change
    running_balance_cents: int | None  # current funds after it, if it has a number
    cause_kind: str
    cause_id: int
    cause_state: str
    created_at: datetime


class Repayment(Struct, frozen=True, kw_only=True):
    """A repayment of a deficit from newly available money."""

    id: int  # that of its ledger entry
    holder_id: int
    source_entry_id: int  # the entry that raised the available balance
    amount_cents: int
    created_at: datetime


class Transaction(Struct, frozen=True, kw_only=True):
    """A change of current funds, as shown to the holder."""

    id: int
    amount_cents: int
    direction: Literal["IN", "OUT"]
    created_at: datetime


def is_numbered(debit_account: Account, credit_account: Account) -> bool:
    """Whether an entry changes current funds: moves between available, reserved and blocked are in no statement."""
    return (debit_account in _FUNDS) != (credit_account in _FUNDS)


class Held(Struct, frozen=True, kw_only=True):
    """The locks of a batch, by holder."""

    balances: frozenset[int]
    statements: frozenset[int]  # holders whose statement heads are locked, so that the batch may number their entries

    def covers(self, balances: Iterable[int], statements: Iterable[int]) -> bool:
        return self.balances.issuperset(balances) and self.statements.issuperset(statements)

    def check(self, holder_id: int, debit_account: Account, credit_account: Account) -> None:
        """Refuse an entry whose rows are not locked: another batch could write them meanwhile."""
        is_settled = debit_account == "reserved" and credit_account == "settlement"
        errors.ensure(is_settled or holder_id in self.balances, "the balance is not held")
        is_held = holder_id in self.statements or not is_numbered(debit_account, credit_account)
        errors.ensure(is_held, "the statement is not held")


NOTHING_HELD = Held(balances=frozenset(), statements=frozenset())


def post(
    balance: Balance,
    debit_account: Account,
    credit_account: Account,
    amount_cents: int,
    cause: Cause,
    *,
    entry_id: int,
    now: datetime,
) -> tuple[Balance, LedgerEntry]:
    """Move an amount between two accounts of a holder, whose balance was read under its lock."""
    errors.ensure(amount_cents > 0, amount_cents)
    errors.ensure(debit_account != credit_account, debit_account)
    change = {debit_account: -amount_cents, credit_account: amount_cents}
    available_cents = balance.available_cents + change.get("available", 0)
    reserved_cents = balance.reserved_cents + change.get("reserved", 0)
    blocked_cents = balance.blocked_cents + change.get("blocked", 0)
    deficit_cents = balance.deficit_cents - change.get("deficit", 0)
    # The caller has checked the funds under this lock; insufficient funds are our defect.
    is_covered = min(available_cents, reserved_cents, blocked_cents, deficit_cents) >= 0
    errors.ensure(is_covered, "the taken amount was checked or reserved before")
    has_number = is_numbered(debit_account, credit_account)
    number = balance.last_number + 1 if has_number else None
    # Later than the entry before it, even if the clock stood still or went back: numbers and instants rise together.
    created_at = max(now, balance.last_entry_at + _TICK) if has_number else now
    entry = LedgerEntry(
        id=entry_id,
        holder_id=balance.holder_id,
        debit_account=debit_account,
        credit_account=credit_account,
        amount_cents=amount_cents,
        number=number,
        running_balance_cents=available_cents + reserved_cents + blocked_cents if has_number else None,
        cause_kind=cause.kind,
        cause_id=entry_id if cause.id is None else cause.id,
        cause_state=cause.state,
        created_at=created_at,
    )
    after = msgspec.structs.replace(
        balance,
        available_cents=available_cents,
        reserved_cents=reserved_cents,
        blocked_cents=blocked_cents,
        deficit_cents=deficit_cents,
        last_number=number or balance.last_number,
        last_entry_at=created_at if has_number else balance.last_entry_at,
        modified_at=max(balance.modified_at, created_at),
    )
    return after, entry
