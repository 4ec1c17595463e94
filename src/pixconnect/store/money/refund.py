"""The table of refunds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, LiteralString

from pixconnect.domain.frame.listing import Page, Span
from pixconnect.domain.money.refund import Flow, Refund, RefundStatus
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame import listing as listing_store
from pixconnect.store.frame.part import Part
from pixconnect.store.frame.table import Table, split_pairs

REFUND: Final = Table(
    "refund",
    Refund,
    """
    id bigint, holder_id bigint, transfer_id bigint, flow text, is_book boolean, external_id text, fingerprint bytea,
    return_id text, original_end_to_end_id text, correlation_id uuid, amount_cents bigint, status text, reason text,
    description text, outcome_code text, outcome_reason text, slot smallint, handed_at timestamptz,
    settled_at timestamptz, created_at timestamptz, modified_at timestamptz, network_id text
    """,
)

# A new refund was handed to nobody yet: what are columns' defaults need not be sent.
_NEW: Final = REFUND.without("handed_at", "network_id")
INSERT: Final = Part[Refund](
    name="refund_row",
    sql=f"insert into refund ({_NEW.names}) select * from unnest({_NEW.array_parameters})",
    arguments=_NEW.arrays,
)

_MOVED: Final = REFUND.only(
    "id", "holder_id", "status", "outcome_code", "outcome_reason", "handed_at", "settled_at", "modified_at"
)
UPDATE: Final = Part[Refund](
    name="refund_change",
    sql=f"""
        update refund set {_MOVED.assignments} from unnest({_MOVED.array_parameters}) as new ({_MOVED.names})
        where refund.id = new.id and refund.holder_id = new.holder_id
        returning 1
    """,
    returns="each row",
    arguments=_MOVED.arrays,
)

_FIND_BY_ID: Final[LiteralString] = f"select {REFUND.select} from refund where id = $1 and holder_id = $2"


async def find_by_id(pool: Pool, holder_id: int, refund_id: int) -> Refund | None:
    row = await pool.fetchrow(_FIND_BY_ID, refund_id, holder_id)
    return REFUND.read_found(row)


_FIND_BY_IDS: Final[LiteralString] = f"""
    select {REFUND.select} from unnest($1::bigint[], $2::bigint[]) as wanted (id, holder_id) join refund using (id, holder_id)
"""


async def find_by_ids(pool: Pool, holder_id: int, refund_ids: Collection[int]) -> dict[int, Refund]:
    rows = await pool.fetch(_FIND_BY_IDS, list(refund_ids), [holder_id] * len(refund_ids))
    return {row["id"]: REFUND.read(row) for row in rows}


_FIND_BY_EXTERNAL_ID: Final[LiteralString] = (
    f"select {REFUND.select} from refund where external_id = $1 and holder_id = $2"
)


async def find_by_external_id(pool: Pool, holder_id: int, external_id: str) -> Refund | None:
    row = await pool.fetchrow(_FIND_BY_EXTERNAL_ID, external_id, holder_id)
    return REFUND.read_found(row)


_FIND_BY_RETURN_ID: Final[LiteralString] = f"select {REFUND.select} from refund where return_id = $1 and holder_id = $2"


_FIND_BY_NETWORK_ID: Final[LiteralString] = (
    f"select {REFUND.select} from refund where network_id = $1 and holder_id = $2"
)


async def find_by_return_id(pool: Pool, holder_id: int, return_id: str) -> Refund | None:
    """By our id or by the network's."""
    row = await pool.fetchrow(_FIND_BY_RETURN_ID, return_id, holder_id)
    if row is None:
        row = await pool.fetchrow(_FIND_BY_NETWORK_ID, return_id, holder_id)
    return REFUND.read_found(row)


_FIND_OF_TRANSFERS: Final[LiteralString] = f"""
    select {REFUND.select} from unnest($1::bigint[], $2::bigint[]) as wanted (transfer_id, holder_id)
    join refund using (transfer_id, holder_id) order by created_at, id
"""


async def find_of_transfers(
    pool: Connection | Pool, wanted: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], list[Refund]]:
    """The refunds of transfers, by the transfer's id and holder, each in the order in which they were asked for."""
    found: dict[tuple[int, int], list[Refund]] = {}
    for row in await pool.fetch(_FIND_OF_TRANSFERS, *split_pairs(wanted)):
        refund = REFUND.read(row)
        found.setdefault((refund.transfer_id, refund.holder_id), []).append(refund)
    return found


_LIST = listing_store.source("refund", REFUND.select)


async def read_page(pool: Pool, holder_id: int, status: RefundStatus | None, span: Span) -> Page[Refund]:
    """One page of a holder's refunds, both ways, of one status or of all."""
    page = await listing_store.read_page(pool, _LIST, holder_id, status, span)
    return page.with_items([REFUND.read(row) for row in page.items])


_FIND_EXTERNAL: Final[LiteralString] = f"""
    select {REFUND.select} from unnest($1::text[], $2::bigint[]) as wanted (external_id, holder_id)
    join refund on refund.external_id = wanted.external_id and refund.holder_id = wanted.holder_id
"""


async def find_external(connection: Connection, wanted: Sequence[tuple[str, int]]) -> dict[tuple[int, str], Refund]:
    """Outgoing refunds by external id and holder; their holders' balances are locked."""
    rows = await connection.fetch(_FIND_EXTERNAL, *split_pairs(wanted))
    found = map(REFUND.read, rows)
    return {(refund.holder_id, refund.external_id or ""): refund for refund in found}


_FIND_NAMED: Final[LiteralString] = f"select {REFUND.select} from refund where return_id = any($1) and flow = $2"


_FIND_NAMED_BY_NETWORK: Final[LiteralString] = f"select {REFUND.select} from refund where network_id = any($1)"


async def find_named(pool: Connection | Pool, return_ids: Sequence[str], flow: Flow) -> dict[str, Refund]:
    """Refunds by the id that was asked for: ours or, of outgoing ones, the network's."""
    found = map(REFUND.read, await pool.fetch(_FIND_NAMED, return_ids, flow))
    named = {refund.return_id: refund for refund in found}
    missing = [name for name in return_ids if name not in named] if flow == "OUT" else []
    if missing:
        rows = await pool.fetch(_FIND_NAMED_BY_NETWORK, missing)
        named |= {row["network_id"]: REFUND.read(row) for row in rows}
    return named


_LOCK_BY_ID: Final[LiteralString] = f"""
    select {REFUND.select} from unnest($1::bigint[], $2::bigint[]) as wanted (id, holder_id)
    join refund using (id, holder_id) order by refund.id, refund.holder_id for no key update of refund
"""


async def lock_by_id(connection: Connection, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Refund]:
    """Refunds by id and holder, held until the transaction ends; taken after the balances of their holders."""
    found = map(REFUND.read, await connection.fetch(_LOCK_BY_ID, *split_pairs(wanted)))
    return {(refund.id, refund.holder_id): refund for refund in found}


# Another holder's rows are passed over by an expression that no index has: names alone find the rows.
_LOCK: Final[LiteralString] = f"{_FIND_NAMED} and holder_id + 0 = any($3) order by id, holder_id for no key update"


async def lock(connection: Connection, wanted: Sequence[tuple[str, int]], flow: Flow) -> dict[tuple[str, int], Refund]:
    """Refunds by return id and holder as they are now, held until the transaction ends; taken after their transfers."""
    names, holder_ids = split_pairs(wanted)
    found = map(REFUND.read, await connection.fetch(_LOCK, names, flow, holder_ids))
    return {(refund.return_id, refund.holder_id): refund for refund in found}
