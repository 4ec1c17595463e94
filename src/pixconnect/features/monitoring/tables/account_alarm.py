"""The table of alarms that pause accounts at institutions, and the figures that raise them."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, LiteralString

from msgspec import Struct

from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection, Pool

AlarmKind = Literal["strays", "drain"]


class AccountAlarm(Struct, frozen=True, kw_only=True):
    id: int
    institution_id: int
    kind: AlarmKind
    observation: str
    noticed_at: datetime
    ended_at: datetime | None = None
    ended_by: str | None = None


ALARM: Final = Table(
    "account_alarm",
    AccountAlarm,
    """
    id bigint, institution_id smallint, kind text, observation text, noticed_at timestamptz, ended_at timestamptz, ended_by text
    """,
    key=("id",),
)


async def raise_alarm(pool: Pool, institution_id: int, kind: AlarmKind, observation: str, noticed_at: datetime) -> bool:
    """Pause an active account and record why, in one transaction; ``False`` if it is not active any more."""
    return await pool.fetchval("select raise_alarm($1, $2, $3, $4)", institution_id, kind, observation, noticed_at)


_END: Final[LiteralString] = """
    update account_alarm set ended_at = clock_timestamp(), ended_by = $2 where institution_id = $1 and ended_at is null
"""


async def list_alarms(connection: Connection | Pool) -> list[AccountAlarm]:
    """List alarms whose account no operator has resumed."""
    return await ALARM.find_all(connection, "where ended_at is null order by id")


async def find_last_alarm(pool: Pool, institution_id: int) -> datetime | None:
    """Find when the last alarm was raised: an acknowledged observation raises no other."""
    return await pool.fetchval("select max(noticed_at) from account_alarm where institution_id = $1", institution_id)


async def end(connection: Connection, institution_id: int, operator: str) -> None:
    await connection.execute(_END, institution_id, operator)


# A line without an hour is dated by the institution's first listing; a line of a file may be of any hour of its day.
_COUNT_STRAYS: Final[LiteralString] = """
    select coalesce(max(count), 0) from (
        select count(*) over (order by at range between interval '1 hour' preceding and current row) as count
        from (
            select coalesce(item.settled_at, case when item.source = 'api' then item.recorded_at end) as at
            from movement join institution_item as item
                on item.institution_id = movement.institution_id and item.joined_kind = 'movement'
                and item.joined_id = movement.item_id
            where movement.institution_id = $1 and movement.kind = 'by_hand' and movement.direction = 'OUT'
                and movement.created_at > $2 and movement.opposite_of is null
                and not exists (
                    select from movement as opposite
                    where opposite.holder_id = movement.holder_id and opposite.opposite_of = movement.item_id
                )
                and not exists (
                    select from case_ending
                    where case_ending.institution_id = item.institution_id and contrary_item_id = item.item_id
                )
        ) as stray
        where at > $2
    ) as counted
"""


async def count_strays(pool: Pool, institution_id: int, since: datetime) -> int:
    """The maximum of Pix per hour, since an instant, that left without an order of this service."""
    return await pool.fetchval(_COUNT_STRAYS, institution_id, since)


_SUM_OUT: Final[LiteralString] = """
    select coalesce(sum(amount_cents), 0)::bigint from (
        select amount_cents from transfer
        where institution_id = $1 and direction = 'OUT' and not is_book and network_settled_at > $2
        union all
        select refund.amount_cents from refund
        join transfer on transfer.id = refund.transfer_id and transfer.holder_id = refund.holder_id
        where transfer.institution_id = $1 and refund.flow = 'OUT' and not refund.is_book and refund.settled_at > $2
        union all
        select amount_cents from movement
        where institution_id = $1 and direction = 'OUT' and kind <> 'opening_balance' and network_settled_at > $2
            and created_at > $2 and status = 'POSTED' and opposite_of is null
            and not exists (
                select from movement as opposite
                where opposite.holder_id = movement.holder_id and opposite.opposite_of = movement.item_id
            )
    ) as gone
"""


async def sum_out(pool: Pool, institution_id: int, since: datetime) -> int:
    """The money that left an account since then, ordered here or not, in cents."""
    return await pool.fetchval(_SUM_OUT, institution_id, since)
