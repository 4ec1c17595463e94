"""Matches lines of an account's statement with transfers, refunds and movements, and judges the rest.

Network names are looked up first, at any date of our lines; then resemblances.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Final

from msgspec import structs

from pixconnect.features.institutions.rules import joining, special_line
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.institution import ItemKind
from pixconnect.features.institutions.rules.joining import DAYS_APART_MAX, BookLine, RecordedItem, Waiting
from pixconnect.features.institutions.rules.special_line import is_own_investment
from pixconnect.features.institutions.rules.sum_line import LoneSum, is_one_of, is_sum, may_be_sum
from pixconnect.features.institutions.rules.sweep import OVERLAP, REPEATED_FOR
from pixconnect.features.institutions.rules.unmatched import (
    SET_ASIDE,
    BookedLine,
    LeftLines,
    OpenAmounts,
    UnmatchedItem,
    hold_sums,
    judge_left,
    names_its_pix,
)
from pixconnect.features.institutions.service.day import FIRST_DAY, LAST_DAY, find_unread
from pixconnect.features.institutions.service.statement_posting import find_holders, hold_back, report_part
from pixconnect.features.institutions.tables import books as debited_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.features.institutions.tables import statement_file as line_store
from pixconnect.features.movements import service as movement_usecases
from pixconnect.features.movements import tables as movement_store
from pixconnect.kernel.flows.context import Writer
from pixconnect.kernel.rules.rail import MovementKind
from pixconnect.platform.base.clock import SAO_PAULO, to_day
from pixconnect.platform.pool import Connection

AT_ONCE: Final = 2_000
DONE: Final = ("before_opening", "perhaps_struck", "separated", *SET_ASIDE)
"""Lines with one of these reasons are neither matched nor posted."""


async def find_left(
    connection: Connection, account: InstitutionAccount, alone: Sequence[RecordedItem], now: datetime
) -> tuple[list[UnmatchedItem], Sequence[RecordedItem]]:
    """Match items as far as possible, and judge the rest, with items that lost a match by resemblance."""
    open_cents, _ = await line_store.read_open_amounts(connection, account.id)
    # A block's line names the contested Pix, which has a line of its own.
    about = [item for item in alone if item.end_to_end_id and not item.return_id and special_line.is_about_block(item)]
    about_left, held = await join_debits(connection, account, about, open_cents)
    of_blocks = [item for item in about if item not in about_left or item.item_id in held]
    alone = [item for item in alone if item not in of_blocks]
    # By names before resemblance, which gets only items that no name has claimed.
    named_ids, released = await _join_named(connection, account, alone)
    if looks := joining.list_looks(item for item in alone if item.item_id not in named_ids):
        outdone = await item_store.release_outdone(connection, account.id, looks)
        released = [*released, *(await item_store.find(connection, account.id, outdone)).values()]
    bare = [item for item in (*alone, *released) if item.item_id not in named_ids]
    alike_ids = await _join_alike(connection, account, bare, to_day(now))
    left = [item for item in bare if item.item_id not in alike_ids] + [item for item in of_blocks if item.item_id in held]
    reversed_ids, waiting_ids = await join_nameless(connection, account, left, now)
    left = [item for item in left if item.item_id not in reversed_ids]
    waiting: dict[str, Waiting] = dict.fromkeys(waiting_ids, "order_unknown")
    left, may_be_blocked = await join_debits(connection, account, left, open_cents)
    waiting |= may_be_blocked
    waiting |= {item.item_id: "perhaps_text" for item in left if item.waits == "perhaps_text"}
    return await _judge_left(connection, account, left, waiting, to_day(now)), released


async def list_alone(connection: Connection, account: InstitutionAccount, since: date) -> list[RecordedItem]:
    found: list[RecordedItem] = []
    after = (since, "")
    while part := await item_store.list_unjoined(connection, account.id, *after, AT_ONCE, DONE):
        found += part
        after = (part[-1].day, part[-1].item_id)
    return found


async def _join_named(
    connection: Connection, account: InstitutionAccount, alone: Sequence[RecordedItem]
) -> tuple[set[str], Sequence[RecordedItem]]:
    """Match by network names and movements' items, at any date of our lines.

    Returns:
        The matched items, and items detached from lines that they only resembled.
    """
    joined_ids, released = set[str](), list[RecordedItem]()
    for start in range(0, len(alone), AT_ONCE):
        items = alone[start : start + AT_ONCE]
        named = {item.item_id: item.names if item.parts is None else item.parts.names for item in items}
        names = sorted({name for mentioned in named.values() for name in mentioned})
        ids = [joining.make_movement_id(item.item_id) for item in items]
        lines = await line_store.find_named(connection, account.id, names, ids)
        debited, reversed_, alike = await item_store.find_joined(connection, account.id, [line.key for line in lines])
        kept = await item_store.find(connection, account.id, [*alike.values()])
        claimed = joining.find_claimed(
            items,
            [line for line in lines if line.key in alike and line.key not in reversed_],
            {key: kept[name] for key, name in alike.items()},
        )
        # A credit that names a failed order takes the place of one without a name, which may give back another.
        back = {key: outdone for key in joining.find_given_back(items, lines) if (outdone := reversed_.get(key))}
        lines = [line for line in lines if line.key not in reversed_ or line.key in back]
        # Resemblances are searched later, among all lines of their days.
        joined = joining.join_items(items, lines, debited - claimed)
        joins = [join for join in joined.joins if join.by == "name" or named[join.item_id]]
        async with connection.transaction():
            if outdone_ids := [*(alike[key] for key in claimed), *back.values()]:
                released += (await item_store.release(connection, account.id, outdone_ids)).values()
            await item_store.join(connection, account.id, joins)
            await item_store.note_fees(connection, account.id, joined.fees)
        joined_ids |= {join.item_id for join in joins}
    return joined_ids, released


async def _join_alike(
    connection: Connection, account: InstitutionAccount, bare: Sequence[RecordedItem], today: date
) -> set[str]:
    sum_forms = await item_store.list_sum_forms(connection, account.id)
    nameless = [item for item in bare if not item.names]
    lines = await _list_near(connection, account, nameless, today, has_sum=any(map(may_be_sum, nameless)))
    on = [line.day for line in lines]
    days = await day_store.list_days(connection, account.id, min(on), max(on)) if on else []
    joined = joining.join_items(bare, lines, proved={day.day for day in days if day.is_closed}, sum_forms=sum_forms)
    async with connection.transaction():
        await item_store.join(connection, account.id, joined.joins)
    return {join.item_id for join in joined.joins}


async def _list_near(
    connection: Connection,
    account: InstitutionAccount,
    items: Sequence[RecordedItem],
    today: date,
    *,
    has_sum: bool = False,
) -> list[BookLine]:
    """List our unmatched lines, of the amounts and near the days of some items; of any amount, if one is a sum.

    An order may settle on any day after its debit; none was made later.
    """
    if not items:
        return []
    apart = timedelta(days=DAYS_APART_MAX)
    until = max(item.day for item in items) + apart
    has_debit = any(item.direction == "OUT" for item in items)
    days = min(item.day for item in items) - apart, max(until, today) if has_debit else until
    amounts = None if has_sum or any(map(is_sum, items)) else sorted({item.amount_cents for item in items})
    found = await line_store.list_unmatched(connection, account.id, days, amounts=amounts)
    return found if len(found) >= line_store.ALONE_MAX else [line for line in found if line.ordered_on <= until]


async def _judge_left(
    connection: Connection,
    account: InstitutionAccount,
    left: Sequence[RecordedItem],
    waiting: Mapping[str, Waiting],
    today: date,
) -> list[UnmatchedItem]:
    # Once names are matched: an order that has its line is not open for others.
    open_since, unnamed_cents = await line_store.read_open_amounts(connection, account.id)
    listed = await _list_near(connection, account, [item for item in left if not names_its_pix(item)], today)
    lines = LeftLines(listed, is_cut=len(listed) >= line_store.ALONE_MAX)
    near = await day_store.find(connection, account.id, "near")
    names = sorted({name for item in left for name in (*item.names, *(item.parts.names if item.parts else ()))})
    debited = [name for item in left if item.direction == "OUT" for name in item.names]
    our_names = frozenset(await movement_store.find_names(connection, names, debited, account.id))
    own = await line_store.find_named(connection, account.id, [*our_names], []) if our_names else []
    known = OpenAmounts(
        open_since=open_since,
        unnamed_cents=unnamed_cents,
        our_names=our_names,
        begins_at=account.opened_at,
        begins_on=to_day(account.opened_at),
        today=today,
        read_until=None if near is None else near.began_at - OVERLAP,
        booked=_find_booked(own),
        taken=_find_taken(left, own),
    )
    known = structs.replace(known, reversible=await _find_reversible(connection, account, left, lines, known))
    verdicts = [judge_left(item, lines, known) for item in left]
    lone = set[LoneSum]()
    for day in sorted({one.item.day for one in verdicts if one.waits is None and may_be_sum(one.item)}):
        lone |= await line_store.sum_unmatched(connection, account.id, day)
    if lone:
        verdicts = hold_sums(verdicts, lone, await item_store.list_sum_forms(connection, account.id))
    verdicts = [structs.replace(one, waits=_find_reason(one, waiting.get(one.item.item_id))) for one in verdicts]
    verdicts = await hold_back(connection, account, verdicts, today)
    verdicts = await _hold_forgotten(connection, account, verdicts)
    await item_store.note_waiting(connection, account.id, {one.item.item_id: one.waits for one in verdicts})
    return verdicts


def _find_booked(own: Sequence[BookLine]) -> Mapping[str, Collection[BookedLine]]:
    """Find the lines that our records may have, by their names; an order may return in parts, and one that failed has none."""
    booked = defaultdict[str, set[BookedLine]](set)
    for line in own:
        for name in (*line.names, *line.original):
            if line.state != "failed":
                booked[name].add(BookedLine(line.direction, line.amount_cents, line.amount_cents))
            if line.is_order:
                booked[name].add(BookedLine("IN", 1, line.amount_cents))
    return booked


def _find_taken(left: Sequence[RecordedItem], own: Sequence[BookLine]) -> Mapping[int, Collection[date]]:
    failed, taken = [line for line in own if line.state == "failed"], defaultdict[int, list[date]](list)
    for item in left:
        if any(special_line.is_failed_debit(item, line) for line in failed):
            taken[item.amount_cents].append(item.day)
    return taken


async def _hold_forgotten(
    connection: Connection, account: InstitutionAccount, left: Sequence[UnmatchedItem]
) -> list[UnmatchedItem]:
    """Let debits wait that may be orders which the database lost: as movements of the house, no holder would lack them."""
    out = {one.item.item_id: one.item for one in left if one.waits is None and one.item.direction == "OUT"}
    lost = await return_store.list_forgotten(connection, account.id, [*out], REPEATED_FOR) if out else set[str]()
    holders = await find_holders(connection, account, [out[name] for name in lost if not is_own_investment(out[name])])
    return [
        structs.replace(one, waits="could_be_ours") if holders.get(one.item.item_id) == account.house_id else one
        for one in left
    ]


def _find_reason(judged: UnmatchedItem, waiting: Waiting | None) -> Waiting | None:
    """Find why a line waits; a possible payer's text stays that, with any other possible meaning."""
    is_weaker = waiting != "perhaps_text" and judged.waits not in (None, "not_yet_read")
    return judged.waits if waiting is None or is_weaker or judged.waits == "before_opening" else waiting


