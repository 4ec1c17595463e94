"""A client is looked for in all cells; who asks in vain too often while one is away has the others left in peace."""

from collections import Counter

import pytest

from pixconnect.adapters.system import SystemEntropy
from pixconnect.domain.frame import cell, errors
from pixconnect.usecases.frame.cells import ByCell, UnreachableCells
from pixconnect.usecases.identity.client_cells import IN_VAIN_MAX, ClientCells


class House:
    """The home cell, two others, and a third that may be away."""

    def __init__(self) -> None:
        self.away = UnreachableCells()
        self.cells = ByCell("home", self.away)
        for number in (1, 2):
            self.cells.add(number, f"cell {number}")
        self.clients = {"at-home": "home", "in-cell-1": "cell 1"}
        self.asked = Counter[str]()
        self.now_s = 0.0
        self.found = ClientCells(self.cells, self._check, lambda: self.now_s)

    async def _check(self, part: str, client_id: str) -> None:
        self.asked[part] += 1
        if self.clients.get(client_id) != part:
            raise errors.NotFound("unknown")

    async def look(self, client_id: str) -> str | None:
        return await self.found.find(client_id, "192.0.2.1")


async def test_whom_all_answer_for_is_asked_for_as_often_as_anybody_likes() -> None:
    house = House()
    for number in range(3 * IN_VAIN_MAX):
        assert await house.look(f"guess-{number}") is None
    assert house.asked == dict.fromkeys(house.cells, 3 * IN_VAIN_MAX)
    assert await house.look("in-cell-1") == "cell 1"


async def test_who_asks_in_vain_too_often_leaves_the_other_cells_in_peace_for_a_while() -> None:
    house = House()
    house.away.numbers.add(3)
    for number in range(3 * IN_VAIN_MAX):
        with pytest.raises(errors.ServiceUnavailable):
            await house.look(f"guess-{number}")
    assert house.asked == {"home": 3 * IN_VAIN_MAX, "cell 1": IN_VAIN_MAX, "cell 2": IN_VAIN_MAX}
    # Those of the home cell, and those whose ids lead to their cell, come in all the same.
    tagged = cell.draw_tagged(SystemEntropy(), 24, 2)
    house.clients[tagged] = "cell 2"
    for _ in range(2 * IN_VAIN_MAX):
        assert await house.look("at-home") == "home"
        assert await house.look(tagged) == "cell 2"
    with pytest.raises(errors.ServiceUnavailable):
        await house.look("in-cell-1")
    house.now_s += 60
    assert await house.look("in-cell-1") == "cell 1"


async def test_what_is_no_client_id_is_nobodys() -> None:
    assert await House().found.find(None, "192.0.2.1") is None
    assert await House().look("no id\n") is None
