"""Proof runs, their findings, and each holder's last reading."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, LiteralString

import msgspec
from msgspec import Struct

from pixconnect.features.proof.tables.look import HolderRange, read_finding
from pixconnect.kernel.rules.proof import Extent, Finding, Judgement
from pixconnect.kernel.tables.lookup import Command, ReadAll, ReadOne, Value
from pixconnect.kernel.tables.table import Table, fetch_row
from pixconnect.platform.pool import Connection, Pool

_SCHEMA: Final = "verify"  # the server role has this schema not in its path, but can read the findings

_encode = msgspec.json.Encoder().encode
_decode_looked = msgspec.json.Decoder(tuple[Judgement, ...]).decode


class Run(Struct, frozen=True, kw_only=True):
    id: int
    extent: Extent
    state: Literal["running", "stopped", "ended"]
    operator: str
    began_at: datetime
    ended_at: datetime | None
    read_until: datetime
    last_holder_id: int
    holders_count: int
    looked: Sequence[Judgement]
    findings_count: int


RUN: Final = Table(
    "proof_run",
    Run,
    """
    id bigint, extent text, state text, operator text, began_at timestamptz, ended_at timestamptz, read_until timestamptz,
    last_holder_id bigint, holders_count bigint, looked jsonb, findings_count bigint
    """,
    key=("id",),
    read={"looked": (_decode_looked, "looked")},
    write={"looked": lambda run: _encode(run.looked).decode()},
)

_BEGIN: Final[LiteralString] = f"""
    insert into proof_run (extent, operator, read_until) values ($1, $2, $3) returning {RUN.select}
"""


async def begin(connection: Connection, extent: Extent, operator: str, read_until: datetime) -> Run:
    return RUN.read(await fetch_row(connection, _BEGIN, extent, operator, read_until))


# Its process was killed or stopped: it has not been seen for a while. A whole run continues after its last holder, and reports
# the earlier state of holders already checked. A run over changes starts again: it has little to read.
find_stopped: Final = ReadOne[Run, Extent, datetime, int](
    RUN,
    f"""
    update proof_run set state = 'running', seen_at = clock_timestamp(),
        last_holder_id = case extent when 'whole' then last_holder_id else 0 end,
        holders_count = case extent when 'whole' then holders_count else 0 end,
        read_until = case extent when 'whole' then read_until else $2 end
    where id = (
        select id from proof_run where extent = $1 and (extent <> 'whole' or last_holder_id < $3) and (
            state = 'stopped' or state = 'running' and seen_at < clock_timestamp() - interval '5 minutes'
        ) and began_at > clock_timestamp() - interval '1 day'
        order by id desc limit 1 for update skip locked
    )
    returning {RUN.select}
    """,
)
"""Resume the last unfinished run of an extent, if it began within a day and has holders below ``$3`` left."""

read_seen_at: Final = Value[datetime, int]("select seen_at from proof_run where id = $1")
has_seen: Final = Value[bool, int, datetime]("select exists (select from proof_run where id = $1 and seen_at >= $2)")
"""Whether a server has the row that the run wrote then."""

_NOTE_SLICE: Final[LiteralString] = """
    update proof_run set last_holder_id = $2, holders_count = holders_count + $3, seen_at = clock_timestamp() where id = $1
"""
_NOTE_HOLDERS: Final[LiteralString] = """
    insert into proof_checkpoint (holder_id, run_id, read_until)
    select holder_id, $1, $4 from balance where holder_id between $2 and $3
    on conflict (holder_id) do update set run_id = excluded.run_id, read_until = excluded.read_until
"""


async def note_slice(connection: Connection, run: Run, part: HolderRange, *, has_all_rules: bool) -> None:
    """Record that these holders' books were checked, in their state at the run's begin or later."""
    if has_all_rules:
        # First: facts that end here are checked again.
        await connection.execute(_NOTE_HOLDERS, run.id, part.first_id, part.last_id, run.read_until)
    await connection.execute(_NOTE_SLICE, run.id, part.last_id, part.holders_count)


find_read_until: Final = Value[datetime | None, int, int]("""
    select case when count(*) = count(read_until) then min(read_until) end
    from balance left join proof_checkpoint using (holder_id) where holder_id between $1 and $2
""")
"""Return until when all these holders' books were checked; ``None`` if one's never were."""

find_last_checked: Final = Value[datetime | None, str](f"""
    select max(read_until) from {_SCHEMA}.proof_run
    where state = 'ended' and looked @> jsonb_build_array(jsonb_build_object('rule', $1::text, 'verdict', 'checked'))
