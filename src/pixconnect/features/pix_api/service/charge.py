"""Charges of the standard API (``cob``, and ``cobv`` with a due date): put, patch, read, list, remove.

They are the charges of our own API too. That also creates charges with a due date, with its own names and errors for the
standard API's ``put``; the external id of such a charge is its txid, its name in the standard API.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from msgspec import structs

from pixconnect.features.due_charges.rules.day_amount import RefusedTerm, list_refused_terms
from pixconnect.features.institutions.rules.pending_call import ChargeChange
from pixconnect.features.institutions.service.charge_change import begin_change, remove_locked, want_change
from pixconnect.features.institutions.service.charge_opening import explain_refusal
from pixconnect.features.institutions.service.institution_charge import (
    InstitutionViolated,
    NewContents,
    judge_key,
    patch_at_institution,
    put_at_institution,
)
from pixconnect.features.institutions.service.pending_call import RefusedByInstitution
from pixconnect.features.institutions.tables.pending_call import CHANGES
from pixconnect.features.pix_api import tables as pix_store
from pixconnect.features.pix_api.rules import ChargeSearch
from pixconnect.features.pix_api.service import pix as standard_pix
from pixconnect.features.pix_api.service.charge_write import WRITE_CHARGES, ChargeWrite, StandardCharge
from pixconnect.features.pix_api.service.location import locate_charges
from pixconnect.features.pix_api.service.pix import Pix
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Context, Operator, write_alone
from pixconnect.kernel.flows.directory import OwnAccount
from pixconnect.kernel.rules import ability, br_code, holder, identifiers, money, tax_id
from pixconnect.kernel.rules import charge as charge_rules
from pixconnect.kernel.rules import location as location_rules
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge, may_be_changed, read_contents
from pixconnect.kernel.rules.charge_contents import ChargeContents, ContentsChange, are_equivalent
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.rules.location import LocationKind
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.writing.batch import Batch
from pixconnect.kernel.writing.unit_of_work import begin_work
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from pixconnect.platform.base.errors import Violated, Violation

NO_ADDRESS: Final = Violation(
    property=f"{location_rules.WITH_DUE_DATE}.recebedor",
    reason="o recebedor não tem endereço, que toda cobrança com vencimento mostra: o operador do serviço o define com "
    "`pixconnect holder set --street --city --state --postal-code`",
)


async def put_charge(
    context: Context,
    caller: Caller,
    txid: str | None,
    contents: ChargeContents,
    location_id: int | None = None,
    *,
    is_new: bool = False,
) -> StandardCharge:
    """Create a charge, or replace the contents of the one with this txid.

    Args:
        txid: If ``None``, the service generates one.
        is_new: Refuse an existing one, with any contents (``ExternalIdConflict``).

    Returns:
        The charge in its present state; it stays unchanged if it has these contents already, in any state.

    Raises:
        Violated: All conflicts with the present state.
        OutcomeUnknown: The commit was not answered; repeat it under this ``txid``.
    """
    kind = location_rules.AT_ONCE if contents.due is None else location_rules.WITH_DUE_DATE
    account = await context.directory.read_account(caller.holder_id)
    # Every charge with a due date shows its receiver in full.
    no_address = [NO_ADDRESS] if contents.due is not None and account.address is None else []
    if account.institution_id is not None:
        put = NewContents(txid=txid, contents=contents, location_id=location_id, is_new=is_new, violations=no_address)
        if (there := await put_at_institution(context, caller, account.institution_id, put)) is not None:
            return there
    ability.check_issues_codes(context.policy.abilities)
    txid = txid or identifiers.make_txid(context.clock.now(), context.entropy)
    write = await make_write(context, caller, account, txid, kind, contents.key, location_id)
    write.contents, write.is_new = contents, is_new
    write.violations = [*write.violations, *no_address]
    try:
        return await context.writes.submit(WRITE_CHARGES, write)
    except errors.OutcomeUnknown as unknown:
        # The caller can know our txids only from us.
        raise errors.OutcomeUnknown(unknown.message, txid) from unknown


async def patch_charge(
    context: Context,
    caller: Caller,
    txid: str,
    change: ContentsChange,
    *,
    kind: LocationKind = location_rules.AT_ONCE,
    location_id: int | None = None,
    removes: bool = False,
) -> StandardCharge:
    """Change a charge's contents or location, or remove it.

    Raises:
        NotFound: The charge does not exist.
        Violated: All conflicts with the present state.
    """
    account = await context.directory.read_account(caller.holder_id)
    if account.institution_id is not None:
        there = await patch_at_institution(context, caller, txid, change, kind=kind, location_id=location_id, removes=removes)
        if there is not None:
            return there
    write = await make_write(context, caller, account, txid, kind, change.key, location_id)
    write.change, write.removes = change, removes
    return await context.writes.submit(WRITE_CHARGES, write)


async def read_charge(
    context: Context, caller: Caller, txid: str, revision: int | None = None, kind: LocationKind = location_rules.AT_ONCE
) -> StandardCharge:
    charge = await find_charge(context, caller, txid, kind)
    contents, latest = charge_rules.read_contents(charge), charge.revision or 0
    if revision is not None and revision != latest:
        earlier = await charge_store.find_revision(context.pool, charge.holder_id, charge.id, revision)
        if earlier is None:
            reason = f"a cobrança não tem essa revisão; a mais recente é a {latest}"
            raise Violated(kind, [Violation(property="revisao", reason=reason, value=str(revision))])
        contents = earlier
    locations = await locate_charges(context, [charge])
    return StandardCharge(
        charge=charge, contents=contents, revision=latest if revision is None else revision, location=locations.get(charge.id)
    )


async def find_charge(context: Context, caller: Caller, txid: str, kind: LocationKind) -> Charge:
    """Find the charge; raises ``NotFound``, before anything else of a request is checked."""
    charge = await charge_store.find_by_txid(context.pool, caller.holder_id, txid)
    if charge is None or location_rules.location_kind_of(charge) != kind:
        raise errors.NotFound("txid: there is no such charge")
    return charge


async def make_write(
    context: Context, caller: Caller, own: OwnAccount, txid: str, kind: LocationKind, key: str | None, location_id: int | None
) -> ChargeWrite:
    """Make a charge write with all ids that it may need; its caller adds the contents."""
    violations = await judge_key(context, caller, key, kind)
    prefix = context.policy.location_prefix
    return ChargeWrite(
        holder_id=caller.holder_id,
        caller=caller,
        txid=txid,
        kind=kind,
        location_id=location_id,
        violations=violations,
        # Generated before the first try, needed or not: after a lost COMMIT the batch runs again with the same ids.
        charge_id=await context.ids.charge_id(),
        new_location_id=await context.ids.location_id(),
        new_token=context.entropy.token(location_rules.TOKEN_LENGTH),
        write_code=lambda path: br_code.format_dynamic_br_code(
            prefix + path, own.party.name, own.city, is_paid_once=kind == location_rules.AT_ONCE
        ),
    )


async def search_charges(context: Context, caller: Caller, search: ChargeSearch, span: Span) -> Page[StandardCharge]:
    """Read a page of the holder's charges, of both APIs, newest first."""
    page = await pix_store.search_charges(context.pool, caller.holder_id, search, span)
    locations = await locate_charges(context, page.items)
    return page.with_items([StandardCharge.of(charge, locations.get(charge.id)) for charge in page.items])


