"""The table of transfers, and searches of it, also by fields without an index."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final, LiteralString

import asyncpg
import msgspec
from msgspec import Struct, structs

from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.listing import Page, Span, TransferSearch, check_searched
from pixconnect.kernel.rules.transfer import Transfer, is_spent
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables import lookup, tally
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.lookup import FindAll, FindOne, Tuples, Value
from pixconnect.kernel.tables.table import Part, Table, fetch_row, insert_of, list_columns, split_pairs, update_of
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool


class RefusedCredit(Struct, frozen=True, kw_only=True):
    name: str  # its end-to-end id
    kind: str  # the kind of the report that we refused first
    refusal_code: str


REFUSED_CREDIT: Final = Table("refused_credit", RefusedCredit, "name text, kind text, refusal_code text", key=("name",))

# A separate statement: it also finds a key or account assigned to a holder while it waited.
# Without ``offset 0`` the plan of a small table reads all of it into a set, and is kept when the table has grown.
_FIND_OWNED: Final[LiteralString] = """
    select account from unnest($1::text[]) as held (account)
    where exists (select from pix_key where key = account offset 0)
        or exists (select from removed_pix_key where key = account offset 0)
        or exists (
            select from holder where account_number = split_part(account, ' ', 2) and branch = split_part(account, ' ', 1)
            offset 0
        )
"""


async def hold_accounts(connection: Connection, accounts: Collection[str]) -> frozenset[str]:
    """Lock these keys or accounts (``0001 123``) against assignment until the transaction ends; return the assigned ones."""
    wanted = sorted(accounts)
    # Sorted, so that two processes never wait for each other.
    await connection.execute("select hold_account(account) from unnest($1::text[]) as held (account)", wanted)
    return frozenset(row["account"] for row in await connection.fetch(_FIND_OWNED, wanted))


_INSERT_REFUSED: Final[LiteralString] = f"""
    insert into refused_credit ({REFUSED_CREDIT.names}) select * from unnest($1::text[], $2::text[], $3::text[])
    on conflict (name) do nothing
"""


async def insert_refused(connection: Connection, refused: Sequence[RefusedCredit]) -> None:
    """Store refusals, unless the same payment was refused before."""
    rows = sorted(refused, key=lambda each: each.name)
    await connection.execute(_INSERT_REFUSED, *REFUSED_CREDIT.arrays(rows))


forget_refused: Final = Value[int, timedelta, int]("""
    with forgotten as (
        delete from refused_credit where name = any(array(
            select name from refused_credit where refused_at < clock_timestamp() - $1::interval order by refused_at limit $2
        )) returning 1
    )
    select count(*) from forgotten
