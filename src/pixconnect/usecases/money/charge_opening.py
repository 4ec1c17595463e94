"""Charges that an institution opens: durable before they are asked for, and asked about until they are known.

::

    [ the opening ] ─► the institution, at most 3 s ─► [ the charge with its code, PENDING, qrcode.pending ] ─► answer
                              │ nobody knows: 504, and a worker asks on       │ certainly refused: 422
                              └ nothing was sent: 503, nothing is left        └ the same name opens anew, under the same txid

Where the account's ``static_fallback`` is set, what nobody knows and what was not sent is answered with a static code instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

import asyncpg
import structlog
from msgspec import Struct

from pixconnect.domain.frame import errors, identifiers
from pixconnect.domain.frame.fingerprint import fingerprint, was_made_by
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.institutions.charge_change import ABSENT_FOR, find_known_refusal, keep_caller
from pixconnect.domain.institutions.charge_opening import (
    OPENING_TIMEOUT_S,
    TAKEN_FOR,
    WORKER_AFTER,
    ChargeOpening,
    WantedCharge,
    wait_for,
)
from pixconnect.domain.institutions.institution import (
    CertainRefusal,
    ChargeTerms,
    Institution,
    InstitutionUnavailable,
    NotSent,
    OpenAccount,
    OpenedCharge,
    OpeningAnswer,
    UnknownOutcome,
)
from pixconnect.domain.money.charge import Charge, ChargeRequest, read_contents
from pixconnect.domain.money.charge_contents import say_the_same
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.store.frame.refusal import find_refusal
from pixconnect.store.institutions import charge_opening as opening_store
from pixconnect.store.money import charge as charge_store
from pixconnect.usecases.frame.context import Context, or_unknown, write_alone
from pixconnect.usecases.money.opened_charge import fall_back, finish, tell_unknown

LOOK_EVERY_S: Final = 0.05
DUE_MAX: Final = 20
"""Openings that a worker asks about before it looks at anything else of the account."""


REMOVED_THERE: Final = CertainRefusal(
    code="txid", reason="the charge of this txid was removed at the institution", member="txid"
)
WITHOUT_CODE: Final = UnknownOutcome(reason="the institution shows it without a code by which anybody could pay it")

_log = structlog.get_logger(__name__)


class RefusedByInstitution(Exception):  # noqa: N818  each door has its own error for it
    """The institution certainly refuses it, or certainly would; nothing was done."""

    def __init__(self, refusal: CertainRefusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


class NewOpening(Struct, frozen=True, kw_only=True):
    """A charge to be opened, judged; the contract's door names it by ``external_id``, the standard's by its txid."""

    wanted: WantedCharge
    external_id: str | None = None
    txid: str | None = None
    """``None`` lets the service make one."""
    request: ChargeRequest | None = None
    """Of the contract's door."""

    def was_made_as(self, found: Charge | ChargeOpening) -> bool:
        """Whether what has its name is what the same request made before."""
        if self.request is not None:
            return was_made_by(found.fingerprint, self.request)
        contents = read_contents(found) if isinstance(found, Charge) else found.wanted.contents()
        return found.txid == self.txid and say_the_same(contents, self.wanted.contents())


def want_charge(context: Context, caller: Caller, request: ChargeRequest, key: str) -> NewOpening:
    """What a judged request of the contract's door wants; ``key`` is normalised."""
    wanted = WantedCharge(
        amount_cents=request.amount_cents,
        key=key,
        lifetime_s=context.policy.charge_lifetime_s,
        payer=request.payer,
        asked_by=keep_caller(caller),
    )
    return NewOpening(wanted=wanted, external_id=request.external_id, request=request)


