"""Recorded statement files, and the lines that a statement should have.

The files have confirmed forms and may come from daily requests; waiting debits have reserves. The lines are transfers, refunds
and movements of the holders of one account.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Final, LiteralString

import asyncpg
from msgspec import Struct

from pixconnect.features.institutions.rules import joining
from pixconnect.features.institutions.rules.joining import BookLine
from pixconnect.features.institutions.rules.sum_line import LoneSum
from pixconnect.features.institutions.statement_files.statement_account import StatementAccount
from pixconnect.features.institutions.statement_files.statement_file import FileSource, RecordedFile
from pixconnect.features.institutions.tables.books import DEBITS
from pixconnect.features.movements.tables import IS_KEPT
from pixconnect.kernel.rules.rail import date_settled
from pixconnect.kernel.tables.lookup import Column, FindAll, FindBy, Pairs, Value
from pixconnect.kernel.tables.table import Table
from pixconnect.platform.base.clock import SAO_PAULO, to_day
from pixconnect.platform.pool import Connection, Pool

FILE: Final = Table(
    "institution_file",
    RecordedFile,
    """
    institution_id smallint, digest bytea, name text, format text, is_own boolean, first_on date, last_on date,
    items_count integer, same_ids_count integer, other_ids_count integer, recorded_at timestamptz
    """,
    key=("institution_id", "digest"),
)

list_files: Final = FindAll[RecordedFile, int, date](
    FILE, "where institution_id = $1 and $2 between first_on and last_on order by recorded_at desc, digest limit 20"
)

find_first_covered: Final = Pairs[date, datetime, int, Sequence[date]]("""
    select asked.day, min(recorded_at) from unnest($2::date[]) as asked (day)
    join institution_file on institution_id = $1 and asked.day between first_on and last_on group by asked.day
""")
"""Find when a file first covered some days; other days are left out."""

find_read_since: Final = Value[date | None, int, datetime](
    "select min(first_on) from institution_file where institution_id = $1 and recorded_at >= $2"
)
"""Find the first day of the files that were recorded since then."""


find_first_reading: Final = Value[datetime | None, int, bytes](
    "select recorded_at from institution_file where institution_id = $1 and digest = $2"
)


def _read_account(bank: str, branch: str, number: str, account_type: str, agreement: str) -> StatementAccount:
    return StatementAccount(bank=bank, branch=branch, number=number, type=account_type, agreement=agreement)


SOURCE: Final = Table(
    "institution_source",
    FileSource,
    """
    institution_id smallint, format text, is_own boolean, bank text, branch text, number text, account_type text,
    agreement text, confirmed_at timestamptz, confirmed_by text
    """,
    key=("institution_id", "format", "is_own"),
    read={"account": (_read_account, "bank", "branch", "number", "account_type", "agreement")},
    write={
        "bank": lambda source: source.account.bank,
        "branch": lambda source: source.account.branch,
        "number": lambda source: source.account.number,
        "account_type": lambda source: source.account.type,
        "agreement": lambda source: source.account.agreement,
    },
)

list_sources: Final = FindAll[FileSource, int](SOURCE, "where institution_id = $1 order by confirmed_at, format, is_own")
"""List the formats of files whose first file an operator has confirmed, oldest first."""

are_ids_stable: Final = Value[bool, int]("""
    select coalesce(sum(same_ids_count) > 0 and sum(other_ids_count) = 0, false) from institution_file where institution_id = $1
""")
"""Whether the account's files have provably named each line by one id."""

# Waiting debits of statements, and the blocks that reserve their sums: ``features/institutions/service/statement_posting.py``.

