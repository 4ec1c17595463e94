"""Ten thousand transfers at a hostile institution that sends in two steps and pays every confirmation.

Answers are lost before and after, calls arrive late, processes die at each write, clocks jump, questions fail or give
old answers: each transfer is paid at most once, and its outcome is the one at the institution.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from random import Random
from typing import Any, Final

import pytest
from msgspec import structs

from pixconnect.features.institutions.rail import InstitutionRail
from pixconnect.features.institutions.rules import institution as institutions
from pixconnect.features.institutions.rules.pending_call import MintAnswer, NamedPix
from pixconnect.features.institutions.rules.rail_memory import MemoryUnavailable, OutgoingPix, RailStep, SentPix
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
from pixconnect.kernel.rules.rail import NeverTaken, NotTaken, Order, QueryAnswer, Rejected, Settled, SubmitAnswer, Unknown
from support import sandbox as support
from support.records import OUTSIDE_ISPB
from support.service import FakeClock

ORDERS_COUNT: Final = 10_000
ROUNDS: Final = 12
_CENTS: Final = 100


class Died(Exception):  # noqa: N818  a process ended
    """The worker is gone; its writes stay."""


class Memory:
    """The row of one order; a writer may die before or after, or fail."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.step: RailStep | None = None

    async def open(self, order_names: Sequence[str]) -> dict[str, RailStep]:
        return {} if self.step is None else {self.step.order_name: self.step}

    async def take(self, before: RailStep, after: RailStep) -> bool:
        drawn = self._chance.random()
        if drawn < 0.05:
            raise Died
        if drawn < 0.08:
            raise MemoryUnavailable
        if self.step != before:
            return False
        self.step = after
        if drawn > 0.95:
            raise Died
        return True

    async def count_in_flight(self, since: datetime) -> int:
        return 0

    async def find_loss(self) -> datetime | None:
        return None


class Twin:
    """The institution, for one order."""

    traits = institutions.InstitutionTraits(sends=("KEY",), names_first=True, compares_owner=True)

    def __init__(self, chance: Random, clock: FakeClock) -> None:
        self._chance, self._clock = chance, clock
        self.calls = Counter[str]()  # second steps that arrived or may still arrive
        self.ended: dict[str, str] = {}
        self.late: list[str] = []
        self._seen_from = clock.real_now()
        self._is_away = chance.choice([0.2, 0.2, 0.9])

    async def mint(self, pix: OutgoingPix) -> MintAnswer:
        drawn = self._chance.random()
        if drawn < self._is_away:
            return institutions.NotSent(reason="no answer")
        if drawn > 0.98:
            return institutions.CertainRefusal(code="NaoEncontrado", reason="no such key")
        code = f"E{OUTSIDE_ISPB}202607011500{self._chance.randrange(10**11):011}"
        return NamedPix(code=code, owner_tax_id="12345678909", owner_name="Joana")

    async def send(self, pix: OutgoingPix) -> institutions.SendAnswer:
        code = pix.code or ""
        drawn = self._chance.random()
        if drawn < 0.15:
            return institutions.NotSent(reason="429")
        self.calls[code] += 1
        if drawn < 0.25:
            return institutions.CertainRefusal(code="RequisicaoInvalida", reason="refused")
        if drawn < 0.4:
            self.late.append(code)  # it arrives at an unexpected time
        elif drawn < 0.9:
            self._do(code)
        if self._chance.random() < 0.1:
            raise Died
        if drawn < 0.7 or code not in self.ended:
            return institutions.UnknownOutcome(reason="no answer, or 403")
        return self._tell(code)

    async def read_sent(self, name: str, code: str | None = None, since: object = None) -> SentPix | None:
        if self._chance.random() < 0.2:
            raise institutions.InstitutionUnavailable("no answer")
        is_seen = code in self.ended and self._clock.real_now() >= self._seen_from
        return self._tell(code or "") if is_seen else None

    def go_on(self) -> None:
        """Late calls may arrive."""
        if self.late and self._chance.random() < 0.3:
            self._do(self.late.pop())
        for code, word in self.ended.items():
            if word == "under_way" and self._chance.random() < 0.5:
                self.ended[code] = self._chance.choice(["settled", "settled", "refused"])

    def _do(self, code: str) -> None:
        self.ended[code] = self._chance.choice(["under_way", "settled", "refused"])
        self._seen_from = self._clock.real_now()

    def _tell(self, code: str) -> SentPix:
        word: Any = self.ended[code]
        return SentPix(
            name="", code=code, end_to_end_id=code, amount_cents=_CENTS, status=word,
            settled_at=self._clock.real_now() if word == "settled" else None,
        )  # fmt: skip


