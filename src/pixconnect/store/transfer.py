"""Transfers at rest."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, LiteralString

import asyncpg
import msgspec

from pixconnect.domain.holder import Party
from pixconnect.domain.listing import Page, Span
from pixconnect.domain.transfer import Direction, Transfer, TransferStatus
from pixconnect.store import listing as listing_store
from pixconnect.store.part import Part, columns_of

if TYPE_CHECKING:
    from pixconnect.foundation.pool import Connection, Pool

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
    """,
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

_FIND_BY_ID: Final[LiteralString] = f"select {_COLUMNS} from transfer where id = $1 and holder_id = $2"


async def find_by_id(pool: "Pool", holder_id: int, transfer_id: int) -> Transfer | None:
    """The transfer of this holder."""
    row = await pool.fetchrow(_FIND_BY_ID, transfer_id, holder_id)
    return None if row is None else _transfer(row)


_FIND_BY_EXTERNAL_ID: Final[LiteralString] = (
    f"select {_COLUMNS} from transfer where external_id = $1 and holder_id = $2"
)


async def find_by_external_id(pool: "Pool", holder_id: int, external_id: str) -> Transfer | None:
    """The outgoing transfer of this holder."""
    row = await pool.fetchrow(_FIND_BY_EXTERNAL_ID, external_id, holder_id)
    return None if row is None else _transfer(row)


_FIND_BY_END_TO_END_ID: Final[LiteralString] = (
    f"select {_COLUMNS} from transfer where end_to_end_id = $1 and holder_id = $2"
)


async def find_by_end_to_end_id(pool: "Pool", holder_id: int, end_to_end_id: str) -> Transfer | None:
    """This holder's own side of the transfer."""
    row = await pool.fetchrow(_FIND_BY_END_TO_END_ID, end_to_end_id, holder_id)
    return None if row is None else _transfer(row)


_LIST = listing_store.source("transfer", _COLUMNS)


async def read_page(pool: "Pool", holder_id: int, status: TransferStatus, span: Span) -> Page[Transfer]:
    """One page of a holder's transfers of one status, both ways."""
    rows, total_count = await listing_store.read_page(pool, _LIST, holder_id, status, span)
    return Page(items=[_transfer(row) for row in rows], total_count=total_count)


_FIND_EXTERNAL: Final[LiteralString] = f"""
    select {_COLUMNS} from unnest($1::text[], $2::bigint[]) as wanted (external_id, holder_id)
    join transfer on transfer.external_id = wanted.external_id and transfer.holder_id = wanted.holder_id
"""


async def find_external(connection: "Connection", wanted: Sequence[tuple[str, int]]) -> dict[tuple[int, str], Transfer]:
    """Outgoing transfers by external id and holder; their holders' balances are locked."""
    rows = await connection.fetch(_FIND_EXTERNAL, [name for name, _ in wanted], [holder_id for _, holder_id in wanted])
    found = map(_transfer, rows)
    return {(transfer.holder_id, transfer.external_id or ""): transfer for transfer in found}


_FIND_RECEIVED: Final[LiteralString] = f"""
    select {_COLUMNS} from unnest($1::text[], $2::bigint[]) as wanted (end_to_end_id, holder_id)
    join transfer on transfer.end_to_end_id = wanted.end_to_end_id and transfer.holder_id = wanted.holder_id
"""


async def find_received(connection: "Connection", wanted: Sequence[tuple[str, int]]) -> dict[tuple[int, str], Transfer]:
    """Incoming transfers by end-to-end id and holder; their holders' balances are locked."""
    rows = await connection.fetch(_FIND_RECEIVED, [name for name, _ in wanted], [holder_id for _, holder_id in wanted])
    # The direction is judged here: in the statement it would tempt a plan to read all that ever came in.
    received = (_transfer(row) for row in rows if row["direction"] == "IN")
    return {(transfer.holder_id, transfer.end_to_end_id): transfer for transfer in received}


_LOCK_BY_ID: Final[LiteralString] = f"""
    select {_COLUMNS} from unnest($1::bigint[], $2::bigint[]) as wanted (id, holder_id)
    join transfer using (id, holder_id) order by transfer.id for no key update of transfer
"""


async def lock_by_id(connection: "Connection", wanted: Sequence[tuple[int, int]]) -> dict[int, Transfer]:
    """Transfers by id and holder, held until the transaction ends; taken after the balances of their holders."""
    ids, holder_ids = [wanted_id for wanted_id, _ in wanted], [holder_id for _, holder_id in wanted]
    found = map(_transfer, await connection.fetch(_LOCK_BY_ID, ids, holder_ids))
    return {transfer.id: transfer for transfer in found}


_FIND_NAMED: Final[LiteralString] = f"""
    select {_COLUMNS} from transfer where end_to_end_id = any($1) and direction = $2
"""


async def find_named(pool: "Pool", end_to_end_ids: Sequence[str], direction: Direction) -> dict[str, Transfer]:
    """Transfers by end-to-end id, before any lock is taken."""
    found = map(_transfer, await pool.fetch(_FIND_NAMED, end_to_end_ids, direction))
    return {transfer.end_to_end_id: transfer for transfer in found}


_LOCK: Final[LiteralString] = f"{_FIND_NAMED} order by id for no key update"


async def lock(connection: "Connection", end_to_end_ids: Sequence[str], direction: Direction) -> dict[str, Transfer]:
    """Transfers as they are now, by end-to-end id, held until the transaction ends.

    Taken after the balances of their holders, in order of id.
    """
    found = map(_transfer, await connection.fetch(_LOCK, end_to_end_ids, direction))
    return {transfer.end_to_end_id: transfer for transfer in found}


_FIND_CHARGE_IDS: Final[LiteralString] = """
    select charge_id from transfer where end_to_end_id = any($1) and direction = 'IN' and charge_id is not null
"""


async def find_charge_ids(connection: "Connection", end_to_end_ids: Sequence[str]) -> list[int]:
    """The charges that these incoming transfers paid; that of a transfer never changes."""
    return [row["charge_id"] for row in await connection.fetch(_FIND_CHARGE_IDS, end_to_end_ids)]
