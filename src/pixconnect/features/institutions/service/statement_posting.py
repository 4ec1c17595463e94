"""Posts lines of an institution's statement without one of our records: as movements, or as own investments.

If a line shows that an order left which two operators closed as never sent, it becomes a movement of its holder that names the
case; the order stays as it ended, and its case is reopened.

Lines between an account and its own investment change no holder's money. If a process dies after posting a yield, the next run
matches the line with that yield.

The sum of each waiting debit is reserved in a block of the house: the bank may have debited it, so the house cannot pay it out.
What debits of a block took is reserved on the block's holder.

- A debit waits: a block opens, as far as there is money; incoming money covers the rest.
- The debit becomes a movement: the block ends in the same transaction.
- The debit is matched, set aside or struck: the block ends when the account's lines are settled.
- Debits of a block took more than is still blocked: the difference waits too, until it is credited or a movement.

Each run compares waiting debits with open blocks, so that reading a file again changes nothing, and a run after a crash does
the rest. A waiting credit has no effect, since it has no entry.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import Final

from msgspec import structs

from pixconnect.features.cases import tables as ending_store
from pixconnect.features.cases.rules import CaseEnding
from pixconnect.features.due_charges.rules.terms import count_business_days
from pixconnect.features.institutions.rules import joining, special_line
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.day import sum_groups
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import DAYS_APART_MAX, NO_PIX, ItemJoin, RecordedItem, Waiting
from pixconnect.features.institutions.rules.unmatched import UnmatchedItem
from pixconnect.features.institutions.service.day import LOOKED_BACK
from pixconnect.features.institutions.service.statement_account import find_balance_meaning
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import statement_file as line_store
from pixconnect.features.institutions.tables.day import RecordedDay
from pixconnect.features.movements import service as movement_usecases
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.held_blocks import RESERVE_LINES, AccountLines
from pixconnect.kernel.flows.context import Writer, write_alone
from pixconnect.kernel.rules.kept_report import DESCRIPTION_LENGTH_MAX
from pixconnect.kernel.rules.rail import MovementKind, MovementReport
from pixconnect.platform.base.clock import SAO_PAULO, to_day
from pixconnect.platform.pool import Connection

_POSTED_AT_ONCE: Final = 200
_ONE_DAY: Final = timedelta(days=1)


async def post_unowned(context: Writer, account: InstitutionAccount, left: Sequence[UnmatchedItem]) -> int:
    """Post lines that wait for nothing: on the holder of the Pix that a fee names, else on the house. Return their number."""
    async with context.pool.acquire() as connection:
        contrary = await _find_contrary(connection, account, left)
    invested_ids = await invest(context, account, [one for one in left if one.item.item_id not in contrary])
    unowned = [one for one in left if one.waits is None or one.item.item_id in contrary]
    unowned = [one for one in unowned if one.item.item_id not in invested_ids]
    count = len(invested_ids)
    for direction in ("OUT", "IN"):  # a credit may give back what one of these debits takes
        own = [one for one in unowned if one.item.direction == direction]
        for start in range(0, len(own), _POSTED_AT_ONCE):
            count += await _post(context, account, own[start : start + _POSTED_AT_ONCE], contrary)
    return count


async def _post(
    context: Writer, account: InstitutionAccount, part: Sequence[UnmatchedItem], contrary: Mapping[str, CaseEnding]
) -> int:
    async with context.pool.acquire() as connection:
        described = await describe_movements(context, connection, account, part, contrary)
    # Together, so that the write queue makes few transactions of them.
    is_there = await asyncio.gather(
        *[movement_usecases.post_statement_item(context, holder_id, report) for holder_id, report in described]
    )
    joins = [
        ItemJoin(item_id=one.item.item_id, key=("movement", report.item_id), by="name")
        for one, (_, report), is_posted in zip(part, described, is_there, strict=True)
        if is_posted
    ]
    async with context.pool.acquire() as connection:
        await item_store.join(connection, account.id, joins)
    return len(joins)


async def describe_movements(
    context: Writer,
    connection: Connection,
    account: InstitutionAccount,
    part: Sequence[UnmatchedItem],
    contrary: Mapping[str, CaseEnding],
    holder_id: int | None = None,
) -> list[tuple[int, MovementReport]]:
    """Return each line's movement and its holder: by default the holder of the Pix that it names, else the house."""
    holders = await find_holders(connection, account, [one.item for one in part])
    holders = holders if holder_id is None else dict.fromkeys(holders, holder_id)
    holders |= {name: ending.holder_id for name, ending in contrary.items()}
    owned = [(holders[one.item.item_id], one, contrary.get(one.item.item_id)) for one in part]
    return [(owner_id, await _report(context, account, owner_id, one, ending)) for owner_id, one, ending in owned]


