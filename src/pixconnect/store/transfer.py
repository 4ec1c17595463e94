"""Transfers at rest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

import asyncpg
import msgspec

from pixconnect.domain import errors
from pixconnect.domain.holder import Party
from pixconnect.domain.listing import Page, Span
from pixconnect.domain.transfer import Direction, Transfer, TransferStatus
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store import listing as listing_store
from pixconnect.store.part import Part, columns_of

_COLUMNS: Final[LiteralString] = """
    transfer.id, transfer.holder_id, transfer.direction, transfer.initiation_type, transfer.is_book, transfer.external_id,
    transfer.fingerprint, transfer.end_to_end_id, transfer.correlation_id, transfer.txid, transfer.charge_id,
    transfer.amount_cents, transfer.status, transfer.own_key, transfer.counterparty, transfer.outcome_code,
    transfer.outcome_reason, transfer.returned_cents, transfer.returning_cents, transfer.slot, transfer.handed_at,
    transfer.settled_at, transfer.created_at, transfer.modified_at
"""

_encode_party = msgspec.json.Encoder().encode
_decode_party = msgspec.json.Decoder(Party).decode


def _transfer(row: asyncpg.Record) -> Transfer:
    return Transfer(
        id=row["id"],
        holder_id=row["holder_id"],
        direction=row["direction"],
        initiation_type=row["initiation_type"],
        is_book=row["is_book"],
        external_id=row["external_id"],
        fingerprint=row["fingerprint"],
        end_to_end_id=row["end_to_end_id"],
        correlation_id=row["correlation_id"],
        txid=row["txid"],
        charge_id=row["charge_id"],
        amount_cents=row["amount_cents"],
        status=row["status"],
        own_key=row["own_key"],
        counterparty=_decode_party(row["counterparty"]),
        outcome_code=row["outcome_code"],
        outcome_reason=row["outcome_reason"],
        returned_cents=row["returned_cents"],
        returning_cents=row["returning_cents"],
        slot=row["slot"],
        handed_at=row["handed_at"],
        settled_at=row["settled_at"],
        created_at=row["created_at"],
        modified_at=row["modified_at"],
    )


_columns = columns_of(
    "id",
    "holder_id",
    "direction",
    "initiation_type",
    "is_book",
    "external_id",
    "fingerprint",
    "end_to_end_id",
    "correlation_id",
    "txid",
    "charge_id",
    "amount_cents",
    "status",
    "own_key",
    "outcome_code",
    "outcome_reason",
    "slot",
    "settled_at",
    "created_at",
    "modified_at",
)


def _insert_columns(transfers: Sequence[Transfer]) -> list[Sequence[object]]:
    return [*_columns(transfers), [_encode_party(transfer.counterparty).decode() for transfer in transfers]]


INSERT: Final = Part[Transfer](
    name="transfer_row",
    sql="""
        insert into transfer (id, holder_id, direction, initiation_type, is_book, external_id, fingerprint, end_to_end_id,
            correlation_id, txid, charge_id, amount_cents, status, own_key, outcome_code, outcome_reason, slot,
            settled_at, created_at, modified_at, counterparty)
        select * from unnest({}::bigint[], {}::bigint[], {}::text[], {}::text[], {}::boolean[], {}::text[], {}::bytea[],
            {}::text[], {}::uuid[], {}::text[], {}::bigint[], {}::bigint[], {}::text[], {}::text[], {}::text[], {}::text[],
            {}::smallint[], {}::timestamptz[], {}::timestamptz[], {}::timestamptz[], {}::jsonb[])
    """,
    columns=_insert_columns,
)

UPDATE: Final = Part[Transfer](
    name="transfer_change",
    sql="""
        update transfer set
            status = new.status, outcome_code = new.outcome_code, outcome_reason = new.outcome_reason,
            returned_cents = new.returned_cents, returning_cents = new.returning_cents, handed_at = new.handed_at,
            settled_at = new.settled_at, modified_at = new.modified_at
        from unnest({}::bigint[], {}::bigint[], {}::text[], {}::text[], {}::text[], {}::bigint[], {}::bigint[],
            {}::timestamptz[], {}::timestamptz[], {}::timestamptz[])
            as new (id, holder_id, status, outcome_code, outcome_reason, returned_cents, returning_cents, handed_at,
                settled_at, modified_at)
        where transfer.id = new.id and transfer.holder_id = new.holder_id
        returning 1
    """,
    is_counted=True,
    columns=columns_of(
        "id",
        "holder_id",
        "status",
        "outcome_code",
        "outcome_reason",
        "returned_cents",
        "returning_cents",
        "handed_at",
        "settled_at",
        "modified_at",
    ),
)

_COUNT_SETTLED_OUT: Final[LiteralString] = """
    select count(*) filter (where direction = 'OUT') as count, max(created_at) as until
    from (
        select direction, created_at from transfer
        where holder_id = $1 and holder_id + 0 = $1 and status = 'CONFIRMED' and created_at > $2
        order by created_at, id limit $3
    ) as settled
