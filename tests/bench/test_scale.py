"""The page on scale says what was measured, and works it out as it says."""

import pytest

from bench.pages import scale
from bench.pages.scale import Day, Life
from scripts.write_pages import MEND

LIFE = Life(
    what="a transfer",
    postgres_us=400.0,
    all_us=1000.0,
    wal_octets=8000.0,
    octets={"transfer": 1000.0, "event": 500.0, "delivery": 500.0},
)


def test_the_page_and_its_drawings_are_what_was_worked_out() -> None:
    assert scale.write_page() == scale.PAGE.read_text(encoding="utf-8"), MEND
    drawn = scale.write_drawings()
    folder = scale.PAGE.parent / scale.DRAWINGS
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == drawn, MEND


def test_events_and_deliveries_leave_and_everything_else_stays() -> None:
    assert (LIFE.kept_octets, LIFE.leaving_octets) == (1000, 1000)


def test_a_years_size_is_what_stays_of_all_days_and_what_leaves_of_the_last_ninety() -> None:
    day = Day(pix_count=86_400, mean=LIFE, kept_rate=2.0, restored_octets=1e12)
    assert day.year_octets == 86_400 * (1000 * 365 + 1000 * 90)
    assert day.average == 1


def test_one_database_lasts_until_it_is_as_large_as_may_be_restored() -> None:
    # 2,000 octets a life for ninety days, and 1,000 from then on.
    day = Day(pix_count=1000, mean=LIFE, kept_rate=2.0, restored_octets=100e6)
    assert day.days_in_one_cell == 50
    assert Day(pix_count=1000, mean=LIFE, kept_rate=2.0, restored_octets=190e6).days_in_one_cell == 100


@pytest.mark.parametrize(
    ("kept_rate", "restored_octets", "by_rate", "by_size"), [(3.0, 1e15, 1, 1), (2.9, 3.9e10, 2, 2)]
)
def test_cells_are_counted_up(kept_rate: float, restored_octets: float, by_rate: int, by_size: int) -> None:
    # One a second on average, three in the busiest minutes; 39.3 GB in a year.
    day = Day(pix_count=86_400, mean=LIFE, kept_rate=kept_rate, restored_octets=restored_octets)
    assert (day.cells_by_rate, day.cells_by_size) == (by_rate, by_size)
