"""Writes charges that an institution has opened, or that get a static code while their opening is unknown."""

from __future__ import annotations

from datetime import datetime

from msgspec import structs

from pixconnect.features.institutions.rules.institution import NotSent, OpenedCharge, UnknownOutcome
from pixconnect.features.institutions.rules.pending_call import REFERENCE_LENGTH, ChargeChange, ChargeOpening
from pixconnect.features.institutions.tables import charge_opening as opening_store
from pixconnect.features.institutions.tables import pending_call as change_store
from pixconnect.features.institutions.tables.charge_opening import OPENINGS
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules import br_code
from pixconnect.kernel.rules.charge import Charge, announce_charge
from pixconnect.kernel.rules.charge_contents import ChargeContents, digest_contents, find_expiry, set_rule
from pixconnect.kernel.rules.event import SLOTS_COUNT
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables.charge import CHARGES
from pixconnect.kernel.tables.origin import ORIGINS, Asked
from pixconnect.kernel.writing.unit_of_work import UnitOfWork, begin_work
from pixconnect.platform.base import errors


async def finish(context: Context, opening: ChargeOpening, there: OpenedCharge) -> Charge | None:
    """Write the charge that the institution has opened; ``None`` if the opening has ended otherwise meanwhile."""
    account = await context.directory.read_account(opening.holder_id)
    code = there.code
    if code is None and there.location is not None:
        is_paid_once = there.due is None
        name, city = account.party.name, account.city
        code = br_code.format_dynamic_br_code(there.location, name, city, is_paid_once=is_paid_once)
    if code is None:
        raise errors.InvariantBroken(
            "an institution opened a charge that cannot be paid: it has no code and no location"
        )
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
        await opening_store.note_opened(batch.connection, opening, network_txid=there.network_txid)
    return charge


def _write_charge(
    work: UnitOfWork, opening: ChargeOpening, contents: ChargeContents, code: str, *, counted_from: datetime
) -> Charge:
    contents = set_rule(contents, discounts_roll=True)
    charge = Charge(
        id=opening.charge_id,
        holder_id=opening.holder_id,
        external_id=opening.external_id,
        fingerprint=opening.fingerprint or digest_contents(contents),
        txid=opening.txid,
        amount_cents=contents.amount_cents,
        key=contents.key,
        payer=contents.payer,
        br_code=code,
        status="PENDING",
        slot=opening.charge_id % SLOTS_COUNT,
        created_at=work.now,
        modified_at=work.now,
        expires_at=find_expiry(contents, counted_from),
        contents=contents,
        due_on=contents.due and contents.due.due_on,
        institution_id=opening.institution_id,
    )
    work.put(CHARGES, charge)
    if opening.asked_by is not None:
        work.put(ORIGINS, Asked("charge", charge.id, charge.created_at, opening.asked_by))
    work.announce(announce_charge, charge, "qrcode.pending")
    return charge


async def fall_back(context: Context, opening: ChargeOpening, answer: NotSent | UnknownOutcome) -> Charge:
    """Write the charge with a static code, which it keeps; a possible charge there is withdrawn, never completed."""
    account = await context.directory.read_account(opening.holder_id)
    wanted, reference = opening.contents, context.entropy.token(REFERENCE_LENGTH)
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
        await opening_store.note_opened(batch.connection, opening, reference=reference)
        # Only a charge that was certainly never sent needs no withdrawal, and a worker may have called since.
        if isinstance(answer, UnknownOutcome) or locked.calls_count > opening.calls_count:
            now = context.clock.real_now()
            await change_store.insert(batch.connection, _withdraw(charge, opening.institution_id, now))
    return charge


def _withdraw(charge: Charge, institution_id: int, now: datetime) -> ChargeChange:
    """Remove a possibly opened charge there; while it may still arrive, its absence proves nothing."""
    return ChargeChange(
        id=0,
        charge_id=charge.id,
        holder_id=charge.holder_id,
        institution_id=institution_id,
        txid=charge.txid,
        kind="withdraw",
        calls_count=0,
        due_at=now,
        created_at=now,
    )


def unknown_outcome(opening: ChargeOpening) -> errors.OutcomeUnknown:
    """Return the error for a caller's timeout."""
    return errors.OutcomeUnknown(
        f"the institution has not answered yet whether the charge of external_id {opening.external_id} is open: the same "
        "request under it gets the charge once that is known",
        opening.txid,
    )
