"""Checks one rule against the tables, for a slice of holders."""

from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from typing import Final, LiteralString, TypeVar

import asyncpg
from msgspec import Struct, structs

from pixconnect.features.proof.tables.shape import SHAPE, find_changed
from pixconnect.kernel.rules.proof import Finding, Rule
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

FOUND_MAX: Final = 10_000  # maximum per rule and slice: more findings add nothing, and memory is bounded


HOLDER_ID_MAX: Final = 2**53


class HolderRange(Struct, frozen=True, kw_only=True):
    """Holders whose books are checked together, by id."""

    first_id: int
    last_id: int
    holders_count: int


SLICES_MAX: Final = 20
"""Maximum number of slices.

No index leads from a holder to all of an entry's or transfer's rows, since each posting would have to write to it: some rules
read a whole index for each slice. So the slices of large books are larger, and not more, and a run's time is linear.
"""
# A slice has this many entries, or one holder with more. A sum is a numeric, whose division would give fractions.
_SLICES: Final[LiteralString] = """
    select min(holder_id) as first_id, max(holder_id) as last_id, count(*) as holders_count from (
        select holder_id, (sum(1 + last_number) over (order by holder_id))::bigint / greatest(
            $2, (1 + sum(1 + last_number) over ())::bigint / $3 + 1
        ) as part
        from statement_head where holder_id > $1
    ) as placed group by part order by part
"""


async def list_slices(connection: Connection, after_id: int, entries_count: int) -> Sequence[HolderRange]:
    """List consecutive slices of the holders after one, each with about this many entries or more."""
    slices = [HolderRange(**row) for row in await connection.fetch(_SLICES, after_id, entries_count, SLICES_MAX)]
    # Rows of missing holders are found too.
    ends = [*(part.first_id - 1 for part in slices[1:]), HOLDER_ID_MAX]
    begins = [after_id + 1, *(end + 1 for end in ends)]
    return [
        structs.replace(part, first_id=first_id, last_id=last_id)
        for part, first_id, last_id in zip(slices, begins, ends, strict=False)
    ]


_OF_HOLDERS: Final[LiteralString] = "(select * from {table} where holder_id between $1 and $2)"
# Each change of a transfer, refund or charge has its event; an entry is found by its instant only if numbered.
_TOUCHED: Final[LiteralString] = """
    select distinct resource_id, holder_id from event
    where holder_id between $1 and $2 and created_at >= $3 and resource = '{resource}'
"""
_CHANGED: Final[LiteralString] = (
    """(
    select {table}.* from ("""
    + _TOUCHED
    + """) as touched
    join {table} on {table}.id = touched.resource_id and {table}.holder_id = touched.holder_id
)"""
)
_CHANGED_TRANSFERS: Final[LiteralString] = (
    """(
    select transfer.* from (
        select resource_id, holder_id from ("""
    + _TOUCHED.replace("{resource}", "transfer")
    + """) as own
        union
        select transfer_id, refund.holder_id from ("""
    + _TOUCHED.replace("{resource}", "refund")
    + """) as own
        join refund on refund.id = own.resource_id and refund.holder_id = own.holder_id
    ) as touched
    join transfer on transfer.id = touched.resource_id and transfer.holder_id = touched.holder_id
)"""
)
# Looked up for each holder (`offset 0` enforces it): a whole join would read all holders' entries and discard them.
_SINCE: Final[LiteralString] = """(
    select entry.* from balance
    left join lateral (
        select number from ledger_entry
        where ledger_entry.holder_id = balance.holder_id and number is not null and created_at < $3
        order by created_at desc limit 1
    ) as earlier on true
    cross join lateral (
        select * from ledger_entry
        where ledger_entry.holder_id = balance.holder_id and number >= coalesce(earlier.number, 0) offset 0
    ) as entry
    where balance.holder_id between $1 and $2
)"""
# A sandbox's clock may be moved back.
_RUNS_ON: Final[LiteralString] = "exists (select from installation where mode = 'live')"
# Old rows are dropped by whole partitions: rows begun a day after the oldest kept one are complete.
_SINCE_OLDEST: Final[LiteralString] = """(
    select case
        when (select min(first_id) from event_partition where parent = '{table}' and detached_at is null) > 1 then (
            select min(created_at) + interval '1 day' from (select created_at from {table} order by id limit 1000) as oldest
        )
        else '-infinity'::timestamptz
    end
)"""
_FEED_FROM: Final[LiteralString] = """(
    select case
        when exists (select from event_partition where parent in ('event', 'event_feed') and detached_at is not null)
            or (select min(first_id) from event_partition where parent in ('event', 'event_feed')) > 1 then greatest(
            (select min(first_id) from event_partition where parent = 'event' and detached_at is null),
            (
                select max(event_id) from (
                    select unnest(event_ids) as event_id from (
                        select event_ids from event_feed order by position limit 1000
                    ) as oldest
                ) as named
            )
        )
        else 0
    end
)"""
_SOURCES: Final = dict(
    whole=dict(
        transfers=_OF_HOLDERS.replace("{table}", "transfer"),
        refunds=_OF_HOLDERS.replace("{table}", "refund"),
        charges=_OF_HOLDERS.replace("{table}", "charge"),
        numbered="(select * from ledger_entry where holder_id between $1 and $2 and number is not null)",
        links=_OF_HOLDERS.replace("{table}", "entry_chain"),
    ),
    changes=dict(
        transfers=_CHANGED_TRANSFERS,
        refunds=_CHANGED.replace("{table}", "refund").replace("{resource}", "refund"),
        charges=_CHANGED.replace("{table}", "charge").replace("{resource}", "charge"),
        numbered=_SINCE,
        links="(select * from entry_chain where holder_id between $1 and $2 and chained_at >= $3)",
    ),
)
_EDGES: Final = dict(
    runs_on=_RUNS_ON,
    kept_since=_SINCE_OLDEST.replace("{table}", "event"),
    delivered_since=_SINCE_OLDEST.replace("{table}", "delivery"),
    feed_from=_FEED_FROM,
)

