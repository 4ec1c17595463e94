"""The tables of charges, and of their earlier revisions."""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.kernel.rules.charge import SHOWN_AS_EXPIRED, Charge, ShownStatus
from pixconnect.kernel.rules.charge_contents import (
    CHARGE_FIELDS,
    ChargeContents,
    ChargeFields,
    Payer,
    decode_contents,
    encode_contents,
)
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.rules.location import list_statuses, parse_path
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables import lookup, tally
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.lookup import Tuples
from pixconnect.kernel.tables.table import Part, Table, insert_of, list_columns, or_null, read_types, split_pairs, update_of
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool


class ChargeRevision(Struct, frozen=True, kw_only=True):
    charge_id: int
    holder_id: int
    revision: int
    contents: ChargeContents
    next_digest: bytes  # of the contents that replaced them


def _payer(name: str | None, tax_id: str | None) -> Payer | None:
    return None if name is None or tax_id is None else Payer(name=name, tax_id=tax_id)


_FIELDS: Final = list_columns(ChargeFields)
CHARGE: Final = Table(
    "charge",
    Charge,
    list_columns(Charge, contents="text", slot="smallint", revision="integer", institution_id="smallint"),
    read={"payer": (_payer, "payer_name", "payer_tax_id"), "contents": (or_null(decode_contents), "contents")},
    write={
        "payer_name": lambda charge: charge.payer and charge.payer.name,
        "payer_tax_id": lambda charge: charge.payer and charge.payer.tax_id,
        "contents": lambda charge: charge.contents and encode_contents(charge.contents),
    },
)

# Columns of the standard API's charges and of those at institutions, null at no cost in the contract's.
_NEW: Final = CHARGE.without("held_by, contents, revision, is_unbound, institution_id, asked_cents, due_on")
_ALIKE: Final = "status, created_at, modified_at"
_OF_ONE: Final = "expires_at, payer_name, payer_tax_id, holder_id, key"
INSERT: Final = insert_of(CHARGE, _NEW, name="charge_row", once=[f"{_ALIKE}, {_OF_ONE}", _ALIKE])

_NEW_STANDARD: Final = CHARGE.without("held_by, is_unbound, asked_cents")
_STANDARD_ALIKE: Final[LiteralString] = f"{_ALIKE}, fingerprint, revision, institution_id, due_on"
INSERT_STANDARD: Final = insert_of(
    CHARGE, _NEW_STANDARD, name="standard_charge_row", once=[f"{_STANDARD_ALIKE}, {_OF_ONE}", _STANDARD_ALIKE]
)

# Columns that payments and expiry change. Few payments change which one holds a charge, and only the standard API changes the
# rest.
_MOVED: Final = CHARGE.only("id, holder_id, status, modified_at")
UPDATE: Final = update_of(CHARGE, _MOVED, name="charge_change", once=["status, modified_at"])
_HELD: Final = CHARGE.only("id, holder_id, status, modified_at, held_by")
UPDATE_HELD: Final = update_of(CHARGE, _HELD, name="held_charge_change")
_LATER: Final = ("expires_at", "br_code", "contents", "revision", "is_unbound", "asked_cents", "due_on")
_REVISED: Final = CHARGE.only("id, holder_id, status, modified_at, held_by", *_LATER, *read_types(_FIELDS))
UPDATE_REVISED: Final = update_of(CHARGE, _REVISED, name="revised_charge_change")


def _find_insert(charge: Charge) -> Part[Charge]:
    has_later_columns = charge.held_by is not None or charge.is_unbound or charge.asked_cents is not None
    errors.ensure(not has_later_columns, "a new charge was never held, unbound or paid")
    return INSERT if charge.contents is None and charge.institution_id is None else INSERT_STANDARD


_of_revision = attrgetter(*_LATER, *CHARGE_FIELDS)


def _find_update(before: Charge, after: Charge) -> Part[Charge]:
    if _of_revision(before) != _of_revision(after):
        return UPDATE_REVISED
    return UPDATE if before.held_by == after.held_by else UPDATE_HELD


