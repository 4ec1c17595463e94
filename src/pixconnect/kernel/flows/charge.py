"""Charges: create, read, list, expire.

Creating a charge first checks the rules that need no database. The rest happens in a batch, in one transaction. A replay takes
precedence over every refusal.

Changes that several use cases make are here too. ``kernel/rules/charge_payment.py`` decides which charge a payment pays.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows.context import Context, found_of_caller, of_caller
from pixconnect.kernel.flows.idempotency import Idempotency
from pixconnect.kernel.flows.source import find_accounts
from pixconnect.kernel.rules import ability, br_code, holder, identifiers, money, tax_id
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import (
    PAID,
    Charge,
    ChargeRequest,
    NewCharge,
    announce_charge,
    expire_charge,
    may_expire,
    open_charge,
    pay_charge,
    read_contents,
    return_charge,
)
from pixconnect.kernel.rules.charge_contents import DayAmount, digest_contents
from pixconnect.kernel.rules.charge_payment import announce_divergence
from pixconnect.kernel.rules.event import Divergence
from pixconnect.kernel.rules.transfer import Transfer, return_part
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.charge import CHARGES, REVISIONS, ChargeRevision
from pixconnect.kernel.tables.origin import ORIGINS, Asked
from pixconnect.kernel.tables.transfer import TRANSFERS
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import UnitOfWork, begin_work
from pixconnect.platform.base import errors

_IDEMPOTENCY: Final = Idempotency("charge", charge_store.find_by_external_id, charge_store.find_external)


async def create_charge(context: Context, caller: Caller, request: ChargeRequest) -> Charge:
    """Create a charge and its QR code.

    Returns:
        The new charge; for a replay, the first request's charge in its present state.

    Raises:
        RuleBroken: In the documented order.
        ServiceUnavailable: Nothing was done.
        OutcomeUnknown: The commit was lost; repeat the request.
    """
    try:
        key = await _judge(context, caller, request)
    except errors.RuleBroken as refusal:
        return await _IDEMPOTENCY.replay_or_refuse(context.pool, caller, request, refusal)
    account = await context.directory.read_account(caller.holder_id)
    if account.institution_id is not None:
        return await find_accounts().create_charge(context, caller, account.institution_id, request, key)
    # All ids are generated before the first try, so that a batch whose commit was lost finds its own rows.
    txid = identifiers.make_txid(context.clock.now(), context.entropy)
    location = context.policy.location_prefix + txid
    new = NewCharge(
        holder_id=caller.holder_id,
        caller=caller,
        external_id=request.external_id or context.entropy.uuid7(),
        fingerprint=identifiers.fingerprint(request),
        request=request,
        charge_id=await context.ids.charge_id(),
        txid=txid,
        key=key,
        br_code=br_code.format_dynamic_br_code(location, account.party.name, account.city),
        lifetime=timedelta(seconds=context.policy.charge_lifetime_s),
        may_exist=request.external_id is not None,
    )
    return await context.writes.submit(CREATE_CHARGES, new)


async def _judge(context: Context, caller: Caller, request: ChargeRequest) -> str:
    """Check the rules in the documented order, and return the normalised key."""
    money.check_amount(request.amount_cents)
    key = holder.parse_pix_key(request.key).key
    if await context.directory.find_owner(key) != caller.holder_id:
        raise errors.PixKeyNotOwned("key: is not a Pix key of this holder")
    if request.payer is not None:
        tax_id.check_tax_id(request.payer.tax_id, "payer.tax_id")
    ability.check_issues_codes(context.policy.abilities)
    return key


async def _create_charges(batch: Batch[NewCharge]) -> list[Charge | errors.PixConnectError]:
    # A charge moves no money, so no balance is locked: charges of one holder never wait for its transfers.
    work = await begin_work(batch)
    known = await _IDEMPOTENCY.find_known(batch.connection, batch)

    def create(new: NewCharge) -> Charge:
        charge = open_charge(new, work.now)
        work.put(CHARGES, charge)
        work.put(ORIGINS, Asked("charge", charge.id, work.now, new.caller))
        work.announce(announce_charge, charge, "qrcode.pending")
        return charge

    outcomes = _IDEMPOTENCY.decide_each(batch, known, create)
    await work.write()
    return outcomes


CREATE_CHARGES: Final = WriteOperation("create_charges", _create_charges, external_id_of=lambda new: new.external_id)


_MISSING: Final = "there is no such charge"
read_charge_by_id: Final = found_of_caller(charge_store.find_by_id, f"id: {_MISSING}")
read_charge_by_external_id: Final = found_of_caller(charge_store.find_by_external_id, f"externalId: {_MISSING}")
read_charge_by_txid: Final = found_of_caller(charge_store.find_by_txid, f"txid: {_MISSING}")
read_charges: Final = of_caller(charge_store.find_by_ids)
"""Read the caller's charges by id; missing ones are left out."""


