"""Totals of lists, which stay fast at any length.

Counting ten million rows takes most of a second. Instead each write group adds its changes, by status and hour of creation;
housekeeping adds up the rows of one hour; a total is a sum over whole hours, and only the two hours at the ends of a span are
counted. A page far down the list is found in the same way: whole hours are skipped by their totals.

A holder's sent sums are kept in the same way: days and nights begin with an hour.

Triggers count events and deliveries in ``webhook_tally``: a delivery changes its status in many ways, and a way that omitted it
would make totals wrong for months. A delivery counts as ``made`` while it is kept, and also as ``delivered`` or ``failed``.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, Literal, LiteralString, TypeAlias

from msgspec import Struct

from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.limit import Interval, Spent
from pixconnect.kernel.rules.location import Location
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.table import Part, fetch_row
from pixconnect.platform.pool import Connection, Pool

_FOLD_LOCK: Final = 0x7069_7868  # "pixh"

Kind = Literal["charge", "charge_due", "transfer", "refund", "location", "spent"]
"""Charges with a due date are counted twice: among all, and by themselves."""


class Change(Struct, frozen=True, kw_only=True):
    """One more, or one fewer, of a status; or a change of the cents sent."""

    holder_id: int
    kind: Kind
    status: str  # the counted state; for cents sent it is ``OUT``
    created_at: datetime
    change: int  # 1 or -1; for money sent, its cents


def _fold(table: LiteralString, owner: LiteralString) -> LiteralString:
    """Adds at most ``$1`` rows of ``<table>_change`` to the counts of their hours in ``table``."""
    return f"""
        {table}_taken as (
            delete from {table}_change
            where (select is_ours from held) and ctid = any(array(select ctid from {table}_change limit $1))
            returning kind, {owner}, status, hour, change
        ),
        {table}_folded as (
            insert into {table} (kind, {owner}, status, hour, count)
            select kind, {owner}, status, hour, sum(change) from {table}_taken group by 1, 2, 3, 4 order by 1, 2, 3, 4
            on conflict (kind, {owner}, status, hour) do update set count = {table}.count + excluded.count
        )
    """


def hours_statement(table: LiteralString, noted: LiteralString, sign: LiteralString = "1") -> LiteralString:
    """Reads whole hours with counts, folded or not, newest first.

    Args:
        noted: The condition on it and on ``<table>_change``: from ``where`` on.
        sign: Whether a kind and status adds to the count or subtracts from it.
    """
    return f"""
        select hour, sum(count * {sign})::bigint as count from (
            select hour, kind, status, count from {table} {noted}
            union all select hour, kind, status, change from {table}_change {noted}
        ) as noted
        group by hour having sum(count * {sign}) <> 0 order by hour desc
    """


def sum_statement(table: LiteralString, noted: LiteralString, sign: LiteralString = "1") -> LiteralString:
    """Adds up counts, folded or not; arguments as above."""
    return f"""
        select coalesce(sum(count * {sign}), 0)::bigint from (
            select kind, count from {table} {noted} union all select kind, change from {table}_change {noted}
        ) as noted
    """


WebhookKind = Literal["event", "delivery"]


def webhook_hours_statement(kind: WebhookKind, status: Literal["made", "pending", "delivered", "failed"]) -> LiteralString:
    """Likewise for a holder's events or an endpoint's deliveries: ``$1`` its id, ``$2`` oldest and ``$3`` newest hour."""
    # Pending means made and not ended.
    statuses: LiteralString = "'made', 'delivered', 'failed'" if status == "pending" else f"'{status}'"
    sign: LiteralString = "case status when 'made' then 1 else -1 end" if status == "pending" else "1"
    noted: LiteralString = f"where kind = '{kind}' and owner_id = $1 and status in ({statuses}) and hour between $2 and $3"
    return hours_statement("webhook_tally", noted, sign)


# Two at once would wait for each other, so the second takes nothing. Changes that another has folded since the snapshot are
# gone: a deletion finds them deleted.
_FOLD: Final[LiteralString] = f"""
    with held as materialized (select pg_try_advisory_xact_lock($2) as is_ours),
    {_fold("tally", "holder_id")}, {_fold("webhook_tally", "owner_id")}
    select (select count(*) from tally_taken) + (select count(*) from webhook_tally_taken)
