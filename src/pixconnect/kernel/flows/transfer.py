"""Transfers out: accept, read, list.

Accepting reserves the money and answers; a worker hands the transfer to the rail afterwards. A transfer between two of our
holders is settled by book, in the same transaction.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from pixconnect.kernel.flows.before_order import BEFORE_PAYEE, OrderRule, begin_rules, check_payer
from pixconnect.kernel.flows.charge import finish_payment, keep_parts
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.directory import OwnAccount, with_key
from pixconnect.kernel.flows.idempotency import Idempotency
from pixconnect.kernel.flows.lookup_budget import Lookup
from pixconnect.kernel.flows.payee import find_payee
from pixconnect.kernel.flows.source import Way, find_accounts, source_of
from pixconnect.kernel.rules import identifiers, money, reject_code
from pixconnect.kernel.rules import transfer as transfer_rules
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import compose_amount
from pixconnect.kernel.rules.charge_payment import ChargePayment, decide_charge
from pixconnect.kernel.rules.holder import parse_pix_key
from pixconnect.kernel.rules.identifiers import fingerprint
from pixconnect.kernel.rules.listing import Page, Span, TransferSearch
from pixconnect.kernel.rules.order import open_order
from pixconnect.kernel.rules.transfer import (
    NO_TERMS,
    AccountTransferRequest,
    NewTransfer,
    SendingTerms,
    Transfer,
    TransferRequest,
    TransferStatus,
    TransferView,
)
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.origin import ORIGINS, Asked
from pixconnect.kernel.tables.transfer import TRANSFERS
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import UnitOfWork, begin_money_work
from pixconnect.platform.base import errors

_IDEMPOTENCY: Final = Idempotency("transfer", transfer_store.find_by_external_id, transfer_store.find_external)

_NEVER_ACCEPTED: Final = (
    errors.ExternalIdConflict,
    errors.AmountOutOfRange,
    errors.InvalidPixKey,
    errors.InvalidTaxId,
    errors.InvalidAccount,
)
"""These depend on the request alone, at any time: it cannot have been done before."""


class AccountChanged(errors.ServiceUnavailable):
    """Payer or payee was moved to an account at an institution after this process had read where it is."""

    def __init__(self, holder_ids: Sequence[int]) -> None:
        super().__init__("payer or payee was put on another account meanwhile; nothing was done")
        self.holder_ids = holder_ids


class Unreachable(errors.ServiceUnavailable):
    """A system that the payee's rules depend on."""


class PayeeIsAnother(errors.PixKeyNotFound):
    """The key belongs to another owner than the caller named."""


async def start_transfer(
    context: Context, caller: Caller, request: TransferRequest, terms: SendingTerms = NO_TERMS
) -> TransferView:
    """Accept a transfer: we reserve its money, and a worker hands it to the rail or gives it up.

    Returns:
        The new transfer; for a replay, the first request's transfer in its present state.

    Raises:
        RuleBroken: In the documented order.
        RateLimited: The holder looked up too many keys and did not pay them.
        ServiceUnavailable: A required system, or the database, cannot be reached; nothing was done.
        OutcomeUnknown: The commit was lost, or the database was restored and it may have been paid before; repeat the request.
    """
    lookup = Lookup()
    # Read before any write: the written rows can be shown then, even if the database fails.
    account = await context.directory.read_account(caller.holder_id)
    try:
        return _view(account, await _start_transfer(context, caller, account, request, terms, lookup))
    except errors.Refusal as refusal:
        # Looking up a key without paying costs tokens, as a protection of the directory against scans.
        context.lookups.spend(context, caller.holder_id, lookup)
        if isinstance(refusal, errors.RuleBroken) and not isinstance(refusal, _NEVER_ACCEPTED):
            await _admit_forgotten(context, account, request)
        raise


async def _start_transfer(
    context: Context, caller: Caller, account: OwnAccount, request: TransferRequest, terms: SendingTerms, lookup: Lookup
) -> Transfer:
    try:
        return await _try_transfer(context, caller, account, request, terms, lookup)
    except AccountChanged as changed:
        for holder_id in changed.holder_ids:
            await context.directory.read_account_anew(holder_id)
    # Decided again by the account on which the money is now.
    account = await context.directory.read_account(caller.holder_id)
    return await _try_transfer(context, caller, account, request, terms, lookup)


