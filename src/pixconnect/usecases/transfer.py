"""Transfers out: accept, read, list.

Accepting reserves the money and answers; a worker hands the transfer to the rail afterwards. A transfer between two holders of
ours is settled by book, in the same transaction.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from pixconnect.domain import charge as charge_rules
from pixconnect.domain import errors, identifiers, limit, money, reject_code
from pixconnect.domain import transfer as transfer_rules
from pixconnect.domain.access import Caller
from pixconnect.domain.charge import Charge
from pixconnect.domain.event import SLOTS_COUNT
from pixconnect.domain.fingerprint import fingerprint, was_made_by
from pixconnect.domain.holder import Party
from pixconnect.domain.ledger import Balance
from pixconnect.domain.limit import Spent
from pixconnect.domain.listing import Page, Span
from pixconnect.domain.pix_key import parse_pix_key
from pixconnect.domain.rail import InitiationType
from pixconnect.domain.transfer import (
    AccountTransferRequest,
    KeyTransferRequest,
    QrCodeTransferRequest,
    Transfer,
    TransferRequest,
    TransferStatus,
    TransferView,
)
from pixconnect.store import ledger as ledger_store
from pixconnect.store import tally as tally_store
from pixconnect.store import transfer as transfer_store
from pixconnect.usecases.context import Context
from pixconnect.usecases.directory import with_key
from pixconnect.usecases.lookup_budget import Lookup
from pixconnect.usecases.payee import Payee, find_payee
from pixconnect.writing.batch import Batch
from pixconnect.writing.operation import WriteOperation
from pixconnect.writing.unit_of_work import UnitOfWork, lock_balances

_INITIATION_TYPES: dict[type[TransferRequest], InitiationType] = {
    KeyTransferRequest: "KEY",
    AccountTransferRequest: "MANUAL",
    QrCodeTransferRequest: "QRCODE",
}


class NewTransfer(Struct, kw_only=True):
    """A transfer that may be accepted, with every id made before the first try.

    Attributes:
        holder_id: Who pays.
        external_id: The client's, or ours.
        fingerprint: Of the request.
        request: What was asked for; what is not judged in it stands below as it was found.
        amount_cents: Judged.
        initiation_type: How the payee was named.
        payee: Who is paid.
        transfer_id: Its id.
        received_id: Of the other side's transfer, if it is settled by book.
        end_to_end_id: Its name on the network.
        correlation_id: Joins everything of this payment.
        payer: The holder's account, as a payee of ours sees it.
        handover_timeout: How long it may wait to be handed over.
        may_exist: Whether to look for it first: the client named it, or it was tried before.
    """

    holder_id: int
    external_id: str
    fingerprint: bytes
    request: TransferRequest
    amount_cents: int
    initiation_type: InitiationType
    payee: Payee
    payer: Party
    handover_timeout: timedelta
    transfer_id: int
    received_id: int
    end_to_end_id: str
    correlation_id: UUID
    may_exist: bool


async def start_transfer(context: Context, caller: Caller, request: TransferRequest) -> TransferView:
    """Accept a transfer: its money is reserved, and it will reach the rail or be given up.

    Returns:
        The new transfer; or the one that the same request made before, as it is now.

    Raises:
        RuleBroken: In the documented order.
        RateLimited: The holder has looked up too much that it has not paid.
        ServiceUnavailable: Somebody who must be asked cannot be reached, or the database; nothing was done.
        OutcomeUnknown: The commit was lost; repeat the request.
    """
    lookup = Lookup()
    try:
        return await _view(context, await _start_transfer(context, caller, request, lookup))
    except errors.Refusal:
        context.lookups.spend(context, caller.holder_id, lookup)
        raise


async def _start_transfer(context: Context, caller: Caller, request: TransferRequest, lookup: Lookup) -> Transfer:
    end_to_end_id = identifiers.make_end_to_end_id(context.policy.ispb, context.clock.now(), context.entropy)
    if request.external_id is not None and not isinstance(request, AccountTransferRequest):
        replayed = await _find_replay(context, caller, request)  # before the network is asked anything
        if replayed is not None:
            return replayed
    try:
        money.check_amount(request.amount_cents)
        payee = await find_payee(context, caller, request, end_to_end_id, lookup)
    except (errors.RuleBroken, errors.RateLimited) as refusal:
        replayed = await _find_replay(context, caller, request)
        if replayed is not None:
            return replayed
        if not isinstance(refusal, errors.AmountOutOfRange | errors.RateLimited):
            await _check_limits_now(context, caller, request.amount_cents)
        raise
    if payee is None:
        await _judge_without_payee(context, caller, request)
        raise errors.ServiceUnavailable("the payee's institution or the directory cannot be reached; nothing was done")
    new = NewTransfer(
        holder_id=caller.holder_id,
        external_id=request.external_id or str(context.entropy.uuid7()),
        fingerprint=fingerprint(request),
        request=request,
        amount_cents=request.amount_cents,
        initiation_type=_INITIATION_TYPES[type(request)],
        payee=payee,
        payer=(await context.directory.read_account(caller.holder_id)).party,
        handover_timeout=timedelta(seconds=context.policy.handover_timeout_s),
        transfer_id=await context.ids.transfer_id(),
        received_id=0 if payee.holder_id is None else await context.ids.transfer_id(),
        end_to_end_id=end_to_end_id,
        correlation_id=context.entropy.uuid4(),
        may_exist=request.external_id is not None,
    )
    return await context.writes.submit(START_TRANSFERS, new)


async def _start_transfers(batch: Batch[NewTransfer]) -> list[Transfer | errors.PixConnectError]:
    work = await lock_balances(batch, _holders_of)
    known = await _find_known(batch)
    wanted = {(charge.id, charge.holder_id) for new in batch if (charge := new.payee.charge) is not None}
    charges = await work.lock_charges(sorted(wanted))
    spending = _Spending(work)
    outcomes: list[Transfer | errors.PixConnectError] = []
    for new in batch:
        name = new.holder_id, new.external_id
        transfer = known.get(name)
        if transfer is not None:
            outcomes.append(_replay(transfer, new.request))
            continue
        try:
            await spending.check(work.balances[new.holder_id], new.amount_cents)
        except errors.RuleBroken as refusal:
            outcomes.append(refusal)
            continue
        transfer = known[name] = _accept(work, new, charges)
        spending.count(transfer)
        outcomes.append(transfer)
    await work.write()
    return outcomes


START_TRANSFERS: Final = WriteOperation("start_transfers", _start_transfers, external_id_of=lambda new: new.external_id)


def _holders_of(new: NewTransfer) -> tuple[int, ...]:
    return (new.holder_id,) if new.payee.holder_id is None else (new.holder_id, new.payee.holder_id)


async def _find_known(batch: Batch[NewTransfer]) -> dict[tuple[int, str], Transfer]:
    """Those that were made before: named by their clients, or tried before."""
    wanted = [(new.external_id, new.holder_id) for new in batch if new.may_exist]
    for new in batch:
        new.may_exist = True  # whatever becomes of this try, the next one has to look
    return await transfer_store.find_external(batch.connection, wanted) if wanted else {}


async def read_transfer_by_id(context: Context, caller: Caller, transfer_id: int) -> TransferView:
    """The holder's transfer of this id.

    Raises:
        NotFound: There is none of this holder.
    """
    transfer = await transfer_store.find_by_id(context.pool, caller.holder_id, transfer_id)
    return await _view(context, _found(transfer, "id"))


async def read_transfer_by_external_id(context: Context, caller: Caller, external_id: str) -> TransferView:
    """The holder's outgoing transfer of this external id.

    Raises:
        NotFound: There is none of this holder.
    """
    transfer = await transfer_store.find_by_external_id(context.pool, caller.holder_id, external_id)
    return await _view(context, _found(transfer, "externalId"))


async def read_transfer_by_end_to_end_id(context: Context, caller: Caller, end_to_end_id: str) -> TransferView:
    """The holder's own side of the transfer of this end-to-end id.

    Raises:
        NotFound: There is none of this holder.
    """
    transfer = await transfer_store.find_by_end_to_end_id(context.pool, caller.holder_id, end_to_end_id)
    return await _view(context, _found(transfer, "endToEndId"))


async def list_transfers(context: Context, caller: Caller, status: TransferStatus, span: Span) -> Page[TransferView]:
    """One page of the holder's transfers of one status, both ways, newest first."""
    page = await transfer_store.read_page(context.pool, caller.holder_id, status, span)
    return Page(items=[await _view(context, transfer) for transfer in page.items], total_count=page.total_count)


