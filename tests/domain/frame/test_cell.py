"""Ids and names that say their cell: what others keep, so it never changes."""

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.adapters.system import SystemEntropy
from pixconnect.domain.frame import cell, identifiers
from support.service import CountedEntropy

INSTANT = datetime(2026, 11, 20, 7, 53, 59, tzinfo=UTC)

# Golden: a name with one of these tags is in the hands of others, and leads to this cell for as long as anybody asks by it.
TAGS = {
    0: "00 48 8G CO GW Ke Om Su X2 bA fI jQ nY rg vo",
    1: "01 49 8H CP GX Kf On Sv X3 bB fJ jR nZ rh vp",
    61: "0z 57 9F DN HV Ld Pl Tt Y1 c9 gH kP oX sf wn",
    255: "47 8F CN GV Kd Ol St X1 b9 fH jP nX rf vn zv",
}
IDS = {
    1: 0,
    2**45 - 1: 0,
    2**45: 1,
    35_184_372_088_833: 1,
    200 * 2**45 + 17: 200,
    2**53 - 1: 255,
}


@pytest.mark.parametrize(("number", "expected"), IDS.items())
def test_an_id_says_its_cell(number: int, expected: int) -> None:
    assert cell.cell_of_id(number) == expected


def test_all_ids_of_all_cells_are_exact_in_javascript() -> None:
    assert cell.CELLS_MAX * cell.IDS_MAX == 2**53


@pytest.mark.parametrize("number", TAGS)
def test_a_tag_leads_to_its_cell_for_ever(number: int) -> None:
    assert [cell.find_named_cell(f"E{'0' * 29}{tag}") for tag in TAGS[number].split()] == [number] * 15


def test_the_names_that_a_given_chance_makes_are_those_of_before() -> None:
    # CountedEntropy is the same each time: what it makes here was made once, and is compared.
    entropy = CountedEntropy()
    assert [
        identifiers.make_end_to_end_id("99999003", INSTANT, entropy, 0),
        identifiers.make_return_id("99999003", INSTANT, entropy, 3),
        identifiers.make_txid(INSTANT, entropy, 200),
        cell.draw_tagged(entropy, 22, 255),
    ] == [
        "E99999003202611200753VwJFqSqK3CO",
        "D99999003202611200753PO2hVkLNX4B",
        "0VbUvc4GiyUAyMgloxHZmIvjVx9xoU3E",
        "DouorhzFitzSgzK9Aaqn8F",
    ]


@given(number=st.integers(0, 255))
def test_each_name_that_a_cell_makes_leads_back_to_it(number: int) -> None:
    entropy = SystemEntropy()
    names = [
        identifiers.make_end_to_end_id("99999003", INSTANT, entropy, number),
        identifiers.make_return_id("99999003", INSTANT, entropy, number),
        identifiers.make_txid(INSTANT, entropy, number),
        cell.draw_tagged(entropy, 22, number),
    ]
    assert [cell.find_named_cell(name) for name in names] == [number] * 4
    assert [len(name) for name in names] == [32, 32, 32, 22]
    assert identifiers.is_end_to_end_id(names[0])
    assert identifiers.is_return_id(names[1])
    assert identifiers.is_txid(names[2])


def test_a_cell_draws_all_of_its_tags_and_none_much_more_often() -> None:
    entropy, count = SystemEntropy(), 30_000
    drawn = Counter(cell.draw_tagged(entropy, 11, 7)[-2:] for _ in range(count))
    # Four or five of 62 characters lead to each: ten standard deviations beside that.
    assert len(drawn) == 15
    assert all(count * (4 / 62 - 0.015) < times < count * (5 / 62 + 0.016) for times in drawn.values())


@pytest.mark.parametrize("name", ["", "a", "zz", "zw", "a-", "é0"])
def test_what_has_no_tag_leads_nowhere(name: str) -> None:
    assert cell.find_named_cell(name) is None
