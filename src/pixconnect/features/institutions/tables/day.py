"""The tables of days, sweeps and own investments of accounts at institutions, and the lock on an account's lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.features.institutions.rules.day import DayBalances, DayState
from pixconnect.features.institutions.rules.sweep import Pace, Sweep
from pixconnect.features.institutions.statement_files.statement_file import ItemSource
from pixconnect.kernel.tables.lookup import AdvisoryLocks, Column, Command, FindAll, FindBy, FindOne, Tuples, Value
from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection, Pool

_LOCKS: Final = AdvisoryLocks(0x1D57)  # of accounts' items
lock_work, working_on = _LOCKS.try_lock, _LOCKS.holding


class RecordedDay(DayBalances, frozen=True, kw_only=True):
    institution_id: int
    source: ItemSource
    state: DayState = "open"
    disagreements_count: int = 0  # recorded lines and balances that a second form of the day contradicts
    second_closing_cents: int | None = None  # from a second form
    closed_at: datetime | None = None
    reopened_at: datetime | None = None

    @property
    def is_closed(self) -> bool:
        """Whether a statement closed it: balances alone do not show all of its lines."""
        return self.read_at is not None and self.state in ("closed", "closed_with_cases")


class OpenDays(Struct, frozen=True, kw_only=True):
    judged_from: date  # days before it are closed and unchanged
    carried_from: date
    """The last earlier day with a balance, reported or of the books' beginning: balances are carried forward from it."""


DAY: Final = Table(
    "institution_day",
    RecordedDay,
    """
    institution_id smallint, day date, opening_cents bigint, closing_cents bigint, read_at timestamptz, source text,
    state text, disagreements_count integer, second_closing_cents bigint, closed_at timestamptz,
    reopened_at timestamptz
    """,
    key=("institution_id", "day"),
)

SWEEP: Final = Table(
    "institution_sweep",
    Sweep,
    """
    institution_id smallint, pace text, began_at timestamptz, ended_at timestamptz, items_count bigint, failed_at timestamptz,
    failure text
    """,
    key=("institution_id", "pace"),
)

POSITION: Final[LiteralString] = """
    select coalesce(sum(case direction when 'OUT' then principal_cents else -principal_cents end), 0)::bigint
    from own_investment where institution_id = $1
"""

list_days: Final = FindAll[RecordedDay, int, date, date](
    DAY, "where institution_id = $1 and day between $2 and $3 order by day"
)

find_first_stated: Final = FindOne[RecordedDay, int, date](
    DAY,
    """
    where institution_id = $1 and read_at is not null and (day = $2 or coalesce(opening_cents, closing_cents) is not null)
    order by day limit 1
    """,
)
"""Find the first covered day with a reported balance, or that of the books' beginning; earlier days may have lines too."""

list_unread_of_loss: Final = Column[date, int, datetime]("""
    select distinct day::date from database_loss
    join institution_account as account on account.id = $1 and account.created_at > noticed_at
    cross join generate_series(
        (coalesce(known_until, $2) at time zone 'America/Sao_Paulo')::date,
        (noticed_at at time zone 'America/Sao_Paulo')::date, interval '1 day'
    ) as forgotten (day)
    where noticed_at > $2 and not exists (
        select from institution_day as told
        where told.institution_id = $1 and told.day = forgotten.day::date and told.read_at is not null
    )
    order by 1
""")
"""List days that the database lost and no statement covered, for an account added after the loss.

Args:
    lost_since: Losses detected since then count; this bounds the lost span if its length is unknown.
"""

# A file made later wins, even if it was read first; an older one adds no balance to a day that is proved.
_TELL: Final[LiteralString] = f"""
    insert into institution_day as told ({DAY.names}) values ({DAY.parameters})
    on conflict (institution_id, day) do update set
        opening_cents = case when excluded.read_at < told.read_at
            then coalesce(told.opening_cents, case when told.state not like 'closed%' then excluded.opening_cents end)
            else coalesce(excluded.opening_cents, told.opening_cents) end,
        closing_cents = case when excluded.read_at < told.read_at
            then coalesce(told.closing_cents, case when told.state not like 'closed%' then excluded.closing_cents end)
            else coalesce(excluded.closing_cents, told.closing_cents) end,
        read_at = greatest(excluded.read_at, told.read_at),
        source = case when told.source <> 'api'
            and (excluded.source = 'api' or (excluded.read_at at time zone 'America/Sao_Paulo')::date > told.day)
            and coalesce((told.read_at at time zone 'America/Sao_Paulo')::date <= told.day, true)
            then excluded.source else told.source end
"""