class Run:
    """One order, by processes that die."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)  # noqa: S311  it is to be the same again
        self._clock = FakeClock()
        self.twin, self.memory = Twin(self._chance, self._clock), Memory(self._chance)
        payee = structs.replace(UNKNOWN_PARTY, key="joana@pix.example", key_type="EMAIL")
        self._order: Order = support.order(
            amount_cents=_CENTS, ordered_at=self._clock.real_now(), credit_party=payee, initiation_type="KEY"
        )
        self.memory.step = RailStep(
            order_name=self._order.end_to_end_id, institution_id=1, kind="order", holder_id=1,
            original_end_to_end_id=None, amount_cents=_CENTS, payee=payee.key, name_there="a" * 32, state="new",
            created_at=self._clock.real_now(),
        )  # fmt: skip

    async def run(self) -> Settled | Rejected | NeverTaken | None:
        """Its outcome in our books."""
        rail, is_handed = self._start(), False
        for number in range(ROUNDS):
            try:
                answer, is_handed = await self._do_next(rail, is_handed)
                if isinstance(answer, Settled | Rejected | NeverTaken):
                    return answer
            except Died:
                rail, is_handed = self._start(), True
            # The last rounds come after its window.
            self._clock.advance(seconds=self._chance.choice([1, 5, 70]) if number < ROUNDS - 4 else 15_000)
            self.twin.go_on()
        return None

    async def _do_next(self, rail: InstitutionRail, is_handed: bool) -> tuple[SubmitAnswer | QueryAnswer, bool]:
        if not is_handed:
            [answer] = await rail.submit([self._order])
            return answer, not isinstance(answer, NotTaken)
        [asked] = await rail.query([self._order.end_to_end_id])
        if isinstance(asked, Unknown):
            [again] = await rail.submit([self._order])
            # As in the service: only a rejection of the first submission is final.
            return (Unknown() if isinstance(again, Rejected) else again), True
        return asked, True

    def _start(self) -> InstitutionRail:
        institution: Any = self.twin
        return InstitutionRail(institution, self.memory, self._clock)

    def judge(self, ending: Settled | Rejected | NeverTaken | None) -> None:
        paid = [code for code, word in self.twin.ended.items() if word != "refused"]
        assert sum(self.twin.calls.values()) <= 1, "it was confirmed twice"
        if isinstance(ending, Settled):
            assert [self.twin.ended[code] for code in paid] == ["settled"]
        elif ending is not None:
            assert (paid, self.twin.late) == ([], []), "it ended here, and was paid or may be"


@pytest.mark.parametrize("part", range(4))
def test_each_is_paid_once_at_most_and_ends_as_it_did_there(part: int) -> None:
    async def run_all() -> Counter[str]:
        endings = Counter[str]()
        for seed in range(part, ORDERS_COUNT, 4):
            run = Run(seed)
            ending = await run.run()
            run.judge(ending)
            endings[type(ending).__name__] += 1
        return endings

    endings = asyncio.run(run_all())
    assert endings.keys() == {"Settled", "Rejected", "NeverTaken", "NoneType"}, "each ending was met"
    assert endings["Settled"] > 500
