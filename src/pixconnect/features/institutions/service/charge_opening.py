"""Charges that an institution opens: ``pending_call`` makes the call, and a charge appears only with its code.

A charge finally refused opens again under the same name and txid. With the account's ``static_fallback``, a charge that is
unknown at the timeout or was not sent gets a static code instead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

import asyncpg
from msgspec import Struct, structs

from pixconnect.features.institutions.rules import institution as port
from pixconnect.features.institutions.rules import pending_call as call_rules
from pixconnect.features.institutions.service import pending_call as calls
from pixconnect.features.institutions.service.charge_change import want_change
from pixconnect.features.institutions.tables import pending_call as call_store
from pixconnect.features.institutions.tables.pending_call import OPENINGS
from pixconnect.kernel.flows.context import Context, or_unknown, write_alone
from pixconnect.kernel.rules import br_code, identifiers
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge, ChargeRequest, announce_charge, open_standard_charge, read_contents
from pixconnect.kernel.rules.charge_contents import ChargeContents, are_equivalent, find_expiry, read_fields
from pixconnect.kernel.rules.identifiers import fingerprint, was_made_by
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables.charge import CHARGES
from pixconnect.kernel.tables.origin import ORIGINS, Asked
from pixconnect.kernel.tables.table import find_refusal
from pixconnect.kernel.writing.unit_of_work import UnitOfWork, begin_work
from pixconnect.platform.base import errors

REMOVED_THERE: Final = port.CertainRefusal(
    code="txid", reason="the charge of this txid was removed at the institution", member="txid"
)
WITHOUT_CODE: Final = port.UnknownOutcome(reason="the institution shows it without a code by which it could be paid")


class NewOpening(Struct, frozen=True, kw_only=True):
    """A checked charge to be opened; the contract's API names it by ``external_id``, the standard's by its txid."""

    contents: ChargeContents
    asked_by: Caller
    external_id: str | None = None
    txid: str | None = None  # if ``None``, the service generates one
    request: ChargeRequest | None = None  # the request of the contract's API

    def was_made_as(self, found: Charge | call_rules.ChargeOpening) -> bool:
        """Whether the existing charge of this name is the result of the same request."""
        if self.request is not None:
            return was_made_by(found.fingerprint, self.request)
        contents = read_contents(found) if isinstance(found, Charge) else found.contents
        return found.txid == self.txid and are_equivalent(contents, self.contents)


def want_charge(context: Context, caller: Caller, request: ChargeRequest, key: str) -> NewOpening:
    """Make the opening of a checked request of the contract's API; ``key`` is normalised."""
    contents = ChargeContents(lifetime_s=context.policy.charge_lifetime_s, **read_fields(request, key=key))
    return NewOpening(contents=contents, asked_by=caller, external_id=request.external_id, request=request)


async def open_at_institution(context: Context, caller: Caller, new: NewOpening, institution_id: int) -> Charge:
    """Open a charge at the account that has the caller's money.

    Raises:
        ExternalIdConflict: The name was used with other contents, or another holder of the account has the txid.
        RefusedByInstitution: The institution refuses it.
        ServiceUnavailable: The account is paused, or nothing was sent; nothing was done.
        OutcomeUnknown: The institution has not answered in time: the same request gets the charge once it is known.
    """
    made = await _find_made(context, caller, new)
    if isinstance(made, Charge):
        return made
    if made is not None:
        return await calls.await_end(context, OPENING_CALLS, made)
    opened = await calls.require_account(context, institution_id)
    if (fault := call_rules.find_known_refusal(opened.institution.traits, new.contents)) is not None:
        raise calls.RefusedByInstitution(fault)
    opening = await _begin(context, caller, new, opened)
    if opening is None:
        named = None if new.txid is None else await call_store.find_opening_of_txid(context.pool, institution_id, new.txid)
        if named is not None and named.holder_id != caller.holder_id:
            raise errors.ExternalIdConflict("txid: another charge of the account at the institution has it")
        return await open_at_institution(context, caller, new, institution_id)
    terms = call_rules.write_terms(opening.txid, opening.contents)
    answer = await calls.call_once(OPENING_CALLS, opening, _open(opened.institution, terms))
    # A static code has one amount for ever: no due date, no fine and no end.
    may_fall_back = opened.account.options.get("static_fallback") is True and opening.contents.due is None
    if may_fall_back and isinstance(answer, port.NotSent | port.UnknownOutcome):
        with or_unknown(unknown_outcome(opening)):
            return await fall_back(context, opening, answer)
    return await calls.answer_caller(context, OPENING_CALLS, opening, answer)