async def _try_transfer(
    context: Context, caller: Caller, account: OwnAccount, request: TransferRequest, terms: SendingTerms, lookup: Lookup
) -> Transfer:
    end_to_end_id = terms.end_to_end_id or identifiers.make_end_to_end_id(
        context.policy.ispb, context.clock.now(), context.entropy
    )
    if request.external_id is not None and not isinstance(request, AccountTransferRequest):
        replayed = await _IDEMPOTENCY.find_replay(context.pool, caller, request)  # before any query to the network
        if replayed is not None:
            return _refuse_repeat(terms, replayed)
    try:
        money.check_amount(request.amount_cents)
        way = await _find_way(context, caller, account, request, end_to_end_id, terms, lookup)
    except (errors.RuleBroken, errors.RateLimited, errors.ServiceUnavailable, errors.OutcomeUnknown) as refusal:
        replayed = await _IDEMPOTENCY.find_replay(context.pool, caller, request)
        if replayed is not None:
            return _refuse_repeat(terms, replayed)
        # Other rules come first, and all of them before a system that is unavailable.
        if not isinstance(refusal, errors.AmountOutOfRange | errors.RateLimited | errors.OutcomeUnknown):
            rules = None if isinstance(refusal, Unreachable) else BEFORE_PAYEE
            await check_payer(context, caller.holder_id, request.amount_cents, rules)
        raise
    # Every id is generated before the first try: a batch whose commit was lost runs again with the same ones.
    new = NewTransfer(
        holder_id=caller.holder_id,
        caller=caller,
        external_id=request.external_id or context.entropy.uuid7(),
        fingerprint=fingerprint(request),
        request=request,
        payee=way.payee,
        payer=way.payer,
        handover_timeout=timedelta(seconds=context.policy.handover_timeout_s),
        transfer_id=await context.ids.transfer_id(),
        received_id=0 if way.payee.holder_id is None else await context.ids.transfer_id(),
        end_to_end_id=end_to_end_id,
        correlation_id=context.entropy.uuid4(),
        may_exist=request.external_id is not None,
        terms=way.terms,
        account_id=way.account_id,
        br_code=way.br_code,
    )
    made = await context.writes.submit(START_TRANSFERS, new)
    # Its id was generated for this request, in any of its tries.
    if made.id != new.transfer_id:
        return _refuse_repeat(terms, made)
    if way.spends_lookup:
        context.lookups.spend(context, caller.holder_id, lookup)
    return made


async def _find_way(
    context: Context,
    caller: Caller,
    account: OwnAccount,
    request: TransferRequest,
    end_to_end_id: str,
    terms: SendingTerms,
    lookup: Lookup,
) -> Way:
    """Find the payee, and choose how the transfer leaves, or that it goes by book; raises as ``Source.choose_way``."""
    payee = await find_payee(context, caller, request, end_to_end_id, lookup)
    if payee is None:
        raise Unreachable("the payee's institution or the directory cannot be reached; nothing was done")
    # Known to differ from the owner that the caller names.
    if terms.payee_tax_id not in (None, payee.party.tax_id) and not payee.is_key_alone:
        raise PayeeIsAnother("key: belongs to another tax id")
    await find_accounts().admit_renamed(context, account, request)
    if payee.holder_id is None:
        return await source_of(account).choose_way(context, account, request, payee, terms)
    # A sandbox has no account at an institution.
    if not context.policy.is_sandbox:
        await _check_same_place(context, account, payee.holder_id)
    return Way(payer=account.party, payee=payee, terms=terms)


async def _check_same_place(context: Context, payer: OwnAccount, payee_id: int) -> None:
    """Refuse a book transfer between holders on two accounts at institutions: that would be a real Pix."""
    payee = await context.directory.read_account(payee_id)
    if payer.institution_id != payee.institution_id:
        # One of them may have been put on its account since this process read it.
        payer = await context.directory.read_account_anew(payer.holder_id)
        payee = await context.directory.read_account_anew(payee_id)
    if payer.institution_id != payee.institution_id:
        raise errors.ServiceUnavailable(
            "nothing is sent between two accounts at institutions of this service yet; nothing was done"
        )


