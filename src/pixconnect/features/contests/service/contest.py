"""Follows payers' contests at an account: its list is read again and again, and reported in the form of a rail.

::

    listed ──► known as it is? nothing
       └────► accepted: its Pix is read, and what was returned of it recorded ──► report ──► ``usecases/money/infraction``

Each report contains all of a contest, so a list that shifts, repeats itself or comes late does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from pixconnect.features.contests.rules.contest import Contests, ListedContest, is_told, report_contest
from pixconnect.features.contests.rules.infraction import Infraction
from pixconnect.features.contests.service.report import take_reports
from pixconnect.features.contests.tables import infraction as infraction_store
from pixconnect.features.institutions.rules.institution import InstitutionUnavailable, OpenAccount
from pixconnect.features.institutions.rules.malformed_item import MalformedItem
from pixconnect.features.institutions.rules.sweep import CONTESTS_SPAN, is_due
from pixconnect.features.institutions.service.refund import record_returns
from pixconnect.features.institutions.service.sweep import keep_unreadable, note_end, note_failure
from pixconnect.features.institutions.tables import sweep as sweep_store
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.block_report import TakenPart
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store

EVERY: Final = 20
"""As a multiple of the readings of incoming Pix: five minutes by default.

A contest lasts for days, and a list is half a year long.
"""
EVERY_IF_CALLED: Final = 4
"""The same once the institution has called: for whatever reason, a contest may be new."""


async def follow_contests(context: Context, opened: OpenAccount, *, is_called: bool = False) -> int:
    """Read the list of contests if that is due; return their number.

    Args:
        context: The account's.
        opened: The account's port.
        is_called: Whether the institution has called since.

    Raises:
        InstitutionUnavailable: Facts recorded until then stay.
    """
    account, contests = opened.account, opened.institution.contests
    if contests is None:
        return 0
    lasts, now = await sweep_store.list_last_of(context.pool, account.id), context.clock.real_now()
    every = timedelta(seconds=account.poll_s * (EVERY_IF_CALLED if is_called else EVERY))
    # The contested payment is recorded first: nothing is read before payments were.
    if "near" not in lasts or not is_due("contests", lasts.get("contests"), every, now, account.lost_at):
        return 0
    try:
        count = await read_contests(context, opened, contests)
    except InstitutionUnavailable as error:
        await note_failure(context, account, "contests", error.reason)
        raise
    # All of it is read again each time, so a contest not taken now comes again.
    await note_end(context, account, "contests", now, count)
    return count


async def read_contests(context: Context, opened: OpenAccount, contests: Contests) -> int:
    """Read the whole list once, and record new contests."""
    now, count = context.clock.real_now(), 0
    async for page in contests.list_contests(now - CONTESTS_SPAN, now):
        count += len(page)
        await _record(context, opened, page)
    return count


async def _record(context: Context, opened: OpenAccount, page: Sequence[ListedContest | MalformedItem]) -> None:
    account = opened.account
    for item in page:
        if isinstance(item, MalformedItem):
            await keep_unreadable(context, account, item)
    listed = sorted((item for item in page if isinstance(item, ListedContest)), key=lambda item: item.told_at)
    if not listed:
        return
    transfers = await transfer_store.find_named(context.pool, [item.end_to_end_id for item in listed], "IN")
    party = (await context.directory.read_account(account.house_id)).party
    # One after the other: of two contests of one Pix a return is the first one's.
    for contest in listed:
        known = await infraction_store.find_named(context.pool, contest.name, account.id)
        transfer = transfers.get(contest.end_to_end_id)
        returned: Sequence[TakenPart] = ()
        if contest.status == "accepted" and transfer is not None and transfer.institution_id == account.id:
            returned = await _find_returned(context, opened, transfer, known)
        report = report_contest(contest, party, returned, context.clock.real_now())
        if known is None or not is_told(known, report):
            await take_reports(context, [report])


async def _find_returned(
    context: Context, opened: OpenAccount, transfer: Transfer, known: Infraction | None
) -> Sequence[TakenPart]:
    """The returns of a Pix there that belong to no other contest, by the books after the Pix was read."""
    # Later takings are found by the readings of returns.
    if known is None or known.is_open:
        pix = await opened.institution.read_received(transfer.network_id or transfer.end_to_end_id)
        if pix is not None:
            await record_returns(context, opened.account, [pix])
    key = transfer.id, transfer.holder_id
    refunds = (await refund_store.find_of_transfers(context.pool, [key])).get(key, [])
    theirs = [refund for refund in refunds if refund.made_by == "institution" and refund.flow == "OUT"]
    links = await infraction_store.find_links(context.pool, [(refund.id, refund.holder_id) for refund in theirs])
    return [
        TakenPart(
            return_id=refund.shown_id,
            amount_cents=refund.amount_cents,
            settled_at=refund.network_settled_at or refund.settled_at or refund.created_at,
        )
        for refund in theirs
        if (link := links.get((refund.id, refund.holder_id))) is None or (known and link.infraction_id == known.id)
    ]
