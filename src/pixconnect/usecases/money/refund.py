"""Refunds out: return a payment that a holder received, wholly or in part; read, list.

Accepting reserves the money and counts it against the original; a worker hands the refund to the rail afterwards. The refund of
a book transfer is settled by book, in the same transaction.

For an automatic refund the money arrives and is reserved in one transaction, so that it cannot be spent, and the refund then
goes the way of any other. It has no requester, so the rules for requesters (a holder that may not withdraw) do not forbid it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final

from msgspec import structs

from pixconnect.domain.frame import errors, identifiers, money
from pixconnect.domain.frame.civil_time import to_day
from pixconnect.domain.frame.fingerprint import fingerprint
from pixconnect.domain.frame.listing import Page, Span
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.institutions.account import ABILITIES
from pixconnect.domain.institutions.allowance import check_refund_day
from pixconnect.domain.institutions.give_back import GiveBack
from pixconnect.domain.institutions.rail_memory import name_refund_there
from pixconnect.domain.money import ability, reject_code
from pixconnect.domain.money import refund as refund_rules
from pixconnect.domain.money import transfer as transfer_rules
from pixconnect.domain.money.charge import Charge
from pixconnect.domain.money.ledger import check_may_withdraw
from pixconnect.domain.money.order import open_order
from pixconnect.domain.money.refund import NewRefund, Refund, RefundRequest, RefundStatus
from pixconnect.domain.money.transfer import Transfer
from pixconnect.foundation.pool import Connection
from pixconnect.store.identity.origin import ORIGINS, Asked
from pixconnect.store.institutions import allowance as allowance_store
from pixconnect.store.institutions import give_back as give_back_store
from pixconnect.store.institutions import return_name as name_store
from pixconnect.store.money import holder as holder_store
from pixconnect.store.money import infraction as infraction_store
from pixconnect.store.money import ledger as ledger_store
from pixconnect.store.money import refund as refund_store
from pixconnect.store.money import transfer as transfer_store
from pixconnect.store.money.refund import REFUNDS
from pixconnect.store.money.transfer import TRANSFERS
from pixconnect.usecases.frame.context import Context, explain_pause, is_lost
from pixconnect.usecases.frame.idempotency import Idempotency
from pixconnect.usecases.money.available import lock_balances
from pixconnect.usecases.money.credit_source import AutomaticRefund
from pixconnect.usecases.money.settlement import return_paid_charge
from pixconnect.writing.batch import Batch, WriteOperation
from pixconnect.writing.unit_of_work import UnitOfWork

_IDEMPOTENCY: Final = Idempotency("refund", refund_store.find_by_external_id, refund_store.find_external)


async def start_refund(context: Context, caller: Caller, request: RefundRequest, *, is_new: bool = False) -> Refund:
    """Accept a refund: we reserve its money, and a worker hands it to the rail or gives it up.

    Args:
        is_new: Refuse an ``external_id`` that was used before, also by the same request (``ExternalIdConflict``).

    Returns:
        The new refund; or the one that the same request made before, as it is now.

    Raises:
        RuleBroken: In the documented order.
        ServiceUnavailable: Nothing was done.
        OutcomeUnknown: The commit was lost; repeat the request.
    """
    # Read without a lock: the receiver, and whether it was by book, never change. We check sums under the lock.
    original = await transfer_store.find_by_end_to_end_id(context.pool, caller.holder_id, request.end_to_end_id)
    is_there = original is not None and original.institution_id is not None
    abilities = ABILITIES if is_there else context.policy.abilities
    try:
        ability.check_external_id(abilities, request.external_id)
        money.check_amount(request.amount_cents)
        is_refundable = original is not None and original.direction == "IN" and original.settled_at is not None
        if original is None or not is_refundable:
            # HOLDER_BLOCKED comes before it in the documented order.
            await _check_may_withdraw(context, caller)
            if original is None:
                await _check_read(context, caller)
            raise errors.OriginalNotRefundable(_explain_unsettled(original))
        if original.holder_id != caller.holder_id:
            await _check_family(context, caller, original.holder_id)
        ability.check_refund_amount(abilities, request.amount_cents, original)
        await _check_asks_there(context, original)
    except (errors.RuleBroken, errors.ServiceUnavailable) as refusal:
        made = await _IDEMPOTENCY.replay_or_refuse(context.pool, caller, request, refusal)
        return _refuse_repeat(made, is_new=is_new)
    new = NewRefund(
        # For a payment to a holder that the caller's has succeeded, it pays its own money on its own account.
        holder_id=original.holder_id,
        caller=structs.replace(caller, holder_id=original.holder_id),
        external_id=request.external_id or context.entropy.uuid7(),
        fingerprint=fingerprint(request),
        request=request,
        original_id=original.id,
        sent=await _find_sent(context, original) if original.is_book else None,
        refund_id=await context.ids.refund_id(),
        received_id=await context.ids.refund_id() if original.is_book else 0,
        return_id=identifiers.make_return_id(context.policy.ispb, context.clock.now(), context.entropy),
        handover_timeout=timedelta(seconds=context.policy.handover_timeout_s),
        may_exist=request.external_id is not None,
    )
    made = await context.writes.submit(START_REFUNDS, new)
    # Its id was made for this request, in any of its tries.
    return made if made.id == new.refund_id else _refuse_repeat(made, is_new=is_new)


def _explain_unsettled(original: Transfer | None) -> str:
    if original is not None and original.direction == "IN" and original.status == "PROCESSING":
        return "end_to_end_id: has not settled; what your institution holds as suspect only it gives back"
    return "end_to_end_id: is not a Pix that this holder received and that has settled"


async def _check_read(context: Context, caller: Caller) -> None:
    """Refuse as paused what may be of a Pix that a restored database has forgotten, while an account was not read since."""
    _, family = await holder_store.find_family(context.pool, caller.holder_id)
    for account_id in await name_store.read_keys_of_holders(context.pool, family):
        if await is_lost(context.institutions, account_id):
            raise await explain_pause(context.institutions, account_id)


async def _check_asks_there(context: Context, original: Transfer) -> None:
    """Refuse what could not be handed over: nothing is asked at a paused account."""
    if original.institution_id is None:
        return
    if original.institution_id not in {account.id for account in await context.institutions.list_active()}:
        raise await explain_pause(context.institutions, original.institution_id)


def _refuse_repeat(made: Refund, *, is_new: bool) -> Refund:
    if is_new:
        raise errors.ExternalIdConflict("external_id: was already used for a refund")
    return made


async def _start_refunds(batch: Batch[NewRefund]) -> list[Refund | errors.PixConnectError]:
    work = await lock_balances(batch, _holders_of)
    locked = await _lock_rows(work, batch)
    known = await _IDEMPOTENCY.find_known(batch.connection, batch)
    there = {each.institution_id for each in locked.transfers.values() if each.institution_id is not None}
    if there:
        locked.left_cents = await allowance_store.hold_refund_days(batch.connection, sorted(there), to_day(work.now))
        locked.made_there = await _find_made_there(batch.connection, batch, locked)
    outcomes = _IDEMPOTENCY.decide_each(batch, known, lambda new: _accept(work, new, locked))
    await work.write()
    return outcomes


START_REFUNDS: Final = WriteOperation(
    "start_refunds", _start_refunds, makes_orders=True, external_id_of=lambda new: new.external_id
)


async def _find_made_there(
    connection: Connection, batch: Sequence[NewRefund], locked: _LockedRows
) -> dict[int, Refund]:
    """What requests had made before a restored database forgot them: under their names it was recorded as the institution's."""
    keys = await name_store.read_keys(connection, sorted(locked.left_cents))
    first_ids = await holder_store.find_first(connection, {new.holder_id for new in batch})
    names: dict[str, NewRefund] = {}
    for new in batch:
        account_id = locked.transfers[new.original_id, new.holder_id].institution_id
        if account_id is not None:
            names[name_refund_there(keys[account_id], account_id, first_ids[new.holder_id], new.external_id)] = new
    found = await name_store.find_made(connection, list(names), [new.holder_id for new in names.values()])
    return {names[name].refund_id: refund for name, refund in found.items()}