async def ask_about_paid(context: Context, opened: port.OpenAccount, txids: Sequence[str]) -> Collection[str]:
    """Query charges now whose payments are listed while their opening is unknown.

    Returns:
        The txids that are still unknown: their payments wait for a later reading, as long as an opening may still arrive.
    """
    now = context.clock.real_now()
    waiting = set[str]()
    for opening in await call_store.take_named(context.pool, opened.account.id, txids, now + call_rules.TAKEN_FOR):
        is_known = await calls.ask_again(context, opened, OPENING_CALLS, opening)
        if not is_known and now - opening.created_at < call_rules.ABSENT_FOR:
            waiting.add(opening.txid)
    return waiting


async def _find_made(context: Context, caller: Caller, new: NewOpening) -> Charge | call_rules.ChargeOpening | None:
    """Find the earlier or pending result of the same request."""
    name = new.external_id or new.txid
    if name is None:
        return None
    charge = await charge_store.find_by_external_id(context.pool, caller.holder_id, name)
    found = charge or await call_store.find_opening(context.pool, caller.holder_id, name)
    if found is not None and not new.was_made_as(found):
        raise errors.ExternalIdConflict("external_id: was used for a charge with other contents")
    return found


async def _begin(
    context: Context, caller: Caller, new: NewOpening, opened: port.OpenAccount
) -> call_rules.ChargeOpening | None:
    """Record the opening; ``None`` if another process has taken its name or txid meanwhile."""
    external_id, txid = new.external_id or new.txid, new.txid
    if txid is None and external_id is not None:
        # A refused charge opens again under the same txid: if the refused one exists after all, it is this one.
        txid = await call_store.find_refused_txid(context.pool, caller.holder_id, external_id)
    txid = txid or identifiers.make_txid(context.clock.now(), context.entropy)
    if external_id is None:
        # The standard's API names a charge by its txid.
        external_id = txid if new.request is None else context.entropy.uuid7()
    now = context.clock.real_now()
    opening = call_rules.ChargeOpening(
        charge_id=await context.ids.charge_id(),
        holder_id=caller.holder_id,
        institution_id=opened.account.id,
        external_id=external_id,
        txid=txid,
        state="opening",
        contents=new.contents,
        asked_by=call_rules.strip_rights(new.asked_by),
        # A charge of the standard's API is no replay of any request of the contract's.
        fingerprint=b"" if new.request is None else fingerprint(new.request),
        refusal_code=None,
        refusal_reason=None,
        calls_count=1,
        due_at=now + call_rules.WORKER_AFTER,
        created_at=now,
    )
    try:
        async with write_alone(context.pool) as connection:
            # This process's copy of the account may be a second old, and an opening on a closed account would never end.
            if not await call_store.may_begin(connection, opening.holder_id, opening.institution_id):
                raise calls.explain_pause()
            return opening if await call_store.insert_opening(connection, opening) else None
    except asyncpg.IntegrityConstraintViolationError as refused:
        # The holder was succeeded, or moved to another account, between that check and the insert.
        if refusal := find_refusal(refused):
            raise refusal from None
        raise


async def _ask(_: Context, institution: port.Institution, opening: call_rules.ChargeOpening) -> port.OpeningAnswer:
    terms = call_rules.write_terms(opening.txid, opening.contents)
    try:
        there = await institution.read_charge(opening.txid, has_due_date=terms.due is not None)
    except port.InstitutionUnavailable as error:
        return port.UnknownOutcome(reason=error.reason)
    if there is None:
        there = await _open(institution, terms)
        if not isinstance(there, port.OpenedCharge):
            return there
    if there.status in ("removed_by_us", "removed_by_institution"):
        return REMOVED_THERE
    if there.is_as_asked(terms):
        return there if there.has_code else WITHOUT_CODE
    return port.CertainRefusal(code="txid", reason="another charge has this txid at the institution", member="txid")


async def _open(institution: port.Institution, terms: port.ChargeTerms) -> port.OpeningAnswer:
    answer = await institution.open_charge(terms)
    # It is open at the institution, and may be shown with its code later.
    return WITHOUT_CODE if isinstance(answer, port.OpenedCharge) and not answer.has_code else answer


async def _settle(
    context: Context, opening: call_rules.ChargeOpening, answer: port.OpeningAnswer
) -> Charge | port.UnknownOutcome | None:
    match answer:
        case port.OpenedCharge(status="removed_by_us" | "removed_by_institution"):
            return port.UnknownOutcome(reason=REMOVED_THERE.reason)
        case port.OpenedCharge():
            return await finish(context, opening, answer)
        case port.CertainRefusal(code=code, reason=reason):
            async with write_alone(context.pool) as connection:
                await call_store.refuse(connection, opening, code, reason)
            return None
        case port.NotSent(reason=reason) | port.UnknownOutcome(reason=reason):
            return port.UnknownOutcome(reason=reason)


def _explain_end(ended: call_rules.ChargeOpening) -> Exception | None:
    match ended.state:
        case "refused":
            refusal = port.CertainRefusal(code=ended.refusal_code or "", reason=ended.refusal_reason or "")
            return calls.RefusedByInstitution(refusal)
        case "given_up":
            return errors.ServiceUnavailable("the institution could not be asked, or the account is closed: there is no charge")
        case "opened" | "opening":
            return None


