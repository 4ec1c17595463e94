"""Reads an account's lists repeatedly, and records each payment once.

Listed payments that are recorded already are compared, at the cost of one query. New ones are recorded like any rail's report,
and their returns as refunds. A sweep counts as read once all its findings are recorded or kept.

A list may report more about a payer than before. That is recorded once, changes no money, and has an event. A list that
contradicts earlier facts is kept for an operator instead.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final, TypeVar

from msgspec import Struct, structs

from pixconnect.features.institutions.accounts import ACCOUNT
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.institution import Institution, InstitutionUnavailable, OpenAccount, ReceivedPix
from pixconnect.features.institutions.rules.joining import DAYS_APART_MAX, OPENING_PREFIX
from pixconnect.features.institutions.rules.sweep import MalformedItem, Pace, Sweep, begin_sweep, is_due
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service.charge_opening import ask_about_paid
from pixconnect.features.institutions.service.refund import record_returns
from pixconnect.features.institutions.service.statement import settle_if_free
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.service import receive_movement
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows.charge import expire_charges_of_account
from pixconnect.kernel.flows.context import Context, Writer
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.holder import Party, compare_parties, complete_party, describe_party
from pixconnect.kernel.rules.kept_report import KeptItem, Misfit, find_change, find_other_account
from pixconnect.kernel.rules.rail import CreditReport, MovementReport
from pixconnect.kernel.rules.transfer import MESSAGE_LENGTH_MAX, Transfer, announce_update
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import begin_money_work
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day

ListedItem = TypeVar("ListedItem")

PACES: Final[Sequence[Pace]] = ("near", "wide", "deep")
EXPIRED_MAX: Final = 256


class ListedPayer(Struct, frozen=True, kw_only=True):
    holder_id: int
    transfer_id: int
    party: Party  # the party as the institution reports it now

    @property
    def key(self) -> tuple[int, int]:
        return self.transfer_id, self.holder_id


async def complete_payers(context: Context, reported: Mapping[str, tuple[Transfer, Party]]) -> None:
    """Record new facts of lists about payers; a payer completed before stays.

    Args:
        reported: By end-to-end id, the recorded transfer and the payer as listed now; they do not contradict each other.
    """
    more = [
        ListedPayer(holder_id=transfer.holder_id, transfer_id=transfer.id, party=party)
        for transfer, party in reported.values()
        if complete_party(transfer.counterparty, party) != transfer.counterparty
    ]
    if not more:
        return
    completed = await transfer_store.find_completed(context.pool, [payer.key for payer in more])
    new = [payer for payer in more if payer.key not in completed]
    for outcome in await context.writes.submit_all(COMPLETE_PAYERS, new):
        # The next reading lists it again.
        if isinstance(outcome, errors.PixConnectError):
            raise outcome


async def _complete_payers(batch: Batch[ListedPayer]) -> list[None]:
    # The balance of its holder guards a transfer, though no money moves.
    work = await begin_money_work(batch)
    wanted = sorted({payer.key for payer in batch})
    transfers = await transfer_store.lock_by_id(work.connection, wanted)
    completed = await transfer_store.find_completed(work.connection, wanted)
    for payer in batch:
        before = transfers[payer.key]
        party = complete_party(before.counterparty, payer.party)
        # Another reading may have completed it meanwhile, or two in this batch.
        is_new = payer.key not in completed and not compare_parties(before.counterparty, payer.party)
        if is_new and party != before.counterparty:
            completed.add(payer.key)
            after = structs.replace(before, counterparty=party)
            await transfer_store.complete_payer(work.connection, after, work.now)
            work.announce(announce_update, after, "transfer.in.completed", work.now)
    await work.write()
    return [None] * len(batch)


COMPLETE_PAYERS: Final = WriteOperation("complete_payers", _complete_payers)


async def post_opening(context: Writer, account: InstitutionAccount) -> None:
    """Begin the books with the account's balance; done once, however often it is called."""
    # An opening balance of 0 has no entry.
    if not account.opening_cents:
        return
    # A holder may be on another account later, whose books begin too.
    item_id = f"{OPENING_PREFIX}{account.id}"
    if await movement_store.find_items(context.pool, [(account.house_id, item_id)]):
        return
    report = MovementReport(
        report_id=item_id,
        item_id=item_id,
        party=(await context.directory.read_account(account.house_id)).party,
        kind="opening_balance",
        direction="IN",
        amount_cents=account.opening_cents,
        settled_at=account.opened_at,
    )
    await receive_movement(context, report)


