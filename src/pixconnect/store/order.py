"""The part of outgoing transfers and refunds that concerns the rail: handed over or not, and when to look again."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, LiteralString

if TYPE_CHECKING:
    from pixconnect.foundation.pool import Connection

OrderTable = Literal["transfer", "refund"]


def _statements(change: LiteralString, condition: LiteralString) -> dict[OrderTable, LiteralString]:
    tables: tuple[OrderTable, ...] = ("transfer", "refund")
    # Rows are locked in order of id, as everywhere; a bare update of many rows would lock them as it finds them.
    return {
        table: f"""
            with wanted as (
                select id, holder_id, new.due_at from unnest($1::bigint[], $2::timestamptz[]) as new (id, due_at)
                join {table} using (id)
                where status = 'PROCESSING' and {condition} order by id for no key update of {table}
            )
            update {table} set due_at = wanted.due_at, {change} from wanted
            where {table}.id = wanted.id and {table}.holder_id = wanted.holder_id
            returning {table}.id
        """
        for table in tables
    }


_MARK: Final = _statements("handed_at = $3", "handed_at is null")


async def mark_handed(
    connection: "Connection", table: OrderTable, ids: Sequence[int], now: datetime, due_at: datetime
) -> set[int]:
    """Write down that these are about to be handed to the rail. From then on only the rail's word ends them.

    Args:
        connection: In a fenced transaction.
        table: Of the orders.
        ids: Of those to be handed over.
        now: Service time.
        due_at: When to ask, should no answer come.

    Returns:
        The ids that were marked now; any other must not be handed over.
    """
    rows = await connection.fetch(_MARK[table], ids, [due_at] * len(ids), now)
    return {row["id"] for row in rows}


# Only the very mark that was made for this try, and of which nobody has asked since: what was sent once may have arrived.
_UNMARK: Final = _statements("handed_at = null", "handed_at = $3 and asked_count = 0")


async def unmark(
    connection: "Connection", table: OrderTable, ids: Sequence[int], marked_at: datetime, due_at: datetime
) -> None:
    """Take back the mark of orders that certainly never left.

    Args:
        connection: In a transaction.
        table: Of the orders.
        ids: Of those that never left.
        marked_at: As they were marked.
        due_at: When to try again.
    """
    await connection.fetch(_UNMARK[table], ids, [due_at] * len(ids), marked_at)


# Whoever asks may send again: never without a mark, or it could be given up after that.
_POSTPONE: Final = _statements("asked_count = asked_count + 1", "handed_at is not null")


async def postpone(
    connection: "Connection", table: OrderTable, ids: Sequence[int], due_at: Sequence[datetime]
) -> set[int]:
    """Look at orders again later; counts how often the rail was asked.

    Returns:
        The ids that are still marked and open; of any other the rail must not be asked.
    """
    rows = await connection.fetch(_POSTPONE[table], ids, due_at)
    return {row["id"] for row in rows}