async def finish(context: Context, opening: call_rules.ChargeOpening, there: port.OpenedCharge) -> Charge | None:
    """Write the charge that the institution has opened; ``None`` if the opening has ended otherwise meanwhile."""
    account = await context.directory.read_account(opening.holder_id)
    code = there.code
    if code is None and there.location is not None:
        is_paid_once = there.due is None
        name, city = account.party.name, account.city
        code = br_code.format_dynamic_br_code(there.location, name, city, is_paid_once=is_paid_once)
    code = errors.require(code, "an institution opened a charge that cannot be paid: it has no code and no location")
    # The institution's clock decides until when it can be paid.
    contents = structs.replace(opening.contents, lifetime_s=there.lifetime_s)
    async with context.writes.transaction() as batch:
        # Under the opening's lock: the caller's process and a worker may both have its result, and one of them writes the
        # charge.
        locked = await OPENINGS.lock(batch.connection, opening)
        if locked is None or locked.state != "opening":
            return await charge_store.find_by_id(context.pool, opening.holder_id, opening.charge_id)
        work = await begin_work(batch)
        charge = _write_charge(work, opening, contents, code, counted_from=there.created_at)
        await work.write()
        await call_store.note_opened(batch.connection, opening, network_txid=there.network_txid)
    return charge


def _write_charge(
    work: UnitOfWork, opening: call_rules.ChargeOpening, contents: ChargeContents, code: str, *, counted_from: datetime
) -> Charge:
    charge = open_standard_charge(opening.charge_id, opening.holder_id, opening.txid, contents, code, work.now)
    charge = structs.replace(
        charge,
        external_id=opening.external_id,
        fingerprint=opening.fingerprint or charge.fingerprint,
        expires_at=find_expiry(contents, counted_from),
        institution_id=opening.institution_id,
    )
    work.put(CHARGES, charge)
    if opening.asked_by is not None:
        work.put(ORIGINS, Asked("charge", charge.id, charge.created_at, opening.asked_by))
    work.announce(announce_charge, charge, "qrcode.pending")
    return charge


async def fall_back(context: Context, opening: call_rules.ChargeOpening, answer: port.NotSent | port.UnknownOutcome) -> Charge:
    """Write the charge with a static code, which it keeps; a possible charge there is withdrawn, never completed."""
    account = await context.directory.read_account(opening.holder_id)
    wanted, reference = opening.contents, context.entropy.token(call_rules.REFERENCE_LENGTH)
    code = br_code.format_static_br_code(
        wanted.key, account.party.name, account.city, amount_cents=wanted.amount_cents, txid=reference
    )
    async with context.writes.transaction() as batch:
        locked = await OPENINGS.lock(batch.connection, opening)
        if locked is None or locked.state != "opening":
            # A worker has found it meanwhile.
            found = await charge_store.find_by_id(context.pool, opening.holder_id, opening.charge_id)
            if found is None:
                raise unknown_outcome(opening)
            return found
        work = await begin_work(batch)
        charge = _write_charge(work, opening, wanted, code, counted_from=work.now)
        await work.write()
        await call_store.note_opened(batch.connection, opening, reference=reference)
        # Only a charge that was certainly never sent needs no withdrawal, and a worker may have called since.
        if isinstance(answer, port.UnknownOutcome) or locked.calls_count > opening.calls_count:
            now = context.clock.real_now()
            # While it may still arrive there, its absence proves nothing.
            withdrawal = structs.replace(want_change(charge), kind="withdraw", due_at=now, created_at=now)
            await call_store.insert_change(batch.connection, withdrawal)
    return charge


def unknown_outcome(opening: call_rules.ChargeOpening) -> errors.OutcomeUnknown:
    return errors.OutcomeUnknown(
        f"the institution has not answered yet whether the charge of external_id {opening.external_id} is open: the same "
        "request under it gets the charge once that is known",
        opening.txid,
    )


def explain_refusal(refusal: port.CertainRefusal) -> errors.RuleBroken:
    """Return the contract's nearest refusal."""
    member, text = refusal.member or "", f"the institution refuses it: {refusal.reason or refusal.code}"
    if "chave" in member:
        return errors.PixKeyNotOwned(f"key: {text}")
    if "valor" in member:
        return errors.AmountOutOfRange(f"amount: {text}")
    if "calendario" in member and "expiracao" not in member:
        return errors.InvalidQrCode(f"due_on: {text}")
    if "devedor" in member:
        return errors.InvalidTaxId(f"payer.tax_id: {text}")
    if "expiracao" in member:
        return errors.InvalidQrCode(f"expiry: {text}")
    return errors.InvalidQrCode(text)


OPENING_CALLS: Final = calls.CallKind(
    rows=OPENINGS, ask=_ask, settle=_settle, explain=_explain_end, unknown_outcome=unknown_outcome
)