async def find_pix(context: Context, charges: Sequence[StandardCharge]) -> dict[int, Pix]:
    # Those of a predecessor's charges were paid to it.
    paid = [each.charge for each in charges if each.is_latest and each.charge.status in charge_rules.PAID]
    transfers: dict[int, Transfer] = {}
    for holder_id in {charge.holder_id for charge in paid}:
        of_holder = [charge.id for charge in paid if charge.holder_id == holder_id]
        transfers |= await transfer_store.find_all_paying(context.pool, holder_id, of_holder)
    shown = await standard_pix.show_all(context.pool, transfers.values())
    return {charge_id: shown[transfer.id] for charge_id, transfer in transfers.items()}


WAIT_MAX_S: Final = 20.0  # how long an operator waits for a worker and the institution
_LOOK_EVERY_S: Final = 0.2


async def remove_charge(context: Operator, holder_id: int, txid: str, wait_s: float = WAIT_MAX_S) -> Charge:
    """Remove a charge, so that it can no longer be paid; its holder gets an event that it has expired.

    A worker first removes one opened at an institution there.

    Raises:
        NotFound: The charge does not exist.
        BadRequest: It cannot be removed.
        OutcomeUnknown: The institution has not confirmed it yet: workers go on, and until then it can be paid.
    """
    async with write_alone(context.pool) as connection:
        # Locked before ids are taken, as for expiry. No other process is woken: workers poll by themselves.
        charges, _ = await charge_store.lock_by_txid(connection, [(txid, holder_id)])
        charge = errors.found(charges.get((txid, holder_id)), f"txid: holder {holder_id} has no such charge")
        if not may_be_changed(charge):
            held = " and a payment of it was accepted" if charge.held_by is not None else ""
            raise errors.BadRequest(f"txid: the charge is {charge.status}{held}: it cannot be removed")
        if charge.institution_id is None:
            work = await begin_work(Batch[Any]((), connection, context.clock))
            removed, change = remove_locked(work, charge, "REMOVED_BY_PSP"), None
            await work.write()
            before, after = {"status": charge.status}, {"status": removed.status}
        else:
            now = context.clock.real_now()
            wanted = structs.replace(want_change(charge, removal="REMOVED_BY_PSP"), due_at=now, created_at=now)
            try:
                change, _ = await begin_change(connection, charge, wanted)
            except RefusedByInstitution as refused:
                raise errors.BadRequest(f"txid: the charge cannot be removed: {refused.refusal.reason}") from None
            removed, change = charge, errors.require(change, "a removal is always a change")
            before, after = {"status": charge.status}, {"asked": change.removal}
        await audit.record(context, connection, "operator charge remove", f"charge {charge.id}", before=before, after=after)
    return removed if change is None else await _await_removal(context, change, wait_s)