# Those that need an answer by the table of outcomes; and the first debit of each block, with what its debits took beyond what
# it still holds: neither credited again nor returned nor a movement yet.
WAITING: Final[LiteralString] = f"""
    select institution_id, item_id, day, amount_cents, recorded_at, (
        select house_id from institution_account where id = institution_item.institution_id
    ) as holder_id from institution_item
    where joined_kind is null and direction = 'OUT' and waits in ('changed', 'perhaps_balance', 'perhaps_known', 'contradicts',
        'perhaps_struck', 'perhaps_back', 'perhaps_text',
        'separated', 'opening_day', 'not_yet_read', 'order_unknown', 'could_be_ours', 'day_not_over')
    union all
    select debit.institution_id, item_id, day, debited_cents - taken_cents - credited_cents - held_cents, recorded_at, holder_id
    from ({DEBITS}) as debit join block on block.id = debit.block_id and block.institution_id = debit.institution_id
    where debited_cents > taken_cents + credited_cents + held_cents and kept_cents = 0
"""
RESERVED: Final[LiteralString] = "select * from block where state = 'open' and line_id is not null"

list_differing: Final = Column[int, int](f"""
    select distinct coalesce(item.holder_id, block.holder_id)
    from (select * from ({WAITING}) as waiting where institution_id = $1) as item
    full join ({RESERVED} and institution_id = $1) as block
        on block.line_id = item.item_id and block.holder_id = item.holder_id
    where block.held_cents is distinct from item.amount_cents
""")
"""List holders of an account with a waiting debit that lacks a block of its amount, or with a block without such a debit."""

list_waiting: Final = Pairs[str, int, int, int](f"""
    select item_id, amount_cents from ({WAITING}) as item
    where institution_id = $1 and holder_id = $2 and not exists (
        select from ({RESERVED} and institution_id = $1) as block where line_id = item_id and block.holder_id <> $2
    ) order by day, item_id
""")
"""List a holder's waiting debits' cents by id, oldest first; without those that are still reserved on another holder."""

list_reserved: Final = Pairs[str, int, int, Sequence[str]](
    f"select line_id, covered_cents from ({RESERVED} and institution_id = $1) as reserved where line_id = any($2)"
)
"""List the cents reserved for some debits, by id; debits without a reserve are left out."""


# The table of daily files requested from institutions.


class DayFile(Struct, frozen=True, kw_only=True):
    institution_id: int
    day: date
    name: str
    asked_at: datetime
    ended_at: datetime | None = None
    failure: str | None = None


ASKED: Final = Table(
    "institution_day_file",
    DayFile,
    "institution_id smallint, day date, name text, asked_at timestamptz, ended_at timestamptz, failure text",
    key=("institution_id", "day"),
)

write: Final = ASKED.put
list_since: Final = FindBy[date, DayFile, int, date](ASKED, "day", "where institution_id = $1 and day >= $2")

find_failure: Final = Value[str | None, int]("""
    select asked.day || ': ' || asked.failure from institution_day_file as asked
    left join institution_day as recorded using (institution_id, day)
    where institution_id = $1 and asked.failure is not null
        and coalesce(recorded.state, 'open') not in ('closed', 'closed_with_cases')
    order by day desc limit 1
""")
"""Find why the last missing day's file cannot be read, with the day; a day that was closed by hand needs none."""

find_unconfirmed: Final = Value[datetime | None, int]("""
    select min(asked_at) from institution_day_file as asked
    where institution_id = $1 and ended_at is null
        and not exists (select from institution_source where institution_id = $1 and is_own)
""")
"""Find since when the institution's own files wait for an operator's first confirmation; ``None`` if they do not."""