async def _find_reversible(
    connection: Connection, account: InstitutionAccount, left: Sequence[RecordedItem], lines: LeftLines, known: OpenAmounts
) -> frozenset[tuple[ItemKind, str, int]]:
    """Find the debits that the remaining credits may return; a second apparent return is left to an operator."""
    returns = [item for item in left if item.direction == "IN" and item.kind in ("fee", "reversal")]
    names = [name for item in returns for name in item.names]
    if not names:
        return frozenset()
    debits = await item_store.find_reversible(connection, account.id, names, [item.amount_cents for item in returns])
    kinds: dict[ItemKind, ItemKind] = {"pix": "reversal", "fee": "fee"}
    for item in left:
        if item.direction == "OUT" and item.kind in kinds and judge_left(item, lines, known).waits is None:
            debits.append((kinds[item.kind], item.names, item.amount_cents))
    return frozenset(
        (kind, name, cents)
        for kind, its_names, cents in debits
        if sum(item.kind == kind and not {*item.names}.isdisjoint(its_names) for item in returns) == 1
        for name in its_names
    )


async def join_nameless(
    connection: Connection, account: InstitutionAccount, left: Sequence[RecordedItem], now: datetime
) -> tuple[set[str], set[str]]:
    """Match nameless reversals with the orders that they return; return the ids of the matched and of waiting ones.

    Lines wait that may reverse an open order, or an order whose debit may be on a day that was not read whole, or may be
    another order's.
    """
    back = [item for item in left if special_line.is_nameless_reversal(item)]
    if not back:
        return set(), set()
    days = min(item.day for item in back) - special_line.BACK_WITHIN, max(item.day for item in back)
    orders = await line_store.list_unsettled(connection, account.id, days, sorted({one.amount_cents for one in back}))
    debited, reversed_, _ = await item_store.find_joined(connection, account.id, [order.key for order in orders])
    orders = [order for order in orders if order.key not in reversed_]
    out = [item for item in left if item.direction == "OUT" and not item.names]
    lines = LeftLines(await _list_near(connection, account, out, to_day(now)))
    lone = {one for day in {item.day for item in out} for one in await line_store.sum_unmatched(connection, account.id, day)}
    doubted = {item.item_id: item.amount_cents for item in out if lines.has_near(item) or is_one_of(item, lone)}
    joins = special_line.join_reversals([item for item in left if item.item_id not in doubted], orders, debited)
    await item_store.join(connection, account.id, joins)
    joined_ids = {join.item_id for join in joins}
    whole = {day.day for day in await day_store.list_days(connection, account.id, *days) if day.was_read_whole}
    whole |= await find_unread(connection, account, days, now)
    read = {item.item_id: set[date]() if item.amount_cents in doubted.values() else whole for item in back}
    may_be = special_line.may_give_back
    waiting = [item for item in back if any(may_be(item, order, debited, read[item.item_id]) for order in orders)]
    return joined_ids, {item.item_id for item in waiting} - joined_ids


