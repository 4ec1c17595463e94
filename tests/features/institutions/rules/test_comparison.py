"""The institution's balance and the books: what proves a difference, and that no traffic causes a false one."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from msgspec import Struct, structs

from pixconnect.features.institutions.profiles.account_traits import BalanceMeaning
from pixconnect.features.institutions.rules.comparison import (
    CLOCKS_APART,
    BalanceReading,
    Books,
    DifferenceRange,
    find_difference,
    judge,
)

START = datetime(2026, 7, 1, 15, tzinfo=UTC)
QUIET = Books(
    here_cents=1000, booked_in_cents=0, booked_out_cents=0, called={}, waiting_in_cents=0, waiting_out_cents=0,
    held_cents=0, invested_cents=0, fees_cents=0,
)  # fmt: skip
LAG_S, POLL_S = 60.0, 15.0


def a_reading(cents: int, after_cents: int | None = None, **called: int) -> BalanceReading:
    after_cents = cents if after_cents is None else after_cents
    return BalanceReading(before_cents=cents, after_cents=after_cents, began_at=START, ended_at=START, called=dict(called))


def a_range(low: int | None, high: int) -> DifferenceRange:
    return DifferenceRange(low_cents=low, high_cents=high)


@pytest.mark.parametrize(
    ("reading", "changes", "meaning", "low", "high"),
    [
        (a_reading(1000), {}, "ledger", 0, 0),
        (a_reading(98), {}, "ledger", -902, -902),
        (a_reading(1000, 1300), {}, "ledger", 0, 300),
        (a_reading(1000), {"booked_in_cents": 50, "booked_out_cents": 7}, "ledger", -7, 50),
        # An order that was open before and after counts once.
        (a_reading(1000, E1=20), {"called": {"E1": 20, "E2": 5}}, "ledger", 0, 25),
        (a_reading(1000), {"waiting_in_cents": 9, "waiting_out_cents": 4, "fees_cents": 3}, "ledger", -9, 7),
        (a_reading(800), {"held_cents": 200}, "ledger", -200, -200),
        (a_reading(800), {"held_cents": 200}, "available", 0, 0),
        (a_reading(800), {"held_cents": 200}, "unclear", -200, 0),
        (a_reading(1000), {"held_cents": 200}, "unclear", 0, 200),
        (a_reading(5000), {}, "with_limit", None, 4000),
        (a_reading(900), {}, "with_investments", None, -100),
        (a_reading(900), {"invested_cents": 200}, "with_investments", None, -100),
        (a_reading(900), {"invested_cents": 100}, "ledger", 0, 0),
    ],
)
def test_what_may_be_in_one_of_them_alone_widens_the_range(
    reading: BalanceReading, changes: dict[str, int], meaning: BalanceMeaning, low: int | None, high: int
) -> None:
    assert find_difference(reading, structs.replace(QUIET, **changes), meaning) == a_range(low, high)


@pytest.mark.parametrize(
    ("found", "seen", "told", "act", "after"),
    [
        # Seen once, then confirmed by the range that both comparisons allow.
        (a_range(-902, -902), None, None, "nothing", a_range(-902, -902)),
        (a_range(-902, -800), a_range(-950, -850), None, "report", a_range(-902, -850)),
        (a_range(40, 50), a_range(-950, -850), None, "nothing", a_range(40, 50)),
        # A wide range neither confirms nor refutes.
        (a_range(-5000, 10), a_range(-950, -850), None, "nothing", a_range(-950, -850)),
        (a_range(-5000, 10), None, -902, "nothing", None),
        (a_range(-902, -902), None, -902, "nothing", None),
        # It has gone, or has become another one.
        (a_range(-5, 5), a_range(-950, -850), None, "end", None),
        (a_range(-5, 5), None, -902, "end", None),
        (a_range(-1000, -950), None, -902, "nothing", a_range(-1000, -950)),
        (a_range(-1000, -950), a_range(-1000, -950), -902, "report", a_range(-1000, -950)),
    ],
)
def test_a_difference_is_reported_once_two_comparisons_have_found_it(
    found: DifferenceRange, seen: DifferenceRange | None, told: int | None, act: str, after: DifferenceRange | None
) -> None:
    verdict = judge(found, seen, told)
    assert (verdict.act, verdict.seen) == (act, after)


def test_what_is_certain_of_a_range_is_its_end_nearest_to_zero() -> None:
    ranges = [a_range(-9, -4), a_range(3, 8), a_range(-1, 1), a_range(None, -7), a_range(None, 7)]
    assert [each.certain_cents for each in ranges] == [-4, 3, 0, -7, 0]


class Move(Struct, frozen=True, kw_only=True):
    """A movement: when the institution's balance shows it, and when the books do."""

    cents: int
    there_s: float | None
    here_s: float | None
    called_s: float | None = None  # when the order ended in the books
    ended_s: float | None = None
    kind: str = "pix"