async def _await_removal(context: Operator, change: ChargeChange, wait_s: float) -> Charge:
    until_s = context.clock.monotonic_s() + wait_s
    while context.clock.monotonic_s() < until_s:
        async with context.pool.acquire() as connection:
            found = errors.require(await CHANGES.find_again(connection, change), "no change is ever forgotten")
            if found.state == "done":
                charges, _ = await charge_store.lock(connection, [(change.charge_id, change.holder_id)])
                return charges[change.charge_id, change.holder_id]
        if found.state != "asked":
            reason = "it was paid at the institution" if found.state == "overtaken" else found.reason
            raise errors.BadRequest(f"txid: the charge was not removed: {reason}")
        await asyncio.sleep(_LOOK_EVERY_S)
    raise errors.OutcomeUnknown(
        "the institution has not confirmed yet that the charge is removed there: workers go on, and until then it can be paid"
    )


async def create_due_charge(context: Context, caller: Caller, contents: ChargeContents, external_id: str | None) -> Charge:
    """Create a charge with a due date and a payer; its external id is its txid too.

    Returns:
        The new charge; for a replay, the first request's charge in its present state.

    Raises:
        RuleBroken: The amount, key or tax id is not permitted, or the external id was used with other contents.
        BadRequest: All errors of the terms; or the payer has no name, or the holder no address, which payers must see.
        OutcomeUnknown: The commit was lost; repeat the request.
    """
    money.check_amount(contents.amount_cents)
    payer = errors.require(contents.payer, "it has a payer")
    tax_id.check_tax_id(payer.tax_id, "payer.tax_id")
    # The standard API, which shows the charge too, requires a debtor's name.
    if not payer.name:
        raise errors.BadRequest("payer.name: must not be empty")
    contents = structs.replace(contents, key=holder.parse_pix_key(contents.key).key)
    try:
        return (await put_charge(context, caller, external_id, contents, is_new=True)).charge
    except errors.ExternalIdConflict:
        return await _find_replayed(context, caller, external_id or "", contents)
    except Violated as violated:
        raise _explain(context, contents, violated) from None


async def _find_replayed(context: Context, caller: Caller, external_id: str, contents: ChargeContents) -> Charge:
    if (charge := await charge_store.find_by_txid(context.pool, caller.holder_id, external_id)) is not None:
        made = read_contents(charge)
        # Later changes through the other API do not make the request another one.
        if charge.revision:
            made = await charge_store.find_revision(context.pool, charge.holder_id, charge.id, 0)
        if made is not None and are_equivalent(made, contents):
            return charge
    raise errors.ExternalIdConflict("external_id: was used for a charge with other contents")


def _explain(context: Context, contents: ChargeContents, violated: Violated) -> errors.PixConnectError:
    if isinstance(violated, InstitutionViolated):
        refusal = violated.refusal
        return errors.BadRequest(f"due_on: {refusal.reason}") if refusal.code == "due" else explain_refusal(refusal)
    places = {row.property.partition(".")[2] or row.property for row in violated.rows}
    if "txid" in places:
        return errors.ExternalIdConflict("external_id: was used for another charge")
    if "chave" in places:
        return errors.PixKeyNotOwned("key: is not a Pix key of this holder")
    if contents.due is not None:
        # Checked again, because the raised error has only the standard's members and rules.
        refused = list_refused_terms(contents.due, contents.amount_cents, today=to_day(context.clock.now()))
        if refused:
            return errors.BadRequest("; ".join(map(_describe_term, refused)))
    return errors.BadRequest("the holder has no address, which a payer has to be shown: the operator sets it by `holder set`")


def _describe_term(refused: RefusedTerm) -> str:
    place = refused.member if refused.place is None else f"{refused.member}[{refused.place}]"
    return f"{place}: {refused.reason.english}"