# Book transfers and reversed movements are on no institution's statement. A refund is where its original is.
_TRANSFERS: Final[LiteralString] = """
    select 'transfer' as kind, transfer.id::text as id, transfer.holder_id, transfer.direction, transfer.amount_cents,
        transfer.status, transfer.settled_at, transfer.network_settled_at, transfer.created_at,
        array_remove(array[transfer.end_to_end_id, transfer.network_id], null) as names, '{}'::text[] as original,
        transfer.counterparty ->> 'tax_id' as tax_id, transfer.counterparty ->> 'name' as name
    from transfer where transfer.institution_id = $1 and not transfer.is_book
"""
_REFUNDS: Final[LiteralString] = """
    select 'refund', refund.id::text, refund.holder_id, refund.flow, refund.amount_cents,
        refund.status, refund.settled_at, refund.network_settled_at, refund.created_at,
        array_remove(array[refund.return_id, refund.network_id], null),
        array_remove(array[transfer.end_to_end_id, transfer.network_id], null),
        transfer.counterparty ->> 'tax_id', transfer.counterparty ->> 'name'
    from refund join transfer on transfer.id = refund.transfer_id and transfer.holder_id = refund.holder_id
    where transfer.institution_id = $1 and not refund.is_book
"""
_MOVEMENTS: Final[LiteralString] = f"""
    select 'movement', movement.item_id, movement.holder_id, movement.direction, movement.amount_cents,
        movement.status, movement.network_settled_at, movement.network_settled_at, movement.created_at,
        array[movement.item_id], '{{}}'::text[], null, null
    from movement
    where movement.institution_id = $1 and movement.status = 'POSTED' and movement.kind <> 'opening_balance'
        and movement.item_id not like '{joining.CLOSING_PREFIX}%' and movement.item_id not like '{joining.YIELD_PREFIX}%'
        and movement.item_id not like '{joining.KEPT_PREFIX}%'
        and movement.opposite_of is null and {IS_KEPT}
"""

# A debit awaits no reversal if two operators closed its order as never sent: the line contradicts them.
_MAY_LEAVE: Final[LiteralString] = """
    and not exists (select from case_ending where case_ending.order_name = {name} and claim = 'never')
"""
_OF_TRANSFERS: Final[LiteralString] = _TRANSFERS + _MAY_LEAVE.replace("{name}", "transfer.end_to_end_id")
_OF_REFUNDS: Final[LiteralString] = _REFUNDS + _MAY_LEAVE.replace("{name}", "refund.return_id")

# One look-up in each index of names.
_FIND_NAMED: Final[LiteralString] = f"""
    {_OF_TRANSFERS} and transfer.end_to_end_id = any($2)
    union all {_OF_TRANSFERS} and transfer.network_id = any($2) and transfer.end_to_end_id <> all($2)
    union all {_OF_REFUNDS} and refund.return_id = any($2)
    union all {_OF_REFUNDS} and refund.network_id = any($2) and refund.return_id <> all($2)
    union all {_OF_REFUNDS} and transfer.end_to_end_id = any($2) and refund.return_id <> all($2)
        and (refund.network_id is null or refund.network_id <> all($2))
    union all {_MOVEMENTS} and movement.item_id = any($3)
"""


async def find_named(
    connection: Connection, institution_id: int, names: Sequence[str], item_ids: Sequence[str]
) -> list[BookLine]:
    """Find lines with one of these network names, refunds of payments with one, and movements of these items or names."""
    moved = [*item_ids, *names]
    return [_read(row) for row in await connection.fetch(_FIND_NAMED, institution_id, names, moved)]


# By the network's instant, as a line is dated: ours is that of the reading, which may be days later.
def _settled(table: LiteralString, since: LiteralString, until: LiteralString) -> LiteralString:
    return f"""{table}.settled_at is not null and (
        {table}.network_settled_at >= {since} and {table}.network_settled_at < {until}
        or {table}.network_settled_at is null and {table}.settled_at >= {since} and {table}.settled_at < {until}
    )"""


