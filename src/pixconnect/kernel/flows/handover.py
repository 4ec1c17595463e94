"""Hands orders to the rail, and queries those without an answer.

A worker calls this for the slots that it leases. No transaction is open during a call of the rail.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import structlog
from msgspec import structs

from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows.before_order import find_holds
from pixconnect.kernel.flows.context import Context, Port, read_ordered
from pixconnect.kernel.flows.network_id import NamedOrder, name_orders
from pixconnect.kernel.flows.settlement import ASK_AFTER, ASK_AFTER_MAX, Fence, ask_again_after, end_orders
from pixconnect.kernel.flows.source import source_of
from pixconnect.kernel.flows.unresolved import NOTE_WAITING, NewWaiting
from pixconnect.kernel.register import is_outside_window
from pixconnect.kernel.rules import kept_report, rail
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.identifiers import was_made_by
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.order import (
    Ending,
    FirstIds,
    GivenUp,
    OpenOrder,
    Step,
    may_give_up,
    may_send,
    name_to_ask_by,
    next_step,
)
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import QrCodeTransferRequest, Transfer
from pixconnect.kernel.tables import order as order_store
from pixconnect.platform.base import errors

_log = structlog.get_logger(__name__)

RETRY_AFTER: Final = timedelta(seconds=1)  # how long an order that never left waits for the next try
JUDGED_FOR: Final = timedelta(seconds=2)  # an order older than this at its start is checked again
HELD_AGAIN_AFTER: Final = timedelta(seconds=10)  # how long an order that may not leave now waits for the next check


PREPARATION: Final = Port[Callable[[Sequence[str]], Awaitable[None]] | None]("preparation of orders", None)
"""Finds what the sending of these orders needs; raises nothing."""
AnswerTo = Literal["first", "again", "query"]
"""The request that the rail answered: an order's first sending, a resend under the same id, or a query."""


async def move_due(
    context: Context, fence: Fence, slots: Sequence[int], since: datetime, until: datetime, count_max: int
) -> list[datetime]:
    """Do the next step of every due order of the installation's own rail; return when each was due, at most ``count_max``."""
    due = await order_store.find_due(context.pool, slots, since, until, count_max)
    await _move(context, fence, due, until)
    return [order.due_at for order in due]


async def process_due_orders(context: Context, fence: Fence, institution_id: int, until: datetime, count_max: int) -> int:
    """Do the next step of every due order over an account at an institution, under its own fence; return their count."""
    due = await order_store.find_due_of_account(context.pool, institution_id, until, count_max)
    await _move(context, fence, due, until)
    return len(due)


async def ask_about_handed_orders(context: Context, fence: Fence, institution_id: int, until: datetime, count_max: int) -> int:
    """Query orders handed over an account, without sending any; as ``process_due_orders``."""
    handed = await order_store.find_due_of_account(context.pool, institution_id, until, count_max, handed_alone=True)
    await _ask_about(context, fence, handed, until, may_send=False)
    return len(handed)


async def give_up_unsent(context: Context, institution_id: int, until: datetime, count_max: int) -> None:
    """End orders not handed over in time at an account that is not called now."""
    due = await order_store.find_due_of_account(context.pool, institution_id, until, count_max, unsent_until=until)
    if too_late := [order for order in due if may_give_up(order, until, context.server.first_ids)]:
        await _end(context, [(order.name, GivenUp()) for order in too_late])