"""


async def count_settled_out(
    pool: Pool, holder_id: int, after: datetime, looked_at_max: int
) -> tuple[int, datetime | None]:
    """How many outgoing transfers of a holder that were made after an instant have settled.

    Args:
        pool: Connections.
        holder_id: Whose.
        after: Service time.
        looked_at_max: Settled transfers, incoming ones too, that are looked at.

    Returns:
        How many, and when the last one that was looked at was made.
    """
    row = await pool.fetchrow(_COUNT_SETTLED_OUT, holder_id, after, looked_at_max)
    if row is None:
        raise errors.InvariantBroken("an aggregate has one row")
    return row["count"], row["until"]


_FIND_BY_ID: Final[LiteralString] = f"select {_COLUMNS} from transfer where id = $1 and holder_id = $2"


async def find_by_id(pool: Pool, holder_id: int, transfer_id: int) -> Transfer | None:
    """The transfer of this holder."""
    row = await pool.fetchrow(_FIND_BY_ID, transfer_id, holder_id)
    return None if row is None else _transfer(row)


_FIND_BY_EXTERNAL_ID: Final[LiteralString] = (
    f"select {_COLUMNS} from transfer where external_id = $1 and holder_id = $2"
)


async def find_by_external_id(pool: Pool, holder_id: int, external_id: str) -> Transfer | None:
    """The outgoing transfer of this holder."""
    row = await pool.fetchrow(_FIND_BY_EXTERNAL_ID, external_id, holder_id)
    return None if row is None else _transfer(row)


_FIND_BY_END_TO_END_ID: Final[LiteralString] = (
    f"select {_COLUMNS} from transfer where end_to_end_id = $1 and holder_id = $2"
)


async def find_by_end_to_end_id(pool: Pool, holder_id: int, end_to_end_id: str) -> Transfer | None:
    """This holder's own side of the transfer."""
    row = await pool.fetchrow(_FIND_BY_END_TO_END_ID, end_to_end_id, holder_id)
    return None if row is None else _transfer(row)


_LIST = listing_store.source("transfer", _COLUMNS)


async def read_page(pool: Pool, holder_id: int, status: TransferStatus, span: Span) -> Page[Transfer]:
    """One page of a holder's transfers of one status, both ways."""
    rows, total_count = await listing_store.read_page(pool, _LIST, holder_id, status, span)
    return Page(items=[_transfer(row) for row in rows], total_count=total_count)


_FIND_EXTERNAL: Final[LiteralString] = f"""
    select {_COLUMNS} from unnest($1::text[], $2::bigint[]) as wanted (external_id, holder_id)
    join transfer on transfer.external_id = wanted.external_id and transfer.holder_id = wanted.holder_id
"""