# As ``date_settled`` has it: within a minute a line has our date, not the network's.
_DAY: Final[LiteralString] = """
    (case when abs(extract(epoch from settled_at - network_settled_at)) >= 60
        then network_settled_at else settled_at end at time zone 'America/Sao_Paulo')::date
"""
_IS_ALONE: Final[LiteralString] = """
    not exists (
        select from institution_item as item
        where item.institution_id = $1 and item.joined_kind = line.kind and item.joined_id = line.id and not item.is_reversal
    ) and not exists (
        select from institution_item_part as part where part.institution_id = $1 and part.kind = line.kind
            and part.record_id = case when line.kind in ('transfer', 'refund') then line.id::bigint end
    ) and (line.kind <> 'refund' or not exists (
        -- The lines that took the money of its block, or of its contest's, if nothing was covered here.
        select from (
            select step.block_id, (
                select sum(amount_cents) from block_step as taken where taken.block_id = step.block_id and taken.kind = 'taken'
            ) as cents from block_step as step
            where step.refund_id = case line.kind when 'refund' then line.id::bigint end and step.holder_id = line.holder_id
            union
            select block.id, own.taken_cents from infraction_return as given
            join infraction as own on own.id = infraction_id and own.holder_id = given.holder_id
            join block on block.transfer_id = own.transfer_id and block.holder_id = own.holder_id and reference = own.name
            where given.refund_id = case line.kind when 'refund' then line.id::bigint end and given.holder_id = line.holder_id
        ) as paid join institution_item as debit
            on debit.institution_id = $1 and debit.joined_kind = 'block' and debit.joined_id = paid.block_id::text
        group by paid.block_id, paid.cents
        having sum(case when debit.is_reversal then -debit.amount_cents else debit.amount_cents end) >= paid.cents
    ))
"""
# Transfers have an index for each span; the others, which are few, are read once for all.
_LIST_ALONE: Final[LiteralString] = f"""
    with span as (
        select first_on, last_on, (first_on - 1)::timestamp at time zone 'America/Sao_Paulo' as since,
            (last_on + 2)::timestamp at time zone 'America/Sao_Paulo' as until
        from unnest($2::date[], $3::date[]) as days (first_on, last_on)
    ), around as (select min(since) as since, max(until) as until from span)
    select line.* from (
        select moved.* from span cross join lateral (
            {_TRANSFERS} and {_settled("transfer", "span.since", "span.until")}
        ) as moved where {_DAY} between first_on and last_on
        union all select moved.* from around cross join lateral (
            {_REFUNDS} and {_settled("refund", "around.since", "around.until")}
            union all {_MOVEMENTS}
                and movement.network_settled_at >= around.since and movement.network_settled_at < around.until
        ) as moved where exists (select from span where {_DAY} between first_on and last_on)
    ) as line
    where {_IS_ALONE} and ($4::bigint[] is null or line.amount_cents = any($4))
    order by line.settled_at, line.kind, line.id limit $5
"""
ALONE_MAX: Final = 20_000


async def list_unmatched(
    connection: Connection | Pool, institution_id: int, *spans: tuple[date, date], amounts: Sequence[int] | None = None
) -> list[BookLine]:
    """List settled, unmatched lines of some days, oldest first, at most ``ALONE_MAX``.

    Args:
        spans: The first and the last day of each, in Sao Paulo; no day may be in two.
        amounts: Only lines of these amounts.
    """
    firsts, lasts = [first_on for first_on, _ in spans], [last_on for _, last_on in spans]
    rows = await connection.fetch(_LIST_ALONE, institution_id, firsts, lasts, amounts, ALONE_MAX)
    return [_read(row) for row in rows]


async def sum_unmatched_days(connection: Connection, institution_id: int, spans: Sequence[tuple[date, date]]) -> Counter[date]:
    """Sum settled, unmatched lines by day, those out as negative cents."""
    sums = Counter[date]()
    for line in await list_unmatched(connection, institution_id, *spans) if spans else ():
        sums[line.day] += line.signed_cents
    return sums


_SUM_ALONE: Final[LiteralString] = f"""
    select direction, sum(amount_cents)::bigint as cents from (
        {_TRANSFERS} and {_settled("transfer", "$2", "$3")} union all {_REFUNDS} and {_settled("refund", "$2", "$3")}
    ) as line
    where $4 = {_DAY} and {_IS_ALONE} group by grouping sets ((direction), (direction, line.kind)) having count(*) > 1
"""


async def sum_unmatched(connection: Connection, institution_id: int, day: date) -> set[LoneSum]:
    """Return what ``joining.sum_lone`` returns of all unmatched lines of a day."""
    begin, end = _begin_of(day - timedelta(days=1)), _begin_of(day + timedelta(days=2))
    rows = await connection.fetch(_SUM_ALONE, institution_id, begin, end, day)
    return {(row["direction"], day, row["cents"]) for row in rows}


