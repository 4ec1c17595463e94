"""Ends an order whose institution cannot report its end: two operators decide, by evidence.

A confirmation is one transaction. It closes the step of the rail first, so that no call follows; then the order ends as by a
report of the rail. A later report of the institution changes no state: the case is reopened.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import chain
from typing import Final

from msgspec import Struct, structs

from pixconnect.features.cases import rules
from pixconnect.features.cases import tables as case_store
from pixconnect.features.institutions.orders import find_mistaken
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.day import is_over
from pixconnect.features.institutions.rules.joining import DAYS_APART_MAX, NO_PIX, ItemJoin
from pixconnect.features.institutions.rules.unmatched import SET_ASIDE
from pixconnect.features.institutions.service import proposals
from pixconnect.features.institutions.service.statement import list_span
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.kernel.flows.audit import make_proposal, propose
from pixconnect.kernel.flows.context import Context, Operator, Writer, read_ordered, write_alone
from pixconnect.kernel.flows.settlement import WRITE_ENDINGS, EndedOrder, holders_of, statements_of
from pixconnect.kernel.rules.ledger import Held
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.rules.rail import NeverTaken, Settled
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import order as order_store
from pixconnect.kernel.tables.clock import service_now_to_write
from pixconnect.kernel.tables.order import WaitingOrder
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_local, to_day
from pixconnect.platform.pool import Connection

SILENT_MAX: Final = 1000  # maximum of an account's orders per check; if there are more, none of their cases ends by itself


class WantedEnding(Struct, frozen=True, kw_only=True):
    case_id: int
    claim: rules.EndingClaim
    evidence: rules.Evidence
    item_id: str | None = None  # the order's line of the statement, if several may be it


async def find_differences(
    context: Context, connection: Connection, account: InstitutionAccount
) -> tuple[list[rules.Difference], bool]:
    """Find the account's orders that wait for operators, and contradictions of their decisions; return whether that is all."""
    silent = await case_store.list_silent(connection, account.id, None, SILENT_MAX)
    waiting = await order_store.find_waiting(connection, [order.order_name for order in silent])
    now = context.clock.now()
    differences = [
        _describe_difference(account, order, waiting=waiting.get(order.order_name))
        for order in silent
        if now >= order.over_at and not await _find_unread(connection, order, now)
    ]
    for ending, explanation in await case_store.list_contrary(connection, account.id):
        cents = ending.amount_cents if ending.claim == "settled" else -ending.amount_cents
        why = explanation or f"the statement has the line {ending.contrary_item_id}"
        differences.append(_describe_difference(account, ending, cents, f"two operators claim {ending.claim}, and now: {why}"))
    return differences, len(silent) < SILENT_MAX


def _describe_difference(
    account: InstitutionAccount,
    order: rules.SilentOrder,
    amount_cents: int | None = None,
    facts: str | None = None,
    waiting: WaitingOrder | None = None,
) -> rules.Difference:
    words = f"the {order.line_kind} of {order.amount_cents} cents was called at {account.name} on {to_day(order.called_at)},"
    # Ending it as never sent must consider that a person may still approve it at the institution.
    if waiting is not None:
        words += f" where since {to_day(waiting.since)} it waited for {waiting.waits_for}: have it ended there first;"
    return rules.Difference(
        kind="order",
        institution_id=account.id,
        holder_id=order.holder_id,
        name=order.order_name,
        amount_cents=amount_cents,
        facts=(facts or f"{words} the institution never said how it ended; its statement of those days is whole")[
            : rules.TEXT_LENGTH_MAX
        ],
        since=order.called_at,
    )


async def _find_unread(connection: Connection, order: rules.SilentOrder, now: datetime) -> list[date]:
    first_on, last_on = order.days
    if not is_over(last_on, now):
        return [last_on]
    days = await day_store.list_days(connection, order.institution_id, first_on, last_on)
    read = {one.day for one in days if one.read_at is not None and is_over(one.day, one.read_at)}
    return [day for day in list_span(first_on, last_on) if day not in read]


