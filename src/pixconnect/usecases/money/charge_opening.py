"""Charges that an institution opens: durable before they are asked for, and asked about until they are known.

::

    [ the opening ] ─► the institution, at most 3 s ─► [ the charge with its code, PENDING, qrcode.pending ] ─► answer
                              │ nobody knows: 504, and a worker asks on       │ certainly refused: 422
                              └ nothing was sent: 503, nothing is left        └ the same name opens anew, under the same txid
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final, Protocol

from pixconnect.domain.frame import errors, identifiers
from pixconnect.domain.frame.event import SLOTS_COUNT
from pixconnect.domain.frame.fingerprint import fingerprint, was_made_by
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.institutions.charge_opening import (
    OPENING_TIMEOUT_S,
    WORKER_AFTER,
    ChargeOpening,
    WantedCharge,
    wait_for,
)
from pixconnect.domain.institutions.institution import (
    CertainRefusal,
    Institution,
    InstitutionUnavailable,
    NotSent,
    OpenAccount,
    OpenedCharge,
    OpeningAnswer,
    UnknownOutcome,
)
from pixconnect.domain.money import br_code
from pixconnect.domain.money.charge import Charge, ChargeRequest
from pixconnect.store.institutions import charge_opening as opening_store
from pixconnect.store.money import charge as charge_store
from pixconnect.usecases.frame.context import (
    HasClock,
    HasDirectory,
    HasEntropy,
    HasIds,
    HasInstitutions,
    HasPolicy,
    HasPool,
    HasWrites,
)
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.writing.unit_of_work import begin_work

LOOK_EVERY_S: Final = 0.05
DUE_MAX: Final = 20
"""Openings that a worker asks about before it looks at anything else of the account."""


class OpeningContext(
    HasPool, HasWrites, HasClock, HasEntropy, HasIds, HasPolicy, HasDirectory, HasInstitutions, Protocol
): ...


async def open_there(
    context: OpeningContext, caller: Caller, request: ChargeRequest, key: str, institution_id: int
) -> Charge:
    """Open a charge at the account on which the caller's money lies.

    Args:
        request: Judged.
        key: Normalised; the holder's.
        institution_id: The account.

    Raises:
        ExternalIdConflict: The name was used with other contents.
        RuleBroken: The institution refuses it.
        ServiceUnavailable: The account is paused, or nothing was sent; nothing was done.
        OutcomeUnknown: The institution has not answered in time: the same request gets the charge once it is known.
    """
    made = await _find_made(context, caller, request)
    if isinstance(made, Charge):
        return made
    if made is not None:
        return await _await_end(context, made)
    opened = await context.institutions.find(institution_id)
    if opened is None:
        raise errors.ServiceUnavailable("the account at the institution is paused: nothing was done", retry_after_s=30)
    opening = await _begin(context, caller, request, key, opened)
    if opening is None:
        return await open_there(context, caller, request, key, institution_id)
    try:
        async with asyncio.timeout(OPENING_TIMEOUT_S):
            answer = await opened.institution.open_charge(opening.wanted.terms(opening.txid))
    except TimeoutError:
        answer = UnknownOutcome(reason=f"no answer within {OPENING_TIMEOUT_S:g} s")
    return await _answer_caller(context, opened, opening, answer)


async def go_on_opening(context: OpeningContext, opened: OpenAccount) -> int:
    """Ask about the openings of an account that are due, and answer how many there were.

    Raises:
        InstitutionUnavailable: It gives no answer now; those that were not reached are due again later.
    """
    now = context.clock.real_now()
    due = await opening_store.take_due(context.pool, opened.account.id, now, now + timedelta(minutes=1), DUE_MAX)
    for opening in due:
        answer = await _ask(opened.institution, opening)
        match answer:
            case OpenedCharge():
                await finish(context, opened, opening, answer)
            case CertainRefusal():
                await _refuse(context, opening, answer)
            case _:
                again_at = context.clock.real_now() + wait_for(opening.calls_count)
                await opening_store.put_off(context.pool, opening.charge_id, opening.holder_id, again_at)
    return len(due)


async def finish(
    context: OpeningContext, opened: OpenAccount, opening: ChargeOpening, there: OpenedCharge
) -> Charge | None:
    """Write the charge that the institution has opened; ``None`` if the opening has ended otherwise meanwhile."""
    account = await context.directory.read_account(opening.holder_id)
    code = there.code
    if code is None and there.location is not None:
        code = br_code.format_dynamic_br_code(there.location, account.party.name, account.city)
    if code is None:
        raise errors.InvariantBroken(
            "an institution opened a charge that nobody can pay: it has no code and no location"
        )
    async with context.writes.transaction() as batch:
        locked = await opening_store.lock(batch.connection, opening.charge_id, opening.holder_id)
        if locked is None or locked.state != "opening":
            return await charge_store.find_by_id(context.pool, opening.holder_id, opening.charge_id)
        work = await begin_work(batch)
        wanted = opening.wanted
        charge = Charge(
            id=opening.charge_id,
            holder_id=opening.holder_id,
            external_id=opening.external_id,
            fingerprint=opening.fingerprint,
            txid=opening.txid,
            amount_cents=wanted.amount_cents,
            key=wanted.key,
            payer=wanted.payer,
            br_code=code,
            status="PENDING",
            slot=opening.charge_id % SLOTS_COUNT,
            created_at=work.now,
            modified_at=work.now,
            # The institution's clock decides until when it can be paid.
            expires_at=there.created_at + timedelta(seconds=there.lifetime_s),
            institution_id=opened.account.id,
        )
        work.changes.add_charge(charge)
        work.announce_charge(charge, "qrcode.pending")
        await work.write()
        await opening_store.end(batch.connection, opening.charge_id, opening.holder_id, "opened")
    return charge


async def _find_made(context: OpeningContext, caller: Caller, request: ChargeRequest) -> Charge | ChargeOpening | None:
    """What the same request has made before, or is making."""
    if request.external_id is None:
        return None
    charge = await charge_store.find_by_external_id(context.pool, caller.holder_id, request.external_id)
    found = charge or await opening_store.find(context.pool, caller.holder_id, request.external_id)
    if found is not None and not was_made_by(found.fingerprint, request):
        raise errors.ExternalIdConflict("external_id: was used for a charge with other contents")
    return found


async def _begin(
    context: OpeningContext, caller: Caller, request: ChargeRequest, key: str, opened: OpenAccount
) -> ChargeOpening | None:
    """Make the opening durable; ``None`` if another process has taken its name meanwhile."""
    external_id = request.external_id or context.entropy.uuid7()
    now = context.clock.real_now()
    # What was refused opens anew under the same txid: should the refused one be there after all, it is this one.
    refused = await opening_store.find_refused_txid(context.pool, caller.holder_id, external_id)
    opening = ChargeOpening(
        charge_id=await context.ids.charge_id(),
        holder_id=caller.holder_id,
        institution_id=opened.account.id,
        external_id=external_id,
        txid=refused or identifiers.make_txid(context.clock.now(), context.entropy),
        state="opening",
        wanted=WantedCharge(
            amount_cents=request.amount_cents,
            key=key,
            lifetime_s=context.policy.charge_lifetime_s,
            payer=request.payer,
        ),
        fingerprint=fingerprint(request),
        refusal_code=None,
        refusal_reason=None,
        calls_count=1,
        due_at=now + WORKER_AFTER,
        created_at=now,
    )
    async with write_alone(context.pool) as connection:
        return opening if await opening_store.insert(connection, opening) else None


async def _answer_caller(
    context: OpeningContext, opened: OpenAccount, opening: ChargeOpening, answer: OpeningAnswer
) -> Charge:
    match answer:
        case OpenedCharge():
            charge = await finish(context, opened, opening, answer)
            return errors.require(charge, "nobody else has ended it: a worker asks later")
        case CertainRefusal():
            await _refuse(context, opening, answer)
            raise explain_refusal(answer)
        case NotSent(reason=reason, retry_after=after):
            async with write_alone(context.pool) as connection:
                await opening_store.end(connection, opening.charge_id, opening.holder_id, "given_up")
            wait_s = 1 if after is None else max(1, round(after.total_seconds()))
            raise errors.ServiceUnavailable(
                f"the institution could not be asked: {reason}; nothing was done", retry_after_s=wait_s
            )
        case UnknownOutcome():
            raise _unknown(opening)


async def _await_end(context: OpeningContext, opening: ChargeOpening) -> Charge:
    """Wait for another request's or a worker's opening, as long as for one of our own."""
    until_s = context.clock.monotonic_s() + OPENING_TIMEOUT_S
    while context.clock.monotonic_s() < until_s:
        found = await opening_store.read(context.pool, opening.charge_id, opening.holder_id)
        if found is not None and found.state != "opening":
            break
        await asyncio.sleep(LOOK_EVERY_S)
    else:
        raise _unknown(opening)
    if found.state == "opened":
        charge = await charge_store.find_by_id(context.pool, opening.holder_id, opening.charge_id)
        return errors.require(charge, "what is opened has its charge")
    if found.state == "refused":
        raise explain_refusal(CertainRefusal(code=found.refusal_code or "", reason=found.refusal_reason or ""))
    raise errors.ServiceUnavailable("the institution could not be asked; nothing was done")


async def _ask(institution: Institution, opening: ChargeOpening) -> OpeningAnswer:
    """Look whether it is there; where it is not, the same call under the same txid can do no harm."""
    terms = opening.wanted.terms(opening.txid)
    try:
        there = await institution.read_charge(opening.txid)
    except InstitutionUnavailable as error:
        return UnknownOutcome(reason=error.reason)
    if there is None:
        return await institution.open_charge(terms)
    if there.is_as_asked(terms):
        return there
    return CertainRefusal(code="txid", reason="another charge has this txid at the institution", member="txid")


async def _refuse(context: OpeningContext, opening: ChargeOpening, refusal: CertainRefusal) -> None:
    async with write_alone(context.pool) as connection:
        await opening_store.end(
            connection, opening.charge_id, opening.holder_id, "refused", refusal.code, refusal.reason
        )


def explain_refusal(refusal: CertainRefusal) -> errors.RuleBroken:
    """The nearest refusal of ours."""
    member, text = refusal.member or "", f"the institution refuses it: {refusal.reason or refusal.code}"
    if "chave" in member:
        return errors.PixKeyNotOwned(f"key: {text}")
    if "valor" in member:
        return errors.AmountOutOfRange(f"amount: {text}")
    if "devedor" in member:
        return errors.InvalidTaxId(f"payer.tax_id: {text}")
    return errors.InvalidQrCode(text)


def _unknown(opening: ChargeOpening) -> errors.OutcomeUnknown:
    return errors.OutcomeUnknown(
        f"the institution has not answered yet whether the charge of external_id {opening.external_id} is open: the same "
        "request under it gets the charge once that is known",
        opening.txid,
    )