""")
"""Delete at most this many of the oldest; return their number."""

_encode = msgspec.json.Encoder().encode
_decode_party = msgspec.json.Decoder(Party).decode


def encode_party(party: Party) -> str:
    return _encode(party).decode()


TRANSFER: Final = Table(
    "transfer",
    Transfer,
    list_columns(Transfer, counterparty="jsonb", slot="smallint", institution_id="smallint"),
    read={"counterparty": (_decode_party, "counterparty")},
    write={"counterparty": lambda transfer: encode_party(transfer.counterparty)},
)

# A new transfer has these columns' defaults; sending them makes its insert 8 % slower.
_NEW: Final = TRANSFER.without("returned_cents, returning_cents, handed_at, network_id, acceptance_refused, institution_id")
_ALIKE: Final = (
    "direction, is_book, charge_id, status, own_key, outcome_code, outcome_reason, settled_at, created_at, modified_at, "
    "payer_message"
)
_WAY_ALIKE: Final[LiteralString] = f"{_ALIKE}, initiation_type, txid"
INSERT: Final = insert_of(TRANSFER, _NEW, name="transfer_row", once=[f"{_WAY_ALIKE}, holder_id", _WAY_ALIKE, _ALIKE])

# A transfer that is returned on arrival begins with its refund under way; others were refused; some are on an account.
_NEW_RARE: Final = TRANSFER.without("returned_cents, handed_at, network_id")
INSERT_RARE: Final = insert_of(TRANSFER, _NEW_RARE, name="rare_transfer_row")

_MOVED_ALIKE: Final = "status, outcome_code, outcome_reason, returned_cents, returning_cents, modified_at"
_MOVED: Final = TRANSFER.only("id, holder_id", _MOVED_ALIKE, "handed_at, settled_at, network_settled_at")
# Not the holder: while the table is young, a plan for one value of it reads all transfers of that holder.
UPDATE: Final = update_of(TRANSFER, _MOVED, name="transfer_change", once=[_MOVED_ALIKE])


def _find_insert(transfer: Transfer) -> Part[Transfer]:
    is_rare = transfer.returning_cents or transfer.acceptance_refused or transfer.institution_id
    return INSERT_RARE if is_rare else INSERT


_count = tally.count("transfer")


def _follow(before: Transfer | None, after: Transfer | None) -> list[tuple[Fact[tally.Change], tally.Change]]:
    after = errors.require(after, "no transfer is deleted")
    change = is_spent(after) - (before is not None and is_spent(before))
    spent = [tally.spend(after.holder_id, after.created_at, change * after.amount_cents)] if change else []
    return _count(before, after) + spent


TRANSFERS: Final = Fact(
    rank=40,
    inserts=(INSERT, INSERT_RARE),
    find_insert=_find_insert,
    updates=(UPDATE,),
    sort_key=attrgetter("end_to_end_id"),
    follow=_follow,
)

_COUNT_SETTLED_OUT: Final[LiteralString] = """
    select count(*) filter (where direction = 'OUT') as count, max(created_at) as until
    from (
        select direction, created_at from transfer
        where holder_id = $1 and holder_id + 0 = $1 and status = 'CONFIRMED' and created_at > $2
        order by created_at, id limit $3
    ) as settled
"""


async def count_settled_out(pool: Pool, holder_id: int, after: datetime, looked_at_max: int) -> tuple[int, datetime | None]:
    """Count the settled transfers that a holder sent after an instant; also return when the last counted one was made."""
    row = await fetch_row(pool, _COUNT_SETTLED_OUT, holder_id, after, looked_at_max)
    return row["count"], row["until"]


# Uses only columns of the index `transfer_accepted`. A suspect payment counts as silent only after the institution's announced
# time.
_IS_SILENT: Final[LiteralString] = """
    direction = 'IN' and status = 'PROCESSING' and created_at <= $1 and not exists (
        select from block where block.holder_id = transfer.holder_id and block.state = 'open' and kind = 'precautionary'
            and block.transfer_id = transfer.id and until > $1 offset 0
    )
"""

find_accepted: Final = FindAll[Transfer, datetime, int | None, str | None, int](
    TRANSFER,
    f"""
        where {_IS_SILENT}
            and ($2::bigint is null or holder_id + 0 = $2) and ($3::text is null or end_to_end_id || '' = $3)
        order by created_at limit $4
    """,
)
"""Find payments that the rail accepted and has not ended since, nor holds as suspect, oldest first."""

count_accepted: Final = Value[int, datetime, int](f"""
    select count(*) from (select from transfer where {_IS_SILENT} limit $2) as accepted
""")
"""Count payments that the rail accepted and has not ended since, nor holds as suspect, up to ``count_max``."""

find_by_id: Final = lookup.one_by(TRANSFER, "id")
find_by_ids: Final = lookup.many_by_id(TRANSFER)
find_by_external_id: Final = lookup.one_by(TRANSFER, "external_id")
find_by_end_to_end_id: Final = lookup.one_by(TRANSFER, "end_to_end_id", "network_id")

# Matches the index `charge_is_paid_once`.
find_paying: Final = FindOne[Transfer, int, int](TRANSFER, "where holder_id = $1 and charge_id = $2 and settled_at is not null")


_FIND_ALL_PAYING: Final[LiteralString] = f"""
    select {TRANSFER.select} from unnest($1::bigint[], $2::bigint[]) as wanted (charge_id, holder_id)
    join transfer using (charge_id, holder_id) where transfer.settled_at is not null
