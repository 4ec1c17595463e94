"""The origin of each fact (client, token, address, request), and all requests of a client.

A batch writes one row for all requests of one client, token and address; ids and requests are arrays. A fact is found by its
holder, kind and instant, so that no index needs every id.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct, convert

from pixconnect.kernel.feature import list_features
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.lookup import Command, ReadAll, Value
from pixconnect.kernel.tables.table import Alike, Part, numbered
from pixconnect.platform.pool import Connection, Pool

ORIGIN_KINDS: Final = (
    *("charge", "charge_change", "transfer", "refund"),
    *(kind for feature in list_features() for kind in feature.origin_kinds),
)


class Asked(Struct, frozen=True):
    """The origin of a fact."""

    kind: str
    fact_id: int
    at: datetime
    caller: Caller


def _arguments(rows: Sequence[Asked]) -> list[Sequence[object]]:
    groups: dict[tuple[object, ...], list[Asked]] = {}
    for one in rows:
        # The caller itself is no key, as each request has its own. A token is one client's, and a batch has one instant.
        caller = one.caller
        key = (one.kind, caller.token_id or caller.client_id, caller.holder_id, caller.peer)
        groups.setdefault(key, []).append(one)
    ids: list[int] = []
    request_ids: list[str | None] = []
    traceparents: list[str | None] = []
    firsts: list[int] = []
    for group in groups.values():
        firsts.append(len(ids) + 1)
        ids += [one.fact_id for one in group]
        request_ids += [one.caller.request_id for one in group]
        traceparents += [one.caller.traceparent for one in group]
    firsts_of = [group[0] for group in groups.values()]
    callers = [one.caller for one in firsts_of]
    return [
        traceparents,
        ids,
        request_ids,
        [one.kind for one in firsts_of],
        [caller.holder_id for caller in callers],
        [caller.client_id if caller.operator is None else None for caller in callers],
        [caller.token_id for caller in callers],
        [caller.peer or None for caller in callers],
        [caller.operator for caller in callers],
        [one.at for one in firsts_of],
        firsts,
        [*(first - 1 for first in firsts[1:]), len(ids)],
    ]


def _fit_one(arrays: Sequence[Sequence[object]]) -> Sequence[object] | None:
    traceparents, ids, request_ids, *askers, _, _ = arrays
    return None if len(askers[0]) > 1 or any(traceparents) else [ids, request_ids, *[each[0] for each in askers]]


def _fit_one_traced(arrays: Sequence[Sequence[object]]) -> Sequence[object] | None:
    traceparents, ids, request_ids, *askers, _, _ = arrays
    return None if len(askers[0]) > 1 else [traceparents, ids, request_ids, *[each[0] for each in askers]]


_ASKER: Final = "kind, holder_id, client_id, jti, peer, operator, at"
_ONE_ASKER: Final = "{}::text, {}::bigint, {}::text, {}::text, {}::text, {}::text, {}::timestamptz"
# PostgreSQL would flatten an array of arrays: all ids are sent together, and each row takes its part.
_ASKERS: Final[LiteralString] = f"""
    unnest(
        (select {{}}::text[]), (select {{}}::bigint[]), (select {{}}::text[]), (select {{}}::text[]), (select {{}}::text[]),
        (select {{}}::text[]), (select {{}}::timestamptz[]), (select {{}}::int[]), (select {{}}::int[])
    ) as asker ({_ASKER}, first, last)
"""
# Most batches have one caller. With arrays of one element, PostgreSQL might replan the statement each time: its generic plan
# assumes longer arrays.
_ONE: Final = Alike(
    sql=f"insert into origin_batch (ids, request_ids, {_ASKER}) select {{}}::bigint[], {{}}::text[], {_ONE_ASKER}", fit=_fit_one
)
_ONE_TRACED: Final = Alike(
    sql=f"""
        insert into origin_batch (traceparents, ids, request_ids, {_ASKER})
        select {{}}::text[], {{}}::bigint[], {{}}::text[], {_ONE_ASKER}
    """,
    fit=_fit_one_traced,
)
_UNTRACED: Final = Alike(
    sql=f"""
        insert into origin_batch (ids, request_ids, {_ASKER})
        select asked.ids[first:last], asked.request_ids[first:last], {_ASKER}
        from (select {{}}::bigint[] as ids, {{}}::text[] as request_ids) as asked, {_ASKERS}
    """,
    fit=lambda arrays: None if any(arrays[0]) else arrays[1:],
)
# Without exported traces, nothing of them is stored.
APPEND: Final = Part(
    name="origin_row",
    alike=[_ONE, _ONE_TRACED, _UNTRACED],
    sql=f"""
        insert into origin_batch (traceparents, ids, request_ids, {_ASKER})
        select asked.traceparents[first:last], asked.ids[first:last], asked.request_ids[first:last], {_ASKER}
        from (select {{}}::text[] as traceparents, {{}}::bigint[] as ids, {{}}::text[] as request_ids) as asked, {_ASKERS}
    """,
    arguments=_arguments,
)
ORIGINS: Final = Fact(rank=310, inserts=(APPEND,), key=None)


async def note(connection: Connection, asked: Asked) -> None:
    """Record the origin of a request that no batch writes."""
    sql, arguments = APPEND.fit([asked])
    await connection.execute(numbered(sql, len(arguments)), *arguments)


audit_client: Final = Command[str, str | None, str, str, str | None, str | None](
    "select audit_client_act($1, $2, $3, $4, $5::text::jsonb, $6::text::jsonb)"
)
"""Append an audit row in the name of a client, for its request; the states before and after are JSON."""


class Origin(Struct, frozen=True, kw_only=True):
    """The stored origin of one fact."""

    kind: str
    id: int
    holder_id: int
    at: datetime
    client_id: str | None  # ``None`` if an operator acted
    client_name: str | None = None  # as it is now, where it is read
    jti: str | None  # the access token's; ``None`` in the console
    peer: str | None
    request_id: str | None
    operator: str | None


class AskedFact(Struct, frozen=True, kw_only=True):
    """One fact requested by a client."""

    kind: str
    id: int
    holder_id: int
    at: datetime


_FIND: Final[LiteralString] = """
    select kind, wanted.id, holder_id, at, client_id, jti, peer, operator,
        request_ids[array_position(ids, wanted.id)] as request_id,
        (select name from client where client.client_id = origin_batch.client_id collate "default") as client_name
    from unnest($1::text[], $2::bigint[], $3::bigint[], $4::timestamptz[]) as wanted (kind, id, holder_id, at)
    join origin_batch using (holder_id, kind, at)
    where wanted.id = any(ids)