async def find_holders(connection: Connection, account: InstitutionAccount, items: Sequence[InstitutionItem]) -> dict[str, int]:
    """Find the holder of each line's movement, by its id: that of the Pix that it names, else the house."""
    lines = await line_store.find_named(connection, account.id, sorted({name for one in items for name in one.names}), [])
    owners = {name: line.holder_id for line in lines for name in line.names}
    found = {item.item_id: next((owners[name] for name in item.names if name in owners), account.house_id) for item in items}
    # A credit gives back what a movement took: of its name, or for a reversal without names of its amount, shortly before.
    kept = {name for line in lines if line.state != "failed" for name in line.names}
    back = [item for item in items if special_line.gives_back(item) and kept.isdisjoint(item.names)]
    days = [item.day for item in back]
    span = (min(days) - 2 * special_line.BACK_WITHIN, max(days)) if days else item_store.NO_DAYS
    cents, names = [item.amount_cents for item in back], sorted({name for item in back for name in item.names})
    moved = await item_store.list_moved(connection, account.id, cents, names, *span) if back else []
    known = await movement_store.find_holders(connection, account.id, [one.joined_id or "" for one in moved])
    holders = {one.item_id: known.get(one.joined_id or "", account.house_id) for one in moved}
    taken = [one for one in moved if one.direction == "OUT"]
    back.sort(key=lambda one: (one.day, not one.names, one.item_id))
    listed = [*filter(special_line.gives_back, moved), *back]
    named = {name for item in listed for name in item.names}
    for item in listed:
        fitting = [one for one in taken if special_line.is_given_back(one, item)]
        # What a person has counted is likelier a failed order's than what was posted automatically.
        fitting = [one for one in fitting if one.joined_by == "answer"] or fitting
        whose = {holders[one.item_id] for one in fitting}
        holder_id = holders.setdefault(item.item_id, whose.pop() if len(whose) == 1 else account.house_id)
        # Each debit is given back once, the oldest first that no credit names.
        if own := [one for one in fitting if holders[one.item_id] == holder_id]:
            taken.remove(min(own, key=lambda one: not named.isdisjoint(one.names)))
    return found | {item.item_id: holders[item.item_id] for item in back}


async def _report(
    context: Writer, account: InstitutionAccount, holder_id: int, left: UnmatchedItem, ending: CaseEnding | None
) -> MovementReport:
    item = left.item
    whole = joining.make_movement_id(item.item_id), left.kind, item.amount_cents
    report = await report_part(context, account, item, whole, holder_id)
    if ending is None:
        return structs.replace(report, end_to_end_id=item.end_to_end_id)
    # A name is one fact: if line and case disagree, the order has it.
    text = f"case {ending.case_id}: {item.text or ending.order_name}"
    return structs.replace(report, kind="by_hand", description=text[:DESCRIPTION_LENGTH_MAX])


async def _find_contrary(
    connection: Connection, account: InstitutionAccount, left: Sequence[UnmatchedItem]
) -> dict[str, CaseEnding]:
    """Record each line that contradicts the decision of two operators, before it is posted."""
    out = [one for one in left if one.item.direction == "OUT" and one.waits != "perhaps_text"]
    pix = [one for one in out if one.item.kind not in NO_PIX or one.item.names]
    amounts = sorted({one.item.amount_cents for one in pix})
    endings = await ending_store.list_never(connection, account.id, amounts) if amounts else []
    if not endings:
        return {}
    names = await ending_store.read_names(connection, [ending.order_name for ending in endings])
    contrary = {ending.contrary_item_id: ending for ending in endings if ending.contrary_item_id is not None}
    free = [ending for ending in endings if ending.contrary_item_id is None]
    # Lines that name an order first; then those that only resemble one.
    for one in sorted(pix, key=lambda one: (one.waits is None, one.item.item_id)):
        ending = None if one.item.item_id in contrary else _choose(one, free, names)
        if ending is not None:
            await ending_store.contradict(connection, ending.order_name, one.item.item_id)
            contrary[one.item.item_id] = ending
            free.remove(ending)
    return {one.item.item_id: contrary[one.item.item_id] for one in pix if one.item.item_id in contrary}


