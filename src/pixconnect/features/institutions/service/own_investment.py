"""Joins lines that move money between an account and its own investment, by which no holder has less or more.

Call it while no other line of the account is joined. If a process dies after the yield's movement, the next run joins the line
with that yield, though the position may have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Final

from msgspec import structs

from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import ItemJoin
from pixconnect.features.institutions.rules.own_investment import is_own_investment, name_yield, plan_investments
from pixconnect.features.institutions.rules.unmatched import UnmatchedItem
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import own_investment as investment_store
from pixconnect.features.movements import service as movement_usecases
from pixconnect.features.movements import tables as movement_store
from pixconnect.kernel.flows.context import Writer, write_alone
from pixconnect.kernel.rules.kept_report import DESCRIPTION_LENGTH_MAX
from pixconnect.kernel.rules.rail import MovementKind, MovementReport
from pixconnect.platform.base.civil_time import SAO_PAULO, to_day
from pixconnect.platform.pool import Connection

_BEFORE: Final = timedelta(days=10)
"""How far back the last day before a redemption that was read is looked for."""


async def plan(
    connection: Connection, account: InstitutionAccount, left: Sequence[UnmatchedItem]
) -> dict[str, int | None]:
    """What ``plan_investments`` makes of the lines among these that wait for nothing and are own investments."""
    items = [one.item for one in left if one.waits is None and is_own_investment(one.item)]
    if not items:
        return {}
    first_on, last_on = min(item.day for item in items), max(item.day for item in items)
    days = await day_store.list_days(connection, account.id, first_on - _BEFORE, last_on)

    def is_told(day: date) -> bool:
        before = next((one for one in reversed(days) if one.day < day), None)
        if before is None:
            return day - to_day(account.opened_at) <= timedelta(days=1)
        own = next((one for one in days if one.day == day), None)
        follows = own is not None and before.closing_cents is not None and own.opening_cents == before.closing_cents
        return (before.is_closed or before.was_read_whole) and (follows or day - before.day == timedelta(days=1))

    names = {name_yield(item.item_id): item.item_id for item in items}
    posted = await movement_store.find_items(connection, [(account.house_id, name) for name in names])
    yielded = {names[name]: movement.amount_cents for (_, name), movement in posted.items()}
    return plan_investments(items, await investment_store.read_position(connection, account.id), is_told, yielded)


async def hold_back(
    connection: Connection, account: InstitutionAccount, left: Sequence[UnmatchedItem]
) -> list[UnmatchedItem]:
    """The same lines; redemptions without a recorded application wait."""
    planned = await plan(connection, account, left)
    return [
        structs.replace(one, waits="could_be_ours") if planned.get(one.item.item_id, 0) is None else one for one in left
    ]


async def invest(context: Writer, account: InstitutionAccount, left: Sequence[UnmatchedItem]) -> set[str]:
    """Join own investments, and post what they yielded; answers the ids of those that are no movements."""
    async with context.pool.acquire() as connection:
        planned = await plan(connection, account, left)
    items = {one.item.item_id: one.item for one in left}
    principals = dict[str, int]()
    for item_id, principal_cents in planned.items():
        item = items[item_id]
        if not principal_cents:
            continue
        if principal_cents < item.amount_cents:
            yielded_cents = item.amount_cents - principal_cents
            report = await report_part(context, account, item, (name_yield(item.item_id), "other", yielded_cents))
            if not await movement_usecases.post_statement_item(context, account.house_id, report):
                continue
        principals[item_id] = principal_cents
    if principals:
        joins = [ItemJoin(item_id=item_id, key=("investment", item_id), by="words") for item_id in principals]
        async with write_alone(context.pool) as connection:
            await item_store.lock_recording(connection, account.id)
            await item_store.join(connection, account.id, joins)
            await investment_store.add(connection, account.id, principals)
    return {item_id for item_id, principal_cents in planned.items() if principal_cents}


async def report_part(
    context: Writer, account: InstitutionAccount, item: InstitutionItem, part: tuple[str, MovementKind, int]
) -> MovementReport:
    """The movement of the house that is a part of a line, by its name, kind and cents."""
    name, kind, cents = part
    return MovementReport(
        report_id=f"statement:{account.id}:{name}",
        item_id=name,
        party=(await context.directory.read_account(account.house_id)).party,
        kind=kind,
        direction=item.direction,
        amount_cents=cents,
        end_to_end_id=None,
        description=item.text[:DESCRIPTION_LENGTH_MAX] or None,
        settled_at=item.settled_at or datetime.combine(item.day, time(12), SAO_PAULO),
    )