async def _find_sent(context: Context, received: Transfer) -> Transfer | None:
    return (await transfer_store.find_named(context.pool, [received.end_to_end_id], "OUT")).get(received.end_to_end_id)


def _holders_of(new: NewRefund) -> tuple[int, ...]:
    return (new.holder_id,) if new.sent is None else (new.holder_id, new.sent.holder_id)


async def read_refund_by_id(context: Context, caller: Caller, refund_id: int) -> Refund:
    return _found(await refund_store.find_by_id(context.pool, caller.holder_id, refund_id), "id")


async def read_refund_by_external_id(context: Context, caller: Caller, external_id: str) -> Refund:
    refund = await refund_store.find_by_external_id(context.pool, caller.holder_id, external_id)
    if refund is None:
        refund = await _find_forgotten(context, caller, external_id)
    return _found(refund, "externalId")


async def _find_forgotten(context: Context, caller: Caller, external_id: str) -> Refund | None:
    """The refund of a request that a restored database lost, and that its account's institution reported."""
    first_id, family = await holder_store.find_family(context.pool, caller.holder_id)
    for account_id, naming_key in (await name_store.read_keys_of_holders(context.pool, family)).items():
        name = name_refund_there(naming_key, account_id, first_id, external_id)
        made = (await name_store.find_made(context.pool, [name], family)).get(name)
        if made is not None:
            return structs.replace(made, external_id=external_id)
    return None


