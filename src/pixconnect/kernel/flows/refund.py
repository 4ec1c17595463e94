"""Refunds out: return all or part of a received payment; read, list.

Accepting reserves the money and counts it against the original; a worker hands the refund to the rail afterwards. The refund of
a book transfer is settled by book, in the same transaction.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from pixconnect.kernel.flows.before_order import OrderRule, begin_rules
from pixconnect.kernel.flows.charge import count_returned
from pixconnect.kernel.flows.context import Context, found_of_caller, of_caller
from pixconnect.kernel.flows.idempotency import Idempotency
from pixconnect.kernel.flows.source import find_accounts, source_of
from pixconnect.kernel.rules import ability, identifiers, money, reject_code
from pixconnect.kernel.rules import refund as refund_rules
from pixconnect.kernel.rules import transfer as transfer_rules
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.identifiers import fingerprint
from pixconnect.kernel.rules.ledger import check_may_withdraw
from pixconnect.kernel.rules.order import open_order
from pixconnect.kernel.rules.refund import NewRefund, Refund, RefundRequest
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.origin import ORIGINS, Asked
from pixconnect.kernel.tables.refund import REFUNDS
from pixconnect.kernel.tables.transfer import TRANSFERS
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import UnitOfWork, begin_money_work
from pixconnect.platform.base import errors

_IDEMPOTENCY: Final = Idempotency("refund", refund_store.find_by_external_id, refund_store.find_external)


async def start_refund(context: Context, caller: Caller, request: RefundRequest, *, is_new: bool = False) -> Refund:
    """Accept a refund: we reserve its money, and a worker hands it to the rail or gives it up.

    Args:
        is_new: Refuse any used ``external_id``, also for a replay (``ExternalIdConflict``).

    Returns:
        The new refund; for a replay, the first request's refund in its present state.

    Raises:
        RuleBroken: In the documented order.
        ServiceUnavailable: Nothing was done.
        OutcomeUnknown: The commit was lost; repeat the request.
    """
    # Read without a lock: the receiver, and whether it was by book, never change. Sums are checked under the lock.
    original = await transfer_store.find_by_end_to_end_id(context.pool, caller.holder_id, request.end_to_end_id)
    source = source_of(original)
    abilities = source.find_abilities(context)
    try:
        ability.check_external_id(abilities, request.external_id)
        money.check_amount(request.amount_cents)
        is_refundable = original is not None and original.direction == "IN" and original.settled_at is not None
        if original is None or not is_refundable:
            # HOLDER_BLOCKED comes before it in the documented order.
            await _check_may_withdraw(context, caller)
            if original is None:
                await find_accounts().check_read(context, caller)
            raise errors.OriginalNotRefundable(refund_rules.explain_unsettled(original))
        if original.holder_id != caller.holder_id:
            await _check_family(context, caller, original.holder_id)
        ability.check_refund_amount(abilities, request.amount_cents, original)
        await source.check_sends(context)
    except (errors.RuleBroken, errors.ServiceUnavailable) as refusal:
        made = await _IDEMPOTENCY.replay_or_refuse(context.pool, caller, request, refusal)
        return _refuse_repeat(made, is_new=is_new)
    sent = await transfer_store.find_named(context.pool, [original.end_to_end_id], "OUT") if original.is_book else {}
    new = NewRefund(
        # The refund of a predecessor's payment uses the predecessor's own money on its own account.
        holder_id=original.holder_id,
        caller=structs.replace(caller, holder_id=original.holder_id),
        external_id=request.external_id or context.entropy.uuid7(),
        fingerprint=fingerprint(request),
        request=request,
        original_id=original.id,
        sent=sent.get(original.end_to_end_id),
        refund_id=await context.ids.refund_id(),
        received_id=await context.ids.refund_id() if original.is_book else 0,
        return_id=identifiers.make_return_id(context.policy.ispb, context.clock.now(), context.entropy),
        handover_timeout=timedelta(seconds=context.policy.handover_timeout_s),
        may_exist=request.external_id is not None,
        account_id=source.account_id,
    )
    made = await context.writes.submit(START_REFUNDS, new)
    # Its id was generated for this request, in any of its tries.
    return made if made.id == new.refund_id else _refuse_repeat(made, is_new=is_new)


def _refuse_repeat(made: Refund, *, is_new: bool) -> Refund:
    if is_new:
        raise errors.ExternalIdConflict("external_id: was already used for a refund")
    return made


async def _start_refunds(batch: Batch[NewRefund]) -> list[Refund | errors.PixConnectError]:
    work = await begin_money_work(batch, _holders_of)
    await work.lock_charges_of([new.request.end_to_end_id for new in batch])
    # Both sides of a book transfer, so that its refund is one transaction.
    sides = {(new.sent.id, new.sent.holder_id) for new in batch if new.sent is not None}
    await work.lock_transfers({(new.original_id, new.holder_id) for new in batch} | sides)
    known = await _IDEMPOTENCY.find_known(batch.connection, batch)
    rules = await begin_rules(work, batch)
    forgotten = await find_accounts().find_forgotten(batch.connection, batch)

    def accept(new: NewRefund) -> Refund:
        made = forgotten.get(new.refund_id)
        if made is None:
            return _accept(work, new, rules)
        if (made.transfer_id, made.amount_cents) != (new.original_id, new.request.amount_cents):
            raise errors.ExternalIdConflict("external_id: was already used for a refund with other contents")
        return structs.replace(made, external_id=new.external_id)

    outcomes = _IDEMPOTENCY.decide_each(batch, known, accept)
    await work.write()
    return outcomes


START_REFUNDS: Final = WriteOperation(
    "start_refunds", _start_refunds, makes_orders=True, external_id_of=lambda new: new.external_id
)


def _holders_of(new: NewRefund) -> tuple[int, ...]:
    return (new.holder_id,) if new.sent is None else (new.holder_id, new.sent.holder_id)


_MISSING: Final = "there is no such refund"
read_refund_by_id: Final = found_of_caller(refund_store.find_by_id, f"id: {_MISSING}")
# The refund of a book transfer has two sides under one id: this is the holder's own.
read_refund_by_return_id: Final = found_of_caller(refund_store.find_by_return_id, f"returnIdentification: {_MISSING}")


async def read_refund_by_external_id(context: Context, caller: Caller, external_id: str) -> Refund:
    refund = await refund_store.find_by_external_id(context.pool, caller.holder_id, external_id)
    if refund is None:
        refund = await find_accounts().find_forgotten_by_external_id(context, caller, external_id)
    return errors.found(refund, f"externalId: {_MISSING}")


list_refunds: Final = of_caller(refund_store.read_page)
"""One page of the holder's refunds, both ways, of one status or of all, newest first."""