async def write_reported(connection: Connection, days: Sequence[RecordedDay]) -> None:
    """Record that a statement covers days, and the balances in it."""
    await connection.executemany(_TELL, [DAY.values(day) for day in days])


_NOTE_SECOND: Final[LiteralString] = """
    update institution_day set disagreements_count = $3, opening_cents = coalesce(opening_cents, $4),
        closing_cents = coalesce($5, closing_cents), second_closing_cents = coalesce($6, second_closing_cents)
    where institution_id = $1 and day = $2
"""


async def note_second(
    connection: Connection,
    day: RecordedDay,
    disagreements_count: int,
    balances: tuple[int | None, int | None] = (None, None),
    closing_cents: int | None = None,
) -> None:
    """Record a second format's contradictions, the day's balances that the first lacks or computed, and its own closing."""
    noted = (disagreements_count, *balances, closing_cents)
    await connection.execute(_NOTE_SECOND, day.institution_id, day.day, *noted)


replace_proof: Final = Command[int, date, date, datetime]("""
    update institution_day set closing_cents = case when day < $3 then null else closing_cents end,
        opening_cents = case when day > $2 then null else opening_cents end
    where institution_id = $1 and day between $2 and $3 and (read_at <= $4) is not false
""")
"""Delete the balances between the beginning of the first day and the end of the last, unless a file made later has them."""

write_closing: Final = Command[int, date, int]("""
    update institution_day set closing_cents = $3 where institution_id = $1 and day = $2 and source = 'api'
""")
"""Record the computed balance of an account at the end of a day."""

_JUDGE: Final[LiteralString] = """
    update institution_day as judged set state = new.state,
        closed_at = case when new.state like 'closed%' and judged.state not like 'closed%' then $4 else judged.closed_at end,
        reopened_at = case when new.state not like 'closed%' and judged.state like 'closed%' then $4
            else judged.reopened_at end
    from unnest($2::date[], $3::text[]) as new (day, state)
    where judged.institution_id = $1 and judged.day = new.day and judged.state <> new.state
"""


async def write_states(
    connection: Connection, institution_id: int, states: Sequence[tuple[date, DayState]], now: datetime
) -> None:
    days, names = [day for day, _ in states], [state for _, state in states]
    await connection.execute(_JUDGE, institution_id, days, names, now)


reopen: Final = Column[date, int, Sequence[date], datetime]("""
    update institution_day set state = 'provisional', reopened_at = $3
    where institution_id = $1 and day = any($2) and state = 'closed' returning day
""")
"""Reopen those of some days that are closed, before a payment is recorded that their statement may lack; return them."""

# Backdated lines were in none of the computed balances of that day or later ones.
forget_closings: Final = Command[int, date]("""
    update institution_day set closing_cents = null where institution_id = $1 and day >= $2 and source = 'api'
""")
"""Delete computed, not reported, balances of days' ends."""

forget_early: Final = Column[date, int, date, int, Sequence[str]]("""
    with line as (
        select case direction when 'IN' then amount_cents else -amount_cents end as cents,
            (recorded_at at time zone 'America/Sao_Paulo')::date > day as is_late
        from institution_item where institution_id = $1 and day = $2::date + 1 and not coalesce(waits, '') = any($4)
    )
    update institution_day set closing_cents = null where institution_id = $1 and day = $2 and source = 'api'
        and second_closing_cents is distinct from closing_cents
        and $3 in (select cents from line union all select sum(cents) from line where is_late) returning day
""")
"""Delete a day's computed balance that is wrong by a line of the next day, or by all that were listed after it."""

_FIND_OPEN: Final[LiteralString] = """
    with recorded as (
        select day, state, read_at,
            $4 and lag(day) over days < day - 1 and lag(closing_cents) over days <> opening_cents as ends_gap
        from institution_day where institution_id = $1 and day >= $2 window days as (order by day)
    ),
    touched as (select least(min(day), $3) as day from recorded where state <> 'closed' or ends_gap),
    -- A balance also decides about the days without a statement before it.
    unclosed as (
        select coalesce(max(recorded.day) + 1, touched.day) as day from touched
        left join recorded on recorded.day < touched.day and read_at is not null group by touched.day
    )
    select unclosed.day as judged_from, coalesce((
        select max(told.day) from institution_day as told where told.institution_id = $1
            and told.day < unclosed.day and told.day >= $2
            and (told.opening_cents is not null or told.closing_cents is not null or told.day = (
                select (opened_at at time zone 'America/Sao_Paulo')::date from institution_account where id = $1
            ))
    ), unclosed.day) as carried_from from unclosed
"""