class _Spending:
    """What counts against a holder's limits, carried from request to request of a batch."""

    def __init__(self, work: UnitOfWork) -> None:
        self._work = work
        self._night_began_at = limit.begin_of_night(work.now)
        self._spent: dict[int, Spent] = {}

    async def check(self, balance: Balance, amount_cents: int) -> None:
        """Refuse a transfer by limit, flag or funds, in the documented order."""
        limits = balance.limits
        is_sum_limited = limits.day_cents is not None or limits.night_cents is not None
        if is_sum_limited and balance.holder_id not in self._spent:
            self._spent[balance.holder_id] = await self._read(balance.holder_id)
        spent = self._spent.get(balance.holder_id, Spent())
        limit.check_limits(limits, spent, amount_cents, is_night=self._night_began_at is not None)
        check_funds(balance, amount_cents)

    def count(self, transfer: Transfer) -> None:
        """Count a transfer that was accepted; one that failed at once does not count."""
        spent = self._spent.get(transfer.holder_id)
        if spent is not None and transfer.status != "ERROR":
            self._spent[transfer.holder_id] = Spent(
                day_cents=spent.day_cents + transfer.amount_cents, night_cents=spent.night_cents + transfer.amount_cents
            )

    async def _read(self, holder_id: int) -> Spent:
        return await tally_store.read_spent(
            self._work.connection, holder_id, limit.begin_of_day(self._work.now), self._night_began_at
        )