def _accept(work: UnitOfWork, new: NewRefund, rules: Sequence[OrderRule]) -> Refund:
    for rule in rules:
        rule.check(new)
    original = work.transfers[new.original_id, new.holder_id]
    refund = refund_rules.open_refund(new, original, work.now)
    if new.caller is not None:
        work.put(ORIGINS, Asked("refund", refund.id, work.now, new.caller))
    work.announce_refund(refund)
    if new.sent is not None:
        return _settle_by_book(work, new, refund, original, work.transfers[new.sent.id, new.sent.holder_id])
    for rule in rules:
        rule.count(new)
    returning = hold_refund(work, refund, original, new.handover_timeout)
    work.transfers[original.id, original.holder_id] = returning
    work.move(TRANSFERS, original, returning)
    return refund


def hold_refund(work: UnitOfWork, refund: Refund, original: Transfer, handover_timeout: timedelta) -> Transfer:
    """Reserve the money of a refund and leave it to the workers; the caller writes the returned original."""
    work.post(refund.holder_id, "available", "reserved", refund.amount_cents, refund.cause)
    work.put(REFUNDS, refund)
    work.order(open_order(refund, work.now, handover_timeout, original=original))
    # Counted from now on, so that refunds under way never exceed the original together.
    return transfer_rules.begin_return(original, refund.amount_cents)


def _settle_by_book(work: UnitOfWork, new: NewRefund, refund: Refund, original: Transfer, sent: Transfer) -> Refund:
    received = refund_rules.open_other_side(new, refund, sent)
    work.announce_refund(received)
    if not work.balances[sent.holder_id].may_deposit:
        # As over the rail: the refund fails for both.
        failed = fail_at_once(work, refund, reject_code.ACCOUNT_BLOCKED)
        fail_at_once(work, received, reject_code.ACCOUNT_BLOCKED)
        return failed
    settled = settle_at_once(work, refund, original)
    settle_at_once(work, received, sent)
    return settled


def settle_at_once(
    work: UnitOfWork,
    opened: Refund,
    original: Transfer,
    network_at: datetime | None = None,
    post: Callable[[Refund], None] | None = None,
) -> Refund:
    """Record a refund that settles without an order: its entries, event and row, and its part of the original.

    Args:
        opened: New, and announced.
        original: Its transfer, locked.
        network_at: When it settled, if a rail reports it.
        post: Posts its entries; by default one, from or to the available balance.
    """
    refund = refund_rules.settle_refund(opened, work.now, network_at)
    if post is not None:
        post(refund)
    elif refund.flow == "OUT":
        work.post(refund.holder_id, "available", "settlement", refund.amount_cents, refund.cause)
    else:
        work.post(refund.holder_id, "settlement", "available", refund.amount_cents, refund.cause)
    work.announce_refund(refund)
    work.put(REFUNDS, refund)
    count_returned(work, original, refund.amount_cents)
    return refund


def fail_at_once(work: UnitOfWork, opened: Refund, code: str) -> Refund:
    """Record a new refund as refused; no money moves."""
    refund = refund_rules.fail_refund(opened, code, reject_code.explain(code), work.now)
    work.announce_refund(refund)
    work.put(REFUNDS, refund)
    return refund


async def _check_family(context: Context, caller: Caller, former_id: int) -> None:
    """Refuse a refund of a predecessor's payment if its successor may not withdraw, or the predecessor is disabled."""
    await _check_may_withdraw(context, caller)
    former = await holder_store.find(context.pool, former_id)
    if former is not None and former.disabled_at is not None:
        raise errors.HolderBlocked("end_to_end_id: the holder that received it is disabled")


async def _check_may_withdraw(context: Context, caller: Caller) -> None:
    if (balance := await ledger_store.find_balance(context.pool, caller.holder_id)) is not None:
        check_may_withdraw(balance)
