"""Refunds at rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

import asyncpg

from pixconnect.domain.listing import Page, Span
from pixconnect.domain.refund import Flow, Refund, RefundStatus
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store import listing as listing_store
from pixconnect.store.part import Part, columns_of

_COLUMNS: Final[LiteralString] = """
    refund.id, refund.holder_id, refund.transfer_id, refund.flow, refund.is_book, refund.external_id, refund.fingerprint,
    refund.return_id, refund.original_end_to_end_id, refund.correlation_id, refund.amount_cents, refund.status,
    refund.reason, refund.description, refund.outcome_code, refund.outcome_reason, refund.slot, refund.handed_at,
    refund.settled_at, refund.created_at, refund.modified_at
"""


def _refund(row: asyncpg.Record) -> Refund:
    return Refund(**row)


INSERT: Final = Part[Refund](
    name="refund_row",
    sql="""
        insert into refund (id, holder_id, transfer_id, flow, is_book, external_id, fingerprint, return_id,
            original_end_to_end_id, correlation_id, amount_cents, status, reason, description, outcome_code, outcome_reason,
            slot, settled_at, created_at, modified_at)
        select * from unnest({}::bigint[], {}::bigint[], {}::bigint[], {}::text[], {}::boolean[], {}::text[], {}::bytea[],
            {}::text[], {}::text[], {}::uuid[], {}::bigint[], {}::text[], {}::text[], {}::text[], {}::text[], {}::text[],
            {}::smallint[], {}::timestamptz[], {}::timestamptz[], {}::timestamptz[])
    """,
    columns=columns_of(
        "id",
        "holder_id",
        "transfer_id",
        "flow",
        "is_book",
        "external_id",
        "fingerprint",
        "return_id",
        "original_end_to_end_id",
        "correlation_id",
        "amount_cents",
        "status",
        "reason",
        "description",
        "outcome_code",
        "outcome_reason",
        "slot",
        "settled_at",
        "created_at",
        "modified_at",
    ),
)

UPDATE: Final = Part[Refund](
    name="refund_change",
    sql="""
        update refund set
            status = new.status, outcome_code = new.outcome_code, outcome_reason = new.outcome_reason,
            handed_at = new.handed_at, settled_at = new.settled_at, modified_at = new.modified_at
        from unnest({}::bigint[], {}::bigint[], {}::text[], {}::text[], {}::text[], {}::timestamptz[], {}::timestamptz[],
            {}::timestamptz[])
            as new (id, holder_id, status, outcome_code, outcome_reason, handed_at, settled_at, modified_at)
        where refund.id = new.id and refund.holder_id = new.holder_id
        returning 1
    """,
    is_counted=True,
    columns=columns_of(
        "id",
        "holder_id",
        "status",
        "outcome_code",
        "outcome_reason",
        "handed_at",
        "settled_at",
        "modified_at",
    ),
)

_FIND_BY_ID: Final[LiteralString] = f"select {_COLUMNS} from refund where id = $1 and holder_id = $2"


async def find_by_id(pool: Pool, holder_id: int, refund_id: int) -> Refund | None:
    """The refund of this holder."""
    row = await pool.fetchrow(_FIND_BY_ID, refund_id, holder_id)
    return None if row is None else _refund(row)


_FIND_BY_EXTERNAL_ID: Final[LiteralString] = f"select {_COLUMNS} from refund where external_id = $1 and holder_id = $2"


async def find_by_external_id(pool: Pool, holder_id: int, external_id: str) -> Refund | None:
    """The outgoing refund of this holder."""
    row = await pool.fetchrow(_FIND_BY_EXTERNAL_ID, external_id, holder_id)
    return None if row is None else _refund(row)


_FIND_BY_RETURN_ID: Final[LiteralString] = f"select {_COLUMNS} from refund where return_id = $1 and holder_id = $2"


async def find_by_return_id(pool: Pool, holder_id: int, return_id: str) -> Refund | None:
    """This holder's own side of the refund."""
    row = await pool.fetchrow(_FIND_BY_RETURN_ID, return_id, holder_id)
    return None if row is None else _refund(row)


_LIST = listing_store.source("refund", _COLUMNS)


async def read_page(pool: Pool, holder_id: int, status: RefundStatus | None, span: Span) -> Page[Refund]:
    """One page of a holder's refunds, both ways, of one status or of all."""
    rows, total_count = await listing_store.read_page(pool, _LIST, holder_id, status, span)
    return Page(items=[_refund(row) for row in rows], total_count=total_count)


_FIND_EXTERNAL: Final[LiteralString] = f"""
    select {_COLUMNS} from unnest($1::text[], $2::bigint[]) as wanted (external_id, holder_id)
    join refund on refund.external_id = wanted.external_id and refund.holder_id = wanted.holder_id
"""


async def find_external(connection: Connection, wanted: Sequence[tuple[str, int]]) -> dict[tuple[int, str], Refund]:
    """Outgoing refunds by external id and holder; their holders' balances are locked."""
    rows = await connection.fetch(_FIND_EXTERNAL, [name for name, _ in wanted], [holder_id for _, holder_id in wanted])
    found = map(_refund, rows)
    return {(refund.holder_id, refund.external_id or ""): refund for refund in found}


_FIND_NAMED: Final[LiteralString] = f"select {_COLUMNS} from refund where return_id = any($1) and flow = $2"


async def find_named(pool: Connection | Pool, return_ids: Sequence[str], flow: Flow) -> dict[str, Refund]:
    """Refunds by return id, without a lock."""
    found = map(_refund, await pool.fetch(_FIND_NAMED, return_ids, flow))
    return {refund.return_id: refund for refund in found}


# Another holder's rows are passed over by an expression that no index has: names alone find the rows.
_LOCK: Final[LiteralString] = f"{_FIND_NAMED} and holder_id + 0 = any($3) order by id, holder_id for no key update"


async def lock(connection: Connection, wanted: Sequence[tuple[str, int]], flow: Flow) -> dict[tuple[str, int], Refund]:
    """Refunds by return id and holder as they are now, held until the transaction ends; taken after their transfers."""
    names, holder_ids = [name for name, _ in wanted], [holder_id for _, holder_id in wanted]
    found = map(_refund, await connection.fetch(_LOCK, names, flow, holder_ids))
    return {(refund.return_id, refund.holder_id): refund for refund in found}
