"""Days of an account: money moves both ways, the bank is away, lists are late, readers are killed.

Each day closes, and at the end both books have the same lines by network id, and the same balance to the cent.
"""

from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from msgspec import Struct

from pixconnect.features.sandbox.rules import FaultMatch, FaultRule
from pixconnect.platform.base.clock import to_day
from support import postgres
from support.faces import Bank, Control
from support.service import read_funds
from support.two_books import MonthClock, TwoBooks, open_two_books

STEPS_A_DAY = 6
TROUBLES = (
    ("face_read", "unavailable"), ("face_read", "no_answer"), ("face_read", "lag:3600"), ("face_read", "html:after"),
    ("face_write", "unavailable"), ("face_write", "no_answer"), ("face_write", "duplicate_answer"),
)  # fmt: skip


class Life(Struct, kw_only=True):
    """The events by a seed; each step is one event there or here, after which the worker runs."""

    books: TwoBooks
    control: Control
    chance: Random
    paid: list[tuple[str, int]] = []
    unasked: list[tuple[str, int]] = []  # charges that may or may not be open: requested again under their names
    unpaid: list[tuple[str, int]] = []
    count: int = 0

    async def live_a_day(self) -> None:
        for _ in range(STEPS_A_DAY):
            await self._break_something()
            for _ in range(self.chance.randrange(1, 4)):
                await self._move_money()
            if self.chance.random() < 0.7:
                await self.books.there.end(self.chance)
            await self._work()
            self.books.clock.advance(hours=24 / STEPS_A_DAY)

    async def settle(self, last: date) -> None:
        """Without faults, the worker finishes all its work, and people end what stays unanswered."""
        self.control.faults.replace([])
        for _ in range(len(self.unasked)):
            await self._ask()
        await self.books.come_to_rest_with_people(last, self.chance)

    async def _ask(self) -> None:
        external_id, cents = self.unasked.pop(0)
        charge = await self.books.here.charge(cents, external_id)
        if charge is None:
            self.unasked.append((external_id, cents))
        else:
            self.unpaid.append((charge.txid, cents))

    async def _work(self) -> None:
        if self.chance.random() < 0.3:
            await self.books.here.die_at_work(self.chance.randrange(1, 120))
            self.books.clock.advance(seconds=20)
        await self.books.here.work()
        self.books.clock.advance(minutes=2)
        await self.books.here.work()

    async def _break_something(self) -> None:
        drawn = self.chance.random()
        if drawn < 0.5:
            self.control.faults.replace([])
        elif drawn < 0.6:
            # The bank is away until the next step.
            self.control.faults.replace([_rule("face_read", "unavailable"), _rule("face_write", "unavailable")])
        else:
            operation, effect = self.chance.choice(TROUBLES)
            self.control.faults.replace([_rule(operation, effect, probability=0.5)])

    async def _move_money(self) -> None:
        self.count += 1
        number, cents = self.count, self.chance.randrange(1, 5000)
        there, here = self.books.there, self.books.here
        match self.chance.randrange(10):
            case 0 | 1 | 2:
                self.paid.append((await there.bank.be_paid(None, cents), cents))
            case 3:
                self.unasked.append((f"order-{number}", cents))
                await self._ask()
            case 4 if self.unpaid:
                # Some have ended meanwhile, because our list of payments was late.
                txid, wanted = self.unpaid.pop(self.chance.randrange(len(self.unpaid)))
                self.paid.append((await there.bank.be_paid(txid, wanted), wanted))
            case 5 if self.paid:
                name, whole = self.chance.choice(self.paid)
                await there.give_back(name, self.chance.randrange(1, whole + 1))
            case 6 if self.paid:
                name, whole = self.chance.choice(self.paid)
                await here.give_back(name, self.chance.randrange(1, whole + 1))
            case 7:
                about = self.chance.choice(self.paid)[0] if self.paid and self.chance.random() < 0.5 else None
                await there.move(f"fee-{number}", "fee", self.chance.randrange(1, 100), about=about)
            case 8:
                await there.move(f"moved-{number}", self.chance.choice(("wire", "by_hand", "boleto")), cents)
            case _:
                await there.send(cents)


def _rule(operation: str, effect: str, **changes: Any) -> FaultRule:
    return FaultRule(effect=effect, match=FaultMatch(operation=cast("Any", operation)), **changes)


@pytest.mark.parametrize(
    ("face", "days_count", "seed"),
    [("inter", 1, 1), pytest.param("inter", 31, 2, marks=pytest.mark.long), pytest.param("efi", 31, 3, marks=pytest.mark.long)],
)
async def test_each_day_closes_and_both_books_have_the_same_lines(
    bank: Bank,
    clock: MonthClock,
    control: Control,
    new_database: postgres.Addresses,
    tmp_path: Path,
    face: str,
    days_count: int,
    seed: int,
) -> None:
    # The account is added shortly before midnight, on a day without movements, since it is unknown whether the first
    # balance includes a line without an hour.
    clock.advance(hours=35, minutes=50)
    async with open_two_books(bank, clock, new_database, face, tmp_path, charge_lifetime_s=7200) as books:
        await books.here.work()
        clock.advance(minutes=15)
        life = Life(books=books, control=control, chance=Random(seed))  # noqa: S311  what fails must fail again
        for _ in range(days_count):
            await life.live_a_day()
        last = to_day(clock.real) - timedelta(days=1)
        await life.settle(last)
        there, here = await books.list_lines()
        assert (there - here, here - there) == ({}, {}), "lost, and doubled or invented"
        days = await books.here.list_days(last)
        assert {day.day: day.state for day in days if day.state != "closed"} == {}
        assert len(days) == days_count + 1
        assert await read_funds(books.here.live, books.here.house) == await read_funds(bank.service, bank.service.caller)