async def find_open(
    connection: Connection | Pool, institution_id: int, since: date, touched_on: date, *, with_gaps: bool = False
) -> OpenDays:
    """Find the first day to judge again: at the latest the first changed or open one.

    Args:
        with_gaps: At the latest also the first day after days without a row, beside which two reported balances differ.
    """
    (row,) = await connection.fetch(_FIND_OPEN, institution_id, since, touched_on, with_gaps)
    return OpenDays(**row)


list_unread: Final = Tuples[tuple[date, date], int, date]("""
    select began_on, day - 1 from (
        select day, coalesce(lag(day) over (order by day) + 1, (
            select min(day) from institution_day where institution_id = $1 and day >= $2
        )) as began_on from institution_day
        where institution_id = $1 and day >= $2 and (read_at at time zone 'America/Sao_Paulo')::date > day
    ) as told where began_on < day
""")
"""List the first and last days of spans that were not read after their end, each before a day that was, since a day."""

find_unsettled: Final = Value[date | None, int, date, date, Sequence[str]]("""
    select min(day) from institution_item
    where institution_id = $1 and joined_kind is null and not coalesce(waits, '') = any($4)
        and (day >= $2 or waits is null or waits = 'day_not_over' and day < $3)
""")
"""Find the day of the oldest item to match or post: since a day, or one that waits for nothing."""

find_stated_beyond: Final = Value[date | None, int, date, int, datetime]("""
    select max(day) from (
        -- Many banks write the days that were asked for, up to the end of the month.
        select least(last_on, (recorded_at at time zone 'America/Sao_Paulo')::date) as day from institution_file
        where institution_id = $1 and last_on >= $2 and recorded_at > $4
        union all
        select day from institution_day where institution_id = $1 and (day = $2 and closing_cents <> $3 or day > $2 and (
            coalesce(opening_cents, closing_cents) is not null or read_at > day::timestamp at time zone 'America/Sao_Paulo'
        ))
    ) as told
""")
"""Find the last day of a file that was read later, or with a reading or another balance, from a day on."""

find_reopening: Final = Value[date | None, int, date, Sequence[str]]("""
    select min(day) from institution_item join institution_day using (institution_id, day)
    where institution_id = $1 and day >= $2 and joined_kind is null and waits = any($3) and state = 'closed'
""")
"""Find the first closed day with a line that waits for an answer: a file may have lines of days before its own."""

find: Final = FindOne[Sweep, int, Pace](SWEEP, "where institution_id = $1 and pace = $2")

list_last_of: Final = FindBy[Pace, Sweep, int](SWEEP, "pace", "where institution_id = $1")

# Two workers may end the same sweep: the one that read further stays, but none that is ahead of time.
_WRITE: Final[LiteralString] = f"""
    insert into institution_sweep as kept ({SWEEP.names}) values ({SWEEP.parameters})
    on conflict (institution_id, pace) do update set
        began_at = greatest(least(kept.began_at, excluded.ended_at), excluded.began_at), ended_at = excluded.ended_at,
        items_count = excluded.items_count, failed_at = null, failure = null
"""


async def write(connection: Connection | Pool, sweep: Sweep) -> None:
    """Record the end of a sweep whose items are all recorded or kept."""
    await connection.execute(_WRITE, *SWEEP.values(sweep))


has_sent: Final = Value[bool, int, date]("""
    select exists (select from transfer_day where institution_id = $1 and day >= $2 and cents > 0)
""")
"""Whether any order over an account was accepted since a day."""

note_failure: Final = Command[int, Pace, datetime, str]("""
    update institution_sweep set failed_at = $3, failure = left($4, 300) where institution_id = $1 and pace = $2
""")
"""Record a sweep's failure; a sweep that never ended has no row."""

_ADD: Final[LiteralString] = """
    insert into own_investment (institution_id, item_id, direction, principal_cents)
    select institution_id, item_id, direction, wanted.cents from unnest($2::text[], $3::bigint[]) as wanted (id, cents)
    join institution_item on institution_id = $1 and item_id = wanted.id and joined_kind = 'investment'
    on conflict do nothing
"""

list_invested: Final = Tuples[tuple[date, str, int], int]("""
    select day, direction, principal_cents from own_investment join institution_item using (institution_id, item_id, direction)
    where institution_id = $1
""")

read_position: Final = Value[int, int](POSITION)  # the invested sum of an account, in cents


async def add(connection: Connection, institution_id: int, principals: Mapping[str, int]) -> None:
    """Record the invested part of matched lines, in the transaction that matches them."""
    await connection.execute(_ADD, institution_id, list(principals), list(principals.values()))