def check_funds(balance: Balance, amount_cents: int) -> None:
    """Refuse what a holder may not or cannot take out.

    Raises:
        HolderBlocked: The operator's flag.
        InsufficientFunds: Less is available.
    """
    if not balance.may_withdraw:
        raise errors.HolderBlocked("the holder may not withdraw")
    if balance.available_cents < amount_cents:
        raise errors.InsufficientFunds("amount: is more than the available funds")


def _accept(work: UnitOfWork, new: NewTransfer, charges: dict[tuple[int, int], Charge]) -> Transfer:
    """Reserve the money of one transfer, or settle it by book."""
    transfer = _open_transfer(work, new)
    work.announce_transfer(transfer)
    if new.payee.holder_id is not None:
        return _settle_by_book(work, new, new.payee.holder_id, transfer, charges)
    work.post(new.holder_id, "available", "reserved", new.amount_cents, transfer_id=transfer.id)
    work.changes.add_transfer(transfer)
    work.order(transfer, new.handover_timeout)
    return transfer


def _settle_by_book(
    work: UnitOfWork, new: NewTransfer, payee_id: int, sent: Transfer, charges: dict[tuple[int, int], Charge]
) -> Transfer:
    """Both sides of a transfer between two holders of ours: settled, or failed as the rail would have it."""
    charge = None if new.payee.charge is None else charges[new.payee.charge.id, new.payee.charge.holder_id]
    received = _open_received(work, new, payee_id, sent)
    work.announce_transfer(received)
    code = _refuse_by_book(work, payee_id, charge, new.amount_cents)
    if code is not None:
        reason = reject_code.explain(code)
        sent = transfer_rules.fail_transfer(sent, code, reason, work.now)
        received = transfer_rules.fail_transfer(received, code, reason, work.now)
    else:
        work.post(sent.holder_id, "available", "settlement", new.amount_cents, transfer_id=sent.id)
        work.post(payee_id, "settlement", "available", new.amount_cents, transfer_id=received.id)
        sent = transfer_rules.settle_transfer(sent, work.now)
        received = transfer_rules.settle_transfer(received, work.now)
    for side in (sent, received):
        work.announce_transfer(side)
        work.changes.add_transfer(side)
    if charge is not None and code is None:
        paid = charges[charge.id, charge.holder_id] = charge_rules.pay_charge(charge, work.now)
        work.changes.move_charge(charge, paid)
        work.announce_charge(paid, "qrcode.approved")
    return sent