class Evening:
    """A busy account: late credits, orders that settle or fail, fees from a later file, waiting lines.

    Amounts come from a short price list, so that late credits look alike.
    """

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)  # noqa: S311  it must come again
        self.moves: list[Move] = []
        self.priced = self.chance.choice([(1000,), (990, 1000, 2500)])
        self.pix_until_s: list[float] = []
        for _ in range(self.chance.randrange(20, 120)):
            self._happen(self.chance.uniform(0, 3600))

    def _happen(self, at_s: float) -> None:
        cents, chance = self.chance.choice(self.priced), self.chance
        match chance.choice(("credit", "credit", "settled", "failed", "silent", "fee", "waiting")):
            case "credit":
                # The first reading that begins so late lists it.
                read_s = -(-(at_s + chance.uniform(0, LAG_S)) // POLL_S) * POLL_S
                self.moves.append(Move(cents=cents, there_s=at_s, here_s=read_s + chance.uniform(0, 2)))
            case "settled" | "failed" as end:
                taken_s = at_s + chance.uniform(0, 3)
                ended_s = taken_s + chance.uniform(0, 90)
                here_s = ended_s if end == "settled" else None
                self.moves.append(Move(cents=-cents, there_s=taken_s, here_s=here_s, called_s=at_s, ended_s=ended_s))
                if end == "failed":
                    back_s = chance.uniform(taken_s, ended_s)
                    self.moves.append(Move(cents=cents, there_s=back_s, here_s=None))
            case "silent":
                taken_s = at_s if chance.random() < 0.5 else None
                self.moves.append(Move(cents=-cents, there_s=taken_s, here_s=None, called_s=at_s))
            case "fee":
                self.moves.append(Move(cents=-chance.choice((35, 100)), there_s=at_s, here_s=None, kind="fee"))
            case _:
                sign = chance.choice((1, -1))
                self.moves.append(Move(cents=sign * cents, there_s=at_s, here_s=None, kind="waiting"))

    def read_there(self, at_s: float) -> int:
        return sum(move.cents for move in self.moves if move.there_s is not None and move.there_s <= at_s)

    def list_called(self, at_s: float) -> dict[str, int]:
        return {
            f"E{number}": -move.cents
            for number, move in enumerate(self.moves)
            if move.called_s is not None and move.called_s <= at_s and (move.ended_s is None or at_s < move.ended_s)
        }

    def read_books(self, began_s: float, at_s: float) -> Books:
        booked = [move for move in self.moves if move.here_s is not None and move.here_s <= at_s]
        new = [move.cents for move in booked if (move.here_s or 0) > began_s - CLOCKS_APART.total_seconds()]
        waiting = [move.cents for move in self.moves if move.kind == "waiting" and (move.there_s or 0) <= at_s]
        fees_count = sum(move.kind == "fee" and (move.there_s or 0) <= at_s for move in self.moves)
        return structs.replace(
            QUIET,
            here_cents=sum(move.cents for move in booked),
            booked_in_cents=sum(cents for cents in new if cents > 0),
            booked_out_cents=-sum(cents for cents in new if cents < 0),
            called=self.list_called(at_s),
            waiting_in_cents=sum(cents for cents in waiting if cents > 0),
            waiting_out_cents=-sum(cents for cents in waiting if cents < 0),
            fees_cents=100 * fees_count,
        )

    def compare(self, at_s: float, apart_cents: int = 0) -> DifferenceRange:
        """As the worker does at an instant, judged after the next reading that is late enough."""
        ended_s = at_s + self.chance.uniform(0, 5)
        reading = BalanceReading(
            before_cents=self.read_there(at_s) + apart_cents,
            after_cents=self.read_there(ended_s) + apart_cents,
            began_at=START + timedelta(seconds=at_s),
            ended_at=START + timedelta(seconds=ended_s),
            called=self.list_called(at_s),
        )
        read_s = -(-(ended_s + LAG_S) // POLL_S) * POLL_S
        return find_difference(reading, self.read_books(at_s, read_s + 3), "ledger")


@pytest.mark.parametrize("seed", range(10))
def test_no_traffic_makes_a_difference_up(seed: int) -> None:
    for number in range(100):
        evening = Evening(100 * seed + number)
        for at_s in (200, 800, 1000, 1600, 2200, 2380, 3000, 3700):
            assert evening.compare(at_s).has(0), (seed, number, at_s)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_apart_is_found_in_any_traffic_told_once_and_ends(seed: int) -> None:
    for number in range(50):
        evening = Evening(100 * seed + number)
        slack_cents = 100 * sum(move.kind == "fee" for move in evening.moves)
        silent = [move for move in evening.moves if move.called_s is not None and move.ended_s is None]
        slack_cents += sum(abs(move.cents) for move in evening.moves if move.kind == "waiting" or move in silent)
        apart_cents = evening.chance.choice((-1, 1)) * (slack_cents + 902)
        seen, reported_cents, acts = None, None, list[str]()
        for at_s in (3700, 3900, 4500, 5100, 5700):
            found = evening.compare(at_s, apart_cents if at_s < 5700 else 0)
            assert found.has(apart_cents if at_s < 5700 else 0)
            verdict = judge(found, seen, reported_cents)
            acts.append(verdict.act)
            seen = verdict.seen
            if verdict.act == "report":
                seen, reported_cents = None, verdict.seen and verdict.seen.certain_cents
        assert acts == ["nothing", "report", "nothing", "nothing", "end"], (seed, number, acts)
