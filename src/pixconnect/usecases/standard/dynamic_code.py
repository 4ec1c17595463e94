"""What a dynamic QR code asks for, and of whom, told to a payer who has not decided yet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money import br_code, pix_key
from pixconnect.domain.money import charge as charge_rules
from pixconnect.domain.money.charge_contents import LIFETIME_S, Line, Payer
from pixconnect.domain.money.holder import Party
from pixconnect.domain.standard.outside_location import LocationUnreachable
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.money import payee as payee_usecases
from pixconnect.usecases.money import prepared_transfer as prepared_usecases
from pixconnect.usecases.standard.payload import COB_STATUSES, CobStatus


class DynamicCode(Struct, frozen=True, kw_only=True):
    txid: str
    revision: int
    created_at: datetime
    lifetime_s: int
    status: CobStatus
    amount_cents: int
    """0 only if the payer chooses it."""
    key: str
    payee: Party
    payer: Payer | None = None
    question: str | None = None
    lines: Sequence[Line] = ()


class CodeIsStatic(errors.InvalidQrCode):
    """The code leads to no charge: it says itself all that there is to say."""


class CodeHasDueDate(errors.InvalidQrCode):
    """The code leads to a charge with a due date, of which this service knows too little."""


async def read_dynamic_code(context: Context, caller: Caller, text: str) -> DynamicCode:
    """Read the charge behind a code, and whose its key is; that costs the caller's tokens as a look-up does.

    Raises:
        InvalidQrCode: It is no code, or leads to nothing that can be read.
        PixKeyNotFound: The directory does not know the charge's key.
        RateLimited: The caller looked up too much and paid too little of it.
        ServiceUnavailable: The location or the directory cannot be reached.
    """
    code = br_code.parse_br_code(text)
    if code.location is None:
        raise CodeIsStatic("emv: is a static code")
    prefix = context.policy.location_prefix
    if code.location.startswith(prefix):
        return await _read_own(context, code.location.removeprefix(prefix))
    try:
        asked = await payee_usecases.read_outside(context, caller, code.location)
    except LocationUnreachable:
        raise errors.ServiceUnavailable("the code's location cannot be reached; nothing was done") from None
    if asked.has_due_date:
        raise CodeHasDueDate("emv: leads to a charge with a due date")
    payee = await prepared_usecases.find_key(context, caller, payee_usecases.key_of_code(asked.key))
    created_at = asked.created_at or context.clock.now()
    lifetime_s = LIFETIME_S if asked.expires_at is None else int((asked.expires_at - created_at).total_seconds())
    return DynamicCode(
        txid=asked.txid,
        revision=asked.revision,
        created_at=created_at,
        lifetime_s=lifetime_s,
        status=asked.status,
        amount_cents=asked.amount_cents or 0,
        key=asked.key,
        payee=payee,
        question=asked.question,
    )


async def _read_own(context: Context, path: str) -> DynamicCode:
    charge = await context.directory.find_served(path)
    if charge is None:
        raise errors.InvalidQrCode("emv: its location serves no charge")
    if await context.directory.find_owner(charge.key) != charge.holder_id:
        raise errors.PixKeyNotFound("emv: the Pix key of the charge behind the code was removed")
    if charge.due_on is not None:
        raise CodeHasDueDate("emv: leads to a charge with a due date")
    contents = charge_rules.read_contents(charge)
    # As the payload at the location, which tells no stranger for ever who is asked.
    tells_payer = COB_STATUSES[charge.status] == "ATIVA" and charge_rules.tells_payer(charge, context.clock.now())
    own = await context.directory.read_account(charge.holder_id)
    return DynamicCode(
        txid=charge.txid,
        revision=charge.revision or 0,
        created_at=charge.created_at,
        lifetime_s=contents.lifetime_s,
        status=COB_STATUSES[charge.status],
        amount_cents=contents.amount_cents,
        key=pix_key.parse_pix_key(contents.key).key,
        payee=own.party,
        payer=contents.payer if tells_payer else None,
        question=contents.question if tells_payer else None,
        lines=contents.lines if tells_payer else (),
    )