async def open_there(context: Context, caller: Caller, new: NewOpening, institution_id: int) -> Charge:
    """Open a charge at the account on which the caller's money lies.

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
        return await _await_end(context, made)
    opened = await require_account(context, institution_id)
    fault = find_known_refusal(opened.institution.traits, new.wanted.contents())
    if fault is not None:
        raise RefusedByInstitution(fault)
    opening = await _begin(context, caller, new, opened)
    if opening is None:
        named = None if new.txid is None else await opening_store.find_txid(context.pool, institution_id, new.txid)
        if named is not None and named.holder_id != caller.holder_id:
            raise errors.ExternalIdConflict("txid: another charge of the account at the institution has it")
        return await open_there(context, caller, new, institution_id)
    try:
        async with asyncio.timeout(OPENING_TIMEOUT_S):
            answer = await _open(opened.institution, opening.wanted.terms(opening.txid))
    except TimeoutError:
        answer = UnknownOutcome(reason=f"no answer within {OPENING_TIMEOUT_S:g} s")
    return await _answer_caller(context, opened, opening, answer)


async def require_account(context: Context, institution_id: int) -> OpenAccount:
    """The account, for a request; ``ServiceUnavailable`` while a loss of the database has paused it, and once it is closed."""
    opened = await context.institutions.find_receiving(institution_id)
    if opened is None:
        raise _paused()
    return opened


def _paused() -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable("the account at the institution is paused: nothing was done", retry_after_s=30)


async def go_on_opening(context: Context, opened: OpenAccount) -> int:
    """Ask about the openings of an account that are due, and answer how many there were; a defect stops none of the others."""
    began_at = context.clock.real_now()
    for count in range(DUE_MAX):
        # One by one: each is put off from when it is asked about.
        again_at = context.clock.real_now() + TAKEN_FOR
        opening = await opening_store.take_due(context.pool, opened.account.id, began_at, again_at)
        if opening is None:
            return count
        try:
            await _go_on(context, opened, opening)
        except (*DATABASE_FAILED, errors.PixConnectError):
            raise
        except Exception as error:  # noqa: BLE001  what one opening meets must not stop the others
            _log.exception("an opening met a defect", charge_id=opening.charge_id, reason=type(error).__name__)
    return DUE_MAX


async def ask_about_paid(context: Context, opened: OpenAccount, txids: Sequence[str]) -> Collection[str]:
    """Ask now about charges whose payments are listed and which nobody knows to be open.

    Returns:
        The txids that are still unknown: their payments wait for a later reading, as long as an opening may still arrive.
    """
    now = context.clock.real_now()
    waiting = set[str]()
    for opening in await opening_store.take_named(context.pool, opened.account.id, txids, now + TAKEN_FOR):
        is_known = await _go_on(context, opened, opening)
        if not is_known and now - opening.created_at < ABSENT_FOR:
            waiting.add(opening.txid)
    return waiting


async def _go_on(context: Context, opened: OpenAccount, opening: ChargeOpening) -> bool:
    """Ask about one, and answer whether it is known now."""
    answer = await _ask(opened.institution, opening)
    match answer:
        case OpenedCharge():
            await finish(context, opening, answer)
        case CertainRefusal():
            await _refuse(context, opening, answer)
        case NotSent(reason=reason) | UnknownOutcome(reason=reason):
            again_at = context.clock.real_now() + wait_for(opening.calls_count)
            await opening_store.put_off(context.pool, opening.charge_id, opening.holder_id, again_at, reason)
            return False
    return True


async def _find_made(context: Context, caller: Caller, new: NewOpening) -> Charge | ChargeOpening | None:
    """What the same request has made before, or is making."""
    name = new.external_id or new.txid
    if name is None:
        return None
    charge = await charge_store.find_by_external_id(context.pool, caller.holder_id, name)
    found = charge or await opening_store.find(context.pool, caller.holder_id, name)
    if found is not None and not new.was_made_as(found):
        raise errors.ExternalIdConflict("external_id: was used for a charge with other contents")
    return found


async def _begin(context: Context, caller: Caller, new: NewOpening, opened: OpenAccount) -> ChargeOpening | None:
    """Make the opening durable; ``None`` if another process has taken its name or txid meanwhile."""
    external_id, txid = new.external_id or new.txid, new.txid
    if txid is None and external_id is not None:
        # What was refused opens anew under the same txid: should the refused one be there after all, it is this one.
        txid = await opening_store.find_refused_txid(context.pool, caller.holder_id, external_id)
    txid = txid or identifiers.make_txid(context.clock.now(), context.entropy)
    if external_id is None:
        # At the standard's door a charge is named by its txid.
        external_id = txid if new.request is None else context.entropy.uuid7()
    now = context.clock.real_now()
    opening = ChargeOpening(
        charge_id=await context.ids.charge_id(),
        holder_id=caller.holder_id,
        institution_id=opened.account.id,
        external_id=external_id,
        txid=txid,
        state="opening",
        wanted=new.wanted,
        # A charge of the standard's door is no replay of any request of the contract's.
        fingerprint=b"" if new.request is None else fingerprint(new.request),
        refusal_code=None,
        refusal_reason=None,
        calls_count=1,
        due_at=now + WORKER_AFTER,
        created_at=now,
    )
    try:
        async with write_alone(context.pool) as connection:
            # What this process knows of the account may be a second old, and what begins on a closed one nobody would ever end.
            if not await opening_store.may_begin(connection, opening):
                raise _paused()
            return opening if await opening_store.insert(connection, opening) else None
    except asyncpg.IntegrityConstraintViolationError as refused:
        # The holder was succeeded, or put on another account, between that look and the insert.
        if refusal := find_refusal(refused):
            raise refusal from None
        raise


async def _answer_caller(
    context: Context, opened: OpenAccount, opening: ChargeOpening, answer: OpeningAnswer
) -> Charge:
    # Until it has ended here a worker goes on with it.
    unknown = tell_unknown(opening)
    match answer:
        case OpenedCharge(status="removed_by_us" | "removed_by_institution"):
            raise unknown
        case OpenedCharge():
            with or_unknown(unknown):
                charge = await finish(context, opening, answer)
            # Another may have ended it meanwhile: a worker, or who has closed the account.
            return charge or await _await_end(context, opening)
        case CertainRefusal():
            with or_unknown(unknown):
                is_ended = await _refuse(context, opening, answer)
            if not is_ended:
                raise unknown
            raise RefusedByInstitution(answer)
        case NotSent() | UnknownOutcome() if _may_fall_back(opened, opening):
            with or_unknown(unknown):
                return await fall_back(context, opening, answer)
        case NotSent(reason=reason, retry_after=after):
            with or_unknown(unknown):
                async with write_alone(context.pool) as connection:
                    is_ended = await opening_store.end(connection, opening, "given_up")
            if not is_ended:
                # A worker asks by now, so that this is not certain any more.
                raise unknown
            wait_s = 1 if after is None else max(1, round(after.total_seconds()))
            raise errors.ServiceUnavailable(
                f"the institution could not be asked: {reason}; nothing was done", retry_after_s=wait_s
            )
        case UnknownOutcome():
            raise unknown


def _may_fall_back(opened: OpenAccount, opening: ChargeOpening) -> bool:
    # A static code asks for one amount for ever: it has no due date, no fine and no end.
    return opened.account.options.get("static_fallback") is True and opening.wanted.due is None


async def _await_end(context: Context, opening: ChargeOpening) -> Charge:
    """Wait for another request's or a worker's opening, as long as for one of our own."""
    until_s = context.clock.monotonic_s() + OPENING_TIMEOUT_S
    while context.clock.monotonic_s() < until_s:
        with or_unknown(tell_unknown(opening)):
            found = await opening_store.read(context.pool, opening.charge_id, opening.holder_id)
        if found is not None and found.state != "opening":
            break
        await asyncio.sleep(LOOK_EVERY_S)
    else:
        raise tell_unknown(opening)
    if found.state == "opened":
        with or_unknown(tell_unknown(opening)):
            charge = await charge_store.find_by_id(context.pool, opening.holder_id, opening.charge_id)
        return errors.require(charge, "what is opened has its charge")
    if found.state == "refused":
        raise RefusedByInstitution(CertainRefusal(code=found.refusal_code or "", reason=found.refusal_reason or ""))
    raise errors.ServiceUnavailable("the institution could not be asked, or the account is closed: there is no charge")


async def _ask(institution: Institution, opening: ChargeOpening) -> OpeningAnswer:
    """Look whether it is there; where it is not, the same call under the same txid can do no harm."""
    terms = opening.wanted.terms(opening.txid)
    try:
        there = await institution.read_charge(opening.txid, has_due_date=terms.due is not None)
    except InstitutionUnavailable as error:
        return UnknownOutcome(reason=error.reason)
    if there is None:
        there = await _open(institution, terms)
        if not isinstance(there, OpenedCharge):
            return there
    if there.status in ("removed_by_us", "removed_by_institution"):
        return REMOVED_THERE
    if there.is_as_asked(terms):
        return there if there.has_code else WITHOUT_CODE
    return CertainRefusal(code="txid", reason="another charge has this txid at the institution", member="txid")


async def _open(institution: Institution, terms: ChargeTerms) -> OpeningAnswer:
    answer = await institution.open_charge(terms)
    # It is open there, and may be shown with its code later.
    return WITHOUT_CODE if isinstance(answer, OpenedCharge) and not answer.has_code else answer


async def _refuse(context: Context, opening: ChargeOpening, refusal: CertainRefusal) -> bool:
    async with write_alone(context.pool) as connection:
        return await opening_store.end(
            connection, opening, "refused", refusal_code=refusal.code, refusal_reason=refusal.reason
        )


def explain_refusal(refusal: CertainRefusal) -> errors.RuleBroken:
    """The contract's nearest refusal."""
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