async def sweep_due(context: Context, institution: Institution, called: Collection[Pace] = ()) -> None:
    """Run the due sweeps of an account, and those it has called for."""
    account = _account(context)
    lasts = await day_store.list_last_of(context.pool, account.id)
    # Nothing is read before the books have begun, so a reading implies their beginning.
    if "near" not in lasts:
        await post_opening(context, account)
    for pace in PACES:
        if pace in called or _is_due(context, account, pace, lasts.get(pace)):
            await sweep(context, institution, pace)


async def sweep(context: Context, institution: Institution, pace: Pace) -> int:
    """Read a whole list once, and return how many payments it had.

    Raises:
        InstitutionUnavailable: Facts recorded until then stay; the next sweep begins where this one did.
    """
    account = _account(context)
    last = await day_store.find(context.pool, account.id, pace)
    began_at = context.clock.real_now()
    since = begin_sweep(pace, last, account.opened_at, began_at)
    count, is_whole = 0, True
    async with noting_failure(context, account, pace):
        async for page in institution.list_received(since, began_at, only_returned=pace == "deep"):
            count += len(page)
            known = await _leave_unknown(context, institution, page)
            is_whole = await record_page(context, known) and len(known) == len(page) and is_whole
            # Three days of a busy account are hundreds of pages: new payments wait for one page at most.
            near = None if pace == "near" else await day_store.find(context.pool, account.id, "near")
            if pace != "near" and _is_due(context, account, "near", near):
                await sweep(context, institution, "near")
    if is_whole:
        await note_end(context, account, pace, began_at, count)
    return count


def _is_due(context: Context, account: InstitutionAccount, pace: Pace, last: Sweep | None) -> bool:
    return is_due(pace, last, timedelta(seconds=account.poll_s), context.clock.real_now(), account.lost_at)


async def keep_unreadable(
    context: Context, account: InstitutionAccount, page: Sequence[ListedItem | MalformedItem]
) -> list[ListedItem]:
    """Keep the unreadable items of a page, each once however often it is listed; return the others."""
    for item in page:
        if isinstance(item, MalformedItem):
            name = item.end_to_end_id or account.name
            unreadable = KeptItem(report_id=name, name=name, account=account.name, content=item.content)
            misfit = Misfit(reason="cannot_be_recorded", explanation=f"it cannot be read: {item.reason}")
            await kept_usecases.keep_listed_item(context.pool, unreadable, misfit)
    return [item for item in page if not isinstance(item, MalformedItem)]


async def note_end(context: Context, account: InstitutionAccount, pace: Pace, began_at: datetime, items_count: int) -> None:
    """Record the end of a sweep whose findings are all recorded or kept."""
    done = Sweep(
        institution_id=account.id, pace=pace, began_at=began_at, ended_at=context.clock.real_now(), items_count=items_count
    )
    await day_store.write(context.pool, done)


@asynccontextmanager
async def noting_failure(context: Context, account: InstitutionAccount, pace: Pace) -> AsyncGenerator[None]:
    """Record that a reading failed, if its institution gave no answer; the error goes on."""
    try:
        yield
    except InstitutionUnavailable as error:
        await day_store.note_failure(context.pool, account.id, pace, context.clock.real_now(), error.reason)
        raise


async def expire_account_charges(context: Context, institution: Institution) -> int:
    """Expire charges whose end had passed, with the institution's lag, before a reading that found no payment of them."""
    account = _account(context)
    near = await day_store.find(context.pool, account.id, "near")
    if near is None:
        return 0
    complete_until = near.began_at - institution.traits.list_lag
    return await expire_charges_of_account(context, account.id, complete_until, EXPIRED_MAX)


async def _leave_unknown(
    context: Context, institution: Institution, page: Sequence[ReceivedPix | MalformedItem]
) -> Sequence[ReceivedPix | MalformedItem]:
    """Leave out payments of charges with an unknown opening, so that they pay them later; those charges are queried now."""
    txids = [pix.txid for pix in page if isinstance(pix, ReceivedPix) and pix.txid is not None]
    if not txids:
        return page
    opened = OpenAccount(account=_account(context), institution=institution)
    waiting = await ask_about_paid(context, opened, txids)
    return [item for item in page if isinstance(item, MalformedItem) or item.txid not in waiting]


