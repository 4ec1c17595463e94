"""Reads payees' returns of sent Pix, if the institution lists them, and records each once; and makes automatic returns.

::

    of a transfer of the account ──► refund IN: the transfer's holder has it
    of a Pix without an order here (a person sent it at the institution) ──► movement `reversal`, to the house
    of an order whose network name is unknown yet ──► read again

Received payments without a charge are returned, if the operator wants that, after a reading that shows no return. A temporary
failure is retried and becomes a case after a day; a permanent one is given up, and the payment stays credited. Both are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from msgspec import structs

from pixconnect.features.institutions.rules import unmatched
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.institution import InstitutionUnavailable, OpenAccount
from pixconnect.features.institutions.rules.rail_memory import SPAN, SentReturn
from pixconnect.features.institutions.rules.sweep import MalformedItem, is_due
from pixconnect.features.institutions.service.account import found
from pixconnect.features.institutions.service.statement import settle_items
from pixconnect.features.institutions.service.sweep import keep_unreadable, note_end, noting_failure
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.features.institutions.tables import statement_file as line_store
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.service import post_statement_item
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows.context import Context, Operator
from pixconnect.kernel.flows.refund import START_REFUNDS
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules import identifiers
from pixconnect.kernel.rules.kept_report import Misfit, find_other_account
from pixconnect.kernel.rules.rail import MovementReport, ReturnReport
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day

EVERY: Final = timedelta(hours=1)
AT_ONCE: Final = 16
LISTED_MAX: Final = 500
_MOVED: Final = Misfit(
    reason="contradiction", explanation="its transfer was unknown here until now, so the account's house has the money"
)
"""The database lost the transfer, and its caller has repeated it since the return was recorded."""


async def follow_sent_returns(context: Context, opened: OpenAccount, *, is_called: bool = False) -> None:
    """Read the returns of an account's sent Pix, if that is due.

    Args:
        is_called: The institution has called about a return, or the balance differs.

    Raises:
        InstitutionUnavailable: Facts recorded until then stay.
    """
    account, returns = opened.account, opened.sender.sent_returns
    if returns is None:
        return
    lasts, now = await day_store.list_last_of(context.pool, account.id), context.clock.real_now()
    is_new = is_called or is_due("sent", lasts.get("sent"), EVERY, now, account.lost_at)
    # A receive-only account is not permitted to list sent Pix.
    if "near" not in lasts or not is_new or not await day_store.has_sent(context.pool, account.id, to_day(now - SPAN)):
        return
    count = 0
    async with noting_failure(context, account, "sent"):
        async for page in returns.list_returns(now - SPAN, now):
            count += len(page)
            await record_sent_returns(context, account, page)
    # All of it is read again each time, so a return not recorded now comes again.
    await note_end(context, account, "sent", now, count)


async def record_sent_returns(
    context: Context, account: InstitutionAccount, listed: Sequence[SentReturn | MalformedItem]
) -> None:
    """Record the new returns of a list; those that cannot be recorded yet are left to the next reading."""
    returns = {one.return_id: one for one in await keep_unreadable(context, account, listed)}
    known = await refund_store.find_named(context.pool, list(returns), "IN")
    # An unchanged repetition ends here; another amount is compared when it is recorded.
    new = [
        one for one in returns.values() if one.return_id not in known or known[one.return_id].amount_cents != one.amount_cents
    ]
    if not new:
        return
    originals = await transfer_store.find_named(context.pool, [one.end_to_end_id for one in new], "OUT")
    moved = await movement_store.find_standing(context.pool, [(account.house_id, one.return_id) for one in new])
    reports = list[ReturnReport]()
    for one in new:
        original, report = originals.get(one.end_to_end_id), _as_report(one)
        if await kept_usecases.keep_if_dated_ahead(context, report, one.settled_at):
            continue
        if original is None:
            await _record_unordered(context, account, one)
        elif misfit := find_other_account(original.institution_id, account.id):
            await kept_usecases.keep(context.pool, report, misfit, is_listed=True)
        elif (account.house_id, one.return_id) in moved:
            await kept_usecases.keep(context.pool, report, _MOVED, is_listed=True)
        else:
            reports.append(report)
    await take_reports(context, reports)
    # Matches a line that waits for one of them; while another process matches lines, the next statement does it.
    with suppress(errors.ServiceUnavailable):
        await settle_items(context, account, to_day(min(one.settled_at for one in new)))


def _as_report(returned: SentReturn) -> ReturnReport:
    return ReturnReport(
        report_id=returned.return_id,
        return_id=returned.return_id,
        original_end_to_end_id=returned.end_to_end_id,
        amount_cents=returned.amount_cents,
        # The list has no reason: by default, the receiver requested it.
        reason="MD06",
        reported_at=returned.settled_at,
        settled_at=returned.settled_at,
    )


async def _record_unordered(context: Context, account: InstitutionAccount, returned: SentReturn) -> None:
    """Record a return of a Pix without an order here, unless an order may still get this name."""
    _, unnamed_cents = await line_store.read_open_amounts(context.pool, account.id)
    if returned.settled_at < account.opened_at or unnamed_cents:
        return
    moved = MovementReport(
        report_id=returned.return_id,
        item_id=returned.return_id,
        party=(await context.directory.read_account(account.house_id)).party,
        kind="reversal",
        direction="IN",
        amount_cents=returned.amount_cents,
        end_to_end_id=returned.end_to_end_id,
        settled_at=returned.settled_at,
    )
    await post_statement_item(context, account.house_id, moved)


async def give_back_due(context: Context, opened: OpenAccount) -> None:
    """Begin the refunds that are due at an account; ``context`` is the account's."""
    for waiting in await return_store.find_due(context.pool, opened.account.id, context.clock.real_now(), AT_ONCE):
        try:
            after = await _give_back(context, opened, waiting)
        except (InstitutionUnavailable, errors.ServiceUnavailable, errors.OutcomeUnknown):
            after = unmatched.wait_longer(waiting, context.clock.real_now())
        await return_store.move(context.pool, after)