""")
"""Return until when a rule was checked; ``None`` if it never was."""

_ADD_SEEN: Final[LiteralString] = """
    insert into proof_finding (run_id, number, rule, holder_id, ids, expected, found, since)
    select $1, 1 + (select count(*) from proof_finding where run_id = $1) + row_number() over (), found.*
    from jsonb_to_recordset($2::jsonb) as found (
        rule text, holder_id bigint, ids text[], expected text, found text, since timestamptz
    )
    where not exists (
        select from proof_finding as earlier where run_id = $1 and earlier.rule = found.rule and earlier.ids = found.ids
            and earlier.state <> 'gone' and earlier.holder_id is not distinct from found.holder_id
    )
"""
judge: Final = Command[int, str, int | None, Sequence[str], Literal["there", "gone"]]("""
    update proof_finding set state = $5 where run_id = $1 and rule = $2 and holder_id is not distinct from $3 and ids = $4
""")
find_seen_since: Final = Value[timedelta | None, int](
    "select clock_timestamp() - max(seen_at) from proof_finding where run_id = $1 and state = 'seen'"
)
"""Return how long ago the last finding was found; ``None`` if there is none."""


async def add_seen(connection: Connection, run: Run, findings: Sequence[Finding]) -> None:
    """Store findings until the second check."""
    if findings:
        await connection.execute(_ADD_SEEN, run.id, _encode(findings).decode())


_END: Final[LiteralString] = f"""
    update proof_run set state = 'ended', looked = $2, seen_at = clock_timestamp(), ended_at = clock_timestamp(),
        findings_count = (select count(*) from proof_finding where run_id = $1 and state = 'there')
    where id = $1 returning {RUN.select}
"""


async def end(connection: Connection, run: Run, looked: Sequence[Judgement]) -> Run:
    return RUN.read(await fetch_row(connection, _END, run.id, _encode(looked).decode()))


stop: Final = Command[int]("update proof_run set state = 'stopped', seen_at = clock_timestamp() where id = $1")
"""Stop a run; the next request continues it after its last holder."""


# A run over changes cannot confirm findings of whole runs: their rows were not checked again.
_COUNTING: Final[LiteralString] = f"""
    with whole as (
        select id, ended_at from {_SCHEMA}.proof_run
        where extent = 'whole' and state = 'ended' and jsonb_array_length(looked) >= $1 order by ended_at desc limit 1
    ),
    counting as (
        select id from whole
        union all
        select id from {_SCHEMA}.proof_run
        where extent = 'changes' and state = 'ended' and ended_at > coalesce((select ended_at from whole), '-infinity')
    )
"""
_BROKEN: Final[LiteralString] = (
    _COUNTING
    + f"""
    select rule, count(distinct (holder_id, ids)) from {_SCHEMA}.proof_finding
    where state = 'there' and run_id in (select id from counting) group by rule order by rule
"""
)
_STANDING: Final[LiteralString] = (
    _COUNTING
    + f"""
    select distinct on (rule, ids) rule, holder_id, ids, expected, found, since, seen_at
    from {_SCHEMA}.proof_finding
    where state = 'there' and rule = any($2) and run_id in (select id from counting)
    order by rule, ids, seen_at desc limit $3
"""
)
_BY_NAME_MAX: Final = 20  # a run with fewer rules was requested by name, and proves nothing about the others


async def count_broken(pool: Pool) -> Mapping[str, int]:
    """Return the number of standing findings by rule, since the last whole run."""
    return {row["rule"]: row["count"] for row in await pool.fetch(_BROKEN, _BY_NAME_MAX)}


async def list_standing(connection: Connection, rules: Sequence[str], count_max: int) -> list[tuple[Finding, datetime]]:
    """Standing findings of some rules, as in ``count_broken``, each with its last form and time."""
    rows = await connection.fetch(_STANDING, _BY_NAME_MAX, list(rules), count_max)
    return [(read_finding(row["rule"], row), row["seen_at"]) for row in rows]


_LAST: Final[LiteralString] = f"""
    select {RUN.select} from {_SCHEMA}.proof_run where state = 'ended' and extent = $1 and jsonb_array_length(looked) >= $2
    order by ended_at desc limit 1
"""


async def find_last_ended(pool: Pool, extent: Extent) -> Run | None:
    """Find the last complete run of this extent over all its rules."""
    return RUN.read_found(await pool.fetchrow(_LAST, extent, _BY_NAME_MAX))


list_newest: Final = ReadAll[Run, int](RUN, f"select {RUN.select} from {_SCHEMA}.proof_run order by id desc limit $1")

_FINDINGS: Final[LiteralString] = f"""
    select rule, holder_id, ids, expected, found, since from {_SCHEMA}.proof_finding
    where run_id = $1 and state = $2 order by number limit $3
"""


async def list_findings(
    connection: Connection | Pool, run_id: int, state: Literal["seen", "there"], count_max: int | None = None
) -> Sequence[Finding]:
    """List findings that wait for a second check, or persisted at it."""
    return [read_finding(row["rule"], row) for row in await connection.fetch(_FINDINGS, run_id, state, count_max)]
