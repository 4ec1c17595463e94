"""The runs that have looked at the books, what they found, and how far each holder was read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, LiteralString

import msgspec
from msgspec import Struct

from pixconnect.domain.proof.rule import Extent, Finding, Judgement
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import Table, fetch_row
from pixconnect.store.proof.look import HolderRange, read_finding

_encode = msgspec.json.Encoder().encode
_decode_looked = msgspec.json.Decoder(tuple[Judgement, ...]).decode


class Run(Struct, frozen=True, kw_only=True):
    """One run over the books."""

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


# Who ran it was killed, or stopped it: it has not been seen for a while, and goes on after its last holder.
_GO_ON: Final[LiteralString] = f"""
    update proof_run set state = 'running', seen_at = clock_timestamp()
    where id = (
        select id from proof_run where extent = $1 and (
            state = 'stopped' or state = 'running' and seen_at < clock_timestamp() - interval '5 minutes'
        ) and began_at > clock_timestamp() - interval '1 day'
        order by id desc limit 1 for update skip locked
    )
    returning {RUN.select}
"""


async def find_stopped(connection: Connection, extent: Extent) -> Run | None:
    """Take up the last run of this extent that has not ended, if it began within a day."""
    return RUN.read_found(await connection.fetchrow(_GO_ON, extent))


_NOTE_SLICE: Final[LiteralString] = """
    with noted as (
        update proof_run set last_holder_id = $3, holders_count = holders_count + $4, seen_at = clock_timestamp()
        where id = $1
    )
    insert into proof_checkpoint (holder_id, run_id, read_until)
    select holder_id, $1, $5 from balance where holder_id between $2 and $3 and $6
    on conflict (holder_id) do update set run_id = excluded.run_id, read_until = excluded.read_until
"""


async def note_slice(connection: Connection, run: Run, part: HolderRange, *, has_all_rules: bool) -> None:
    """These holders' books were looked at, as they were at the run's begin at least."""
    await connection.execute(
        _NOTE_SLICE, run.id, part.first_id, part.last_id, part.holders_count, run.read_until, has_all_rules
    )


_EARLIEST_READ: Final[LiteralString] = """
    select case when count(*) = count(read_until) then min(read_until) end
    from balance left join proof_checkpoint using (holder_id) where holder_id between $1 and $2
"""


async def find_read_until(connection: Connection, part: HolderRange) -> datetime | None:
    """Until when all these holders' books were looked at; ``None`` if one's never were."""
    return await connection.fetchval(_EARLIEST_READ, part.first_id, part.last_id)


_ADD_SEEN: Final[LiteralString] = """
    insert into proof_finding (run_id, number, rule, holder_id, ids, expected, found, since)
    select $1, $2 + (select count(*) from proof_finding where run_id = $1), $3, $4, $5, $6, $7, $8
"""
_LIST_SEEN: Final[LiteralString] = """
    select rule, holder_id, ids, expected, found, since from proof_finding
    where run_id = $1 and state = 'seen' order by number
"""
_SEEN_SINCE: Final[LiteralString] = """
    select clock_timestamp() - max(seen_at) from proof_finding where run_id = $1 and state = 'seen'
"""
_JUDGE: Final[LiteralString] = """
    update proof_finding set state = $5 where run_id = $1 and rule = $2 and holder_id is not distinct from $3 and ids = $4
"""


async def add_seen(connection: Connection, run: Run, findings: Sequence[Finding]) -> None:
    """Remember what was found, until it is looked at again."""
    for each in findings:
        values = each.rule, each.holder_id, list(each.ids), each.expected, each.found, each.since
        await connection.execute(_ADD_SEEN, run.id, 1, *values)


async def list_seen(connection: Connection, run: Run) -> Sequence[Finding]:
    return [read_finding(row["rule"], row) for row in await connection.fetch(_LIST_SEEN, run.id)]


async def find_seen_since(connection: Connection, run: Run) -> timedelta | None:
    """How long ago the last of them was found; ``None`` if there is none."""
    return await connection.fetchval(_SEEN_SINCE, run.id)


async def judge(connection: Connection, run: Run, finding: Finding, state: Literal["there", "gone"]) -> None:
    await connection.execute(_JUDGE, run.id, finding.rule, finding.holder_id, list(finding.ids), state)


_END: Final[LiteralString] = """
    update proof_run set state = 'ended', looked = $2, seen_at = clock_timestamp(), ended_at = clock_timestamp(),
        findings_count = (select count(*) from proof_finding where run_id = $1 and state = 'there')
    where id = $1
"""
_STOP: Final[LiteralString] = "update proof_run set state = 'stopped', seen_at = clock_timestamp() where id = $1"


async def end(connection: Connection, run: Run, looked: Sequence[Judgement]) -> None:
    await connection.execute(_END, run.id, _encode(looked).decode())


async def stop(connection: Connection, run: Run) -> None:
    """It goes on after its last holder when it is asked for again."""
    await connection.execute(_STOP, run.id)


_READ: Final[LiteralString] = f"select {RUN.select} from proof_run where id = $1"


async def read(connection: Connection, run_id: int) -> Run:
    return RUN.read(await fetch_row(connection, _READ, run_id))


_LIST: Final[LiteralString] = f"select {RUN.select} from proof_run order by id desc limit $1"
_FINDINGS: Final[LiteralString] = """
    select rule, holder_id, ids, expected, found, since from proof_finding
    where run_id = $1 and state = 'there' order by number limit $2
"""


async def list_last(connection: Connection | Pool, count_max: int) -> Sequence[Run]:
    return [RUN.read(row) for row in await connection.fetch(_LIST, count_max)]


async def list_findings(connection: Connection | Pool, run_id: int, count_max: int) -> Sequence[Finding]:
    """Those that were there both times that they were looked at."""
    return [read_finding(row["rule"], row) for row in await connection.fetch(_FINDINGS, run_id, count_max)]