async def _admit_forgotten(context: Context, payer: OwnAccount, request: TransferRequest) -> None:
    """Raise ``OutcomeUnknown`` for requests that may have been paid: before a refusal claims that nothing was done.

    If the institution keeps none of our names, also before anything is accepted. After a restore, a payment of the lost span
    becomes a movement once its line is read, and takes the money of the request that had ordered it. Only the bank knows.
    """
    # A request without a name cannot be repeated; and a sandbox has no account at an institution.
    if request.external_id is None or context.policy.is_sandbox:
        return
    await source_of(payer).admit_forgotten(context, request)
    await find_accounts().admit_renamed(context, payer, request)


def _refuse_repeat(terms: SendingTerms, made: Transfer) -> Transfer:
    if terms.is_new:
        raise errors.ExternalIdConflict("external_id: was already used for a transfer")
    if terms.payee_tax_id not in (None, made.counterparty.tax_id):
        raise errors.ExternalIdConflict("external_id: was already used for a transfer to a key of another owner")
    return made


async def _start_transfers(batch: Batch[NewTransfer]) -> list[Transfer | errors.PixConnectError]:
    work = await begin_money_work(batch, _holders_of, _statements_of)
    known = await _IDEMPOTENCY.find_known(batch.connection, batch)
    wanted = {(charge.id, charge.holder_id) for new in batch if (charge := new.payee.charge) is not None}
    await work.lock_charges(sorted(wanted))
    rules = await begin_rules(work, batch)
    outcomes = _IDEMPOTENCY.decide_each(batch, known, lambda new: _accept(work, new, rules))
    await work.write()
    return outcomes


START_TRANSFERS: Final = WriteOperation(
    "start_transfers", _start_transfers, makes_orders=True, external_id_of=lambda new: new.external_id
)


def _holders_of(new: NewTransfer) -> tuple[int, ...]:
    return (new.holder_id,) if new.payee.holder_id is None else (new.holder_id, new.payee.holder_id)


def _statements_of(new: NewTransfer) -> tuple[int, ...]:
    """Reserved money shows in no statement, so settlements may lock the statement's end meanwhile."""
    return () if new.payee.holder_id is None else _holders_of(new)


_MISSING: Final = "there is no such transfer"


async def read_transfer_by_id(context: Context, caller: Caller, transfer_id: int) -> TransferView:
    transfer = await transfer_store.find_by_id(context.pool, caller.holder_id, transfer_id)
    return await view_transfer(context, errors.found(transfer, f"id: {_MISSING}"))


async def read_transfer_by_external_id(context: Context, caller: Caller, external_id: str) -> TransferView:
    transfer = await transfer_store.find_by_external_id(context.pool, caller.holder_id, external_id)
    return await view_transfer(context, errors.found(transfer, f"externalId: {_MISSING}"))


async def read_transfer_by_end_to_end_id(context: Context, caller: Caller, end_to_end_id: str) -> TransferView:
    # A book transfer has two sides under one id: this is the holder's own.
    transfer = await transfer_store.find_by_end_to_end_id(context.pool, caller.holder_id, end_to_end_id)
    return await view_transfer(context, errors.found(transfer, f"endToEndId: {_MISSING}"))


async def list_transfers(context: Context, caller: Caller, status: TransferStatus, span: Span) -> Page[TransferView]:
    """One page of the holder's transfers of one status, both ways, newest first."""
    page = await transfer_store.read_page(context.pool, caller.holder_id, status, span)
    return page.with_items([await view_transfer(context, transfer) for transfer in page.items])


async def search_transfers(context: Context, caller: Caller, search: TransferSearch, span: Span) -> Page[TransferView]:
    """One page of the holder's transfers that match all criteria, newest first.

    Raises:
        SearchTooLarge: The period is too long for a search by these fields.
    """
    if search.external_id is None and search.end_to_end_id is None:
        read = transfer_store.filter_page if search.is_filtered else transfer_store.search_page
        page = await read(context.pool, caller.holder_id, search, span)
        return page.with_items([await view_transfer(context, transfer) for transfer in page.items])
    # An id matches at most one: the other conditions are checked here.
    if search.external_id is not None:
        transfer = await transfer_store.find_by_external_id(context.pool, caller.holder_id, search.external_id)
    else:
        name = search.end_to_end_id or ""
        transfer = await transfer_store.find_by_end_to_end_id(context.pool, caller.holder_id, name)
    if transfer is None or not search.finds(transfer, span):
        return Page(items=[], total_count=0)
    # There is no second page, and no cursor leads to one.
    items = [await view_transfer(context, transfer)] if span.position == 0 else []
    return Page(items=items, total_count=1)