async def find_external(connection: Connection, wanted: Sequence[tuple[str, int]]) -> dict[tuple[int, str], Transfer]:
    """Outgoing transfers by external id and holder; their holders' balances are locked."""
    rows = await connection.fetch(_FIND_EXTERNAL, [name for name, _ in wanted], [holder_id for _, holder_id in wanted])
    found = map(_transfer, rows)
    return {(transfer.holder_id, transfer.external_id or ""): transfer for transfer in found}


_FIND_RECEIVED: Final[LiteralString] = f"""
    select {_COLUMNS}, wanted.name, kept_report.refusal_code from unnest($1::text[]) as wanted (name)
    left join transfer on transfer.end_to_end_id = wanted.name
    left join kept_report on kept_report.name = wanted.name and kept_report.refusal_code is not null
"""


async def find_received(
    connection: Connection, end_to_end_ids: Sequence[str]
) -> tuple[dict[str, Transfer], dict[str, str]]:
    """What was answered to reported payments before; the balances of those who are to be paid are locked.

    Returns:
        Incoming transfers of any holder by end-to-end id; and with which code those were refused that could not be recorded.
    """
    rows = await connection.fetch(_FIND_RECEIVED, end_to_end_ids)
    # The direction is judged here: in the statement it would tempt a plan to read all that ever came in.
    received = (_transfer(row) for row in rows if row["direction"] == "IN")
    refused = {row["name"]: row["refusal_code"] for row in rows if row["refusal_code"] is not None}
    return {transfer.end_to_end_id: transfer for transfer in received}, refused


_LOCK_BY_ID: Final[LiteralString] = f"""
    select {_COLUMNS} from unnest($1::bigint[], $2::bigint[]) as wanted (id, holder_id)
    join transfer using (id, holder_id) order by transfer.id, transfer.holder_id for no key update of transfer
"""


async def lock_by_id(connection: Connection, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Transfer]:
    """Transfers by id and holder, held until the transaction ends; taken after the balances of their holders."""
    ids, holder_ids = [wanted_id for wanted_id, _ in wanted], [holder_id for _, holder_id in wanted]
    found = map(_transfer, await connection.fetch(_LOCK_BY_ID, ids, holder_ids))
    return {(transfer.id, transfer.holder_id): transfer for transfer in found}


_FIND_NAMED: Final[LiteralString] = f"""
    select {_COLUMNS} from transfer where end_to_end_id = any($1) and direction = $2
"""


async def find_named(
    pool: Connection | Pool, end_to_end_ids: Sequence[str], direction: Direction
) -> dict[str, Transfer]:
    """Transfers by end-to-end id, without a lock."""
    found = map(_transfer, await pool.fetch(_FIND_NAMED, end_to_end_ids, direction))
    return {transfer.end_to_end_id: transfer for transfer in found}


# Another holder's rows are passed over by an expression that no index has: names alone find the rows.
_LOCK: Final[LiteralString] = f"{_FIND_NAMED} and holder_id + 0 = any($3) order by id, holder_id for no key update"


async def lock(
    connection: Connection, wanted: Sequence[tuple[str, int]], direction: Direction
) -> dict[tuple[str, int], Transfer]:
    """Transfers by end-to-end id and holder as they are now, held until the transaction ends.

    Taken after the balances of their holders, in order of id.
    """
    names, holder_ids = [name for name, _ in wanted], [holder_id for _, holder_id in wanted]
    found = map(_transfer, await connection.fetch(_LOCK, names, direction, holder_ids))
    return {(transfer.end_to_end_id, transfer.holder_id): transfer for transfer in found}


_FIND_CHARGE_IDS: Final[LiteralString] = """
    select charge_id, holder_id from transfer
    where end_to_end_id = any($1) and direction = 'IN' and charge_id is not null
"""


async def find_charge_ids(connection: Connection, end_to_end_ids: Sequence[str]) -> list[tuple[int, int]]:
    """The charges that these incoming transfers paid, by id and holder; that of a transfer never changes."""
    rows = await connection.fetch(_FIND_CHARGE_IDS, end_to_end_ids)
    return [(row["charge_id"], row["holder_id"]) for row in rows]