"""


async def find_all_paying(pool: Pool, holder_id: int, charge_ids: Collection[int]) -> dict[int, Transfer]:
    """The transfers that paid some charges of a holder, by the charge's id."""
    rows = await pool.fetch(_FIND_ALL_PAYING, list(charge_ids), [holder_id] * len(charge_ids))
    return {row["charge_id"]: TRANSFER.read(row) for row in rows}


read_page: Final = lookup.page_of(TRANSFER, listing_store.source("transfer", TRANSFER.select))
find_external: Final = lookup.by_external_ids(TRANSFER)

_FIND_RECEIVED: Final[LiteralString] = f"""
    select {TRANSFER.select}, wanted.name, coalesce(kept_report.refusal_code, refused_credit.refusal_code) as refusal_code,
        coalesce(kept_report.kind, refused_credit.kind) as kind
    from unnest($1::text[]) as wanted (name)
    left join transfer on transfer.end_to_end_id = wanted.name
    left join kept_report on kept_report.name = wanted.name and kept_report.refusal_code is not null
    left join refused_credit on refused_credit.name = wanted.name
"""


async def find_received(
    connection: Connection, end_to_end_ids: Sequence[str]
) -> tuple[dict[str, Transfer], dict[str, RefusedCredit]]:
    """Find earlier answers to reported payments; the balances of their payees are locked.

    Returns:
        Incoming transfers of any holder by end-to-end id; and likewise those refused without one.
    """
    rows = await connection.fetch(_FIND_RECEIVED, end_to_end_ids)
    # The direction is compared here: in the statement it would tempt a plan to read all incoming transfers.
    received = (TRANSFER.read(row) for row in rows if row["direction"] == "IN")
    refused = {row["name"]: REFUSED_CREDIT.read(row) for row in rows if row["refusal_code"] is not None}
    return {transfer.end_to_end_id: transfer for transfer in received}, refused


# Taken after the balances of their holders.
lock_by_id: Final = lookup.by_pairs(TRANSFER, "id", locks=True)
find_named: Final = lookup.named(TRANSFER, "end_to_end_id", "direction")

find_charge_ids: Final = Tuples[tuple[int, int], Sequence[str]]("""
    select charge_id, holder_id from transfer
    where end_to_end_id = any($1) and direction = 'IN' and charge_id is not null
""")
"""The charges that these incoming transfers paid, by id and holder; that of a transfer never changes."""

_FIND_COMPLETED: Final[LiteralString] = """
    select transfer_id, holder_id from unnest($1::bigint[], $2::bigint[]) as wanted (transfer_id, holder_id)
    join payer_completion using (transfer_id, holder_id)
"""


