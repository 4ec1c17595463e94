"""Which part of a process serves a holder: that of its cell, which the holder's id says."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.adapters.system import SystemEntropy
from pixconnect.domain.frame import cell, errors
from pixconnect.usecases.frame.cells import ByCell, Cells, UnreachableCells
from support.service import Service

NUMBERS = (1, 2, 200)


def parts(away: UnreachableCells | None = None) -> ByCell[str]:
    made = ByCell("home", away)
    for number in NUMBERS:
        made.add(number, f"cell {number}")
    return made


def known_in(*places: str) -> tuple[list[str], Callable[[str], Awaitable[str]]]:
    """What is asked, and what asks it: it is known in these places only."""
    asked: list[str] = []

    async def look(part: str) -> str:
        asked.append(part)
        if part not in places:
            raise errors.NotFound("nobody's")
        return part

    return asked, look


def test_holders_of_the_home_cell_are_served_by_its_context(service: Service) -> None:
    cells = Cells(service.context)
    assert [cells.of(holder_id) for holder_id in (1, 17, cell.IDS_MAX - 1)] == [service.context] * 3


def test_what_concerns_no_holder_is_the_home_cells(service: Service) -> None:
    assert Cells(service.context).of(None) is service.context


@given(st.sampled_from(NUMBERS), st.integers(1, cell.IDS_MAX - 1))
def test_each_holder_is_served_by_its_own_cell(number: int, number_there: int) -> None:
    assert parts().of(number * cell.IDS_MAX + number_there) == f"cell {number}"


def test_a_holder_of_a_cell_that_is_not_known_is_asked_to_come_again() -> None:
    # Not 404: the holder exists, and this process has not heard of its cell yet.
    away = UnreachableCells()
    with pytest.raises(errors.ServiceUnavailable, match="not known here yet") as refused:
        ByCell("home", away).of(7 * cell.IDS_MAX + 1)
    assert refused.value.retry_after_s > 0
    assert away.is_wanted.is_set()


def test_a_holder_whose_cell_is_away_is_asked_to_come_again_and_nobody_looks_for_it() -> None:
    away = UnreachableCells()
    away.numbers.add(7)
    with pytest.raises(errors.ServiceUnavailable, match="cannot be reached"):
        ByCell("home", away).of(7 * cell.IDS_MAX + 1)
    assert not away.is_wanted.is_set()


@given(st.sampled_from(NUMBERS))
async def test_a_name_is_looked_for_where_it_leads_and_then_everywhere(number: int) -> None:
    name = cell.draw_tagged(SystemEntropy(), 24, number)
    asked, look = known_in(f"cell {number}")
    assert await parts().find(look, name) == f"cell {number}"
    assert asked == [f"cell {number}"]
    asked, look = known_in()
    with pytest.raises(errors.NotFound):
        await parts().find(look, name)
    assert (asked[0], sorted(asked)) == (f"cell {number}", sorted(parts()))


async def test_a_name_that_leads_nowhere_is_looked_for_at_home_first() -> None:
    asked, look = known_in("cell 200")
    assert await parts().find(look, cell.draw_tagged(SystemEntropy(), 24, 9)) == "cell 200"
    assert asked[0] == "home"


async def test_what_nobody_knows_is_said_not_to_exist_only_if_all_have_answered() -> None:
    away = UnreachableCells()
    away.numbers.add(9)
    _, look = known_in()
    with pytest.raises(errors.ServiceUnavailable, match="may know it"):
        await parts(away).find(look)
    _, look = known_in("cell 2")
    assert await parts(away).find(look) == "cell 2"


async def test_until_it_is_known_which_cells_there_are_nobody_is_alone() -> None:
    away = UnreachableCells()
    alone, (_, look) = ByCell("home", away), known_in()
    away.are_known = False
    assert not alone.is_alone
    assert [alone.has_other(number) for number in (None, cell.HOME, 1)] == [False, False, True]
    with pytest.raises(errors.ServiceUnavailable, match="may know it"):
        await alone.find(look)
    away.are_known = True
    assert alone.is_alone
    assert not alone.has_other(1)
    with pytest.raises(errors.NotFound):
        await alone.find(look)


def test_a_cell_that_nobody_has_found_when_looking_for_it_is_missing_until_it_is_there() -> None:
    away = UnreachableCells()
    cells = ByCell("home", away)

    def ask() -> None:
        with pytest.raises(errors.ServiceUnavailable):
            cells.at(7)

    ask()
    assert not cells.is_missing(7)
    away.begin_look()
    # Whoever asks while somebody looks may ask for what was added since.
    with pytest.raises(errors.ServiceUnavailable):
        cells.at(8)
    away.end_look([1])
    assert (cells.is_missing(7), cells.is_missing(8)) == (True, False)
    # It may be added at any time.
    assert away.is_wanted.is_set()
    away.begin_look()
    away.end_look([1, 7])
    assert (cells.is_missing(7), cells.is_missing(8)) == (False, True)
    cells.add(8, "cell 8")
    assert not cells.is_missing(8)


async def test_a_cell_that_hangs_is_given_up_after_a_while_and_then_the_others_are_asked() -> None:
    async def look(part: str) -> str:
        if part == "cell 1":
            await asyncio.Event().wait()
        if part == "cell 2":
            return part
        raise errors.NotFound("nobody's")

    assert await parts().find(look) == "cell 2"


async def test_a_cell_that_gives_no_answer_hides_nothing_that_another_knows() -> None:
    async def look(part: str) -> str:
        if part == "home":
            raise ConnectionResetError
        if part == "cell 1":
            return part
        raise errors.NotFound("nobody's")

    assert await parts().find(look) == "cell 1"
    alone = ByCell("home")
    alone.add(2, "cell 2")
    with pytest.raises(errors.ServiceUnavailable):
        await alone.find(look)


async def test_with_one_cell_its_own_answer_is_the_answer() -> None:
    async def look(_part: str) -> str:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await ByCell("home").find(look)


def test_a_cell_that_is_added_is_served_beside_a_standby_of_the_home_cell_too() -> None:
    here = ByCell("home")
    there = here.with_home("standby")
    here.add(1, "cell 1")
    assert (there.of(1), there.of(cell.IDS_MAX + 1), here.of(1)) == ("standby", "cell 1", "home")


def test_a_part_that_is_removed_is_away_and_one_that_has_taken_its_place_stays() -> None:
    away = UnreachableCells()
    cells = parts(away)
    before = cells.at(1)
    cells.remove(1, before)
    with pytest.raises(errors.ServiceUnavailable, match="cannot be reached"):
        cells.of(cell.IDS_MAX + 1)
    away.numbers.discard(1)
    cells.add(1, "cell 1, elsewhere")
    cells.remove(1, before)
    assert cells.of(cell.IDS_MAX + 1) == "cell 1, elsewhere"
    assert not away.numbers
