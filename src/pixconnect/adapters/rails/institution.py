"""The rail that is an account at an institution: what was received there is returned over it, and nothing else is sent yet.

What came in is read by sweeps (``usecases/institutions``) and taken as reports, so this rail has none of its own; nobody there
waits for an acknowledgement. How refunds end is asked, by the pair of the original and our name of the refund there.

Before each call its row says *calling*, durably. Whatever the call comes to, the row is taken further before the answer is
given, so that what a process had learned when it was killed is asked again, and what it had not is asked for the first time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import structlog
from msgspec import structs

from pixconnect.adapters.rails.none import NoRail
from pixconnect.domain.frame import identifiers
from pixconnect.domain.frame.clock import Clock
from pixconnect.domain.institutions.account import ABILITIES
from pixconnect.domain.institutions.institution import (
    CertainRefusal,
    Institution,
    InstitutionUnavailable,
    ListedRefund,
    NotSent,
    RefundAnswer,
    UnknownOutcome,
)
from pixconnect.domain.institutions.rail_memory import MemoryUnavailable, Outcome, RailMemory, RailStep
from pixconnect.domain.money import reject_code
from pixconnect.domain.money.rail import (
    Acknowledgement,
    NeverTaken,
    NotTaken,
    QueryAnswer,
    RailUnavailable,
    RefundOrder,
    Rejected,
    Settled,
    SubmitAnswer,
    Taken,
    Unknown,
)

REPEATED_FOR: Final = timedelta(hours=12)
"""From the first call on; what is unknown for longer is only asked about."""
_REASON_MAX: Final = 1000
_NO_REASON: Final = "The institution gave no reason."

_log = structlog.get_logger(__name__)


class RecordingRail(NoRail):
    """The rail of an account of which something is only read and recorded."""

    def __init__(self) -> None:
        super().__init__("nothing is sent over accounts at institutions yet")

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Nobody waits for it there: what is listed has settled."""