async def propose_ending(context: Operator, wanted: WantedEnding) -> Proposal:
    """Propose an order's end by evidence; nothing moves before another operator confirms it on its account.

    Raises:
        NotFound: The case does not exist, or its account was removed.
        BadRequest: The case is of no order over an account at an institution, has ended, or is decided already; the order may
            still be called, or its days' statement is not whole; several lines may be the order; the evidence is no file of at
            most 1 MiB.
    """
    wanted.evidence.check()
    async with write_alone(context.pool) as connection:
        await proposals.lock_to_propose(connection, wanted.case_id)
        order, item_id = await _find(context, connection, wanted)
        contents = dict[str, str | int](
            case_id=wanted.case_id,
            order=order.order_name,
            claim=wanted.claim,
            amount_cents=order.amount_cents,
            holder_id=order.holder_id,
            evidence_name=wanted.evidence.name,
            evidence_size=wanted.evidence.size,
            evidence_sha256=wanted.evidence.digest,
        )
        if item_id is not None:
            contents["item_id"] = item_id
        if wanted.claim == "never":
            # The other operator has to read them too: they may show that it left.
            contents["like"] = ", ".join(chain(*await _list_lines(connection, order)))
        proposal = make_proposal(context, "decide", contents, institution_id=order.institution_id)
        return await propose(context, connection, "case close", f"case {wanted.case_id}", proposal)


async def end_by_case(context: Operator, writes: Writer, proposal: Proposal) -> None:
    """End the order as proposed, if it still has no end."""
    del writes  # A separate transaction: the service's queues cannot do this.
    wanted = _read(proposal)
    async with proposals.confirming(context, proposal) as (connection, account):
        # Checked once more, under the locks: the institution may have reported since the proposal.
        order, item_id = await _find(context, connection, wanted)
        like = ", ".join(chain(*await _list_lines(connection, order)))
        if wanted.claim == "never" and like != proposal.contents.get("like"):
            raise errors.BadRequest(
                "confirm: other lines of the statement match the order since it was proposed: read them, and propose it again"
            )
        ended = await _lock(connection, order, wanted.claim)
        ending = rules.CaseEnding(
            **structs.asdict(order),
            case_id=wanted.case_id,
            claim=wanted.claim,
            evidence_name=wanted.evidence.name,
            evidence_size=wanted.evidence.size,
            evidence_digest=wanted.evidence.digest,
            proposed_by=proposal.proposed_by,
            confirmed_by=context.operator,
            ended_at=context.clock.real_now(),
        )
        await case_store.CASE_ENDING.insert(connection, ending)
        is_closed = await case_store.close_step(connection, ending.order_name) is True
        (was_open,) = await WRITE_ENDINGS.write_within(connection, context.clock, [ended])
        # Raised within the transaction, which undoes everything above.
        if not is_closed or was_open is not True:
            raise errors.BadRequest("confirm: the order has ended meanwhile, as the institution said")
        if item_id is not None and not ended.beside:
            key = (order.line_kind, order.resource_id)
            await item_store.join(connection, account.id, [ItemJoin(item_id=item_id, key=key, by="amount")])
        await case_store.end(connection, [wanted.case_id], "decided", context.operator, f"{wanted.claim}, by two operators")
        await proposals.record_confirmed(context, connection, account, proposal, ending)


def _read(proposal: Proposal) -> WantedEnding:
    contents = proposal.contents
    item_id = contents.get("item_id")
    return WantedEnding(
        case_id=int(contents["case_id"]),
        claim=rules.parse_ending_claim(str(contents["claim"])),
        evidence=rules.Evidence(
            name=str(contents["evidence_name"]), size=int(contents["evidence_size"]), digest=str(contents["evidence_sha256"])
        ),
        item_id=None if item_id is None else str(item_id),
    )