def check_way(work: UnitOfWork, new: NewTransfer) -> None:
    """Compare the chosen way with the location of the money, while its balances are locked."""
    lies_on = work.balances[new.holder_id].institution_id
    payee_id = new.payee.holder_id
    chosen = new.account_id if payee_id is None else work.balances[payee_id].institution_id
    if chosen != lies_on:
        raise AccountChanged((new.holder_id,) if payee_id is None else (new.holder_id, payee_id))


def _accept(work: UnitOfWork, new: NewTransfer, rules: Sequence[OrderRule]) -> Transfer:
    """Reserve the money of one transfer, or settle it by book; a refused one has changed nothing."""
    check_way(work, new)
    for rule in rules:
        rule.check(new)
    transfer = transfer_rules.open_transfer(new, work.now)
    work.put(ORIGINS, Asked("transfer", transfer.id, work.now, new.caller))
    work.announce_transfer(transfer)
    if new.payee.holder_id is not None:
        transfer = _settle_by_book(work, new, new.payee.holder_id, transfer)
    else:
        work.post(new.holder_id, "available", "reserved", transfer.amount_cents, transfer.cause)
        work.put(TRANSFERS, transfer)
        order = open_order(transfer, work.now, new.handover_timeout, br_code=new.br_code)
        for rule in rules:
            order = rule.delay(new, transfer, order)
        work.order(order)
    # The next transfers of this batch count this one.
    if transfer_rules.is_spent(transfer):
        for rule in rules:
            rule.count(new)
    return transfer


def _settle_by_book(work: UnitOfWork, new: NewTransfer, payee_id: int, sent: Transfer) -> Transfer:
    """Settle a transfer between two of our holders, or fail it as over the rail."""
    scanned = new.payee.charge
    name = (0, 0) if scanned is None else (scanned.id, scanned.holder_id)
    payment = ChargePayment(
        holder_id=payee_id,
        account_id=work.balances[payee_id].institution_id,
        txid=sent.txid,
        amount_cents=sent.amount_cents,
        at=work.now,
        is_refusable=not new.payee.is_static,
    )
    decision = decide_charge(work.charges.get(name), payment)
    received = transfer_rules.open_other_side(new, sent, payee_id, decision.charge)
    work.announce_transfer(received)
    code = decision.reject_code if work.balances[payee_id].may_deposit else reject_code.ACCOUNT_BLOCKED
    if code is not None:
        refused = code, reject_code.explain(code), work.now
        sent, received = (transfer_rules.fail_transfer(side, *refused) for side in (sent, received))
    else:
        sent = transfer_rules.settle_transfer(sent, work.now)
        received = transfer_rules.settle_transfer(received, work.now)
        work.post(sent.holder_id, "available", "settlement", sent.amount_cents, sent.cause)
        work.post(payee_id, "settlement", "available", sent.amount_cents, received.cause)
    # Each side has its own events: processing was announced before, the end is announced now.
    for side in (sent, received):
        work.announce_transfer(side)
        work.put(TRANSFERS, side)
    if code is None:
        if decision.charge is not None:
            keep_parts(work, received, decision.charge, compose_amount(decision.charge, work.now))
        finish_payment(work, received, name, decision.divergences)
    return sent


async def view_transfer(context: Context, transfer: Transfer) -> TransferView:
    return _view(await context.directory.read_account(transfer.holder_id), transfer)


def _view(account: OwnAccount, transfer: Transfer) -> TransferView:
    # The holder's account is shown with the key that found it.
    own = with_key(account.party, None if transfer.own_key is None else parse_pix_key(transfer.own_key))
    if transfer.direction == "OUT":
        return TransferView(transfer=transfer, debit_party=own, credit_party=transfer.counterparty)
    return TransferView(transfer=transfer, debit_party=transfer.counterparty, credit_party=own)
