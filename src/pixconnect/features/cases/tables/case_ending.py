"""Orders that were asked about in vain, and the table of how two operators have said that they ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, LiteralString

from pixconnect.features.cases.rules.case import CaseEnding, SilentOrder
from pixconnect.features.institutions.rules.joining import DAYS_APART_MAX, NO_PIX
from pixconnect.features.institutions.rules.outcome import SET_ASIDE
from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection, Pool

CASE_ENDING: Final = Table(
    "case_ending",
    CaseEnding,
    """
    order_name text, kind text, institution_id smallint, holder_id bigint, resource_id bigint, amount_cents bigint,
    called_at timestamptz, case_id bigint, said text, evidence_name text, evidence_size integer, evidence_digest text,
    proposed_by text, confirmed_by text, ended_at timestamptz, contrary_item_id text
    """,
    key=("order_name",),
)

# Who was never called, or has an answer that is only to be recorded, ends by itself.
_LIST_SILENT: Final[LiteralString] = """
    select order_name, kind, step.institution_id, step.holder_id, resource_id, step.amount_cents, called_at
    from open_order join rail_step as step on step.order_name = open_order.name
    where open_order.institution_id = $1 and step.institution_id = $1 and handed_at is not null and called_at is not null
        and state <> 'closed' and ($2::text is null or open_order.name = $2)
    order by called_at, order_name limit $3
"""


async def list_silent(connection: Connection | Pool, institution_id: int, count_max: int) -> list[SilentOrder]:
    """Orders of an account that were called and have no end, the oldest first."""
    return [SilentOrder(**row) for row in await connection.fetch(_LIST_SILENT, institution_id, None, count_max)]


async def find_silent(connection: Connection | Pool, institution_id: int, order_name: str) -> SilentOrder | None:
    rows = await connection.fetch(_LIST_SILENT, institution_id, order_name, 1)
    return SilentOrder(**rows[0]) if rows else None


_LIST_LIKE: Final[LiteralString] = """
    select item_id from institution_item
    where institution_id = $1 and direction = 'OUT' and amount_cents = $2 and kind <> all($3) and joined_kind is null
        and not coalesce(waits, '') = any($6) and day between $4 and $5 order by day, item_id limit 20
"""


async def list_like(connection: Connection | Pool, order: SilentOrder) -> list[str]:
    """Unmatched statement lines that by amount and day may be the order."""
    first_on, last_on = order.days
    until = last_on + timedelta(days=DAYS_APART_MAX)
    asked = (order.institution_id, order.amount_cents, list(NO_PIX), first_on, until, SET_ASIDE)
    return [row["item_id"] for row in await connection.fetch(_LIST_LIKE, *asked)]


_CLOSE_STEP: Final[LiteralString] = """
    update rail_step set state = 'closed', outcome = 'decided' where order_name = $1 and state <> 'closed' returning order_name
"""


async def close_step(connection: Connection, order_name: str) -> bool:
    """Prevent further calls of a step; ``False`` if it was closed already. Its ending is written first."""
    return await connection.fetchval(_CLOSE_STEP, order_name) is not None


async def find_of_cases(connection: Connection | Pool, case_ids: Sequence[int]) -> list[CaseEnding]:
    return await CASE_ENDING.find_all(connection, "where case_id = any($1) order by order_name", case_ids)


async def list_never(connection: Connection, institution_id: int, amounts: Sequence[int]) -> list[CaseEnding]:
    """Orders of an account, with one of these amounts, that two operators closed as never sent."""
    return await CASE_ENDING.find_all(
        connection,
        "where institution_id = $1 and amount_cents = any($2) and said = 'never' order by order_name",
        institution_id,
        amounts,
    )


_NAMES: Final[LiteralString] = """
    select order_name, array_remove(array[order_name, transfer.network_id], null) as names from case_ending
    join transfer on transfer.id = resource_id and transfer.holder_id = case_ending.holder_id
    where kind = 'order' and order_name = any($1)
    union all
    select order_name, array_remove(array[order_name, refund.network_id], null) from case_ending
    join refund on refund.id = resource_id and refund.holder_id = case_ending.holder_id
    where kind = 'refund' and order_name = any($1)
"""


async def read_names(connection: Connection, order_names: Sequence[str]) -> dict[str, frozenset[str]]:
    """By which names of the network each is known."""
    return {row["order_name"]: frozenset(row["names"]) for row in await connection.fetch(_NAMES, order_names)}


_CONTRADICT: Final[LiteralString] = """
    update case_ending set contrary_item_id = $2 where order_name = $1 and contrary_item_id is null
"""
_LIST_CONTRARY: Final[LiteralString] = f"""
    select {CASE_ENDING.select}, kept.explanation from case_ending
    left join lateral (
        select explanation from kept_report
        where kept_report.name = case_ending.order_name and reason = 'contradiction' and closed_at is null
            and first_seen_at >= case_ending.ended_at
        order by id limit 1
    ) as kept on true
    where institution_id = $1 and (contrary_item_id is not null or kept.explanation is not null)
"""


async def contradict(connection: Connection, ending: CaseEnding, item_id: str) -> None:
    """Note which line of the statement says otherwise, before anything is posted for it."""
    await connection.execute(_CONTRADICT, ending.order_name, item_id)


async def list_contrary(connection: Connection, institution_id: int) -> list[tuple[CaseEnding, str | None]]:
    """Those that something came to contradict, each with the words of the rail's report."""
    rows = await connection.fetch(_LIST_CONTRARY, institution_id)
    return [(CASE_ENDING.read(row), row["explanation"]) for row in rows]