async def _move(context: Context, fence: Fence, due: Sequence[OpenOrder], until: datetime) -> None:
    if (preparation := context.port(PREPARATION)) is not None:
        # Here, since nothing may wait between a mark and the sending.
        await preparation([order.name for order in due])
    # Without a rail none was ever sent, even if facts were lost.
    policy = context.policy
    first_ids = context.server.first_ids if policy.has_rail else FirstIds()
    # Why some may not leave now, by name; orders checked on acceptance a moment ago are skipped.
    old = [
        order.name
        for order in due
        if order.handed_at is None and (order.approval == "given" or until - order.ordered_at > JUDGED_FOR)
    ]
    holds = await find_holds(context.pool, (await read_ordered(context.pool, old)).values()) if old else {}
    steps = defaultdict[Step, list[OpenOrder]](list)
    for order in due:
        is_held = order.name in holds
        step = next_step(order, until, first_ids, policy.abilities, is_held=is_held, has_rail=policy.has_rail)
        steps[step].append(order)
    if too_late := steps["give up"]:
        await _end(context, [(order.name, GivenUp(hold=holds.get(order.name))) for order in too_late])
    if held := steps["hold"]:
        await order_store.leave_unsent(context.pool, [order.name for order in held], until + HELD_AGAIN_AFTER)
    if waiting := steps["send"]:
        await _hand_over(context, fence, waiting, until)
    if left := steps["leave"]:
        await order_store.leave_unsent(context.pool, [order.name for order in left])
    handed = steps["ask"]
    if doubtful := steps["count as handed"]:
        handed += await _count_as_handed(context, fence, doubtful, until)
    await _ask_about(context, fence, handed, until)


async def _ask_about(
    context: Context, fence: Fence, handed: Sequence[OpenOrder], until: datetime, *, may_send: bool = True
) -> None:
    silent = [(order, name_to_ask_by(order, context.policy.abilities)) for order in handed]
    if mute := sorted(order.name for order, name in silent if name is None):
        await order_store.look_later(context.pool, mute, until + ASK_AFTER_MAX)
    if askable := [(order, name) for order, name in silent if name is not None]:
        await _ask(context, fence, askable, until, may_send=may_send)


async def _count_as_handed(context: Context, fence: Fence, orders: Sequence[OpenOrder], now: datetime) -> list[OpenOrder]:
    """Mark orders without sending them; return those that no other worker has marked or ended meanwhile."""
    names = [order.name for order in orders]
    if not all(order.may_leave for order in orders):
        await order_store.refuse_late(context.pool, sorted(names), now)
    marked = await order_store.mark_handed(context.pool, fence.epochs_of(_slots(orders)), names, now, now + ASK_AFTER)
    if marked is None:
        raise errors.ServiceUnavailable("another worker has taken over")
    return [structs.replace(order, handed_at=now) for order in orders if order.name in marked]


async def _hand_over(context: Context, fence: Fence, orders: Sequence[OpenOrder], now: datetime) -> None:
    # Read first, so that nothing needs a query between the mark, which returns the transfers, and the sending. Until then
    # orders can only end, and an ended order gets no mark.
    names = [order.name for order in orders]
    payers = await _read_payers(context, orders)
    ordered = await read_ordered(context.pool, [order.name for order in orders if not order.is_transfer])
    marked = await order_store.mark_handed(context.pool, fence.epochs_of(_slots(orders)), names, now, now + ASK_AFTER)
    if marked is None:
        raise errors.ServiceUnavailable("another worker has taken over")
    # No await between the fenced transaction and the sending: the lease must not end meanwhile. An order that we did not mark
    # was marked or ended by another worker: we must not send it.
    ordered |= {name: transfer for name, transfer in marked.items() if transfer is not None}
    handed = [order for order in orders if order.name in marked]
    await _record(context, await _send(context, handed, ordered, payers), now, "first")


async def _ask(
    context: Context, fence: Fence, askable: Sequence[tuple[OpenOrder, str]], now: datetime, *, may_send: bool
) -> None:
    """Query the end of orders, and resend, under the same id, those that the rail has never seen.

    An order, here with the rail's name for it, that was open before the database's last start and is too late is only queried,
    unless the rail deduplicates sendings.
    """
    async with context.pool.acquire() as connection, connection.transaction():
        await fence.fence(connection, _slots([order for order, _ in askable]))
        # Counted before anything is sent: from now on only the rail's answer can end these.
        again_at = {order.name: now + ask_again_after(order.asked_count) for order, _ in askable}
        open_names = await order_store.postpone(connection, again_at)
    asked = [(order, name) for order, name in askable if order.name in open_names]
    if not asked:
        return
    try:
        answers = await context.rail.query([name for _, name in asked])
    except rail.RailUnavailable:
        return
    known = [(order, answer) for (order, _), answer in zip(asked, answers, strict=True)]
    await _record(context, known, now, "query")
    unseen = [(order, answer) for order, answer in known if isinstance(answer, rail.Unknown)]
    # A rail that does not use our ids would execute the same order twice.
    if unseen and may_send and context.policy.abilities.answers_by_our_id:
        await _record(context, await _send_again(context, fence, unseen, now), now, "again")


