"""Two installations, each with an account at its own bank, pay each other and outsiders for days, or for a month.

Pix are returned and contested, banks charge fees, people pay in the banks' apps, and a key moves between the banks. Operators
import each bank's file each morning; it is of one of nine kinds. Every day is proved, both banks together hold what came from
outsiders, and ``verify`` finds nothing. Operators are asked about the first sum of many Pix, and about the planted lines: Inter
lists no returns of Pix that it has sent, so two operators record them. So the other installation returns none of Inter's Pix.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from journeys.two_installations import DAY, Network, open_side
from pixconnect.doors.api.operation import Services
from pixconnect.kernel.rules.rail import DirectoryEntry
from support import postgres
from support.bank_simulator import to_day
from support.records import outside_party
from support.service import read_funds
from support.two_books import MonthClock

pytestmark = pytest.mark.journey

QUIET_DAYS: Final = 4  # in the end: an operator is asked about a line that no reading explains within two days


@pytest.fixture
async def databases(_copies: Any) -> AsyncIterator[list[postgres.Addresses]]:
    copies = [await _copies.take(is_new=True) for _ in range(4)]
    yield [copy.addresses for copy in copies]
    for copy in copies:
        await _copies.give_back(copy)


@pytest.mark.parametrize(
    ("kinds", "days_count", "seed"),
    [
        (("ids by position", "stable ids"), 3, 1),
        pytest.param(("ids by position", "stable ids"), 31, 2, marks=pytest.mark.long),
        pytest.param(("ids per export", "balances as lines"), 6, 3, marks=pytest.mark.long),
        pytest.param(("scheduled lines", "intraday exports"), 6, 3, marks=pytest.mark.long),
        pytest.param(("overnight sweeps", "backdated corrections"), 7, 3, marks=pytest.mark.long),
        pytest.param(("sums of many Pix", "stable ids"), 6, 3, marks=pytest.mark.long),
    ],
)
async def test_every_day_closes_at_both(
    databases: list[postgres.Addresses], services: Services, tmp_path: Path, kinds: tuple[str, str], days_count: int, seed: int
) -> None:
    clock, chance = MonthClock(), Random(seed)  # noqa: S311  what fails must fail again
    # Shortly before midnight, on a day without movements.
    clock.advance(hours=35, minutes=50)
    async with (
        open_side(databases[:2], services, clock, tmp_path, "inter", kinds[0]) as inter,
        open_side(databases[2:], services, clock, tmp_path, "efi", kinds[1]) as efi,
    ):
        for side, other in ((inter, efi), (efi, inter)):
            entry = DirectoryEntry(key=other.key, key_type="EMAIL", party=outside_party(key=other.key))
            side.books.there.bank.service.rail.entries[other.key] = entry
        network = Network(sides=(inter, efi), clock=clock, chance=chance)
        clock.advance(minutes=15)
        for number in range(days_count):
            await network.live_a_day(number)
        while efi.contested:
            await network.decide(efi)
        for _ in range(QUIET_DAYS):
            clock.real += DAY
            for side in network.sides:
                await side.read_morning(chance, to_day(clock.real) - DAY)
        ends = [await side.check() for side in network.sides]
        assert network.at_midnight == {day: ends[0][day] + ends[1][day] for day in network.at_midnight}
        for side, there in zip(network.sides, ends, strict=True):
            assert side.books.here.house is not None
            assert await read_funds(side.books.here.live, side.books.here.house) == (max(there.items())[1], 0)
        assert inter.recorded == inter.planted.keys()
        assert days_count < 31 or network.met.keys() == {"paid", "returned", "contested", "paid by the moved key"}