async def find_completed(connection: Connection | Pool, wanted: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    """Those of these transfers, by id and holder, whose payer became known before."""
    rows = await connection.fetch(_FIND_COMPLETED, *split_pairs(wanted))
    return {(row["transfer_id"], row["holder_id"]) for row in rows}


# Two statements: the trigger `check_payer` finds the row that the first has written.
_NOTE_PAYER: Final[LiteralString] = """
    insert into payer_completion (transfer_id, holder_id, before, completed_at)
    select id, holder_id, counterparty, $3 from transfer where id = $1 and holder_id = $2
"""
_COMPLETE_PAYER: Final[LiteralString] = "update transfer set counterparty = $3 where id = $1 and holder_id = $2"


async def complete_payer(connection: Connection, transfer: Transfer, completed_at: datetime) -> None:
    """Write the payer of a locked transfer, and save the payer recorded before."""
    await connection.execute(_NOTE_PAYER, transfer.id, transfer.holder_id, completed_at)
    await connection.execute(_COMPLETE_PAYER, transfer.id, transfer.holder_id, encode_party(transfer.counterparty))


_INSERT_PAYEE: Final[LiteralString] = """
    insert into settled_payee (transfer_id, holder_id, payee, reported_at) values ($1, $2, $3, $4)
"""


async def insert_settled_payee(
    connection: Connection, transfer_id: int, holder_id: int, payee: Party, reported_at: datetime
) -> None:
    """In the transaction in which its transfer settles."""
    await connection.execute(_INSERT_PAYEE, transfer_id, holder_id, encode_party(payee), reported_at)


async def find_settled_payee(pool: Connection | Pool, transfer_id: int, holder_id: int) -> Party | None:
    text = await pool.fetchval(
        "select payee::text from settled_payee where transfer_id = $1 and holder_id = $2", transfer_id, holder_id
    )
    return None if text is None else _decode_party(text)


# The list's index begins with holder and status, so it is read status by status.
_LIST: Final = listing_store.source_of_statuses("transfer", TRANSFER.select)


async def search_page(pool: Pool, holder_id: int, search: TransferSearch, span: Span) -> Page[Transfer]:
    """Read a page in one status or all, at any length."""
    page = await listing_store.read_page(pool, _LIST, holder_id, search.statuses, span)
    return page.with_items([TRANSFER.read(row) for row in page.items])


# "direction || ''" keeps plans off the index of orders accepted by the rail, which spans all holders.
_FILTERS: Final[LiteralString] = """
    ($3::text is null or direction || '' = $3) and ($4::text is null or own_key = $4 or counterparty ->> 'key' = $4)
    and ($5::text is null or txid = $5) and ($6::bigint is null or amount_cents = $6)
    and ($7::text is null or counterparty ->> 'tax_id' = $7)
    and ($8::text is null or strpos(lower(concat_ws(' ', end_to_end_id, network_id)), lower($8)) > 0)
"""
_FILTERED: Final[LiteralString] = f"created_at between $9 and $10 and {_FILTERS}"
_COUNT_FILTERED: Final = listing_store.count_statuses("transfer", _FILTERED, statuses="$2")
_READ_FILTERED: Final = listing_store.merge_statuses(
    "transfer", TRANSFER.select, _FILTERED, statuses="$2", skipped="$11", count="$12"
)
_READ_FILTERED_AFTER: Final = listing_store.merge_statuses(
    "transfer",
    TRANSFER.select,
    f"created_at >= $9 and (created_at, id) < ($10, $11) and {_FILTERS}",
    statuses="$2",
    count="$12",
)


async def filter_page(pool: Pool, holder_id: int, search: TransferSearch, span: Span) -> Page[Transfer]:
    """Read a page filtered by fields without an index; ``BadRequest`` if the period has too many transfers to scan."""
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        # From whole hours' totals: counting the transfers would cost what the limit saves.
        whole = structs.replace(span, page=1, page_size=1, after=None)
        looked_at = await listing_store.read_page_in(connection, _LIST, holder_id, search.statuses, whole)
        check_searched(looked_at.total_count)
        page = await _read_filtered(connection, holder_id, search, span)
    return page.with_items([TRANSFER.read(row) for row in page.items])


async def _read_filtered(connection: Connection, holder_id: int, search: TransferSearch, span: Span) -> Page[asyncpg.Record]:
    named = (search.direction, search.key, search.txid)
    known = (search.amount_cents, search.tax_id, search.end_to_end_id_part)
    asked = (holder_id, list(search.statuses), *named, *known)
    oldest, newest = listing_store.bounds(span.initial_at, span.final_at)
    if span.after is not None:
        before = listing_store.begin_after(span.after, newest)
        rows = await connection.fetch(_READ_FILTERED_AFTER, *asked, oldest, *before, span.page_size + 1)
        has_more = len(rows) > span.page_size
        return listing_store.make_page(span, rows[: span.page_size], span.after.total_count, has_more=has_more)
    total_count: int = await connection.fetchval(_COUNT_FILTERED, *asked, oldest, newest)
    if span.position >= total_count:
        return Page(items=[], total_count=total_count)
    rows = await connection.fetch(_READ_FILTERED, *asked, oldest, newest, span.position, span.page_size)
    has_more = span.position + len(rows) < total_count
    return listing_store.make_page(span, rows, total_count, has_more=has_more)
