"""A state machine sends money from one cell to the other and back, breaks the rail, moves the clock and kills.

A few examples here; ``make prove`` makes as many as PIXCONNECT_PROVE_EXAMPLES says, each of PIXCONNECT_PROVE_STEPS steps.
"""

import os
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any, ClassVar, Final, Literal

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from support.state_machine import run_examples
from support.two_cells import POINTS_OF_A_PIX, POINTS_OF_A_REFUND, TwoCells, open_two_cells

pytestmark = [pytest.mark.journey, pytest.mark.long]

EXAMPLES_COUNT = int(os.environ.get("PIXCONNECT_PROVE_EXAMPLES", "4"))
STEPS_COUNT = int(os.environ.get("PIXCONNECT_PROVE_STEPS", "15"))
IS_PROOF = "PIXCONNECT_PROVE_EXAMPLES" in os.environ

EFFECTS: Final = ("no_answer", "lost", "duplicate_answer", "unavailable", "delay:700", "delay:20000", "reject:AB03")
OPERATIONS: Final = ("submit", "query", "refund")
PARTS: Final = ("serve", "work", "sandbox", "database")
ADVANCES_S: Final = (1, 70, 3600)

cents = st.integers(min_value=1, max_value=400_000)
sides = st.integers(min_value=0, max_value=1)
picks = st.integers(min_value=0, max_value=1000)


class MoneyInCells(RuleBasedStateMachine):
    """Both pay each other and give it back; what was answered must be there once, and the sum of both stays."""

    two: ClassVar[TwoCells]
    numbers: ClassVar[Iterator[int]] = count(1)
    kills: ClassVar[Counter[str]] = Counter()

    @initialize()
    def begin(self) -> None:
        self.told: dict[tuple[int, str], int] = {}
        """What was asked for and answered 200, by whose it is and its name: the id."""
        self.refused: set[tuple[int, str]] = set()
        self.bodies: list[tuple[int, str, int]] = []
        self.sent: list[tuple[int, str, int]] = []
        self.armed: list[str] = []

    def note(self, side: int, name: str, answer: Any) -> bool:
        if answer.status == 200:
            self.told[side, name] = answer.data["id"]
            return True
        assert answer.status in {400, 404, 422}, answer
        self.refused.add((side, name))
        return False

    @rule(payer=sides, amount_cents=cents, is_by_code=st.booleans())
    def pay(self, payer: int, amount_cents: int, is_by_code: bool) -> None:
        name = f"cells-{next(self.numbers)}"
        answer = (self.two.pay_charge if is_by_code else self.two.pay)(payer, name, amount_cents)
        if self.note(payer, name, answer):
            self.sent.append((payer, answer.data["end_to_end_id"], amount_cents))
            if not is_by_code:
                self.bodies.append((payer, name, amount_cents))

    @rule(pick=picks, part=st.sampled_from((1, 2, 3)), is_too_much=st.booleans())
    def give_back(self, pick: int, part: int, is_too_much: bool) -> None:
        if not self.sent:
            self.pay(pick % 2, 1 + pick, is_by_code=False)
            return
        payer, end_to_end_id, amount_cents = self.sent[pick % len(self.sent)]
        name = f"cells-{next(self.numbers)}"
        wanted_cents = amount_cents + 1 if is_too_much else -(-amount_cents // part)
        # Until it has arrived there is nothing to be given back.
        done = self.note(1 - payer, name, self.two.give_back(1 - payer, end_to_end_id, name, wanted_cents))
        assert not (done and is_too_much)

    @rule(pick=picks, is_changed=st.booleans())
    def replay(self, pick: int, is_changed: bool) -> None:
        if not self.bodies:
            return
        payer, name, amount_cents = self.bodies[pick % len(self.bodies)]
        answer = self.two.pay(payer, name, amount_cents + is_changed)
        if is_changed:
            assert answer.code == "EXTERNAL_ID_CONFLICT", answer
        else:
            assert answer.data["id"] == self.told[payer, name], answer

    @rule(effect=st.sampled_from(EFFECTS), operation=st.sampled_from(OPERATIONS), times=st.integers(1, 3))
    def break_the_rail(self, effect: str, operation: str, times: int) -> None:
        rules = [{"match": {"operation": operation}, "effect": effect, "times": times}]
        self.two.service.insist(self.two.holders[0], "PUT", "/sandbox/v1/faults", {"rules": rules})

    @rule(seconds=st.sampled_from(ADVANCES_S))
    def advance_clock(self, seconds: int) -> None:
        self.two.service.advance_clock(self.two.holders[0], seconds)

    @rule(part=st.sampled_from(PARTS))
    def kill(self, part: Literal["serve", "work", "sandbox", "database"]) -> None:
        self.two.service.kill(part)
        self.kills[part] += 1

    @rule(point=st.sampled_from((*POINTS_OF_A_PIX, *POINTS_OF_A_REFUND)))
    def kill_at_point(self, point: str) -> None:
        if point not in self.armed:
            self.two.service.points.arm(point)
            self.armed.append(point)

    @rule()
    def settle(self) -> None:
        self.two.service.insist(self.two.holders[0], "DELETE", "/sandbox/v1/faults")
        self.two.check()
        found = dict[tuple[int, str], int]()
        for side, rows in enumerate(self.two.read(_NAMED)):
            for row in rows:
                assert found.setdefault((side, row["external_id"]), row["id"]) == row["id"], row
        assert not {key: told for key, told in self.told.items() if found.get(key) != told}
        assert not self.refused & found.keys()
        self.kills.update(point for point in self.armed if self.two.service.points.has_killed(point))
        self.armed = [point for point in self.armed if not self.two.service.points.has_killed(point)]

    def teardown(self) -> None:
        if hasattr(self, "told"):
            self.settle()
            self.two.service.points.disarm_all()


_NAMED: Final = """
    select id, external_id from transfer where external_id like 'cells-%' and direction = 'OUT'
    union all select id, external_id from refund where external_id like 'cells-%' and flow = 'OUT'
"""


def test_money_is_conserved_in_cells(capsys: pytest.CaptureFixture[str]) -> None:
    with open_two_cells() as two:
        MoneyInCells.two = two
        run_examples(MoneyInCells, EXAMPLES_COUNT, STEPS_COUNT, is_drawn_anew=IS_PROOF)
        two.check_books()
    with capsys.disabled():
        if IS_PROOF:
            print(f"\nkilled between cells: {dict(MoneyInCells.kills.most_common())}")  # noqa: T201  what `make prove` is for
