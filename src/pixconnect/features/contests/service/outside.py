"""What the sandbox makes of contests: outside payers contest Pix, and the holder's institution decides."""

from typing import Literal

from pixconnect.features.contests import tables as infraction_store
from pixconnect.features.contests.rules.infraction import (
    DECIDE_INFRACTION,
    OPEN_INFRACTION,
    Judged,
    OutsideDecision,
    OutsideInfraction,
)
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.sandbox.service import sandbox
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules import kept_report, money
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.block_report import InfractionReason, InfractionReport, Situation
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base import errors


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
    """Contest a received Pix; the institution's unblocked money of the holder is blocked as far as it suffices.

    Raises:
        OriginalNotRefundable: It is no Pix that this holder received over the rail.
        BadRequest: The contested amount exceeds the Pix.
    """
    if amount_cents is not None:
        money.check_amount(amount_cents)
    if words is not None and not kept_report.is_text(words):
        raise errors.BadRequest("words: holds a character that is no text")
    transfer = await transfer_store.find_by_end_to_end_id(context.pool, caller.holder_id, end_to_end_id)
    if transfer is None or transfer.direction != "IN" or transfer.is_book or transfer.settled_at is None:
        raise errors.OriginalNotRefundable("end_to_end_id: is not a Pix that this holder received over the rail")
    # The holder's money at the institution: more than is available here, while orders are pending. The sandbox itself counts
    # blocks for contests, which opens one after the other.
    balance = errors.require(await ledger_store.find_balance(context.pool, caller.holder_id), "each holder has one")
    blocks = await movement_store.list_open_blocks(context.pool, [caller.holder_id])
    held_cents = sum(block.held_cents for block in blocks if (block.kind, block.institution_id) != ("med", None))
    asked = OutsideInfraction(
        end_to_end_id=transfer.end_to_end_id,
        party=(await context.directory.read_account(caller.holder_id)).party,
        amount_cents=amount_cents,
        funds_cents=max(0, balance.current_cents - balance.deficit_cents - held_cents),
        reason=reason,
        situation=situation,
        words=words,
        judged=judged,
    )
    return await sandbox.call(context, OPEN_INFRACTION, asked)


async def decide_infraction(
    context: Context, caller: Caller, name: str, decision: Literal["take", "release", "hold"], amount_cents: int | None
) -> InfractionReport:
    """Decide one of this holder's by hand; ``name`` is the institution's."""
    if amount_cents is not None:
        money.check_amount(amount_cents)
    if not await infraction_store.is_of_holder(context.pool, caller.holder_id, name):
        raise errors.NotFound("id: there is no such infraction")
    asked = OutsideDecision(name=name, decision=decision, amount_cents=amount_cents)
    return await sandbox.call(context, DECIDE_INFRACTION, asked)