async def list_failed(
    connection: Connection, account: InstitutionAccount, item: RecordedItem
) -> list[tuple[BookLine, RecordedItem]]:
    """List failed orders of a credit's amount, each with its waiting debit, which the credit may give back."""
    days, cents = (item.day - special_line.BACK_WITHIN, item.day), [item.amount_cents] if item.direction == "IN" else []
    orders = await line_store.list_unsettled(connection, account.id, days, cents)
    asked = FIRST_DAY, LAST_DAY, ("could_be_ours", "not_yet_read")
    waiting = await item_store.list_waiting_as(connection, account.id, *asked) if orders else []
    found = [(order, [one for one in waiting if special_line.is_failed_debit(one, order)]) for order in orders]
    return [(order, debits[0]) for order, debits in found if debits]


async def join_debits(
    connection: Connection, account: InstitutionAccount, left: Sequence[RecordedItem], open_cents: Collection[int]
) -> tuple[list[RecordedItem], dict[str, Waiting]]:
    """Match debits and credits of blocks, so that none is posted beside its block.

    Returns:
        The remaining items, and why some of them wait, by id.

    Args:
        open_cents: Amounts of pending orders: a debit without names may be an order's.
    """
    about = [item for item in left if special_line.is_about_block(item)]
    if not about:
        return [*left], {}
    waiting: dict[str, Waiting] = {
        item.item_id: "order_unknown"
        for item in about
        if item.direction == "OUT" and not item.names and item.amount_cents in open_cents
    }
    since = datetime.combine(min(item.day for item in about) - timedelta(days=DAYS_APART_MAX), time(0), SAO_PAULO)
    blocks = await debited_store.list_blocks(connection, account.id, since)
    joins, may_be_of_block = special_line.join_blocks([item for item in about if item.item_id not in waiting], blocks)
    await item_store.join(connection, account.id, joins)
    joined_ids = {join.item_id for join in joins}
    waiting |= dict.fromkeys(may_be_of_block, "could_be_ours")
    return [item for item in left if item.item_id not in joined_ids], waiting


async def post_kept(context: Writer, account: InstitutionAccount, now: datetime) -> None:
    """Post what debits of ended blocks took and nobody got back: on the block's holder, once each."""
    async with context.pool.acquire() as connection:
        within = special_line.CREDITED_WITHIN
        kept = await debited_store.list_kept(connection, account.id, now - within, within.days)
        items = await item_store.find(connection, account.id, [item_id for item_id, _, _ in kept])
    for item_id, holder_id, cents in kept:
        item = items[item_id]
        kind: MovementKind = "judicial" if item.kind == "judicial" else "other"
        report = await report_part(context, account, item, (special_line.name_kept(item_id), kind, cents), holder_id)
        await movement_usecases.post_statement_item(context, holder_id, report)