async def record_page(context: Context, page: Sequence[ReceivedPix | MalformedItem]) -> bool:
    """Record the new items of a page; return whether all of it is recorded or kept now."""
    account = _account(context)
    readable = await keep_unreadable(context, account, page)
    # A shifting list repeats items: a later difference is compared with the recorded facts.
    listed = {pix.end_to_end_id: pix for pix in reversed(readable)}
    again = [pix for pix in readable if pix != listed[pix.end_to_end_id]]
    # Facts before the books begin do not count here.
    counted = {name: pix for name, pix in listed.items() if pix.settled_at >= account.opened_at}
    is_whole = not counted or await _record_received(context, account, counted)
    is_whole = await record_returns(context, account, list(listed.values())) and is_whole
    return await record_page(context, again) and is_whole if again else is_whole


async def _record_received(context: Context, account: InstitutionAccount, listed: Mapping[str, ReceivedPix]) -> bool:
    recorded = await transfer_store.find_named(context.pool, list(listed), "IN")
    reported: dict[str, tuple[Transfer, Party]] = {}
    for name, transfer in recorded.items():
        report = as_report(listed[name])
        misfit = _find_misfit(account, listed[name], transfer, report.debit_party)
        if misfit is not None:
            await kept_usecases.keep(context.pool, report, misfit, is_listed=True)
        else:
            reported[name] = transfer, report.debit_party
    await complete_payers(context, reported)
    new = [
        as_report(pix)
        for name, pix in listed.items()
        if name not in recorded and not await kept_usecases.keep_if_dated_ahead(context, as_report(pix), pix.settled_at)
    ]
    if not new:
        return True
    # The list is late, or the account was not read for days: a day that has closed without such a payment is judged again.
    days = {to_day(report.reported_at) for report in new} - {to_day(context.clock.now())}
    reopened = days and await day_store.reopen(context.pool, account.id, sorted(days), context.clock.now())
    taken_count = await take_reports(context, new)
    if reopened:
        await day_usecases.judge(context, account, min(reopened))
    if days and await return_store.list_credited(
        context.pool, account.id, (min(days), max(days) + timedelta(days=DAYS_APART_MAX))
    ):
        # Their lines may be movements by now, which are taken back.
        await settle_if_free(context, account, min(days))
    return taken_count == len(new)


def as_report(pix: ReceivedPix) -> CreditReport:
    """Return a rail's equivalent report; its holder is found when it is recorded."""
    return CreditReport(
        report_id=pix.end_to_end_id,
        end_to_end_id=pix.end_to_end_id,
        amount_cents=pix.amount_cents,
        debit_party=pix.payer,
        credit_party=describe_party(key=pix.key),
        txid=pix.txid,
        initiation_type="QRCODE" if pix.txid else "KEY" if pix.key else "MANUAL",
        reported_at=pix.settled_at,
        payer_message=None if pix.payer_message is None else pix.payer_message[:MESSAGE_LENGTH_MAX],
        settled_at=pix.settled_at,
        parts=pix.parts,
    )


def _find_misfit(account: InstitutionAccount, pix: ReceivedPix, transfer: Transfer, payer: Party) -> Misfit | None:
    """Find how a list contradicts a payment's earlier report; returns may be added, and its payer may become known."""
    if (elsewhere := find_other_account(transfer.institution_id, account.id)) is not None:
        return elsewhere
    compared: dict[str, tuple[object, object]] = dict(
        amount_cents=(transfer.amount_cents, pix.amount_cents),
        # Missing members contradict nothing.
        key=(transfer.own_key, pix.key or transfer.own_key),
        txid=(transfer.txid, pix.txid or transfer.txid),
        instant=(transfer.network_settled_at, pix.settled_at),
    )
    return find_change(compared | compare_parties(transfer.counterparty, payer))


def _account(context: Context) -> InstitutionAccount:
    account = context.port(ACCOUNT)
    if account is None:
        raise ValueError("it is the context of no account")
    return account
