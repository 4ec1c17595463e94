"""The tables of cases, of their notes, and of operators' decisions on orders."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime
from typing import Final, LiteralString

import msgspec

from pixconnect.features.cases import rules
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.lookup import (
    AdvisoryLocks,
    Column,
    Command,
    FindAll,
    FindBy,
    FindOne,
    Pairs,
    ReadAll,
    ReadOne,
    Tuples,
    Value,
)
from pixconnect.kernel.tables.table import Table, insert_of
from pixconnect.platform.pool import Connection, Pool

_encode = msgspec.json.Encoder().encode

CASE: Final = Table(
    "kept_case",
    rules.Case,
    """
    id bigint, kind text, institution_id smallint, holder_id bigint, name text, amount_cents bigint, facts text,
    since timestamptz, opened_at timestamptz, opened_count integer, ended_at timestamptz, ended_as text, ended_by text,
    end_reason text
    """,
    key=("id",),
)
NOTE: Final = Table(
    "case_note", rules.CaseNote, "case_id bigint, operator text, noted_at timestamptz, note text", key=("case_id",)
)

# One worker at a time: two with different instants would open and end the same cases in turn.
try_lock: Final = AdvisoryLocks(0x1D58_CA5E).try_lock
"""Lock out other checks until the transaction ends; ``False`` if one is running."""

# A case that ended by itself is reopened by the same difference; one that an operator has ended only by another amount, a day
# also by other lines, and an adjusted one also once its entries no longer sum up to it.
_KEEP: Final[LiteralString] = """
    with found as (
        select * from jsonb_to_recordset($1::jsonb) as each (
            kind text, institution_id smallint, holder_id bigint, name text, amount_cents bigint, facts text, since timestamptz
        )
    ),
    opened as (
        insert into kept_case as kept (kind, institution_id, holder_id, name, amount_cents, facts, since)
        select kind, institution_id, holder_id, name, amount_cents, facts, since from found
        -- One that stands as it is found: each attempt to insert it again would use up an id.
        where not exists (
            select from kept_case as standing
            where standing.kind = found.kind and standing.institution_id is not distinct from found.institution_id
                and standing.name = found.name
                -- Not ``is null``: the index of open cases would be gone through for each.
                and (standing.ended_at, standing.amount_cents, standing.facts)
                    is not distinct from (null, found.amount_cents, found.facts)
        )
        on conflict (kind, institution_id, name) do update set
            holder_id = excluded.holder_id, amount_cents = excluded.amount_cents, facts = excluded.facts,
            opened_count = kept.opened_count + (kept.ended_at is not null)::integer,
            ended_at = null, ended_as = null, ended_by = null, end_reason = null
        where case
            when kept.ended_at is null
                then (kept.amount_cents, kept.facts) is distinct from (excluded.amount_cents, excluded.facts)
            else kept.ended_as = 'recorded' or kept.amount_cents is distinct from excluded.amount_cents
                -- Its entries were reversed, although the difference remains.
                or kept.ended_as = 'adjusted' and kept.amount_cents is distinct from (
                    select sum(case direction when 'IN' then adjustment.amount_cents else -adjustment.amount_cents end)
                    from adjustment where adjustment.case_id = kept.id and account = 'available'
                )
                or kept.ended_as = 'closed' and kept.kind = 'day' and kept.facts is distinct from excluded.facts
        end
    )
    update kept_case set opened_count = opened_count + (ended_at is not null)::integer,
        ended_at = case when ended_at is null then clock_timestamp() end,
        ended_as = case when ended_at is null then 'recorded' end, ended_by = null, end_reason = null
    where kind = any($2) and institution_id is not distinct from $3 and since >= $4
        and (ended_at is null or ended_as = 'adjusted')
        -- A set, which is hashed: an anti join becomes a loop over all pairs in a generic plan.
        and (kind, name) not in (select kind, name from found)
        and case
            -- The missing fact came while the entries that replace it still exist: an operator must reverse them first.
            when ended_as = 'adjusted' or ended_at is null then (ended_at is not null) = exists (
                select from adjustment where adjustment.case_id = kept_case.id and account = 'available' and opposite_of is null
                    and not exists (
                        select from adjustment as undo
                        where undo.opposite_of = adjustment.id and undo.holder_id = adjustment.holder_id
                    )
            )
        end
