"""Double entry by its own rules."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.kernel.rules.ledger import Account, Balance, Cause, LedgerEntry, check_funds, post
from pixconnect.kernel.rules.limit import Limits
from pixconnect.platform.base import errors

NOW = datetime(2026, 7, 1, 15, 0, tzinfo=UTC)
TICK = timedelta(microseconds=1)
FUNDS = {"available", "reserved", "blocked"}


def a_balance(available_cents: int = 0, reserved_cents: int = 0, deficit_cents: int = 0) -> Balance:
    return Balance(
        holder_id=1, available_cents=available_cents, reserved_cents=reserved_cents, deficit_cents=deficit_cents,
        last_number=0, last_entry_at=NOW - TICK, modified_at=NOW - TICK, may_deposit=True, may_withdraw=True,
        may_lend=False, limits=Limits(),
    )  # fmt: skip


def move(balance: Balance, debit: Account, credit: Account, cents: int, now: datetime = NOW) -> tuple[Balance, LedgerEntry]:
    return post(balance, debit, credit, cents, Cause("deposit", "MADE"), entry_id=1, now=now)


def test_what_changes_current_funds_has_a_number_and_a_running_balance() -> None:
    balance, entry = move(a_balance(), "funding", "available", 100)
    assert (entry.number, entry.running_balance_cents, entry.created_at) == (1, 100, NOW)
    assert (balance.available_cents, balance.last_number, balance.last_entry_at) == (100, 1, NOW)


def test_reserving_has_neither_and_moves_the_balances_instant() -> None:
    balance, entry = move(a_balance(100), "available", "reserved", 40)
    assert (entry.number, entry.running_balance_cents) == (None, None)
    assert (balance.available_cents, balance.reserved_cents, balance.current_cents) == (60, 40, 100)
    assert (balance.last_number, balance.last_entry_at, balance.modified_at) == (0, NOW - TICK, NOW)


@pytest.mark.parametrize("early", [timedelta(0), TICK, timedelta(days=30)])
def test_an_instant_is_never_that_of_the_entry_before_nor_earlier(early: timedelta) -> None:
    balance, _ = move(a_balance(), "funding", "available", 1)
    balance, entry = move(balance, "settlement", "available", 1, NOW - early)
    assert entry.created_at == NOW + TICK
    assert balance.modified_at == NOW + TICK


@pytest.mark.parametrize(
    ("debit", "credit", "cents"),
    [("available", "reserved", 11), ("reserved", "settlement", 1), ("available", "available", 1), ("available", "reserved", 0)],
)
def test_what_was_not_judged_before_is_our_own_defect(debit: Account, credit: Account, cents: int) -> None:
    with pytest.raises(AssertionError):
        move(a_balance(10), debit, credit, cents)


def test_what_is_owed_counts_the_other_way_and_only_its_repayment_has_a_number() -> None:
    balance, entry = move(a_balance(), "deficit", "settlement", 30)
    assert (balance.deficit_cents, balance.current_cents, entry.number) == (30, 0, None)
    balance, entry = move(balance, "settlement", "available", 100)
    assert (balance.repayable_cents, entry.running_balance_cents) == (30, 100)
    balance, entry = move(balance, "available", "deficit", balance.repayable_cents)
    assert (balance.deficit_cents, balance.available_cents, balance.repayable_cents) == (0, 70, 0)
    assert (entry.number, entry.running_balance_cents) == (2, 70)
    with pytest.raises(AssertionError):
        move(balance, "available", "deficit", 1)


def test_who_owes_takes_nothing_out() -> None:
    with pytest.raises(errors.InsufficientFunds, match="owes 5 cents"):
        check_funds(a_balance(deficit_cents=5), 1)


ACCOUNTS: list[Account] = ["available", "reserved", "deficit", "settlement", "funding"]


@given(
    st.lists(
        st.tuples(st.sampled_from(ACCOUNTS), st.sampled_from(ACCOUNTS), st.integers(1, 100), st.integers(-5, 5)), max_size=60
    )
)
def test_whatever_moves_the_sums_are_those_of_the_postings(moves: list[tuple[Account, Account, int, int]]) -> None:
    balance, sums = a_balance(), dict.fromkeys(ACCOUNTS, 0)
    entries: list[LedgerEntry] = []
    for debit, credit, cents, second in moves:
        if debit == credit or (debit in FUNDS and sums[debit] < cents):
            continue
        if credit == "deficit" and -sums["deficit"] < cents:
            continue
        balance, entry = move(balance, debit, credit, cents, NOW + timedelta(seconds=second))
        entries.append(entry)
        sums[debit] -= cents
        sums[credit] += cents
    assert (balance.available_cents, balance.reserved_cents) == (sums["available"], sums["reserved"])
    assert balance.deficit_cents == -sums["deficit"]
    numbered = [entry for entry in entries if entry.number is not None]
    assert [entry.number for entry in numbered] == list(range(1, len(numbered) + 1))
    instants = [entry.created_at for entry in numbered]
    assert instants == sorted(set(instants))
    funds_cents = 0
    for entry in numbered:
        funds_cents += entry.amount_cents if entry.credit_account in FUNDS else -entry.amount_cents
        assert entry.running_balance_cents == funds_cents


def test_money_is_guarded_without_assertions_too() -> None:
    """The checks also hold under ``python -O``."""
    program = """
from datetime import UTC, datetime
from pixconnect.platform.base import errors
from pixconnect.kernel.rules import ledger
from pixconnect.kernel.rules.limit import Limits
at = datetime(2026, 7, 1, tzinfo=UTC)
balance = ledger.Balance(holder_id=1, available_cents=5, reserved_cents=0, deficit_cents=0, last_number=0, last_entry_at=at,
    modified_at=at, may_deposit=True, may_withdraw=True, may_lend=False, limits=Limits())
for wrong in (("available", "reserved", 6), ("available", "reserved", 0), ("available", "available", 1)):
    try:
        ledger.post(balance, *wrong, ledger.Cause("deposit", "MADE"), entry_id=1, now=at)
    except errors.InvariantBroken:
        continue
    raise SystemExit(f"{wrong} was let through")
"""
    done = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_blocked_stays_within_current_funds() -> None:
    balance, entry = move(a_balance(100), "available", "blocked", 40)
    assert (entry.number, balance.available_cents, balance.blocked_cents, balance.current_cents) == (None, 60, 40, 100)
    balance, entry = move(balance, "blocked", "settlement", 40)
    assert (entry.number, entry.running_balance_cents, balance.blocked_cents) == (1, 60, 0)
    with pytest.raises(AssertionError):
        move(balance, "blocked", "available", 1)