async def _find(context: Operator, connection: Connection, wanted: WantedEnding) -> tuple[rules.SilentOrder, str | None]:
    """Find the order of the case, if operators may decide how it ended, and its statement line."""
    case = await proposals.lock_case(connection, wanted.case_id)
    if case.kind != "order" or case.institution_id is None:
        raise errors.BadRequest("case: it has no order over an account at an institution")
    if await case_store.find_of_cases(connection, [case.id]):
        raise errors.BadRequest("case: two operators have said how the order ended: that stays; close the case by --reason")
    if case.ended_at is not None:
        raise errors.BadRequest("case: it has ended")
    account = await proposals.find_account_of(connection, case)
    order = await case_store.find_silent(connection, account.id, case.name, 1)
    if order is None:
        raise errors.BadRequest("case: its order has an end, or was never called: what it comes to is recorded by itself")
    # An operator's machine may be hours ahead.
    now = await service_now_to_write(context.clock, connection)
    if now < order.over_at:
        until = format_local(order.over_at)
        raise errors.BadRequest(f"case: the order may still be called, or take effect, until {until}")
    if unread := await _find_unread(connection, order, now):
        raise errors.BadRequest(
            f"case: the statement of {unread[0]} was not read whole when that day was over, and the order may be in it"
        )
    return order, await _choose_item(connection, order, wanted)


async def _choose_item(connection: Connection, order: rules.SilentOrder, wanted: WantedEnding) -> str | None:
    """Choose the line of a settled order: it is matched, so that it becomes nothing else; one that is matched stays."""
    if wanted.claim == "never":
        if wanted.item_id is not None:
            raise errors.BadRequest("item: what never left is on no line")
        return None
    own, like = await _list_lines(connection, order)
    if own and wanted.item_id not in (None, *own):
        raise errors.BadRequest(f"item: line {own[0]} is matched with the order, and an order has one line")
    like = own or like
    if wanted.item_id is not None:
        if wanted.item_id not in like:
            raise errors.BadRequest("item: the statement has no unclaimed line of its amount and days with this id")
        return wanted.item_id
    if len(like) > 1:
        raise errors.BadRequest(f"item: several lines of the statement match; name one of {', '.join(like)}"[:1000])
    return like[0] if like else None


async def _list_lines(connection: Connection, order: rules.SilentOrder) -> tuple[list[str], list[str]]:
    """List the line that is matched with the order, if any, and unmatched ones that may be it."""
    own = await case_store.find_line(connection, order.institution_id, order.line_kind, str(order.resource_id))
    first_on, last_on = order.days
    days = first_on, last_on + timedelta(days=DAYS_APART_MAX)
    asked = order.institution_id, order.amount_cents, list(NO_PIX), *days, SET_ASIDE
    return [own] if own is not None else [], await case_store.list_like(connection, *asked)


async def _lock(connection: Connection, order: rules.SilentOrder, claim: rules.EndingClaim) -> EndedOrder:
    name = order.order_name
    ordered = (await read_ordered(connection, [name])).get(name)
    if ordered is None:
        raise errors.BadRequest("case: the transfer or refund of its order is missing: ask `pixconnect verify`")
    # The network's instant is unknown: a call settles within seconds.
    ending = Settled(settled_at=order.called_at) if claim == "settled" else NeverTaken()
    mistaken = await find_mistaken(connection, order.institution_id, ordered, ending)
    ended = EndedOrder(ordered=ordered, ending=ending, has_rail=True, beside=() if mistaken is None else (mistaken,))
    # In the order in which every process locks, so that a concurrent ending comes before or after all of this.
    held = Held(balances=frozenset(holders_of(ended)), statements=frozenset(statements_of(ended)))
    await ledger_store.lock_balances(connection, held)
    await order_store.lock(connection, [name])
    return ended


async def refuse_open_orders(connection: Connection, cases: Sequence[rules.Case]) -> None:
    """Refuse to close, by one operator's decision, a case whose order is still open."""
    of_orders = {case.id for case in cases if case.kind == "order"}
    ended_ids = {ending.case_id for ending in await case_store.find_of_cases(connection, sorted(of_orders))}
    if of_orders - ended_ids:
        raise errors.BadRequest(
            f"case: {min(of_orders - ended_ids)} is of an order that is open: --as, --evidence and two operators end it"
        )