_LIST_UNSETTLED: Final[LiteralString] = f"""
    select * from (
    {_OF_TRANSFERS} and transfer.direction = 'OUT' and transfer.network_settled_at is null and transfer.settled_at is null
        and transfer.created_at >= $2 and transfer.created_at < $3 and transfer.amount_cents = any($4)
    union all {_OF_REFUNDS} and refund.flow = 'OUT' and refund.network_settled_at is null and refund.settled_at is null
        and refund.created_at >= $2 and refund.created_at < $3 and refund.amount_cents = any($4)
    ) as line where not exists (
        select from institution_item as debit
        left join movement as made on made.holder_id = line.holder_id and made.item_id = debit.joined_id
        where debit.institution_id = $1 and debit.joined_kind = 'movement' and debit.direction = 'OUT' and debit.kind <> 'fee'
            and debit.amount_cents = line.amount_cents and (
                coalesce(debit.return_id, debit.end_to_end_id) = any(names || original)
                or coalesce(debit.return_id, debit.end_to_end_id) is null and (made.institution_id, joined_by) = ($1, 'answer')
                and abs(debit.day - (line.created_at at time zone 'America/Sao_Paulo')::date) <= $5
            )
    )
"""


async def list_unsettled(
    connection: Connection, institution_id: int, days: tuple[date, date], amounts: Sequence[int]
) -> list[BookLine]:
    """List open or failed transfers and refunds of some days and amounts, without those whose debit a person has counted."""
    begin, end = _begin_of(days[0]), _begin_of(days[1] + timedelta(days=1))
    rows = await connection.fetch(_LIST_UNSETTLED, institution_id, begin, end, amounts, joining.DAYS_APART_MAX)
    return [_read(row) for row in rows]


_LIST_OPEN: Final[LiteralString] = """
    select amount_cents, bool_or(network_id is null) as is_unnamed, min(created_at) as since from (
        select 'transfer' as kind, transfer.id, transfer.amount_cents, transfer.network_id, transfer.created_at from transfer
        where transfer.institution_id = $1 and direction = 'OUT' and status = 'PROCESSING' and not is_book
        union all
        select 'refund', refund.id, refund.amount_cents, refund.network_id, refund.created_at from refund
        join transfer on transfer.id = refund.transfer_id and transfer.holder_id = refund.holder_id
        where transfer.institution_id = $1 and flow = 'OUT' and refund.status = 'PROCESSING' and not refund.is_book
    ) as pending where not exists (
        select from institution_item as debit
        where debit.institution_id = $1 and debit.joined_kind = pending.kind and debit.joined_id = pending.id::text
            and debit.joined_by = 'name' and not debit.is_reversal
    ) group by amount_cents
"""


async def read_open_amounts(connection: Connection | Pool, institution_id: int) -> tuple[dict[int, date], frozenset[int]]:
    """Return amounts of pending orders that no debit names: all with the first's day, and those without a network name."""
    rows = await connection.fetch(_LIST_OPEN, institution_id)
    unnamed = frozenset(row["amount_cents"] for row in rows if row["is_unnamed"])
    return {row["amount_cents"]: to_day(row["since"]) for row in rows}, unnamed


def _begin_of(day: date) -> datetime:
    return datetime.combine(day, time(0), SAO_PAULO)


def _read(row: asyncpg.Record) -> BookLine:
    settled_at = date_settled(row["settled_at"], row["network_settled_at"])
    return BookLine(
        key=(row["kind"], row["id"]),
        holder_id=row["holder_id"],
        direction=row["direction"],
        amount_cents=row["amount_cents"],
        day=to_day(settled_at or row["created_at"]),
        made_at=min(row["created_at"], settled_at or row["created_at"]),
        settled_at=settled_at,
        names=tuple(row["names"]),
        original=tuple(row["original"]),
        tax_id=row["tax_id"],
        counterparty=row["name"],
        state="settled" if settled_at is not None else "open" if row["status"] == "PROCESSING" else "failed",
    )