async def read_refund_by_return_id(context: Context, caller: Caller, return_id: str) -> Refund:
    # The refund of a book transfer has two sides under one id: this is the holder's own.
    refund = await refund_store.find_by_return_id(context.pool, caller.holder_id, return_id)
    return _found(refund, "returnIdentification")


async def list_refunds(context: Context, caller: Caller, status: RefundStatus | None, span: Span) -> Page[Refund]:
    """One page of the holder's refunds, both ways, of one status or of all, newest first."""
    return await refund_store.read_page(context.pool, caller.holder_id, status, span)


class _LockedRows:
    """What a batch of refunds may change, locked, by id and holder."""

    def __init__(self, transfers: dict[tuple[int, int], Transfer], charges: dict[tuple[int, int], Charge]) -> None:
        self.transfers = transfers
        self.charges = charges
        self.contested: set[tuple[int, int]] = set()
        """Contested originals."""
        self.left_cents: dict[int, int] = {}
        """What may still be returned today over accounts at institutions."""
        self.made_there: dict[int, Refund] = {}
        """By the id of the new one: what the same request had made, as far as only the institution remembered."""


async def _lock_rows(work: UnitOfWork, batch: Sequence[NewRefund]) -> _LockedRows:
    names = [new.request.end_to_end_id for new in batch]
    # Charges before transfers, in the order in which incoming payments lock them too.
    charges = await work.lock_charges(await transfer_store.find_charge_ids(work.connection, names))
    # Both sides of a book transfer, so that its refund is one transaction.
    wanted = {(new.original_id, new.holder_id) for new in batch}
    wanted |= {(new.sent.id, new.sent.holder_id) for new in batch if new.sent is not None}
    transfers = await transfer_store.lock_by_id(work.connection, sorted(wanted))
    locked = _LockedRows(transfers, charges)
    # A contested Pix has a block while it is undecided, so holders without blocks are skipped.
    suspected = [key for key in sorted(wanted) if work.balances[key[1]].blocks_count]
    if suspected:
        locked.contested = await infraction_store.find_contested(work.connection, suspected)
    return locked


def _accept(work: UnitOfWork, new: NewRefund, locked: _LockedRows) -> Refund:
    original = locked.transfers[new.original_id, new.holder_id]
    account_id = original.institution_id
    made = locked.made_there.get(new.refund_id)
    if made is not None:
        # A repeat of a request that only the institution still has.
        if (made.transfer_id, made.amount_cents) != (new.original_id, new.request.amount_cents):
            raise errors.ExternalIdConflict("external_id: was already used for a refund with other contents")
        return structs.replace(made, external_id=new.external_id)
    if account_id is not None:
        check_refund_day(new.request.amount_cents, locked.left_cents[account_id])
    is_contested = (original.id, original.holder_id) in locked.contested
    refund_rules.check_refund(
        new.request.amount_cents, original, work.balances[new.holder_id], work.now, is_contested=is_contested
    )
    refund = refund_rules.open_refund(new, original, work.now)
    if new.caller is not None:
        work.put(ORIGINS, Asked("refund", refund.id, work.now, new.caller))
    work.announce_refund(refund)
    if new.sent is not None:
        return _settle_by_book(work, new, refund, original, locked)
    if account_id is not None:
        locked.left_cents[account_id] -= refund.amount_cents
    returning = hold_refund(work, refund, original, new.handover_timeout)
    locked.transfers[original.id, original.holder_id] = returning
    work.move(TRANSFERS, original, returning)
    return refund


