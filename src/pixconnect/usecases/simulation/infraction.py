"""How somebody outside contests a Pix of the holder who asks, and how the sandbox, which is its institution, decides."""

from __future__ import annotations

from typing import Literal

from pixconnect.domain.frame import errors, money
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money import kept_report
from pixconnect.domain.money.block_report import InfractionReason, InfractionReport, Situation
from pixconnect.domain.simulation import sandbox_control
from pixconnect.domain.simulation.sandbox_control import Judged, OutsideDecision, OutsideInfraction
from pixconnect.store.money import block as block_store
from pixconnect.store.money import infraction as infraction_store
from pixconnect.store.money import ledger as ledger_store
from pixconnect.store.money import transfer as transfer_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.simulation.sandbox import call


async def open_infraction(
    context: Context,
    caller: Caller,
    end_to_end_id: str,
    amount_cents: int | None,
    *,
    reason: InfractionReason,
    situation: Situation,
    words: str | None,
    judged: Judged,
) -> InfractionReport:
    """Contest a received Pix; as much of it is blocked as the institution has of the holder and has not blocked yet.

    Raises:
        OriginalNotRefundable: It is no Pix that this holder received over the rail.
        BadRequest: More is contested than the Pix was.
    """
    if amount_cents is not None:
        money.check_amount(amount_cents)
    if words is not None and not kept_report.is_text(words):
        raise errors.BadRequest("words: holds a character that is no text")
    transfer = await transfer_store.find_by_end_to_end_id(context.pool, caller.holder_id, end_to_end_id)
    if transfer is None or transfer.direction != "IN" or transfer.is_book or transfer.settled_at is None:
        raise errors.OriginalNotRefundable("end_to_end_id: is not a Pix that this holder received over the rail")
    asked = OutsideInfraction(
        end_to_end_id=transfer.end_to_end_id,
        party=(await context.directory.read_account(caller.holder_id)).party,
        amount_cents=amount_cents,
        funds_cents=await _find_funds_cents(context, caller.holder_id),
        reason=reason,
        situation=situation,
        words=words,
        judged=judged,
    )
    return await call(context, sandbox_control.OPEN_INFRACTION, asked)


async def _find_funds_cents(context: Context, holder_id: int) -> int:
    """What the institution has of the holder's: more than is available here, where orders are under way.

    What it has blocked because of contests is counted by itself, which opens one after the other.
    """
    balance = errors.require(await ledger_store.find_balance(context.pool, holder_id), "each holder has one")
    blocks = await block_store.list_open(context.pool, [holder_id])
    held_cents = sum(block.held_cents for block in blocks if (block.kind, block.institution_id) != ("med", None))
    return max(0, balance.current_cents - balance.deficit_cents - held_cents)


async def decide_infraction(
    context: Context, caller: Caller, name: str, decision: Literal["take", "release", "hold"], amount_cents: int | None
) -> InfractionReport:
    """Decide one of this holder's by hand; ``name`` is the institution's."""
    if amount_cents is not None:
        money.check_amount(amount_cents)
    if not await infraction_store.is_of_holder(context.pool, caller.holder_id, name):
        raise errors.NotFound("id: there is no such infraction")
    asked = OutsideDecision(name=name, decision=decision, amount_cents=amount_cents)
    return await call(context, sandbox_control.DECIDE_INFRACTION, asked)