"""


def _columns(changes: Sequence[Change]) -> list[tuple[object, ...]]:
    """One row for each holder, kind, status and hour that changed."""
    instants: Counter[tuple[int, Kind, str, datetime]] = Counter()
    for change in changes:
        instants[change.holder_id, change.kind, change.status, change.created_at] += change.change
    hours: Counter[tuple[int, Kind, str, datetime]] = Counter()
    # By instant first, since most of a batch have the same one: truncating it to its hour takes most of the time.
    for (holder_id, kind, status, created_at), count in instants.items():
        hours[holder_id, kind, status, created_at.replace(minute=0, second=0, microsecond=0)] += count
    return list(zip(*[(*key, count) for key, count in hours.items()], strict=True))


APPEND: Final = Part[Change](
    name="tally_change_row",
    sql="""
        insert into tally_change (holder_id, kind, status, hour, change)
        select * from unnest({}::bigint[], {}::text[], {}::text[], {}::timestamptz[], {}::bigint[])
    """,
    arguments=_columns,
)


TALLIES: Final = Fact(rank=300, inserts=(APPEND,), key=None)


Counted: TypeAlias = Charge | Transfer | Refund | Location
Follow = Callable[[Any, Any], list[tuple[Fact[Change], Change]]]


def count(kind: Kind) -> Follow:
    """Makes the part that counts a listed fact by its status."""

    def follow(before: Counted | None, after: Counted) -> list[tuple[Fact[Change], Change]]:
        if before is not None and before.status == after.status:
            return []
        holder_id, created_at = after.holder_id, after.created_at
        made = TALLIES, Change(holder_id=holder_id, kind=kind, status=after.status, created_at=created_at, change=1)
        if before is None:
            return [made]
        return [made, (TALLIES, Change(holder_id=holder_id, kind=kind, status=before.status, created_at=created_at, change=-1))]

    return follow


def spend(holder_id: int, created_at: datetime, cents: int) -> tuple[Fact[Change], Change]:
    """Count a transfer against the limits, or stop counting it."""
    return TALLIES, Change(holder_id=holder_id, kind="spent", status="OUT", created_at=created_at, change=cents)


# Unfolded notes count too, or a limit check would miss the last minutes.
_READ_SPENT: Final[LiteralString] = """
    select coalesce(sum(cents) filter (where hour >= $2::timestamptz and hour < $3::timestamptz), 0)::bigint as day_cents,
        coalesce(sum(cents) filter (where hour >= $4::timestamptz and hour < $5::timestamptz), 0)::bigint as night_cents
    from (
        select hour, count as cents from tally
        where holder_id = $1 and kind = 'spent' and status = 'OUT'
            and hour >= least($2::timestamptz, $4::timestamptz) and hour < greatest($3::timestamptz, $5::timestamptz)
        union all
        select hour, change from tally_change
        where holder_id = $1 and kind = 'spent' and status = 'OUT'
            and hour >= least($2::timestamptz, $4::timestamptz) and hour < greatest($3::timestamptz, $5::timestamptz)
    ) as noted
"""


async def read_spent(connection: Connection | Pool, holder_id: int, day: Interval, night: Interval | None) -> Spent:
    row = await fetch_row(connection, _READ_SPENT, holder_id, *day, *(night or (None, None)))
    return Spent(day_cents=row["day_cents"], night_cents=row["night_cents"])


_READ_TOTAL: Final = sum_statement("tally", "where holder_id = $1 and kind = $2 and status = any($3::text[])")
_READ_EVENTS: Final = sum_statement("webhook_tally", "where kind = 'event' and owner_id = $1 and status = 'made'")


async def read_total(pool: Pool, holder_id: int, kind: Kind, statuses: Sequence[str]) -> int:
    """Return the all-time count of these statuses; hour by hour that would be thousands of rows."""
    return await pool.fetchval(_READ_TOTAL, holder_id, kind, list(statuses))


async def read_events_total(pool: Pool, holder_id: int) -> int:
    """Return how many of a holder's events are kept."""
    return await pool.fetchval(_READ_EVENTS, holder_id)


async def fold(pool: Pool, rows_max: int) -> int:
    """Add this many changes of each tally to the counts of its hours; return their number, 0 while another process folds."""
    return await pool.fetchval(_FOLD, rows_max, _FOLD_LOCK)