_count, _count_due = tally.count("charge"), tally.count("charge_due")

CHARGES: Final = Fact(
    rank=10,
    inserts=(INSERT, INSERT_STANDARD),
    find_insert=_find_insert,
    updates=(UPDATE, UPDATE_HELD, UPDATE_REVISED),
    find_update=_find_update,
    may_move_new=True,
    sort_key=attrgetter("external_id", "holder_id"),
    follow=lambda before, after: (
        [*_count(before, after), *_count_due(before, after)] if after and after.due_on else _count(before, after)
    ),
)

find_external: Final = lookup.by_external_ids(CHARGE)
find_by_id: Final = lookup.one_by(CHARGE, "id")
find_by_ids: Final = lookup.many_by_id(CHARGE)
find_by_external_id: Final = lookup.one_by(CHARGE, "external_id")
find_by_txid: Final = lookup.one_by(CHARGE, "txid")

# A charge of our own API has no row in ``location`` until the standard API has shown it: until then its txid is the token.
# PostgreSQL does not know the array's length in advance: with short arrays it would replan each time.
_FIND_SERVED: Final[LiteralString] = f"""
    with place as materialized (
        select wanted.token, location.charge_id, location.holder_id, location.status
        from unnest((select $1::text[])) as wanted (token) left join location on location.token = wanted.token
    )
    select place.token, place.status as place_status, {CHARGE.select} from place
    join charge on charge.id = place.charge_id and charge.holder_id = place.holder_id
    union all
    select place.token, 'COB_BOUND', {CHARGE.select} from place join charge on charge.txid = place.token
    where place.status is null and charge.contents is null and charge.institution_id is null
"""


async def find_served(pool: Pool, paths: Sequence[str]) -> dict[str, Charge]:
    """Find the charges served at locations, of any holder; a path is an address without the prefix."""
    places = {path: place for path in paths if (place := parse_path(path)) is not None}
    rows = await pool.fetch(_FIND_SERVED, sorted({token for _, token in places.values()})) if places else ()
    found = {(row["place_status"], row["token"]): CHARGE.read(row) for row in rows}
    # A location of the other kind has another path.
    served = {path: (list_statuses(kind, is_bound=True)[0], token) for path, (kind, token) in places.items()}
    return {path: found[name] for path, name in served.items() if name in found}


_read_page_of_one: Final = lookup.page_of(CHARGE, listing_store.source("charge", CHARGE.select))
read_page_of: Final = lookup.page_of(CHARGE, listing_store.source_of_statuses("charge", CHARGE.select))


async def read_page(pool: Pool, holder_id: int, status: ShownStatus, span: Span) -> Page[Charge]:
    if status == "EXPIRED":
        return await read_page_of(pool, holder_id, SHOWN_AS_EXPIRED, span)
    return await _read_page_of_one(pool, holder_id, status, span)


LOCKED_BY_TXID: Final[LiteralString] = f"""
    locked as materialized (
        select {CHARGE.select} from unnest($1::text[], $2::bigint[]) as wanted (txid, holder_id)
        join charge using (txid, holder_id) order by charge.id, charge.holder_id for no key update of charge
    )
"""
# The block of ids is taken once all are locked: counting the locked rows makes PostgreSQL lock every one of them first.
TAKE_BLOCK: Final[LiteralString] = """
    taken as materialized (
        select nextval('write_group_id') as first_id from (select count(*) from locked) as all_are_locked
    )
"""
_SHOW_LOCKED: Final[LiteralString] = "select locked.*, taken.first_id from taken left join locked on true"
_LOCK: Final[LiteralString] = f"""
    with locked as materialized (
        select {CHARGE.select} from unnest($1::bigint[], $2::bigint[]) as wanted (id, holder_id)
        join charge using (id, holder_id) order by charge.id, charge.holder_id for no key update of charge
    ), {TAKE_BLOCK}
    {_SHOW_LOCKED}
"""


