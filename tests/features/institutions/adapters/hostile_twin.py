"""Common parts of hostile institutions in this process, and the worker that sends to them and dies."""

from datetime import timedelta
from random import Random
from types import UnionType
from typing import Any, ClassVar

from msgspec import Struct, structs

from conformance.institution_under_test import Steps
from pixconnect.features.institutions.adapters.message import Content
from pixconnect.features.institutions.rail import InstitutionRail
from pixconnect.features.institutions.rules.institution import (
    InstitutionTraits,
    InstitutionUnavailable,
    NotSent,
    UnknownOutcome,
)
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
from pixconnect.kernel.rules.rail import NeverTaken, NotTaken, Order, Rejected, Settled, Unknown
from support import sandbox as support
from support.service import FakeClock

ORDERS_COUNT = 10
KNOWN_KEY, UNKNOWN_KEY = "settle@pix.example", "nobody@pix.example"


class Killed(Exception):  # noqa: N818  it is not an error
    """The calling process has died."""


class HostileTwin:
    """A stand-in for an account's calls, which draws its own answers."""

    LATE_MAX_S: ClassVar[int]  # how long a network may delay a call

    def __init__(self, chance: Random, clock: FakeClock) -> None:
        self.chance, self.clock = chance, clock
        self.on_the_way: list[tuple[Any, Any]] = []
        self.is_calm = False
        self.fails_until = clock.real_now()
        self.arrived_at = clock.real_now()
        """When the first counted call arrived; a late call may have arrived earlier."""

    def draws(self, share: float) -> bool:
        return not self.is_calm and self.chance.random() < share

    async def change(self, call: Any) -> Any:
        if self.draws(0.05):
            return NotSent(reason="429", retry_after=timedelta(0))
        if self.draws(0.05):
            raise Killed
        if self.draws(0.08):
            # It may still arrive.
            if self.draws(0.5):
                late = timedelta(seconds=self.chance.randrange(self.LATE_MAX_S))
                self.on_the_way.append((self.clock.real_now() + late, call))
            return UnknownOutcome(reason="lost before")
        self.arrived_at = self.clock.real_now()
        answer = self.take(call)
        if self.draws(0.05):
            raise Killed
        return UnknownOutcome(reason="lost after") if self.draws(0.1) else answer

    def take(self, call: Any) -> Content:
        raise NotImplementedError

    def describe(self, content: Content, *secrets: str) -> str:
        return content.text

    def refuse(self, content: Content, *secrets: str) -> InstitutionUnavailable:
        return InstitutionUnavailable(f"{content.status} {content.text}")

    def take_late_calls(self) -> None:
        now = self.clock.real_now()
        for at, call in [each for each in self.on_the_way if each[0] <= now]:
            self.on_the_way.remove((at, call))
            self.arrived_at = at
            self.take(call)
        if self.draws(0.01):
            self.fails_until = now + timedelta(seconds=self.chance.randrange(300))


class Ours(Struct):
    """An order in the database."""

    order: Order
    is_handed: bool = False
    ending: object = None


class _Traits(Struct):
    traits: InstitutionTraits


class RailWorker:
    """The parts of a worker that concern the rail; a new one continues after a kill."""

    ENDS_A_REPEAT: ClassVar[type | UnionType]  # the trusted effect of a second call

    def __init__(self, chance: Random, clock: FakeClock) -> None:
        self.chance, self.clock = chance, clock
        self.steps: Any = Steps(of={})
        self.orders: list[Ours] = []
        self.start()

    def start(self) -> None:
        raise NotImplementedError

    def open_rail(self, traits: InstitutionTraits, sender: Any) -> InstitutionRail:
        institution: Any = _Traits(traits=traits)
        return InstitutionRail(institution, self.steps, self.clock, sender)

    def make_order(self, number: int, key: str) -> Order:
        return support.order(
            amount_cents=100 + number,
            ordered_at=self.clock.real_now(),
            credit_party=structs.replace(UNKNOWN_PARTY, key=key, key_type="EMAIL"),
        )

    async def work(self) -> None:
        for ours in self.orders:
            if ours.ending is not None or self.chance.random() < 0.3:
                continue
            try:
                await self._move(ours)
            except Killed:
                self.start()

    async def _move(self, ours: Ours) -> None:
        if not ours.is_handed:
            ours.is_handed = True
            [answer] = await self.rail.submit([ours.order])
            ours.is_handed = not isinstance(answer, NotTaken)
            ours.ending = answer if isinstance(answer, Settled | Rejected) else None
            return
        [said] = await self.rail.query([ours.order.end_to_end_id])
        if isinstance(said, Settled | Rejected | NeverTaken):
            ours.ending = said
        elif isinstance(said, Unknown) and said.is_repeatable:
            [again] = await self.rail.submit([ours.order])
            ours.ending = again if isinstance(again, self.ENDS_A_REPEAT) else None
