"""Balances and ledger entries. Balances are only read here: PostgreSQL moves them when entries are added."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.kernel.rules.ledger import NOTHING_HELD, Balance, Held, LedgerEntry, Repayment, Transaction
from pixconnect.kernel.rules.limit import LIMIT_COLUMNS, ApprovalRule, Limits
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables.clock import DatabaseClock, clock_of
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.holder import HOLDER
from pixconnect.kernel.tables.lookup import Command, ReadOne
from pixconnect.kernel.tables.table import Table, insert_of, split_pairs
from pixconnect.platform import privileges
from pixconnect.platform.pool import Connection, Pool

_RULES: Final = HOLDER.only(
    "may_deposit, may_withdraw, may_lend, approve_above_cents, approve_new_payees, institution_id", *LIMIT_COLUMNS
)


BALANCE: Final = Table(
    "whole_balance",
    Balance,
    """
    holder_id bigint, available_cents bigint, reserved_cents bigint, blocked_cents bigint, deficit_cents bigint,
    last_number bigint, last_entry_at timestamptz, modified_at timestamptz, blocks_count integer
    """,
    key=("holder_id",),
    read={"limits": (Limits, *LIMIT_COLUMNS), "approval": (ApprovalRule, "approve_above_cents", "approve_new_payees")},
    joined=tuple(_RULES.types),
)

_EARLIEST = datetime.fromisoformat("0001-01-01T00:00:00+00:00")

# Gathering the locked rows makes PostgreSQL take every lock before the ids, the clock and the facts, which have a snapshot of
# their own: first the balances, then the statements, as the ledger's trigger does.
_LOCK_BALANCES: Final[LiteralString] = """
    with locked as materialized (
        select holder_id from balance where holder_id = any($1) order by holder_id for no key update
    ),
    ended as materialized (
        select holder_id from statement_head where holder_id = any($2) and (select count(*) from locked) >= 0
        order by holder_id for no key update
    ),
    opened as materialized (
        select nextval('write_group_id') as first_id, clock_timestamp() as real_now, held from (
            select array_agg(holder_id) as held from (select holder_id from locked union select holder_id from ended) as each
        ) as all_are_locked where refuse_old_session()
    )
    select opened.first_id, opened.real_now, held.* from opened cross join lateral read_held(opened.held) as held
"""


class LockedBalances(Struct, frozen=True, kw_only=True):
    """Balances and statement heads locked until the transaction ends; all values were read under these locks.

    If only the head is locked, the available balance may change meanwhile; current funds may not.
    """

    clock: DatabaseClock
    first_id: int  # as returned by ``identifiers.open_group``
    held: Held = NOTHING_HELD
    balances: dict[int, Balance] = {}
    key_webhook_holders: frozenset[int] = frozenset()  # the holders, of these, with webhooks for their keys


async def lock_balances(connection: Connection, wanted: Held) -> LockedBalances:
    """Begin a batch that moves money; locks balances and then statements, each in ascending order, as every process does."""
    rows = await connection.fetch(_LOCK_BALANCES, sorted(wanted.balances), sorted(wanted.statements))
    return LockedBalances(
        held=wanted,
        balances={row["holder_id"]: BALANCE.read(row) for row in rows},
        key_webhook_holders=frozenset(row["holder_id"] for row in rows if row["has_key_webhooks"]),
        clock=clock_of(rows[-1]),
        first_id=rows[-1]["first_id"],
    )


lock_balance: Final = Command[int]("select from balance where holder_id = $1 for no key update")
"""Lock a holder's balance against all batches until the transaction ends, except settlements of reserved money."""

_FIND_STANDINGS: Final[LiteralString] = f"""
    select {BALANCE.select}, {_RULES.names}, disabled_at is not null as is_disabled,
        coalesce(is_blocked, false) as is_heir_blocked
    from whole_balance join holder on holder.id = whole_balance.holder_id left join lateral (
        select heir.disabled_at is not null or not heir.may_withdraw as is_blocked
        from holder as heir where heir.id = holder.successor_id
    ) as successor on true where whole_balance.holder_id = any($1)
"""


async def read_standings(connection: Connection | Pool, holder_ids: Collection[int]) -> dict[int, tuple[Balance, bool, bool]]:
    """Read balances of some holders, whether an operator has disabled them, and blocked or disabled their successor."""
    rows = await connection.fetch(_FIND_STANDINGS, list(holder_ids))
    return {row["holder_id"]: (BALANCE.read(row), row["is_disabled"], row["is_heir_blocked"]) for row in rows}


find_balance: Final = ReadOne[Balance, int](
    BALANCE,
    f"""
    select {BALANCE.select}, {_RULES.names} from whole_balance join holder on holder.id = whole_balance.holder_id
    where whole_balance.holder_id = $1
""",
)

