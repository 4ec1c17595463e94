"""Charges with a due date made at the contract's door: its own names and errors for what the standard's door does by ``put``.

Such a charge is one for both doors. Its external id is its txid, since the standard's door calls it by that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from pixconnect.domain.due.day_amount import LAST_DAY_MAX
from pixconnect.domain.due.refused_term import RefusedTerm, TermReason, list_refused_terms
from pixconnect.domain.due.terms import DueTerms
from pixconnect.domain.frame import errors, money
from pixconnect.domain.frame.civil_time import to_day
from pixconnect.domain.frame.violation import Violated
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money import pix_key, tax_id
from pixconnect.domain.money.charge import Charge, read_contents
from pixconnect.domain.money.charge_contents import ChargeContents, Payer, say_the_same
from pixconnect.store.money import charge as charge_store
from pixconnect.store.standard import charge_revision as revision_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.money.charge_opening import explain_refusal
from pixconnect.usecases.standard.charge import put_charge
from pixconnect.usecases.standard.institution_charge import InstitutionViolated

_REASONS: Final[Mapping[TermReason, str]] = dict[TermReason, str](
    (
        ("before_today", "is before today in Sao Paulo"),
        ("too_late", f"is later than {LAST_DAY_MAX}"),
        ("negative", "is negative"),
        ("not_below_original", "must be less than the amount"),
        ("not_below_all", "must be less than 100 %"),
        ("missing", "is missing for this kind"),
        ("not_with_dates", "has no place in a kind that names dates"),
        ("not_with_days", "has no place in a kind by the day"),
        ("after_due_date", "is later than due_on"),
        ("date_again", "names a date twice"),
    )
)


class DueChargeRequest(Struct, frozen=True, kw_only=True):
    amount_cents: int
    key: str
    payer: Payer
    terms: DueTerms
    external_id: str | None = None
    """The charge's txid too."""


async def create_due_charge(context: Context, caller: Caller, request: DueChargeRequest) -> Charge:
    """Make a charge with a due date.

    Returns:
        The new charge; or the one that the same request made before, as it is now.

    Raises:
        RuleBroken: The amount, key or tax id may not be, or the external id was used with other contents.
        BadRequest: All that is wrong with the terms; or the payer has no name, or the holder no address, which the payer
            has to be shown.
        OutcomeUnknown: The commit was lost; repeat the request.
    """
    money.check_amount(request.amount_cents)
    tax_id.check_tax_id(request.payer.tax_id, "payer.tax_id")
    # The standard's door, which shows the charge too, knows no debtor without one.
    if not request.payer.name:
        raise errors.BadRequest("payer.name: must not be empty")
    contents = ChargeContents(
        # It ends with its last day, which its terms tell, and not after a span.
        lifetime_s=0,
        amount_cents=request.amount_cents,
        key=pix_key.parse_pix_key(request.key).key,
        payer=request.payer,
        due=request.terms,
    )
    try:
        return (await put_charge(context, caller, request.external_id, contents, is_new=True)).charge
    except errors.ExternalIdConflict:
        return await _find_replayed(context, caller, request.external_id or "", contents)
    except Violated as violated:
        raise _explain(context, contents, violated) from None


async def _find_replayed(context: Context, caller: Caller, external_id: str, contents: ChargeContents) -> Charge:
    charge = await charge_store.find_by_txid(context.pool, caller.holder_id, external_id)
    if charge is not None:
        made = read_contents(charge)
        # What the other door has made of it since then does not make the request another.
        if charge.revision:
            made = await revision_store.find(context.pool, charge.holder_id, charge.id, 0)
        if made is not None and say_the_same(made, contents):
            return charge
    raise errors.ExternalIdConflict("external_id: was used for a charge with other contents")


def _explain(context: Context, contents: ChargeContents, violated: Violated) -> errors.PixConnectError:
    """The refusal in the contract's words."""
    if isinstance(violated, InstitutionViolated):
        refusal = violated.refusal
        return errors.BadRequest(f"due_on: {refusal.reason}") if refusal.code == "due" else explain_refusal(refusal)
    places = {row.property.partition(".")[2] or row.property for row in violated.rows}
    if "txid" in places:
        return errors.ExternalIdConflict("external_id: was used for another charge")
    if "chave" in places:
        return errors.PixKeyNotOwned("key: is not a Pix key of this holder")
    if contents.due is not None:
        # Judged again, because what was raised names members and rules in the standard's words alone.
        refused = list_refused_terms(contents.due, contents.amount_cents, today=to_day(context.clock.now()))
        if refused:
            return errors.BadRequest("; ".join(map(_say, refused)))
    return errors.BadRequest(
        "the holder has no address, which a payer has to be shown: the operator sets it by `holder set`"
    )


def _say(refused: RefusedTerm) -> str:
    place = refused.member if refused.place is None else f"{refused.member}[{refused.place}]"
    return f"{place}: {_REASONS[refused.reason]}"
