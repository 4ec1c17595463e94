"""Steps of an order at an institution: its first of two steps, its report in a list, and its end."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import structs

from pixconnect.features.institutions.rules.institution import CertainRefusal, ListedRefund, Sender
from pixconnect.features.institutions.rules.pending_call import FirstStep, NamedPix, is_another_owner
from pixconnect.features.institutions.rules.rail_memory import (
    MemoryUnavailable,
    Outcome,
    OutgoingPix,
    RailMemory,
    RailStep,
    SentPix,
)
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.br_code import parse_br_code
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY, Party, parse_pix_key
from pixconnect.kernel.rules.rail import NotTaken, Order, Rejected, Settled, SubmitAnswer
from pixconnect.platform.base import errors


def is_code_of(text: str, pix: OutgoingPix) -> bool:
    """Whether a static code has this key and amount; a dynamic one's contents are at its location."""
    try:
        code = parse_br_code(text)
        if code.key is None:
            return code.location is not None
        key = parse_pix_key(code.key).key
    except (errors.InvalidQrCode, errors.InvalidPixKey):
        # An unreadable code cannot be compared, so it is not paid.
        return False
    # A static code may leave its amount to the payer.
    return code.fixed_amount_cents in (None, pix.amount_cents) and key == pix.payee.key


def as_sent(refund: ListedRefund) -> SentPix:
    """Return a refund in the form of a sent Pix: its network name is the return's."""
    return SentPix(
        name=refund.id,
        end_to_end_id=refund.return_id,
        amount_cents=refund.amount_cents,
        status="settled" if refund.status == "returned" else refund.status,
        settled_at=refund.settled_at,
        reason=refund.reason,
    )


NO_REASON: Final = "The institution gave no reason."
_REASON_MAX: Final = 1000


def doubt_step(calling: RailStep, reason: str) -> RailStep:
    """Record a refused call that the institution has not confirmed yet by its absence."""
    return structs.replace(calling, state="asked", may_be_done=True, refusal_reason=reason[:_REASON_MAX])


def end_step(step: RailStep, outcome: Outcome, code: str | None = None, reason: str | None = None) -> RailStep:
    text = None if reason is None else reason[:_REASON_MAX]
    return structs.replace(step, state="closed", outcome=outcome, refusal_code=code, refusal_reason=text)


def settle_by(step: RailStep, heard: SentPix, now: datetime) -> Settled:
    """Make the settlement with its payee: from the institution's report, or from its first step."""
    owner = dict(name=step.owner_name, tax_id=step.owner_tax_id)
    named = {member: text for member, text in owner.items() if text}
    paid = heard.paid or (structs.replace(UNKNOWN_PARTY, **named) if named else None)
    # Without a reported instant, it is that of our reading.
    return Settled(settled_at=heard.settled_at or now, network_id=heard.end_to_end_id, payee=paid)


def reject_by(step: RailStep) -> Rejected:
    return Rejected(code=step.refusal_code or reject_code.NETWORK_FAILED, reason=step.refusal_reason or NO_REASON)


_OTHER_OWNER: Final = "The key does not belong to the named owner, by the institution's answer before payment."


async def take_first_step(
    sender: Sender, memory: RailMemory, step: RailStep, pix: OutgoingPix
) -> RailStep | SubmitAnswer:
    """Run an order's first step, if it has none yet; return its new row, or its end.

    It moves nothing. So any failure or interruption counts as no call, and the step may be repeated.
    """
    if not isinstance(sender, FirstStep):
        return NotTaken()
    told = await sender.mint(pix)
    if isinstance(told, CertainRefusal):
        return await _refuse(memory, step, told.reject_code or reject_code.WRONG_CONTENTS, told.reason)
    # No answer, and nothing moved: the order stays unsent, and is tried again.
    if not isinstance(told, NamedPix):
        return NotTaken()
    minted = structs.replace(
        step, state="minted", code_there=told.code, owner_tax_id=told.owner_tax_id, owner_name=told.owner_name
    )
    # Recorded before it is used: of two processes, the second writes nothing, and uses the first one's name on its next try.
    return await _take(memory, step, minted) or NotTaken()


async def refuse_another(memory: RailMemory, step: RailStep, payee: Party) -> SubmitAnswer | None:
    """End an order whose key belongs to another owner than the caller named; ``None`` without such a report."""
    if step.state != "minted" or not is_another_owner(payee, step.owner_tax_id):
        return None
    return await _refuse(memory, step, reject_code.OTHER_OWNER, _OTHER_OWNER)


async def _refuse(memory: RailMemory, step: RailStep, code: str, reason: str) -> SubmitAnswer:
    """Final in any case, since no call was made that moves money; also if another worker has the row."""
    refused = end_step(step, "refused", code, reason)
    return NotTaken() if await _take(memory, step, refused) is None else reject_by(refused)


async def _take(memory: RailMemory, before: RailStep, after: RailStep) -> RailStep | None:
    try:
        return after if await memory.take(before, after) else None
    except MemoryUnavailable:
        return None


def write_pix(order: Order, step: RailStep) -> OutgoingPix:
    return OutgoingPix(
        name=step.name_there or "",
        amount_cents=step.amount_cents,
        payer_key=order.payer_key,
        payee=order.credit_party,
        is_by_key=order.initiation_type != "MANUAL",
        br_code=order.br_code,
        txid=order.txid,
        payer_message=order.payer_message,
        code=step.code_there,
    )