def hold_refund(work: UnitOfWork, refund: Refund, original: Transfer, handover_timeout: timedelta) -> Transfer:
    """Reserve the money of a refund and leave it to the workers; the caller writes the original, as returned from here."""
    work.post(refund.holder_id, "available", "reserved", refund.amount_cents, refund.cause)
    work.put(REFUNDS, refund)
    work.order(open_order(refund, work.now, handover_timeout, original.institution_id))
    # Counted from now on, so that refunds under way never exceed the original together.
    return transfer_rules.begin_return(original, refund.amount_cents)


def _settle_by_book(
    work: UnitOfWork, new: NewRefund, refund: Refund, original: Transfer, locked: _LockedRows
) -> Refund:
    if new.sent is None:
        raise errors.InvariantBroken("a book transfer has two sides")
    sent = locked.transfers[new.sent.id, new.sent.holder_id]
    received = refund_rules.open_other_side(new, refund, sent)
    work.announce_refund(received)
    if not work.balances[sent.holder_id].may_deposit:
        return _fail_by_book(work, refund, received)
    amount_cents = refund.amount_cents
    sides = [refund_rules.settle_refund(side, work.now) for side in (refund, received)]
    work.post(refund.holder_id, "available", "settlement", amount_cents, sides[0].cause)
    work.post(sent.holder_id, "settlement", "available", amount_cents, sides[1].cause)
    for side in sides:
        work.announce_refund(side)
        work.put(REFUNDS, side)
    for transfer in (original, sent):
        after = locked.transfers[transfer.id, transfer.holder_id] = transfer_rules.return_part(
            transfer, amount_cents, work.now
        )
        work.move(TRANSFERS, transfer, after)
        if after.status == "RETURNED" and after.charge_id is not None:
            return_paid_charge(work, locked.charges, (after.charge_id, after.holder_id))
    return sides[0]


def _fail_by_book(work: UnitOfWork, refund: Refund, received: Refund) -> Refund:
    # As the rail would have it: the refund fails for both, and no money moves.
    code = reject_code.ACCOUNT_BLOCKED
    sides = [refund_rules.fail_refund(side, code, reject_code.explain(code), work.now) for side in (refund, received)]
    for side in sides:
        work.announce_refund(side)
        work.put(REFUNDS, side)
    return sides[0]


async def _check_family(context: Context, caller: Caller, former_id: int) -> None:
    """Refuse a refund of a former holder's payment if its successor may not withdraw, or the former one is disabled."""
    await _check_may_withdraw(context, caller)
    former = await holder_store.find(context.pool, former_id)
    if former is not None and former.disabled_at is not None:
        raise errors.HolderBlocked("end_to_end_id: the holder that received it is disabled")


async def _check_may_withdraw(context: Context, caller: Caller) -> None:
    balance = await ledger_store.find_balance(context.pool, caller.holder_id)
    if balance is not None:
        check_may_withdraw(balance)


def _found(refund: Refund | None, parameter: str) -> Refund:
    if refund is None:
        raise errors.NotFound(f"{parameter}: there is no such refund")
    return refund


def hold_automatic_refund(work: UnitOfWork, received: Transfer, planned: AutomaticRefund, code: str) -> Transfer:
    """Return all of a payment just credited, for the code of its refusal; the caller writes the transfer."""
    refund = refund_rules.open_automatic_refund(
        received, refund_id=planned.refund_id, return_id=planned.return_id, code=code, now=work.now
    )
    work.announce_refund(refund)
    # No caller waits for an answer, and the money is not the holder's: so we do not give it up after a minute.
    return hold_refund(work, refund, received, refund_rules.find_window(received.settled_at or work.now))


async def note_giving_back(work: UnitOfWork, names: Collection[str], new: Mapping[str, Transfer]) -> None:
    """At an account with automatic returns of payments without a charge: record it together with the credit.

    It goes back once a reading has shown that it was not returned yet (``usecases/institutions/give_back.py``).
    """
    for received in (new[name] for name in names if name in new):
        if received.institution_id is not None and received.charge_id is None and received.settled_at is not None:
            noted = GiveBack(
                transfer_id=received.id,
                holder_id=received.holder_id,
                institution_id=received.institution_id,
                state="waiting",
                due_at=work.now,
                created_at=work.now,
            )
            await give_back_store.insert(work.connection, noted)
