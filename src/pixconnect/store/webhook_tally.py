"""How many events and deliveries there are: totals of their lists that stay fast at any length.

As ``tally`` and ``tally_change``, but what is noted is noted by triggers: a delivery changes its status in many ways, and a way
that forgot to note it would make totals wrong for months. A delivery counts as ``made`` for as long as it is kept, and as
``delivered`` or ``failed`` beside it; those that are pending are the rest.
"""

from typing import TYPE_CHECKING, Final, Literal, LiteralString

if TYPE_CHECKING:
    from pixconnect.foundation.pool import Connection

Kind = Literal["event", "delivery"]

_FOLD: Final[LiteralString] = """
    with taken as (
        delete from webhook_tally_change where ctid = any(array(select ctid from webhook_tally_change limit $1))
        returning kind, owner_id, status, hour, change
    ),
    folded as (
        insert into webhook_tally (kind, owner_id, status, hour, count)
        select kind, owner_id, status, hour, sum(change) from taken group by 1, 2, 3, 4 order by 1, 2, 3, 4
        on conflict (kind, owner_id, status, hour) do update set count = webhook_tally.count + excluded.count
    )
    select count(*) from taken
"""


def read_hours(kind: Kind, status: Literal["made", "pending", "delivered", "failed"]) -> LiteralString:
    """Reads whole hours, as ``store.listing.Source`` wants it."""
    statuses: LiteralString = "'made', 'delivered', 'failed'" if status == "pending" else f"'{status}'"
    sign: LiteralString = "case status when 'made' then 1 else -1 end" if status == "pending" else "1"
    noted: LiteralString = (
        f"where kind = '{kind}' and owner_id = $1 and status in ({statuses}) and hour between $2 and $3"
    )
    return f"""
        select hour, sum(count * {sign})::bigint as count from (
            select hour, status, count from webhook_tally {noted}
            union all select hour, status, change from webhook_tally_change {noted}
        ) as noted
        group by hour having sum(count * {sign}) <> 0 order by hour desc
    """


async def fold(connection: "Connection", rows_max: int) -> int:
    """Add what was noted to the counts of its hours.

    Args:
        connection: In a transaction; only one process folds at a time.
        rows_max: How many notes at most.

    Returns:
        How many notes were taken up.
    """
    return await connection.fetchval(_FOLD, rows_max)