"""


async def find(pool: Pool, facts: Sequence[AskedFact]) -> dict[tuple[str, int, int], Origin]:
    """Find the origins of these facts, by kind, id and holder; facts without one, or older than the retention, are left out."""
    rows = await pool.fetch(
        _FIND,
        [fact.kind for fact in facts],
        [fact.id for fact in facts],
        [fact.holder_id for fact in facts],
        [fact.at for fact in facts],
    )
    return {(row["kind"], row["id"], row["holder_id"]): convert(dict(row), Origin) for row in rows}


list_of: Final = ReadAll[Origin, str, int, int, int](
    Origin,
    """
    select kind, $2::bigint as id, holder_id, at, client_id, jti, peer, operator,
        request_ids[array_position(ids, $2)] as request_id,
        (select name from client where client.client_id = origin_batch.client_id collate "default") as client_name
    from origin_batch where holder_id = $3 and kind = $1 and $2 = any(ids) order by at desc limit $4
""",
)
"""List the origins of one resource's changes, newest first, for kinds that a holder has few of."""

# Each kind is found by the index; token and address are filtered among the client's requests of this time.
_OF_CLIENT: Final[LiteralString] = """
    select origin_batch.kind, fact.id, holder_id, at, client_id, jti, peer, operator, fact.request_id
    from unnest($1::text[]) as wanted (kind)
    join origin_batch on origin_batch.kind = wanted.kind and holder_id = $2 and at between $4 and $5 and client_id = $3
    cross join lateral unnest(ids, request_ids) as fact (id, request_id)
    where ($6::text is null or jti = $6) and ($7::text is null or peer = $7)
    order by at desc, fact.id desc limit $8
"""


async def list_of_client(  # noqa: PLR0913  each narrows the search
    pool: Pool,
    holder_id: int,
    client_id: str,
    initial_at: datetime,
    final_at: datetime,
    *,
    kinds: Sequence[str],
    jti: str | None,
    peer: str | None,
    count_max: int,
) -> list[Origin]:
    """A client's requests in an interval, the newest first."""
    rows = await pool.fetch(_OF_CLIENT, list(kinds), holder_id, client_id, initial_at, final_at, jti, peer, count_max)
    return [convert(dict(row), Origin) for row in rows]


# Ids rise with the instants of the rows, so a bisection by id finds the first row since the instant in some thirty look-ups,
# for any number of rows. Without an instant the newest rows are read.
_OF_REQUEST: Final[LiteralString] = """
    with recursive halves as (
        select coalesce(min(id), 1) as low, coalesce(max(id), 0) + 1 as high from origin_batch
        union all
        select case when probe.written_at < $2 then probe.id + 1 else low end,
            case when probe.written_at < $2 then high else (low + high) / 2 end
        from halves cross join lateral (
            select id, written_at from origin_batch where id >= (low + high) / 2 order by id limit 1
        ) as probe
        where low < high and $2::timestamptz is not null
    ),
    looked as materialized (
        (
            select * from origin_batch
            where $2 is not null and id >= (select low from halves order by low desc limit 1) order by id limit $4
        )
        union all
        (select * from origin_batch where $2 is null order by id desc limit $4)
    )
    select kind, fact.id, holder_id, at, client_id, jti, peer, operator, fact.request_id
    from looked cross join lateral unnest(ids, request_ids) as fact (id, request_id)
    where $1 = any(request_ids) and fact.request_id = $1 and ($3::bigint is null or holder_id = $3)
    order by at desc, fact.id desc limit $5
"""


async def list_of_request(
    pool: Pool, request_id: str, since: datetime | None, holder_id: int | None, *, looked_at_max: int, count_max: int
) -> list[Origin]:
    """List the facts that a request created, newest first.

    Args:
        since: When the request was made, in real time, if its id contains that; otherwise only the newest rows are read.
        looked_at_max: The maximum of rows read, each with one client's requests in a batch.
    """
    rows = await pool.fetch(_OF_REQUEST, request_id, since, holder_id, looked_at_max, count_max)
    return [convert(dict(row), Origin) for row in rows]


forget: Final = Value[int, int]("select forget_origins($1)")
"""Delete the oldest expired rows; return their number."""
