"""What the measures of cells find wrong, and what the page says of their rows."""

from typing import Any

import pytest

from bench.measures.cell_moves import Asked
from bench.measures.cells import fit_costs
from bench.pages import cell_phrases


def found(*rows: tuple[str, int, int]) -> list[dict[str, Any]]:
    return [dict(zip(("word", "id", "amount_cents"), row, strict=True)) for row in rows]


def test_what_was_answered_and_is_not_there_as_it_was_answered_is_lost() -> None:
    asked = Asked(answered={"a": (1, 10), "b": (2, 20), "c": (3, 30)})
    wrong = asked.compare(found(("a", 1, 10), ("b", 7, 20), ("before", 9, 9)), frozenset({"before"}))
    assert (wrong["lost"], wrong["extra"]) == (2, 0)


def test_what_was_refused_or_is_there_twice_or_was_asked_for_by_nobody_is_extra() -> None:
    asked = Asked(answered={"a": (1, 10)}, not_done={"b"}, unknown={"c"})
    there = found(("a", 1, 10), ("a", 1, 10), ("b", 2, 20), ("c", 3, 30), ("nobody's", 4, 40))
    wrong = asked.compare(there, frozenset())
    assert (wrong["lost"], wrong["extra"]) == (0, 3)


def test_an_unknown_outcome_may_be_there_or_not() -> None:
    asked = Asked(unknown={"a"})
    assert not +asked.compare(found(("a", 1, 10)), frozenset())
    assert not +asked.compare([], frozenset())


def test_a_life_and_a_batch_are_told_apart_where_batches_differ_in_size() -> None:
    rows = [{"batch": size, "cpu_us_each_in_all": 500 + 800 / size} for size in (2.0, 4.0, 16.0)]
    assert fit_costs(rows) == pytest.approx((500, 800))


def test_the_page_says_ratios_beside_how_large_batches_were() -> None:
    each = {
        "cpu_us_each_in_all": 900.0,
        "ours_us": 500.0,
        "postgres_us": 400.0,
        "batch": 7.9,
        "ratio": 1.5,
        "same_batch_ratio": 1.04,
        "same_batch_ratios": [1.01, 1.04, 1.06],
    }
    names = ("one", "one_of_four", "two", "four", "two_thin", "four_thin")
    row = dict.fromkeys(names, each) | {"rounds": 3, "load": [0.5, 2.5]}
    said = cell_phrases.say_spread(row)
    assert "all four 900 µs with 7.9 in a batch, 1.04 of one cell's with such batches (1.01 to 1.06)" in said
    assert said.endswith("3 rounds, load average 0.5 to 2.5")
    table = list(cell_phrases.say_table(row, row))
    assert len(table) == 2 + len(names)
    assert table[2] == "| one cell | 900 µs | 7.9 | 1.04 | 900 µs | 7.9 | 1.04 |"


def test_the_page_says_what_holders_of_the_home_cell_saw_of_an_outage() -> None:
    spread = {"p50_ms": 4.6, "p99_ms": 20.0}
    row = {
        **{name: dict.fromkeys(("before", "during", "after"), spread) for name in ("accepted", "confirmed")},
        "p99_ratio": {"accepted": 1.1, "confirmed": 0.9},
        "p99_ratios": {"accepted": [1.0, 1.2], "confirmed": [0.9, 0.9]},
        "refused": 0,
        "back_after_s": 1.25,
        "load": [1.0, 1.0],
    }
    said = cell_phrases.say_outage(row)
    assert (
        "answered after p50 5, 5, 5 ms, p99 20, 20, 20 ms before, during and after (p99 during by before 1.10" in said
    )