def _refuse_by_book(work: UnitOfWork, payee_id: int, charge: Charge | None, amount_cents: int) -> str | None:
    if not work.balances[payee_id].may_deposit:
        return "AC06"
    return charge and charge_rules.find_reject_code(charge, amount_cents, work.now)


def _open_transfer(work: UnitOfWork, new: NewTransfer) -> Transfer:
    return Transfer(
        id=new.transfer_id,
        holder_id=new.holder_id,
        direction="OUT",
        initiation_type=new.initiation_type,
        is_book=new.payee.holder_id is not None,
        external_id=new.external_id,
        fingerprint=new.fingerprint,
        end_to_end_id=new.end_to_end_id,
        correlation_id=new.correlation_id,
        txid=new.payee.txid,
        charge_id=None,
        amount_cents=new.amount_cents,
        status="PROCESSING",
        own_key=None,
        counterparty=new.payee.party,
        outcome_code=None,
        outcome_reason=None,
        returned_cents=0,
        returning_cents=0,
        slot=new.transfer_id % SLOTS_COUNT,
        handed_at=None,
        settled_at=None,
        created_at=work.now,
        modified_at=work.now,
    )


def _open_received(work: UnitOfWork, new: NewTransfer, payee_id: int, sent: Transfer) -> Transfer:
    charge = new.payee.charge
    return msgspec.structs.replace(
        sent,
        id=new.received_id,
        holder_id=payee_id,
        direction="IN",
        external_id=None,
        fingerprint=None,
        charge_id=charge.id if charge is not None else None,
        own_key=new.payee.party.key,
        counterparty=new.payer,
        slot=(charge.id if charge is not None else new.received_id) % SLOTS_COUNT,
    )


async def _judge_without_payee(context: Context, caller: Caller, request: TransferRequest) -> None:
    """Refuse what can be refused although the payee cannot be found."""
    balance = await ledger_store.find_balance(context.pool, caller.holder_id)
    if balance is not None:
        await _check_limits_now(context, caller, request.amount_cents)
        check_funds(balance, request.amount_cents)


async def _check_limits_now(context: Context, caller: Caller, amount_cents: int) -> None:
    """Judge the limits outside a batch, where another rule is broken that comes after them."""
    balance = await ledger_store.find_balance(context.pool, caller.holder_id)
    if balance is None or balance.limits == limit.Limits():
        return
    now = context.clock.now()
    night_began_at = limit.begin_of_night(now)
    spent = await tally_store.read_spent(context.pool, caller.holder_id, limit.begin_of_day(now), night_began_at)
    limit.check_limits(balance.limits, spent, amount_cents, is_night=night_began_at is not None)


async def _find_replay(context: Context, caller: Caller, request: TransferRequest) -> Transfer | None:
    if request.external_id is None:
        return None
    transfer = await transfer_store.find_by_external_id(context.pool, caller.holder_id, request.external_id)
    if transfer is None:
        return None
    outcome = _replay(transfer, request)
    if isinstance(outcome, errors.PixConnectError):
        raise outcome
    return outcome


def _replay(transfer: Transfer, request: TransferRequest) -> Transfer | errors.PixConnectError:
    if transfer.fingerprint is not None and was_made_by(transfer.fingerprint, request):
        return transfer
    return errors.ExternalIdConflict("external_id: was already used for a transfer with other contents")


def _found(transfer: Transfer | None, parameter: str) -> Transfer:
    if transfer is None:
        raise errors.NotFound(f"{parameter}: there is no such transfer")
    return transfer


async def _view(context: Context, transfer: Transfer) -> TransferView:
    """Both sides of a transfer: ours is the holder's account, with the key by which it was found."""
    account = await context.directory.read_account(transfer.holder_id)
    own = with_key(account.party, None if transfer.own_key is None else parse_pix_key(transfer.own_key))
    if transfer.direction == "OUT":
        return TransferView(transfer=transfer, debit_party=own, credit_party=transfer.counterparty)
    return TransferView(transfer=transfer, debit_party=transfer.counterparty, credit_party=own)