"""


async def keep(
    connection: Connection,
    kinds: Collection[rules.CaseKind],
    institution_id: int | None,
    since: datetime,
    found: Sequence[rules.Difference],
) -> None:
    """Open cases for present differences, and end those that no longer differ.

    Args:
        connection: Holds the lock.
        kinds: The kinds compared; cases of others do not end.
        since: Older facts were not compared.
    """
    await connection.execute(_KEEP, _encode(found).decode(), list(kinds), institution_id, since)


list_oldest: Final = FindAll[rules.Case, bool, rules.CaseKind | None, int | None, str | None, int](
    CASE,
    """
    where (ended_at is null or $1) and ($2::text is null or kind = $2) and ($3::smallint is null or institution_id = $3)
        and ($4::text is null or strpos(lower(facts), lower($4)) > 0)
    order by ended_at is not null, since, id limit $5
    """,
)
"""List open cases, oldest first, and optionally ended ones, of a kind, of an account, with a part of the known facts."""


find: Final = FindOne[rules.Case, int](CASE, "where id = $1")

find_named: Final = FindOne[rules.Case, rules.CaseKind, int, str](CASE, "where kind = $1 and institution_id = $2 and name = $3")


# In the order of ids, to avoid deadlocks between two decisions on the same cases.
lock: Final = FindBy[int, rules.Case, Sequence[int]](CASE, "id", "where id = any($1) order by id for no key update")

end: Final = Command[Sequence[int], str, str, str]("""
    update kept_case set ended_at = clock_timestamp(), ended_as = $2, ended_by = $3, end_reason = $4
    where id = any($1) and ended_at is null
""")
# If an operator has closed a report by its own verb, its case ends at once.
end_of_report: Final = Command[int, str, str]("""
    update kept_case set ended_at = clock_timestamp(), ended_as = 'closed', ended_by = $2, end_reason = $3
    where kind = 'report' and name = $1::bigint::text and ended_at is null
""")
add_note: Final = Command[int, str, str]("insert into case_note (case_id, operator, note) values ($1, $2, $3)")
list_notes: Final = FindAll[rules.CaseNote, int](NOTE, "where case_id = $1 order by id")

_COUNT: Final[LiteralString] = """
    select kind, count(*), min(opened_at) as oldest_at from kept_case where ended_at is null group by kind
"""


async def count_open(pool: Pool) -> dict[rules.CaseKind, tuple[int, datetime]]:
    """Count open cases by kind; return since when the oldest of each is open, too."""
    return {kind: (count, oldest_at) for kind, count, oldest_at in await pool.fetch(_COUNT)}


# Orders without an answer to queries, and the table of two operators' decisions on their end.

CASE_ENDING: Final = Table(
    "case_ending",
    rules.CaseEnding,
    """
    order_name text, kind text, institution_id smallint, holder_id bigint, resource_id bigint, amount_cents bigint,
    called_at timestamptz, case_id bigint, claim text, evidence_name text, evidence_size integer, evidence_digest text,
    proposed_by text, confirmed_by text, ended_at timestamptz, contrary_item_id text
    """,
    key=("order_name",),
)

# An order that was never called, or whose answer is only to be recorded, ends by itself.
_LIST_SILENT: Final[LiteralString] = """
    select order_name, kind, step.institution_id, step.holder_id, resource_id, step.amount_cents, called_at
    from open_order join rail_step as step on step.order_name = open_order.name
    where open_order.institution_id = $1 and step.institution_id = $1 and handed_at is not null and called_at is not null
        and state <> 'closed' and ($2::text is null or open_order.name = $2)
    order by called_at, order_name limit $3
"""


list_silent: Final = ReadAll[rules.SilentOrder, int, str | None, int](rules.SilentOrder, _LIST_SILENT)
find_silent: Final = ReadOne[rules.SilentOrder, int, str, int](rules.SilentOrder, _LIST_SILENT)

list_like: Final = Column[str, int, int, Sequence[str], date, date, Sequence[str]]("""
    select item_id from institution_item
    where institution_id = $1 and direction = 'OUT' and amount_cents = $2 and kind <> all($3) and joined_kind is null
        and not coalesce(waits, '') = any($6) and day between $4 and $5 order by day, item_id limit 20