_FIND_ENTRIES: Final[LiteralString] = """
    select id, holder_id, created_at from unnest($1::bigint[], $2::bigint[]) as wanted (id, holder_id)
    join ledger_entry using (id, holder_id)
"""


async def find_entry_times(connection: Connection, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], datetime]:
    """Find the times of those of these entries that exist, by id and holder."""
    rows = await connection.fetch(_FIND_ENTRIES, *split_pairs(wanted))
    return {(row["id"], row["holder_id"]): row["created_at"] for row in rows}


_TAKE_FUNDING_ROLE: Final[LiteralString] = f"set local role {privileges.FUNDING_ROLE}"
_TAKE_SERVICE_ROLE: Final[LiteralString] = f"set local role {privileges.SERVICE_ROLE}"
_ADD_DEPOSITS: Final[LiteralString] = """
    insert into deposit (id, holder_id, amount_cents, created_at)
    select id, holder_id, amount_cents, $4 from unnest($1::bigint[], $2::bigint[], $3::bigint[])
        as new (id, holder_id, amount_cents)
"""


async def add_deposits(connection: Connection, entries: Sequence[LedgerEntry], now: datetime) -> None:
    """Record outside money's deposits before these entries; ``asyncpg.InsufficientPrivilegeError`` if this is no sandbox."""
    if not entries:
        return
    rows = [(entry.id, entry.holder_id, entry.amount_cents) for entry in entries]
    # Only this role may add deposits, for one statement: a batch without outside money never assumes it.
    await connection.execute(_TAKE_FUNDING_ROLE)
    await connection.execute(_ADD_DEPOSITS, *map(list, zip(*rows, strict=True)), now)
    await connection.execute(_TAKE_SERVICE_ROLE)


LEDGER_ENTRY: Final = Table(
    "ledger_entry",
    LedgerEntry,
    """
    id bigint, holder_id bigint, debit_account ledger_account, credit_account ledger_account, amount_cents bigint,
    number bigint, running_balance_cents bigint, cause_kind entry_cause, cause_id bigint, cause_state cause_state,
    created_at timestamptz
    """,
)

# Entries of accepted orders have no number: their money stays within current funds.
_ALIKE: Final = "debit_account, credit_account, cause_kind, cause_state"
_RESERVED: Final[LiteralString] = f"{_ALIKE}, number, running_balance_cents, created_at"
APPEND: Final = insert_of(
    LEDGER_ENTRY, LEDGER_ENTRY, name="ledger_entry_row", once=[f"{_RESERVED}, holder_id", _RESERVED, _ALIKE]
)
ENTRIES: Final = Fact(rank=100, inserts=(APPEND,), key=None)

REPAYMENT: Final = Table(
    "repayment", Repayment, "id bigint, holder_id bigint, source_entry_id bigint, amount_cents bigint, created_at timestamptz"
)
APPEND_REPAYMENTS: Final = insert_of(REPAYMENT, REPAYMENT, name="repayment_row")
REPAYMENTS: Final = Fact(rank=110, inserts=(APPEND_REPAYMENTS,), key=None)

# Numbers rise with instants and have no gaps: the first and the last in a span give the total, and a page is a range of them.
_READ_PAGE: Final[LiteralString] = """
    with span as materialized (
        select
            (select number from ledger_entry where holder_id = $1 and number is not null and created_at >= $2
                order by created_at limit 1) as first,
            (select number from ledger_entry where holder_id = $1 and number is not null and created_at <= $3
                order by created_at desc limit 1) as last
    )
    select greatest(last - first + 1, 0) as total_count, id, amount_cents, created_at,
        credit_account in ('available', 'reserved', 'blocked') as is_in
    from span left join ledger_entry on holder_id = $1
        and number <= last - $4::bigint and number > last - $4::bigint - $5::bigint and number >= first
    order by number desc
"""


async def read_page(pool: Pool, holder_id: int, span: Span) -> Page[Transaction]:
    final_at = span.final_at or datetime.fromisoformat("9999-12-31T00:00:00+00:00")
    if span.after is None:
        offset = min(span.position, 2**62)
    else:
        # Instants of a holder's transactions are unique, so older means earlier.
        offset, final_at = 0, min(final_at, span.after.created_at - timedelta(microseconds=1))
    rows = await pool.fetch(_READ_PAGE, holder_id, span.initial_at or _EARLIEST, final_at, offset, span.page_size)
    count: int = rows[0]["total_count"] or 0
    total_count = count if span.after is None else span.after.total_count
    found = [row for row in rows if row["id"] is not None]
    page = listing_store.make_page(span, found, total_count, has_more=offset + len(found) < count)
    transactions = [
        Transaction(
            id=row["id"],
            amount_cents=row["amount_cents"],
            direction="IN" if row["is_in"] else "OUT",
            created_at=row["created_at"],
        )
        for row in found
    ]
    return page.with_items(transactions)