async def _give_back(context: Context, opened: OpenAccount, waiting: unmatched.GiveBack) -> unmatched.GiveBack:
    if not unmatched.gives_back(opened.account):
        return unmatched.leave(waiting, "the account gives nothing back any more")
    found_transfer = await transfer_store.find_by_id(context.pool, waiting.holder_id, waiting.transfer_id)
    received = errors.require(found_transfer, "it was noted with its transfer")
    if received.charge_id is not None or received.settled_at is None:
        return unmatched.leave(waiting, "it has paid a charge, or has not settled")
    planned = unmatched.plan_giving_back(
        received,
        await context.ids.refund_id(),
        identifiers.make_return_id(context.policy.ispb, context.clock.now(), context.entropy),
    )
    # An earlier run may have begun it and died before recording it.
    if await refund_store.find_by_external_id(context.pool, received.holder_id, planned.external_id) is not None:
        return structs.replace(waiting, state="made", reason=None)
    listed = await opened.institution.read_received(received.end_to_end_id)
    if listed is None:
        raise InstitutionUnavailable("the institution does not know a Pix that it has listed")
    if any(refund.status != "refused" for refund in listed.refunds):
        return unmatched.leave(waiting, "the institution lists a return of it")
    try:
        await context.writes.submit(START_REFUNDS, planned)
    except errors.RuleBroken as refusal:
        return unmatched.judge_refusal(waiting, refusal, context.clock.real_now())
    return structs.replace(waiting, state="made", reason=None)


async def list_without_charge(context: Operator, name: str, days_count: int) -> Sequence[unmatched.UnmatchedCredit]:
    """List received Pix of the last days without a charge, newest first.

    Raises:
        NotFound: The account does not exist.
    """
    since = context.clock.real_now() - timedelta(days=days_count)
    async with context.pool.acquire() as connection:
        account = found(await account_store.find_named(connection, name), name)
        return await return_store.list_without_charge(connection, account.id, since, LISTED_MAX)
