"""The rail that is an account at an institution: it sends Pix, and returns Pix received on it.

Sweeps (``features/institutions/service``) read incoming Pix and record them as reports, so this rail reports nothing itself,
and institutions expect no acknowledgement. The end of an order is queried by our name for it, a refund with its original.

Before each call its row is durably set to *calling*. After any outcome the row is advanced before the answer is returned. So if
the process is killed, a recorded result is queried again, and an unrecorded one for the first time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

import structlog
from msgspec import structs

from pixconnect.features.institutions.orders import (
    NO_REASON,
    as_sent,
    doubt_step,
    end_step,
    is_code_of,
    refuse_another,
    reject_by,
    settle_by,
    take_first_step,
    write_pix,
)
from pixconnect.features.institutions.rules import institution as port
from pixconnect.features.institutions.rules.account import ABILITIES
from pixconnect.features.institutions.rules.rail_memory import MemoryUnavailable, RailMemory, RailStep, SentPix, is_same_payee
from pixconnect.kernel.flows.no_rail import NoRail
from pixconnect.kernel.register import is_outside_window
from pixconnect.kernel.rules import rail, reject_code
from pixconnect.platform.base.clock import Clock

REPEATED_FOR: Final = timedelta(hours=12)  # for refunds, since the first call; later an unknown one is only queried
SILENT_AFTER: Final = timedelta(seconds=30)
"""A called order without an end for this long no longer blocks others; it is queried beside them."""
BELIEVED_AFTER: Final = timedelta(minutes=1)
"""Minimum time after a call with an unlisted refusal before its absence at the institution is trusted."""
LEAVES_WITHIN_S: Final = 30.0
"""A recorded call may leave within this time: after a longer stop, people may have ended its order."""
_TOO_LATE: Final = port.NotSent(reason="this process was stopped before the call left")
_A_MOMENT: Final = timedelta(minutes=1)
"""The span of received Pix that is read to test an institution without a balance call."""

_log = structlog.get_logger(__name__)


_Answer = SentPix | port.CertainRefusal | port.NotSent | port.UnknownOutcome
_Call = Callable[[RailStep, float], Awaitable[_Answer]]
"""A call of a row that is *calling*; it must leave by an instant of the monotonic clock."""


class RecordingRail(NoRail):
    """The rail of an account that is only read and recorded."""

    reason = "nothing is sent over accounts at institutions yet"

    async def acknowledge(self, acknowledgements: Sequence[rail.Acknowledgement]) -> None:
        """No-op: institutions expect no acknowledgement."""


class InstitutionRail(RecordingRail):
    abilities = ABILITIES

    def __init__(
        self, institution: port.Institution, memory: RailMemory, clock: Clock, sender: port.Sender | None = None
    ) -> None:
        super().__init__()
        self._institution = institution
        self._sender: port.Sender = sender or institution
        self._memory = memory
        self._clock = clock
        self._repeated_until = dict[str, float]()
        """Calls of this process that it alone may repeat, each until an instant of the monotonic clock."""

    async def submit(self, orders: Sequence[rail.Order]) -> list[rail.SubmitAnswer]:
        try:
            steps = await self._memory.open([order.end_to_end_id for order in orders])
        except MemoryUnavailable:
            return [rail.NotTaken() for _ in orders]
        # Sequentially: each must see those before it.
        return [await self._submit_in_turn(order, steps.get(order.end_to_end_id)) for order in orders]

    async def submit_refunds(self, orders: Sequence[rail.RefundOrder]) -> list[rail.SubmitAnswer]:
        try:
            steps = await self._memory.open([order.return_id for order in orders])
        except MemoryUnavailable:
            return [rail.NotTaken() for _ in orders]
        asked = (self._submit(steps.get(order.return_id), self._call_refund) for order in orders)
        return list(await asyncio.gather(*asked))

    async def query(self, ids: Sequence[str]) -> list[rail.QueryAnswer]:
        try:
            steps = await self._memory.open(ids)
        except MemoryUnavailable as error:
            raise rail.RailUnavailable("the record of calls to the institution cannot be read") from error
        return list(await asyncio.gather(*(self._ask(steps.get(name)) for name in ids)))

    async def check(self) -> None:
        try:
            if self._institution.traits.has_balance:
                await self._institution.read_balance()
            else:
                now = self._clock.real_now()
                await anext(self._institution.list_received(now - _A_MOMENT, now), None)
        except port.InstitutionUnavailable as error:
            raise rail.RailUnavailable(error.reason) from error

    async def _submit_in_turn(self, order: rail.Order, step: RailStep | None) -> rail.SubmitAnswer:
        if step is None or step.state not in ("new", "minted"):
            return await self._submit(step, partial(self._call_send, order))
        if not await self._may_begin():
            return rail.NotTaken()
        is_named_now = step.state == "new"
        if is_named_now and not self._is_late(step):
            named = await take_first_step(self._sender, self._memory, step, write_pix(order, step))
            if not isinstance(named, RailStep):
                return named
            step = named
        refused = await refuse_another(self._memory, step, order.credit_party) if self._names_first(step) else None
        return refused or await self._submit(step, partial(self._call_send, order), is_named_now=is_named_now)

    async def _may_begin(self) -> bool:
        """Whether an order may start: institutions advise to wait for the outcome of one before sending the next."""
        since = self._clock.real_now() - SILENT_AFTER
        try:
            return await self._memory.count_in_flight(since) < self._institution.traits.sends_at_once
        except MemoryUnavailable:
            return False

    async def _submit(self, step: RailStep | None, call: _Call, *, is_named_now: bool = False) -> rail.SubmitAnswer:
        if step is None:
            return rail.Unknown()
        if not self._may_call(step):
            return rail.AlreadyKnown()
        try:
            if not is_named_now and await self._may_be_forgotten(step):
                # A restored database may have lost the request, and a second call would do it twice.
                found = await self._read(step)
                if found is not None:
                    return await self._record_listed(step, found)
            now, began_s = self._clock.real_now(), self._clock.monotonic_s()
            calling = structs.replace(step, state="calling", called_at=step.called_at or now)
            if not await self._memory.take(step, calling):
                return rail.Unknown()
            self._note_call(calling)
            leaves_by_s = began_s + LEAVES_WITHIN_S
            is_late = self._clock.monotonic_s() > leaves_by_s
            return await self._conclude(calling, _TOO_LATE if is_late else await call(calling, leaves_by_s))
        except (MemoryUnavailable, port.InstitutionUnavailable):
            # The row may be in a call; so it is queried, and never given up as if it could not exist.
            return rail.Unknown()

    def _may_call(self, step: RailStep) -> bool:
        # An order whose id is too old for the network is no longer expected to leave.
        is_late = step.kind == "order" and self._is_late(step)
        return not step.only_asked and ((step.state == "minted" and not is_late) or self._may_repeat(step))

    def _is_late(self, step: RailStep) -> bool:
        return is_outside_window(step.order_name, self._clock.now())

    def _names_first(self, step: RailStep) -> bool:
        return step.kind == "order" and self._institution.traits.names_first

    def _repeated_for(self, step: RailStep) -> timedelta:
        """Return how long a call may be repeated: a source must say that a second one under the same name does nothing more."""
        traits = self._institution.traits
        if step.kind == "order":
            return traits.resend_for
        return REPEATED_FOR if traits.repeats_refunds else timedelta(0)

    async def _may_be_forgotten(self, step: RailStep) -> bool:
        if not self._repeated_for(step):
            return True
        # No source says how long a name is known; a request may come again long after the lost call.
        return self._is_listed(step) and step.state == "minted" and await self._memory.find_loss() is not None

    async def _is_worth_a_question(self, step: RailStep) -> bool:
        """Whether to query an order that waits for its first call.

        It is checked each second, and reading a list each time would use up the budget.
        """
        if self._names_first(step):
            return False  # it is queried before it is called
        return not self._is_listed(step) or await self._may_be_forgotten(step)

    def _is_listed(self, step: RailStep) -> bool:
        """Whether a list must be read because the code is unknown, and no query takes our name."""
        return step.kind == "order" and not self._institution.traits.resends_after_restart

    def _note_call(self, calling: RailStep) -> None:
        if self._is_listed(calling):
            now_s = self._clock.monotonic_s()
            first_s = now_s + self._institution.traits.resend_for.total_seconds()
            until_s = self._repeated_until.get(calling.order_name, now_s) if calling.may_be_done else first_s
            young = {name: end_s for name, end_s in self._repeated_until.items() if now_s < end_s}
            self._repeated_until = young | {calling.order_name: until_s}

    def _may_repeat(self, step: RailStep) -> bool:
        # A clock that is set back makes nothing young again.
        until_s = self._repeated_until.get(step.order_name, 0.0)
        if self._is_listed(step) and self._clock.monotonic_s() >= until_s:
            return False
        # A reported or refused one is only queried: a person at the institution may have ended it since.
        if step.code_there is not None or step.refusal_reason is not None:
            return False
        repeated_for = self._repeated_for(step)
        # Another worker's clock may have been ahead: what must not be repeated is not young either.
        is_young = step.called_at is not None and self._clock.real_now() < step.called_at + repeated_for
        return bool(repeated_for) and is_young and step.state == "asked" and not step.only_asked

    async def _call_refund(self, step: RailStep, leaves_by_s: float) -> _Answer:
        answer = await self._institution.refund(step.original_end_to_end_id or "", step.name_there or "", step.amount_cents)
        return as_sent(answer) if isinstance(answer, port.ListedRefund) else answer

    async def _call_send(self, order: rail.Order, step: RailStep, leaves_by_s: float) -> _Answer:
        pix = write_pix(order, step)
        if order.initiation_type == "QRCODE":
            if order.br_code is None or not is_code_of(order.br_code, pix):
                # Never by its key alone: the charge that it pays would be unknown.
                return port.NotSent(reason="the code is not the one that was accepted")
            # The institution may have to read it first.
            pix = structs.replace(pix, not_after_s=leaves_by_s)
        if step.may_be_done and self._is_listed(step):
            # Its name is valid for a limited time, and we may be stopped before it leaves, or wait for a token.
            pix = structs.replace(pix, not_after_s=self._repeated_until[step.order_name])
        return await self._sender.send(pix)

    async def _read(self, step: RailStep) -> SentPix | None:
        if step.kind == "order":
            lost_since = None if step.code_there is not None else await self._memory.find_loss()
            called_at = step.called_at or step.created_at
            since = called_at if lost_since is None else min(called_at, lost_since)
            return await self._sender.read_sent(step.name_there or "", step.code_there, since)
        refund = await self._institution.read_refund(step.original_end_to_end_id or "", step.name_there or "")
        return None if refund is None else as_sent(refund)

    async def _conclude(self, calling: RailStep, answer: _Answer) -> rail.SubmitAnswer:
        match answer:
            case SentPix():
                return await self._record_listed(calling, answer)
            case port.CertainRefusal() if not calling.may_be_done:
                return await self._believe(calling, answer)
            case port.NotSent() if not calling.may_be_done:
                # Nothing was called.
                back = structs.replace(calling, state="minted", called_at=None)
                return rail.NotTaken() if await self._memory.take(calling, back) else rail.Unknown()
            case port.UnknownOutcome(is_refusal=True) if not calling.may_be_done:
                await self._memory.take(calling, doubt_step(calling, answer.reason))
                return rail.Unknown()
            # An earlier call of it may have been executed, with any outcome of this one.
            case port.CertainRefusal() | port.NotSent() | port.UnknownOutcome():
                await self._memory.take(calling, structs.replace(calling, state="asked", may_be_done=True))
                return rail.Unknown()

    async def _believe(self, calling: RailStep, refusal: port.CertainRefusal) -> rail.SubmitAnswer:
        """Whether to trust a refusal: after a restore, an earlier lost call may have caused it."""
        step = calling
        # The list was read before this call, if anything can be lost; a spent budget must leave no refusal open.
        if not self._is_listed(calling):
            # If the query fails now, or the process ends, it is trusted a minute later; a second refusal would prove nothing.
            step = doubt_step(calling, refusal.reason)
            if not await self._memory.take(calling, step):
                return rail.Unknown()
            if (found := await self._read(step)) is not None:
                return await self._record_listed(step, found)
        refused = end_step(step, "refused", refusal.reject_code or reject_code.WRONG_CONTENTS, refusal.reason)
        return reject_by(refused) if await self._memory.take(step, refused) else rail.Unknown()

    async def _ask(self, step: RailStep | None) -> rail.QueryAnswer:
        try:
            return rail.Unknown() if step is None else await self._ask_about(step)
        # The institution may have it: nothing is resent before its answer.
        except (MemoryUnavailable, port.InstitutionUnavailable):
            return rail.Taken()

    async def _ask_about(self, step: RailStep) -> rail.QueryAnswer:
        if step.outcome in ("refused", "never"):
            return rail.NeverTaken() if step.outcome == "never" else reject_by(step)
        if step.state == "calling":
            asked = structs.replace(step, state="asked", may_be_done=True)
            if not await self._memory.take(step, asked):
                return rail.Taken()  # another worker has it
            step = asked
        # If queries by our name are impossible, repeating returns the code at once; a list would show it later.
        if self._is_listed(step) and self._may_repeat(step):
            return rail.Unknown(is_repeatable=True)
        is_late = self._is_late(step)
        if step.state in ("new", "minted") and not is_late and not await self._is_worth_a_question(step):
            return rail.Unknown()
        found = await self._read(step)
        return await (self._judge_absent(step, is_late=is_late) if found is None else self._record_listed(step, found))

    async def _judge_absent(self, step: RailStep, *, is_late: bool) -> rail.QueryAnswer:
        # If it was open at a loss, another call may be lost, which was not refused.
        is_doubted = step.state == "asked" and step.refusal_reason is not None and not step.only_asked
        if is_doubted and step.called_at is not None and self._clock.real_now() >= step.called_at + BELIEVED_AFTER:
            refused = end_step(step, "refused", reject_code.WRONG_CONTENTS, step.refusal_reason)
            return reject_by(refused) if await self._memory.take(step, refused) else rail.Taken()
        is_called = step.state not in ("new", "minted")
        if is_called and self._names_first(step):
            # The network named it before the call; after any outcome, this reports nothing but its name.
            return rail.Unknown(network_id=step.code_there)
        if is_called or not is_late:
            # Each call is durably dated, so a restart of the database does not end the time for repeating it.
            return rail.Unknown(is_repeatable=self._may_repeat(step))
        # Closed first: from then on no call is made.
        never = structs.replace(step, state="closed", outcome="never")
        return rail.NeverTaken() if await self._memory.take(step, never) else rail.Taken()

    async def _record_listed(self, step: RailStep, listed: SentPix) -> rail.Taken | rail.Settled | rail.Rejected:
        """Record the institution's list, which is the truth, even if one of our rows cannot be advanced now."""
        if listed.amount_cents not in (None, step.amount_cents) or not is_same_payee(listed.payee, step.payee):
            # Neither an end of the order nor a reason to resend it: an operator has to look.
            _log.critical("an institution has one of our orders with other contents", order=step.order_name)
            await self._note_done(step, listed.code)
            return rail.Taken()
        if listed.code is not None and step.code_there not in (None, listed.code):
            _log.critical("an institution has one of our orders twice", order=step.order_name, code=listed.code)
            return rail.Taken()
        if listed.status == "under_way":
            await self._note_done(step, listed.code)
            return rail.Taken(network_id=listed.end_to_end_id, waits_for=listed.waits_for)
        if listed.status == "settled":
            await self._end(step, end_step(step, "answered"))
            return settle_by(step, listed, self._clock.real_now())
        code = listed.reject_code or reject_code.NETWORK_FAILED
        refused = end_step(step, "refused", code, listed.reason or NO_REASON)
        await self._end(step, refused)
        return structs.replace(reject_by(refused), network_id=listed.end_to_end_id)

    async def _note_done(self, step: RailStep, code: str | None) -> None:
        """Record that the institution has it: it was called, even if a restored database has lost that."""
        if step.state == "minted":
            calling = structs.replace(step, state="calling", called_at=self._clock.real_now(), may_be_done=True)
            if not await self._memory.take(step, calling):
                return
            step = calling
        code_there = step.code_there or code
        if step.state == "calling" or (step.state == "asked" and code_there != step.code_there):
            asked = structs.replace(step, state="asked", may_be_done=True, code_there=code_there)
            await self._memory.take(step, asked)

    async def _end(self, step: RailStep, closed: RailStep) -> None:
        if step.state != "closed":
            await self._memory.take(step, closed)