def _choose(left: UnmatchedItem, free: Sequence[CaseEnding], names: Mapping[str, Sequence[str]]) -> CaseEnding | None:
    alike = [ending for ending in free if ending.amount_cents == left.item.amount_cents]
    named = [ending for ending in alike if {*names.get(ending.order_name, ())} & {*left.item.names}]
    if named:
        return named[0]
    # A line that waits for another reason is judged by that, and one that is called no Pix by its names alone.
    if left.waits is not None or left.item.kind in NO_PIX:
        return None
    apart, day = timedelta(days=DAYS_APART_MAX), left.item.day
    # The two operators have seen a line that was read before.
    later = [ending for ending in alike if isinstance(left.item, RecordedItem) and left.item.recorded_at >= ending.ended_at]
    near = [ending for ending in later if ending.days[0] <= day <= ending.days[1] + apart]
    return near[0] if len(near) == 1 else None


async def plan(
    connection: Connection, account: InstitutionAccount, left: Sequence[UnmatchedItem], today: date
) -> dict[str, int | Waiting]:
    """Run ``plan_investments`` on those of these lines that wait for nothing and are own investments.

    Call it while no other line of the account is matched.
    """
    own = [
        (one.item, one.waits) for one in left if isinstance(one.item, RecordedItem) and special_line.is_own_investment(one.item)
    ]
    items = [item for item, waits in own if waits is None]
    if not items:
        return {}
    first_on, last_on = min(item.day for item in items), max(item.day for item in items)
    names = {special_line.name_yield(item.item_id): item for item in items}
    posted = await movement_store.find_items(connection, [(account.house_id, name) for name in names])
    yielded = {names[name]: movement for (_, name), movement in posted.items()}
    # What was redeemed after such a line was not known to be its money, and is posted as income.
    surplus = filter(special_line.is_own_investment, await item_store.list_surplus(connection, account.id, first_on))
    made = [(one.day, account.opened_at) for one in surplus] + [(one.day, of_one.created_at) for one, of_one in yielded.items()]
    out = [(item, waits) for item, waits in own if item.direction == "OUT" and not special_line.is_contrary_investment(item)]
    late = {one for one, waits in out if not waits and any(one.day < day and one.recorded_at > at for day, at in made)}
    doubted = [item.day - _ONE_DAY for item, waits in out if item in late or waits not in (None, "before_opening")]
    since = max(to_day(account.opened_at), min(today, first_on) - LOOKED_BACK)
    days = await day_store.list_days(connection, account.id, since, last_on)
    # Of closed days without a new line the sums are proved.
    net_since = min([first_on, *(one.item.day for one in left), *(one.day for one in days if not one.is_closed)])
    nets = Counter(dict.fromkeys((one.day for one in days if one.day >= net_since), 0))
    for group in await item_store.sum_days(connection, account.id, net_since, last_on, has_investments=False):
        nets[group.day] += sum_groups([group]).net_cents
    # A balance with the investments included what was invested before the books began.
    if find_balance_meaning(account) == "with_investments":
        days = [structs.replace(one, opening_cents=None, closing_cents=None) for one in days]
    fresh_on = today - special_line.UNREAD_FOR
    unread, proved = _find_unread(account, since, days, nets, await _sum_own(connection, account, since, days))
    # A file of older days that is read late may be followed by those before it.
    stale = sorted({after for day, after in unread.items() if day < fresh_on})
    read_at = await line_store.find_first_covered(connection, account.id, stale) if stale else {}
    waited = [
        day for day, after in unread.items() if day >= fresh_on or (after in read_at and to_day(read_at[after]) >= fresh_on)
    ]
    invested = await day_store.list_invested(connection, account.id)
    yields = {item.item_id: movement.amount_cents for item, movement in yielded.items()}
    own_items, unread_on = [one for one in items if one not in late], min([*waited, *doubted], default=date.max)
    planned = special_line.plan_investments(own_items, invested, unread_on, unread, proved, yields)
    planned.update((one.item_id, "could_be_ours") for one in late)
    return planned


async def _sum_own(
    connection: Connection, account: InstitutionAccount, since: date, days: Sequence[RecordedDay]
) -> Mapping[date, int]:
    """Sum our unmatched lines of days that no statement covers: the balance after these days includes them."""
    read = [since - _ONE_DAY, *(one.day for one in days if one.read_at is not None)]
    spans = [(before + _ONE_DAY, day - _ONE_DAY) for before, day in pairwise(read) if day - before > _ONE_DAY]
    return await line_store.sum_unmatched_days(connection, account.id, spans)