async def _send_again(
    context: Context, fence: Fence, unseen: Sequence[tuple[OpenOrder, rail.Unknown]], now: datetime
) -> list[tuple[OpenOrder, rail.SubmitAnswer]]:
    orders = [order for order, _ in unseen]
    payers = await _read_payers(context, orders)
    names = [order.name for order in orders]
    holds = await find_holds(context.pool, (await read_ordered(context.pool, names)).values())
    async with context.pool.acquire() as connection, connection.transaction():
        # The query took time: another worker may have the slots by now.
        await fence.fence(connection, _slots(orders))
        ordered = await read_ordered(connection, names)
    # Checked after the transaction: its connection may be the first to a server that was started meanwhile.
    first_ids = context.server.first_ids
    sent = [order for order, answer in unseen if answer.is_repeatable or may_send(order, now, first_ids)]
    return await _send(context, [order for order in sent if order.name not in holds], ordered, payers)


async def _read_payers(context: Context, orders: Sequence[OpenOrder]) -> dict[int, Party]:
    """Read our own side of the transfers among these, by holder."""
    holder_ids = {order.holder_id for order in orders if order.is_transfer}
    return {holder_id: (await context.directory.read_account(holder_id)).party for holder_id in holder_ids}


async def _send(
    context: Context, orders: Sequence[OpenOrder], ordered: Mapping[str, Transfer | Refund], payers: Mapping[int, Party]
) -> list[tuple[OpenOrder, rail.SubmitAnswer]]:
    """Hand orders to the rail and return its immediate answers; orders that have ended meanwhile are left out."""
    # An order without approval is only queried, even if its facts were lost.
    leaving = {order.name for order in orders if order.may_leave}
    under_way = {name: each for name, each in ordered.items() if each.status == "PROCESSING" and name in leaving}
    # Before the sending: the report of its end may arrive before the answer.
    for name, each in under_way.items():
        context.under_way.keep(name, each)
    sent = [order for order in orders if order.name in under_way]
    in_turn = sorted(sent, key=lambda order: not order.is_transfer)  # in due order; refunds after transfers
    transfers = [(each, order) for order in in_turn if isinstance(each := under_way[order.name], Transfer)]
    refunds = [each for order in in_turn if isinstance(each := under_way[order.name], Refund)]
    answers: list[rail.SubmitAnswer] = []
    if transfers:
        answers += await context.rail.submit([_order(each, order, payers[each.holder_id]) for each, order in transfers])
    if refunds:
        answers += await context.rail.submit_refunds([_refund_order(each) for each in refunds])
    return list(zip(in_turn, answers, strict=True))


def _order(transfer: Transfer, order: OpenOrder, payer: Party) -> rail.Order:
    return rail.Order(
        end_to_end_id=transfer.end_to_end_id,
        amount_cents=transfer.amount_cents,
        debit_party=payer,
        credit_party=transfer.counterparty,
        initiation_type=transfer.initiation_type,
        txid=transfer.txid,
        ordered_at=transfer.created_at,
        payer_key=transfer.own_key,
        payer_message=transfer.payer_message,
        br_code=_find_code(transfer, order),
    )


def _find_code(transfer: Transfer, order: OpenOrder) -> str | None:
    """Find the code that an order pays, if it still has the accepted terms; without it nothing is sent."""
    if order.br_code is None or transfer.fingerprint is None:
        return None
    asked = QrCodeTransferRequest(amount_cents=transfer.amount_cents, br_code=order.br_code)
    if was_made_by(transfer.fingerprint, asked):
        return order.br_code
    _log.critical("the code of an order is not the one that was asked for", order=order.name)
    return None


def _refund_order(refund: Refund) -> rail.RefundOrder:
    return rail.RefundOrder(
        return_id=refund.return_id,
        original_end_to_end_id=refund.original_end_to_end_id,
        amount_cents=refund.amount_cents,
        reason=refund.reason,
        description=refund.description,
        ordered_at=refund.created_at,
    )


