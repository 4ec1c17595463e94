"""The table of reports that wait for an operator."""

from collections.abc import Sequence
from typing import Final, LiteralString

from pixconnect.kernel.rules import kept_report
from pixconnect.kernel.rules.kept_report import KeptReport, Misfit
from pixconnect.kernel.rules.rail import Report
from pixconnect.kernel.tables.lookup import FindAll, FindOne, Pairs, Value
from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection, Pool

KEPT_REPORT: Final = Table(
    "kept_report",
    KeptReport,
    """
    id bigint, kind text, reason text, explanation text, name text, report_id text, report text, refusal_code text,
    seen_count bigint, first_seen_at timestamptz, last_seen_at timestamptz, closed_at timestamptz, closed_by text,
    close_reason text
    """,
    key=("id",),
)


# The first answer stands: a report that was kept without a refusal is not refused later, nor the other way round.
_KEEP: Final[LiteralString] = """
    insert into kept_report (kind, reason, explanation, name, report_id, report, fingerprint, refusal_code)
    values ($1, $2, $3, $4, $5, $6, $7, $8)
    on conflict (fingerprint) do update set seen_count = kept_report.seen_count + 1, last_seen_at = clock_timestamp()
        where not $9
    returning id, seen_count
"""


async def keep(
    connection: Connection | Pool, kept: Report, misfit: Misfit, refusal_code: str | None, *, is_listed: bool
) -> tuple[int, bool]:
    """Record a report, or its repetition unless a list caused it; return its id if it counted, and whether it is new."""
    row = await connection.fetchrow(
        _KEEP,
        kept_report.kind_of(kept),
        misfit.reason,
        kept_report.storable(misfit.explanation, 1000),
        kept_report.storable(kept.subject),
        kept_report.storable(kept.report_id),
        kept_report.encode(kept),
        kept_report.fingerprint(kept, misfit.reason),
        refusal_code,
        is_listed,
    )
    return (row["id"], row["seen_count"] == 1) if row is not None else (0, False)


find_refused: Final = Pairs[str, str, Sequence[str]]("""
    select name, refusal_code from kept_report where name = any($1) and refusal_code is not null
""")
"""Find the final refusal codes of payments or returns, by name."""

count_open: Final = Pairs[str, int, int]("""
    select reason, count(*) from (select reason from kept_report where closed_at is null order by id limit $1) as waiting
    group by reason
""")
"""Count open reports by reason, up to ``count_max``."""

count_unreadable: Final = Value[int, int]("""
    select count(*) from (
        select from kept_report where closed_at is null and kind = 'unreadable' order by id desc limit $1
    ) as waiting
""")
"""Count unreadable items that wait, up to ``count_max``."""


async def list_newest(pool: Pool, *, with_closed: bool, count_max: int) -> list[KeptReport]:
    return await KEPT_REPORT.find_all(pool, "where closed_at is null or $1 order by id desc limit $2", with_closed, count_max)


list_oldest_open: Final = FindAll[KeptReport, int](KEPT_REPORT, "where closed_at is null order by id limit $1")
find: Final = FindOne[KeptReport, int](KEPT_REPORT, "where id = $1")


async def close(connection: Connection, kept_id: int, closed_by: str, close_reason: str) -> KeptReport | None:
    """Close an open report; ``None`` if none has this id."""
    how: LiteralString = """
        set closed_at = clock_timestamp(), closed_by = $2, close_reason = $3 where id = $1 and closed_at is null
    """
    return await KEPT_REPORT.change(connection, how, kept_id, closed_by, close_reason)