""")
"""List unmatched statement lines of an amount and days, but for some kinds and reasons to wait."""

find_line: Final = Value[str | None, int, str, str](
    "select item_id from institution_item where institution_id = $1 and joined_kind = $2 and joined_id = $3 and not is_reversal"
)
"""Find the line that is matched with a transfer or refund."""

close_step: Final = Value[bool | None, str](
    "update rail_step set state = 'closed', outcome = 'decided' where order_name = $1 and state <> 'closed' returning true"
)
"""Prevent further calls of a step; ``None`` if it was closed already. Its ending is written first."""

find_of_cases: Final = FindAll[rules.CaseEnding, Sequence[int]](CASE_ENDING, "where case_id = any($1) order by order_name")

list_never: Final = FindAll[rules.CaseEnding, int, Sequence[int]](
    CASE_ENDING, "where institution_id = $1 and amount_cents = any($2) and claim = 'never' order by order_name"
)
"""Orders of an account, with one of these amounts, that two operators closed as never sent."""

read_names: Final = Pairs[str, list[str], Sequence[str]]("""
    select order_name, array_remove(array[order_name, transfer.network_id], null) as names from case_ending
    join transfer on transfer.id = resource_id and transfer.holder_id = case_ending.holder_id
    where kind = 'order' and order_name = any($1)
    union all
    select order_name, array_remove(array[order_name, refund.network_id], null) from case_ending
    join refund on refund.id = resource_id and refund.holder_id = case_ending.holder_id
    where kind = 'refund' and order_name = any($1)
""")

contradict: Final = Command[str, str](
    "update case_ending set contrary_item_id = $2 where order_name = $1 and contrary_item_id is null"
)
"""Record the statement line that contradicts a decision, before anything is posted for it."""

_LIST_CONTRARY: Final[LiteralString] = f"""
    select {CASE_ENDING.select}, kept.explanation from case_ending
    left join lateral (
        select explanation from kept_report
        where kept_report.name = case_ending.order_name and reason = 'contradiction' and closed_at is null
            and first_seen_at >= case_ending.ended_at
        order by id + 0 limit 1
    ) as kept on true
    where institution_id = $1 and (contrary_item_id is not null or kept.explanation is not null)
"""


async def list_contrary(connection: Connection, institution_id: int) -> list[tuple[rules.CaseEnding, str | None]]:
    """List contradicted decisions, each with the text of the rail's report."""
    rows = await connection.fetch(_LIST_CONTRARY, institution_id)
    return [(CASE_ENDING.read(row), row["explanation"]) for row in rows]


ADJUSTMENT: Final = Table(
    "adjustment",
    rules.Adjustment,
    """
    id bigint, holder_id bigint, case_id bigint, kind text, direction text, account text, amount_cents bigint,
    deficit_cents bigint, entry_id bigint, deficit_entry_id bigint, opposite_of bigint, proposed_by text, confirmed_by text,
    created_at timestamptz
    """,
    key=("id", "holder_id"),
)

_INSERT_ADJUSTMENT: Final = insert_of(ADJUSTMENT, ADJUSTMENT, name="adjustment_row")
ADJUSTMENTS: Final = Fact(rank=170, inserts=(_INSERT_ADJUSTMENT,), key=None)

list_adjustments: Final = FindAll[rules.Adjustment, int](ADJUSTMENT, "where case_id = $1 order by created_at, id")

# Lines that operators set aside, and patterns of lines that are remembered.
list_rehearsals: Final = ReadAll[rules.Rehearsal, int](
    rules.Rehearsal,
    """
    select rehearsal.*, pattern.id as pattern_id, pattern.since,
        (select count(*) from line_answer where pattern_id = pattern.id) as answered_count
    from list_rehearsals($1) as rehearsal
    left join answer_pattern as pattern on institution_id = $1 and revoked_at is null
        and (pattern.reason, pattern.direction, pattern.form)
            = (rehearsal.reason, rehearsal.direction, rehearsal.form)
    order by pattern.id, began_at, rehearsal.item_id
""",
)

remember: Final = Value[int, int, str, str, str]("""
    insert into answer_pattern (institution_id, reason, direction, form, proposal_id, since)
    select $1, $2, $3, $4, id, done_at from proposal
    where institution_id = $1 and act = 'remember' and done_at is not null order by id desc limit 1 returning id
""")
"""Remember an answer, in the transaction that confirmed it; returns the pattern's id."""

forget: Final = Command[int, datetime, str]("update answer_pattern set revoked_at = $2, revoked_by = $3 where id = $1")

# The cheap conditions first: an account without patterns reads no answers.
list_remembered: Final = Tuples[tuple[str, date], int, date, int]("""
    select item_id, day from institution_item as item
    join answer_pattern as pattern on pattern.institution_id = item.institution_id and pattern.revoked_at is null
        and (pattern.reason, pattern.direction) = (item.waits, item.direction) and pattern.id = find_pattern(item)
    where item.institution_id = $1 and item.joined_kind is null and day < $2 order by day, item_id limit $3
""")
"""List waiting lines, of days before one, that remembered patterns set aside; each with its day."""
