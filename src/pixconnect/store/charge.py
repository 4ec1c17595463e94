"""Charges at rest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

import asyncpg

from pixconnect.domain.charge import Charge, ChargeStatus, Payer
from pixconnect.domain.listing import Page, Span
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store import listing as listing_store
from pixconnect.store.part import Part, columns_of

_COLUMNS: Final[LiteralString] = """
    charge.id, charge.holder_id, charge.external_id, charge.fingerprint, charge.txid, charge.amount_cents, charge.key,
    charge.payer_name, charge.payer_tax_id, charge.br_code, charge.status, charge.slot, charge.created_at,
    charge.modified_at, charge.expires_at
"""

_columns = columns_of(
    "id", "holder_id", "external_id", "fingerprint", "txid", "amount_cents", "key", "br_code", "status", "slot",
    "created_at", "modified_at", "expires_at",
)  # fmt: skip


def _charge(row: asyncpg.Record) -> Charge:
    payer = None if row["payer_name"] is None else Payer(name=row["payer_name"], tax_id=row["payer_tax_id"])
    return Charge(
        id=row["id"],
        holder_id=row["holder_id"],
        external_id=row["external_id"],
        fingerprint=row["fingerprint"],
        txid=row["txid"],
        amount_cents=row["amount_cents"],
        key=row["key"],
        payer=payer,
        br_code=row["br_code"],
        status=row["status"],
        slot=row["slot"],
        created_at=row["created_at"],
        modified_at=row["modified_at"],
        expires_at=row["expires_at"],
    )


_FIND_EXTERNAL: Final[LiteralString] = f"""
    select {_COLUMNS} from unnest($1::text[], $2::bigint[]) as wanted (external_id, holder_id)
    join charge on charge.external_id = wanted.external_id and charge.holder_id = wanted.holder_id
"""


async def find_external(connection: Connection, wanted: Sequence[tuple[str, int]]) -> dict[tuple[int, str], Charge]:
    """Charges by external id and holder, as they are now."""
    rows = await connection.fetch(_FIND_EXTERNAL, [name for name, _ in wanted], [holder_id for _, holder_id in wanted])
    found = map(_charge, rows)
    return {(charge.holder_id, charge.external_id): charge for charge in found}


def _insert_columns(charges: Sequence[Charge]) -> list[Sequence[object]]:
    payers = [charge.payer for charge in charges]
    return [
        *_columns(charges),
        [payer and payer.name for payer in payers],
        [payer and payer.tax_id for payer in payers],
    ]


INSERT: Final = Part[Charge](
    name="charge_row",
    sql="""
        insert into charge (id, holder_id, external_id, fingerprint, txid, amount_cents, key, br_code, status, slot,
            created_at, modified_at, expires_at, payer_name, payer_tax_id)
        select * from unnest({}::bigint[], {}::bigint[], {}::text[], {}::bytea[], {}::text[], {}::bigint[], {}::text[],
            {}::text[], {}::text[], {}::smallint[], {}::timestamptz[], {}::timestamptz[], {}::timestamptz[], {}::text[],
            {}::text[])
    """,
    columns=_insert_columns,
)

UPDATE: Final = Part[Charge](
    name="charge_change",
    sql="""
        update charge set status = new.status, modified_at = new.modified_at
        from unnest({}::bigint[], {}::bigint[], {}::text[], {}::timestamptz[]) as new (id, holder_id, status, modified_at)
        where charge.id = new.id and charge.holder_id = new.holder_id
        returning 1
    """,
    is_counted=True,
    columns=columns_of("id", "holder_id", "status", "modified_at"),
)


_FIND_BY_ID: Final[LiteralString] = f"select {_COLUMNS} from charge where id = $1 and holder_id = $2"


async def find_by_id(pool: Pool, holder_id: int, charge_id: int) -> Charge | None:
    """The charge of this holder."""
    row = await pool.fetchrow(_FIND_BY_ID, charge_id, holder_id)
    return None if row is None else _charge(row)


_FIND_BY_EXTERNAL_ID: Final[LiteralString] = f"select {_COLUMNS} from charge where external_id = $1 and holder_id = $2"


async def find_by_external_id(pool: Pool, holder_id: int, external_id: str) -> Charge | None:
    """The charge of this holder."""
    row = await pool.fetchrow(_FIND_BY_EXTERNAL_ID, external_id, holder_id)
    return None if row is None else _charge(row)


_FIND_BY_TXID: Final[LiteralString] = f"select {_COLUMNS} from charge where txid = $1"


async def find_by_txid(pool: Pool, txid: str) -> Charge | None:
    """The charge of this txid, whoever's it is: the caller compares ``holder_id``, or serves its location."""
    row = await pool.fetchrow(_FIND_BY_TXID, txid)
    return None if row is None else _charge(row)


_LIST = listing_store.source("charge", _COLUMNS)


async def read_page(pool: Pool, holder_id: int, status: ChargeStatus, span: Span) -> Page[Charge]:
    """One page of a holder's charges of one status."""
    rows, total_count = await listing_store.read_page(pool, _LIST, holder_id, status, span)
    return Page(items=[_charge(row) for row in rows], total_count=total_count)


# The block of ids is taken when all of them are locked: counting the locked rows makes PostgreSQL take every one of them first.
_AND_TAKE_BLOCK: Final[LiteralString] = """
    , taken as materialized (
        select nextval('write_group_id') as first_id from (select count(*) from locked) as all_are_locked
    )
    select locked.*, taken.first_id from taken left join locked on true
"""
_LOCK: Final[LiteralString] = f"""
    with locked as materialized (
        select {_COLUMNS} from unnest($1::bigint[], $2::bigint[]) as wanted (id, holder_id)
        join charge using (id, holder_id) order by charge.id, charge.holder_id for no key update of charge
    ) {_AND_TAKE_BLOCK}
"""


async def lock(connection: Connection, wanted: Sequence[tuple[int, int]]) -> tuple[dict[tuple[int, int], Charge], int]:
    """Lock charges by id and holder; every process takes them in this order.

    Returns:
        The charges as they are now, held until the transaction ends; and the first id of a block that was taken after that.
    """
    ids, holder_ids = [wanted_id for wanted_id, _ in wanted], [holder_id for _, holder_id in wanted]
    rows = await connection.fetch(_LOCK, ids, holder_ids)
    found = [_charge(row) for row in rows if row["id"] is not None]
    return {(charge.id, charge.holder_id): charge for charge in found}, rows[0]["first_id"]


_LOCK_BY_TXID: Final[LiteralString] = f"""
    with locked as materialized (
        select {_COLUMNS} from charge where txid = any($1) order by id, holder_id for no key update
    ) {_AND_TAKE_BLOCK}
"""


async def lock_by_txid(connection: Connection, txids: Sequence[str]) -> tuple[dict[str, Charge], int]:
    """As ``lock``, by txid, which chance makes and no sequence: no two holders have the same."""
    rows = await connection.fetch(_LOCK_BY_TXID, txids)
    found = [_charge(row) for row in rows if row["id"] is not None]
    return {charge.txid: charge for charge in found}, rows[0]["first_id"]


_FIND_EXPIRED: Final[LiteralString] = """
    select id, holder_id from charge
    where slot = any($1) and status = 'PENDING' and expires_at <= $2
    order by expires_at limit $3
"""


async def find_expired(pool: Pool, slots: Sequence[int], now: datetime, count_max: int) -> list[tuple[int, int]]:
    """Charges that are past their time and not yet marked so, by id and holder."""
    return [(row["id"], row["holder_id"]) for row in await pool.fetch(_FIND_EXPIRED, slots, now, count_max)]
