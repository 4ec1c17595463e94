"""The charge behind a dynamic code, for a client that looks before it pays."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from pixconnect.features.locations.service import COB_STATUSES, CobStatus
from pixconnect.kernel.flows import payee as payee_usecases
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules import br_code, holder
from pixconnect.kernel.rules import charge as charge_rules
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge_contents import LIFETIME_S, Line, Payer
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.location import LocationUnreachable
from pixconnect.platform.base import errors


class DynamicCode(Struct, frozen=True, kw_only=True):
    txid: str
    revision: int
    created_at: datetime
    lifetime_s: int
    status: CobStatus
    amount_cents: int  # 0 only if the payer chooses it
    key: str
    payee: Party
    payer: Payer | None = None
    question: str | None = None
    lines: Sequence[Line] = ()


class CodeIsStatic(errors.InvalidQrCode):
    """The code leads to no charge: it has all data itself."""


class CodeHasDueDate(errors.InvalidQrCode):
    """The code leads to a charge with a due date, about which this service has too few facts."""


async def read_dynamic_code(context: Context, caller: Caller, text: str) -> DynamicCode:
    """Read the charge behind a code, and its key's owner; that costs the caller's tokens as a look-up does.

    Raises:
        InvalidQrCode: It is no code, or leads to nothing readable.
        PixKeyNotFound: The directory does not have the charge's key.
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
    _, payee = await payee_usecases.look_up_key(context, caller, payee_usecases.key_of_code(asked.key))
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
    # As the payload at the location, which hides the debtor from strangers after the end.
    shows_payer = COB_STATUSES[charge.status] == "ATIVA" and charge_rules.shows_payer(charge, context.clock.now())
    own = await context.directory.read_account(charge.holder_id)
    return DynamicCode(
        txid=charge.txid,
        revision=charge.revision or 0,
        created_at=charge.created_at,
        lifetime_s=contents.lifetime_s,
        status=COB_STATUSES[charge.status],
        amount_cents=contents.amount_cents,
        key=holder.parse_pix_key(contents.key).key,
        payee=own.party,
        payer=contents.payer if shows_payer else None,
        question=contents.question if shows_payer else None,
        lines=contents.lines if shows_payer else (),
    )