async def _record(
    context: Context,
    answered: Sequence[tuple[OpenOrder, rail.SubmitAnswer | rail.QueryAnswer]],
    now: datetime,
    answer_to: AnswerTo,
) -> None:
    """Record final answers; the others are queried later."""
    endings: list[tuple[str, Ending]] = []
    turned_away: list[OpenOrder] = []
    named: list[tuple[OpenOrder, rail.Taken]] = []
    for order, answer in answered:
        match answer:
            case rail.Settled():
                endings.append((order.name, answer))
            case rail.Rejected() if answer_to != "again":  # the first sending may have arrived before the refused one
                endings.append((order.name, answer))
            case rail.NeverTaken() if is_outside_window(order.name, now):  # before, the rail could not know
                endings.append((order.name, answer))
            case rail.NotTaken():
                turned_away.append(order)
            case rail.Taken(network_id=str()) | rail.Unknown(network_id=str()):
                named.append((order, rail.Taken(network_id=answer.network_id)))
            case _:
                pass
    if named:
        await _note_names(context, named)
    await _note_waiting(context, answered)
    if endings:
        await _end(context, endings)
    if turned_away:
        await _retry_later(context, turned_away, now, answer_to)


async def _note_waiting(context: Context, answered: Sequence[tuple[OpenOrder, rail.SubmitAnswer | rail.QueryAnswer]]) -> None:
    waiting = [
        NewWaiting(order=order, waits_for=answer.waits_for)
        for order, answer in answered
        if isinstance(answer, rail.Taken) and answer.waits_for is not None and order.is_transfer
    ]
    known = await order_store.find_waiting(context.pool, [one.order.name for one in waiting]) if waiting else {}
    if new := [one for one in waiting if one.order.name not in known]:
        # What cannot be written now comes again with the next query.
        await context.writes.submit_all(NOTE_WAITING, new)


async def _retry_later(context: Context, orders: Sequence[OpenOrder], now: datetime, answer_to: AnswerTo) -> None:
    """Schedule the next try. Only the first sending can prove that nothing left, so a resent order keeps its mark."""
    if answer_to == "first":
        async with context.pool.acquire() as connection, connection.transaction():
            await order_store.unmark(connection, [order.name for order in orders], now, now + RETRY_AFTER)
        return
    # With the backoff of queries, an order that waits for another would miss its turn again and again.
    if in_turn := sorted(order.name for order in orders if source_of(order).sends_in_turn):
        await order_store.look_later(context.pool, in_turn, now + RETRY_AFTER)


async def _note_names(context: Context, named: Sequence[tuple[OpenOrder, rail.Taken]]) -> None:
    ordered = await read_ordered(context.pool, [order.name for order, _ in named])
    new_names = {
        order.name: NamedOrder(ordered=ordered[order.name], network_id=taken.network_id)
        for order, taken in named
        if taken.network_id is not None and order.name in ordered
    }
    outcomes = dict(zip(new_names, await name_orders(context, list(new_names.values())), strict=True))
    for order, taken in named:
        outcome = outcomes.get(order.name)
        if isinstance(outcome, Misfit):
            await kept_usecases.keep(context.pool, kept_report.as_report(order.name, taken), outcome)


async def _end(context: Context, endings: Sequence[tuple[str, Ending]]) -> None:
    """Record endings. Those that cannot be recorded stay due; contradictions of our records are kept for an operator."""
    outcomes = await end_orders(context, endings)
    if failed := [outcome for outcome in outcomes if isinstance(outcome, errors.PixConnectError)]:
        _log.warning("endings wait", orders_count=len(failed), reasons=sorted({why.code for why in failed}))
    for (name, ending), outcome in zip(endings, outcomes, strict=True):
        if isinstance(outcome, Misfit) and not isinstance(ending, GivenUp):
            await kept_usecases.keep(context.pool, kept_report.as_report(name, ending), outcome)


def _slots(orders: Sequence[OpenOrder]) -> list[int]:
    return sorted({order.slot for order in orders})