async def read_paying_transfer(context: Context, caller: Caller, charge_id: int) -> Transfer:
    charge = await read_charge_by_id(context, caller, charge_id)
    if charge.held_by is not None:
        raise errors.NotFound("id: the charge is not paid yet: a payment of it was accepted and has not settled")
    if charge.status not in PAID:
        raise errors.NotFound(f"id: the charge was not paid; its status is {charge.shown_status}")
    # Written together with the charge's status, so it exists by now.
    transfer = await transfer_store.find_paying(context.pool, charge.holder_id, charge_id)
    return errors.require(transfer, "a paid charge has its transfer")


list_charges: Final = of_caller(charge_store.read_page)
"""One page of the holder's charges of one status, newest first."""


async def expire_charges(context: Context, slots: Sequence[int], until: datetime, count_max: int) -> int:
    """Expire unpaid charges and return how many; two workers may run this at the same time."""
    expired = await charge_store.find_expired(context.pool, slots, until, count_max)
    await _expire(context, expired)
    return len(expired)


async def expire_charges_of_account(context: Context, account_id: int, read_until: datetime, count_max: int) -> int:
    """Expire charges at one account: only those that had expired before a reading that found no payment."""
    expired = await charge_store.find_expired_of_account(context.pool, account_id, read_until, count_max)
    await _expire(context, expired)
    return len(expired)


async def _expire(context: Context, expired: Sequence[tuple[int, int]]) -> None:
    if expired:
        async with context.writes.transaction() as batch:
            # Locked before ids are taken, so that this event follows all earlier events of the charge.
            charges, _ = await charge_store.lock(batch.connection, expired)
            work = await begin_work(batch)
            for charge in charges.values():
                # Checked again under the lock by the database's time: the charge may be paid or held, and ``until`` may be off.
                if may_expire(charge, work.now):
                    after = expire_charge(charge, max(work.now, charge.modified_at))
                    work.move(CHARGES, charge, after)
                    work.announce(announce_charge, after, "qrcode.expired")
            await work.write()


def finish_payment(
    work: UnitOfWork, received: Transfer, name: tuple[int | str, int], divergences: tuple[Divergence, ...]
) -> None:
    """Mark a settled transfer's locked charge as paid, and emit both events with any divergence of the payment.

    Without a ``charge_id`` the transfer pays no charge, even if it names one.
    """
    named = work.charges.get(name)
    if received.charge_id is not None:
        charge = errors.require(named, "a charge that is paid is locked")
        paid = work.charges[name] = pay_charge(charge, received.amount_cents, work.now)
        work.move(CHARGES, charge, paid)
        work.announce(announce_charge, paid, "qrcode.approved")
    if divergences:
        work.announce(announce_divergence, received, named, divergences)


def count_returned(work: UnitOfWork, transfer: Transfer, amount_cents: int, *, returning_cents: int = 0) -> None:
    """Count a part of a transfer as returned, of which ``returning_cents`` were reserved; mark its charge once all is."""
    after = return_part(transfer, amount_cents, work.now, returning_cents=returning_cents)
    # The next refund of the same transfer in this batch counts from here.
    work.transfers[after.id, after.holder_id] = after
    work.move(TRANSFERS, transfer, after)
    if after.status == "RETURNED" and after.charge_id is not None:
        name = after.charge_id, after.holder_id
        charge = work.charges[name]
        work.charges[name] = return_charge(charge, work.now)
        work.move(CHARGES, charge, work.charges[name])


def revise_charge(work: UnitOfWork, before: Charge, after: Charge) -> None:
    """Change a charge; a replaced revision is kept."""
    work.move(CHARGES, before, after)
    if after.revision != before.revision:
        revision = ChargeRevision(
            charge_id=before.id,
            holder_id=before.holder_id,
            revision=before.revision or 0,
            contents=read_contents(before),
            next_digest=digest_contents(read_contents(after)),
        )
        work.put(REVISIONS, revision)


class PaidParts(NamedTuple):
    """Keeps the parts of a payment of a charge with a due date."""

    keep: Callable[[UnitOfWork, Transfer, Charge, DayAmount], None]


def keep_parts(work: UnitOfWork, transfer: Transfer, charge: Charge, parts: DayAmount | None) -> None:
    """Store the parts of a payment of a charge with a due date, if they sum up to the amounts of both."""
    if charge.due_on is None or parts is None:
        return
    if (parts.total_cents, parts.original_cents) == (transfer.amount_cents, charge.amount_cents):
        for each in gather("paid_parts", PaidParts):
            each.keep(work, transfer, charge, parts)