def _find_unread(
    account: InstitutionAccount, since: date, days: Sequence[RecordedDay], nets: Mapping[date, int], own: Mapping[date, int]
) -> tuple[dict[date, date], set[date]]:
    """Find days that may lack lines, each with the day whose statement shows that, and days whose balances follow.

    Equal balances do not show that nothing was on a business day without a statement: sweeps leave the same balance each day.
    """
    before_on, level_cents = since - _ONE_DAY, None
    # After the opening balance, the account's first day may have lines too.
    if since == to_day(account.opened_at) and days and days[0].day > since:
        before_on, level_cents = since, account.opening_cents + own.get(since, 0)
    stated_on, unread, proved = before_on, dict[date, date](), set[date]()
    for day in days:
        opening, closing, net = day.opening_cents, day.closing_cents, nets.get(day.day)
        if day.read_at is None:  # a statement of other days had lines of it
            level_cents = None if level_cents is None or net is None else level_cents + net
            continue
        if level_cents is not None:
            level_cents += sum(cents for on, cents in own.items() if before_on < on < day.day)
        if opening is None and closing is not None and net is not None:
            opening = closing - net
        starts_cents = level_cents if opening is None else opening
        ends_cents = None if starts_cents is None or net is None else starts_cents + net
        follows, adds_up = level_cents in (None, starts_cents), closing is None or ends_cents in (None, closing)
        found = [before_on + _ONE_DAY, day.day - _ONE_DAY] if count_business_days(before_on, day.day - _ONE_DAY) else []
        found += [stated_on] if not follows else []
        found += [day.day] if not (day.was_read_whole and adds_up) else []
        unread |= dict.fromkeys(found, day.day)
        if opening is not None and level_cents == opening and adds_up:
            proved.add(day.day)
        before_on, level_cents = day.day, ends_cents if closing is None else closing
        stated_on = stated_on if closing is None else day.day
    return unread, proved


async def hold_back(
    connection: Connection, account: InstitutionAccount, left: Sequence[UnmatchedItem], today: date
) -> list[UnmatchedItem]:
    """Return the lines; redemptions without a recorded application wait, and applications that contradict posted income."""
    planned = await plan(connection, account, left, today)
    waiting = {item_id: one for item_id, one in planned.items() if isinstance(one, str)}
    return [structs.replace(one, waits=waiting.get(one.item.item_id, one.waits)) for one in left]


async def invest(context: Writer, account: InstitutionAccount, left: Sequence[UnmatchedItem]) -> set[str]:
    """Match own investments, and post their yield; returns the ids of those that are no movements."""
    async with context.pool.acquire() as connection:
        planned = await plan(connection, account, left, to_day(context.clock.now()))
    items = {one.item.item_id: one.item for one in left}
    principals = dict[str, int]()
    for item_id, principal_cents in planned.items():
        item = items[item_id]
        if not principal_cents or isinstance(principal_cents, str):
            continue
        if principal_cents < item.amount_cents:
            yielded_cents = item.amount_cents - principal_cents
            report = await report_part(context, account, item, (special_line.name_yield(item.item_id), "other", yielded_cents))
            if not await movement_usecases.post_statement_item(context, account.house_id, report):
                continue
        principals[item_id] = principal_cents
    if principals:
        joins = [ItemJoin(item_id=item_id, key=("investment", item_id), by="words") for item_id in principals]
        async with write_alone(context.pool) as connection:
            await item_store.lock_recording(connection, account.id)
            await item_store.join(connection, account.id, joins)
            await day_store.add(connection, account.id, principals)
    return {item_id for item_id, principal_cents in planned.items() if principal_cents}


async def report_part(
    context: Writer,
    account: InstitutionAccount,
    item: InstitutionItem,
    part: tuple[str, MovementKind, int],
    holder_id: int | None = None,
) -> MovementReport:
    """Report a part of a line as a movement, by its name, kind and cents: of a holder, by default of the house."""
    name, kind, cents = part
    return MovementReport(
        report_id=f"statement:{account.id}:{name}",
        item_id=name,
        party=(await context.directory.read_account(holder_id or account.house_id)).party,
        kind=kind,
        direction=item.direction,
        amount_cents=cents,
        description=item.text[:DESCRIPTION_LENGTH_MAX] or None,
        # Many lines have only a day: noon of it is that day in each time zone of Brazil.
        settled_at=item.settled_at or datetime.combine(item.day, time(12), SAO_PAULO),
    )


async def reserve_lines(context: Writer, account: InstitutionAccount) -> None:
    """Make the blocks of an account's holders match its waiting debits. Call it while no line is judged."""
    while holder_ids := await line_store.list_differing(context.pool, account.id):
        asked = [AccountLines(institution_id=account.id, holder_id=holder_id) for holder_id in holder_ids]
        # Changes that another has made meanwhile, or that no run can make, are not tried again.
        if not any([await context.writes.submit(RESERVE_LINES, one) for one in asked]):
            return