async def lock(connection: Connection, wanted: Sequence[tuple[int, int]]) -> tuple[dict[tuple[int, int], Charge], int]:
    """Lock charges by id and holder; every process locks in this order.

    Returns:
        The charges, locked until the transaction ends; and the first id of a block that was taken after that.
    """
    rows = await connection.fetch(_LOCK, *split_pairs(wanted))
    # If no row was locked, the block stands in a separate row.
    found = [CHARGE.read(row) for row in rows if row["id"] is not None]
    return {(charge.id, charge.holder_id): charge for charge in found}, rows[0]["first_id"]


async def lock_by_txid(connection: Connection, wanted: Sequence[tuple[str, int]]) -> tuple[dict[tuple[str, int], Charge], int]:
    """As ``lock``, by txid and holder."""
    rows = await connection.fetch(f"with {LOCKED_BY_TXID}, {TAKE_BLOCK} {_SHOW_LOCKED}", *split_pairs(wanted))
    found = [CHARGE.read(row) for row in rows if row["id"] is not None]
    return {(charge.txid, charge.holder_id): charge for charge in found}, rows[0]["first_id"]


_FIND_OTHERS: Final[LiteralString] = f"""
    select {CHARGE.select} from unnest($1::text[]) as wanted (txid)
    join charge on charge.txid = wanted.txid and charge.external_id <> charge.txid
"""


async def find_of_contract(connection: Connection, txids: Sequence[str]) -> dict[str, Charge]:
    """Find charges of our own API by txid, of any holder."""
    # Our txids are random, so each has one holder; clients of several holders may choose the same txid.
    rows = await connection.fetch(_FIND_OTHERS, txids)
    return {row["txid"]: CHARGE.read(row) for row in rows}


_IS_EXPIRED: Final[LiteralString] = """
    slot = any($1::smallint[]) and status = 'PENDING' and expires_at <= $2::timestamptz
        and held_by is null and institution_id is null
"""
IS_ANY_EXPIRED: Final[LiteralString] = f"exists (select from charge where {_IS_EXPIRED})"  # for slots ``$1`` at ``$2``

list_pending_of_account: Final = Tuples[tuple[int, int], int, int]("""
    select id, holder_id from charge where institution_id = $1 and status = 'PENDING' order by expires_at limit $2
""")
"""List an account's charges that can still be paid, by id and holder."""

find_expired: Final = Tuples[tuple[int, int], Sequence[int], datetime, int](f"""
    select id, holder_id from charge where {_IS_EXPIRED} order by expires_at limit $3
""")
"""Find overdue charges that are not marked as expired, by id and holder; not those at institutions."""

find_expired_of_account: Final = Tuples[tuple[int, int], int, datetime, int]("""
    select id, holder_id from charge
    where institution_id = $1 and status = 'PENDING' and expires_at <= $2 order by expires_at limit $3
""")
"""Find the overdue charges at one account, likewise."""

REVISION: Final = Table(
    "charge_revision",
    ChargeRevision,
    "charge_id bigint, holder_id bigint, revision integer, contents text, next_digest bytea",
    key=("charge_id", "holder_id", "revision"),
    read={"contents": (decode_contents, "contents")},
    write={"contents": lambda revision: encode_contents(revision.contents)},
)

INSERT_REVISION: Final = insert_of(REVISION, REVISION, name="charge_revision_row")
REVISIONS: Final = Fact(rank=20, inserts=(INSERT_REVISION,), key=None)

_FIND_REVISION: Final[LiteralString] = """
    select contents from charge_revision where charge_id = $1 and holder_id = $2 and revision = $3
"""


async def find_revision(pool: Connection | Pool, holder_id: int, charge_id: int, revision: int) -> ChargeContents | None:
    text = await pool.fetchval(_FIND_REVISION, charge_id, holder_id, revision)
    return None if text is None else decode_contents(text)