# A missing row has no id.
_ASK: Final[LiteralString] = """
    select holder_id, array_remove(ids, null) as ids, expected, found, since from ({broken}) as broken limit {limit}
"""


class NotReadableError(Exception):
    """The reader may not read a table that a rule compares, or it is missing."""


Answer = TypeVar("Answer")


async def read(asked: Awaitable[Answer]) -> Answer:
    """Await an auxiliary query; ``NotReadableError`` if a table that it reads, or its only row, is missing."""
    try:
        return await asked
    except (asyncpg.SyntaxOrAccessError, errors.InvariantBroken) as error:
        raise NotReadableError(str(error)) from None


async def find_partial(connection: Connection, rules: Sequence[Rule]) -> Mapping[str, str]:
    """Find rules with more checks on a live installation, if its mode is unknown, and why these could not run."""
    try:
        is_known: bool = await read(connection.fetchval("select exists (select from installation)"))
    except NotReadableError:
        is_known = False
    if is_known:
        return {}
    concerned = [rule for rule in rules if "{runs_on}" in rule.broken or _RUNS_ON in rule.broken]
    return {rule.name: "the mode is unknown: the row of `installation` is lost" for rule in concerned}


async def ask(connection: Connection, rule: Rule, part: HolderRange | None, since: datetime | None) -> list[Finding]:
    """Return the findings of a rule. Values that cannot be compared count as findings, and do not stop other holders' checks.

    Args:
        connection: Each rule is one statement, and so sees one moment.
        part: The holders; ``None`` for a rule of the installation.
        since: Check only facts from this instant on; ``None`` for everything.

    Raises:
        NotReadableError: The reader may not read all of a table, or it is not as it was created.
    """
    if rule is SHAPE:
        return await read(find_changed(connection))
    try:
        return await _ask(connection, rule, part, since)
    except asyncpg.DataError as error:
        if part is None or part.first_id == part.last_id:
            holder_id = None if part is None else part.first_id
            expected = "values that can be compared"
            return [
                Finding(rule=rule.name, holder_id=holder_id, ids=("unreadable values",), expected=expected, found=str(error))
            ]
    # A number, instant or JSON was overwritten with something else: bisecting the range finds its holder.
    middle = (part.first_id + part.last_id) // 2
    halves = (structs.replace(part, last_id=middle), structs.replace(part, first_id=middle + 1))
    return [each for half in halves for each in await ask(connection, rule, half, since)]


async def _ask(connection: Connection, rule: Rule, part: HolderRange | None, since: datetime | None) -> list[Finding]:
    broken: str = rule.broken
    given = list[object]()
    if part is not None:
        given += [part.first_id, part.last_id]
    for name, source in _SOURCES["whole" if since is None else "changes"].items():
        broken = broken.replace(f"{{{name}}}", source)
    if "$3" in broken:
        given.append(since)
    for name, source in _EDGES.items():
        broken = broken.replace(f"{{{name}}}", source)
    sql = _ASK.replace("{limit}", str(FOUND_MAX)).replace("{broken}", broken)
    try:
        return [read_finding(rule.name, row) for row in await connection.fetch(sql, *given)]
    except asyncpg.SyntaxOrAccessError as error:
        # Class 42: no right to it, or no such table, column or function any more.
        raise NotReadableError(str(error)) from None


def read_finding(rule: str, row: asyncpg.Record) -> Finding:
    return Finding(
        rule=rule,
        holder_id=row["holder_id"],
        ids=tuple(row["ids"]),
        expected=row["expected"],
        found=row["found"],
        since=row["since"],
    )