class InstitutionRail(RecordingRail):
    abilities = ABILITIES

    def __init__(self, institution: Institution, memory: RailMemory, clock: Clock) -> None:
        super().__init__()
        self._institution = institution
        self._memory = memory
        self._clock = clock

    async def submit_refunds(self, orders: Sequence[RefundOrder]) -> list[SubmitAnswer]:
        try:
            steps = await self._memory.open([order.return_id for order in orders])
        except MemoryUnavailable:
            return [NotTaken() for _ in orders]
        return list(await asyncio.gather(*(self._submit(steps.get(order.return_id)) for order in orders)))

    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        try:
            steps = await self._memory.open(ids)
        except MemoryUnavailable as error:
            raise RailUnavailable("what was asked of the institution cannot be read") from error
        return list(await asyncio.gather(*(self._ask(steps.get(name)) for name in ids)))

    async def check(self) -> None:
        try:
            await self._institution.read_balance()
        except InstitutionUnavailable as error:
            raise RailUnavailable(error.reason) from error

    async def _submit(self, step: RailStep | None) -> SubmitAnswer:
        if step is None or not self._may_call(step):
            return Unknown()
        if not self._institution.traits.repeats_refunds:
            # A restored database may have forgotten that it was asked for, and a second call would return it twice.
            try:
                found = await self._institution.read_refund(step.original_end_to_end_id or "", step.name_there or "")
                if found is not None:
                    return await self._hear(step, found)
            except (MemoryUnavailable, InstitutionUnavailable):
                return Unknown()  # so it is never given up as if it could not be there
        now = self._clock.real_now()
        calling = structs.replace(step, state="calling", called_at=step.called_at or now)
        try:
            if not await self._memory.take(step, calling):
                return Unknown()
        except MemoryUnavailable:
            return Unknown()  # the row may say that we call; so it is asked about
        original, name = calling.original_end_to_end_id or "", calling.name_there or ""
        answer = await self._institution.refund(original, name, calling.amount_cents)
        try:
            return await self._conclude(calling, answer)
        except MemoryUnavailable:
            return Unknown()

    def _may_call(self, step: RailStep) -> bool:
        if step.state != "asked":
            return step.state == "minted"
        # A source must say that a second call under the same name returns nothing more.
        is_young = step.called_at is not None and self._clock.real_now() < step.called_at + REPEATED_FOR
        return self._institution.traits.repeats_refunds and is_young

    async def _conclude(self, calling: RailStep, answer: RefundAnswer) -> SubmitAnswer:
        match answer:
            case ListedRefund():
                return await self._hear(calling, answer)
            case CertainRefusal(reason=reason) if not calling.may_be_done:
                return await self._believe(calling, reason)
            case NotSent() if not calling.may_be_done:
                # It was no call at all.
                back = structs.replace(calling, state="minted", called_at=None)
                return NotTaken() if await self._memory.take(calling, back) else Unknown()
            # An earlier call of it may be done, whatever became of this one.
            case CertainRefusal() | NotSent() | UnknownOutcome():
                await self._memory.take(calling, structs.replace(calling, state="asked", may_be_done=True))
                return Unknown()

    async def _believe(self, calling: RailStep, reason: str) -> SubmitAnswer:
        """A restored database has forgotten calls that were done: a second one may be refused because of the first."""
        try:
            found = await self._institution.read_refund(calling.original_end_to_end_id or "", calling.name_there or "")
        except InstitutionUnavailable:
            return Unknown()  # its row says that we call, so it is asked about
        if found is not None:
            return await self._hear(calling, found)
        refused = _close(calling, "refused", reject_code.WRONG_CONTENTS, reason)
        return _reject(refused) if await self._memory.take(calling, refused) else Unknown()

    async def _ask(self, step: RailStep | None) -> QueryAnswer:
        try:
            return Unknown() if step is None else await self._ask_about(step)
        # It may have it: nothing is sent again before it has answered.
        except (MemoryUnavailable, InstitutionUnavailable):
            return Taken()

    async def _ask_about(self, step: RailStep) -> QueryAnswer:
        if step.outcome == "refused":
            return _reject(step)
        if step.outcome == "never":
            return NeverTaken()
        if step.state == "calling":
            asked = structs.replace(step, state="asked", may_be_done=True)
            if not await self._memory.take(step, asked):
                return Taken()  # another worker has it
            step = asked
        found = await self._institution.read_refund(step.original_end_to_end_id or "", step.name_there or "")
        if found is not None:
            return await self._hear(step, found)
        if step.state != "minted" or not identifiers.is_outside_window(step.order_name, self._clock.now()):
            return Unknown()
        # Closed first: from then on nobody calls.
        never = structs.replace(step, state="closed", outcome="never")
        return NeverTaken() if await self._memory.take(step, never) else Taken()

    async def _hear(self, step: RailStep, refund: ListedRefund) -> Taken | Settled | Rejected:
        """What the institution lists of it is true, also where a row of ours cannot be taken further now."""
        if refund.amount_cents != step.amount_cents:
            _log.critical("an institution has a refund of ours with another amount", order=step.order_name)
            return Taken()
        if refund.status == "under_way":
            if step.state == "calling":
                await self._memory.take(step, structs.replace(step, state="asked", may_be_done=True))
            return Taken(network_id=refund.return_id)
        if refund.status == "returned":
            await self._end(step, _close(step, "answered"))
            return Settled(settled_at=refund.settled_at or self._clock.real_now(), network_id=refund.return_id)
        refused = _close(step, "refused", reject_code.NETWORK_FAILED, refund.reason or _NO_REASON)
        await self._end(step, refused)
        return structs.replace(_reject(refused), network_id=refund.return_id)

    async def _end(self, step: RailStep, closed: RailStep) -> None:
        if step.state != "closed":
            await self._memory.take(step, closed)


def _close(step: RailStep, outcome: Outcome, code: str | None = None, reason: str | None = None) -> RailStep:
    text = None if reason is None else reason[:_REASON_MAX]
    return structs.replace(step, state="closed", outcome=outcome, refusal_code=code, refusal_reason=text)


def _reject(step: RailStep) -> Rejected:
    return Rejected(code=step.refusal_code or reject_code.NETWORK_FAILED, reason=step.refusal_reason or _NO_REASON)
