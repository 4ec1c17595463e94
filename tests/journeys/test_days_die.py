"""Days of an account close while its worker is killed, as by kill -9, at each step of reading and closing.

The bank's clock is behind ours, so what it books before its midnight arrives late.
"""

import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from pixconnect.doors.api.operation import Services
from pixconnect.platform.base.clock import to_day
from support import dying_work, postgres
from support.dying_work import DayWork
from support.faces import Bank, open_bank
from support.killed_process import POINTS_OF_A_DAY, KillPoints
from support.service import read_funds
from support.two_books import MonthClock, TwoBooks, open_two_books

pytestmark = [pytest.mark.journey, pytest.mark.long]

BEHIND = dict(minutes=40)
TRIES_MAX = 12
NOT_AT = dict(efi=("end told", "end noted", "ends forgotten"), inter=("file asked for", "file fetched", "file noted"))


@pytest.fixture
def bank_clock() -> MonthClock:
    return MonthClock()


@pytest.fixture
async def bank(database: postgres.Addresses, services: Services, bank_clock: MonthClock) -> AsyncIterator[Bank]:
    async with open_bank(database, services, bank_clock) as opened:
        yield opened


class Day:
    """Movements at the bank, and a worker that is killed."""

    def __init__(self, books: TwoBooks, bank_clock: MonthClock, folder: Path) -> None:
        self._books, self._bank_clock, self._folder = books, bank_clock, folder
        self._points = KillPoints(folder)
        self._chance, self._count = Random(7), 0  # noqa: S311  what fails must fail again

    def pass_time(self, **delta: float) -> None:
        self._books.clock.advance(**delta)
        self._bank_clock.advance(**delta)

    async def move_money(self) -> None:
        self._count += 1
        there, number = self._books.there, self._count
        paid = await there.bank.be_paid(None, 1000 + number)
        await there.move(f"fee-{number}", "fee", number, about=paid)
        await there.move(f"moved-{number}", "wire", 100 + number)
        if number % 3 == 0:
            await there.give_back(paid, number)
        await there.end(self._chance)

    async def work(self) -> int:
        here, points = self._books.here, str(self._folder / "kill_points")
        work = DayWork(database=here.live.database, now=self._books.clock.real, points=points, account_id=here.account.id)
        return await dying_work.run(work, self._folder)

    async def die(self, point: str) -> None:
        self._points.arm(point)
        for _ in range(TRIES_MAX):
            await self.move_money()
            # Near midnight half of the time.
            self.pass_time(minutes=self._chance.choice((11, 61, 7 * 60)))
            ended = await self.work()
            if self._points.has_killed(point):
                assert ended == -signal.SIGKILL
                return
            assert ended == 0
        raise AssertionError(f"nobody came to {point}")

    async def settle(self) -> None:
        for _ in range(40):
            self.pass_time(hours=3)
            await self._books.here.work()
            last = to_day(self._bank_clock.real) - timedelta(days=1)
            days = await self._books.here.list_days(last)
            there, here = await self._books.list_lines()
            if all(day.state == "closed" for day in days) and there == here:
                return


@pytest.mark.parametrize("face", ["efi", "inter"])
async def test_each_day_closes_whoever_dies_at_whatever_step(
    bank: Bank, bank_clock: MonthClock, new_database: postgres.Addresses, tmp_path: Path, face: str
) -> None:
    clock = MonthClock(bank_clock.real)
    clock.advance(hours=35, minutes=50)
    bank_clock.advance(hours=35, minutes=50)
    async with open_two_books(bank, clock, new_database, face, tmp_path) as books:
        await books.here.work()
        clock.advance(**BEHIND)
        day = Day(books, bank_clock, tmp_path)
        day.pass_time(hours=1)
        for point in POINTS_OF_A_DAY:
            if not point.endswith(NOT_AT[face]):
                await day.die(point)
        await day.settle()
        there, here = await books.list_lines()
        assert (there - here, here - there) == ({}, {}), "lost, and doubled or invented"
        days = await books.here.list_days(to_day(bank_clock.real) - timedelta(days=1))
        assert {one.day: one.state for one in days if one.state != "closed"} == {}
        assert books.here.house is not None
        assert await read_funds(books.here.live, books.here.house) == await read_funds(bank.service, bank.service.caller)
