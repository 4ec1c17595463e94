"""No plan may read a holder's whole history to find one row, with any planner statistics (P18).

PostgreSQL counts the blocks that the real statements read in the transaction, so cached plans from other states of the
tables are judged as well.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast, get_args

import asyncpg
import msgspec
import pytest

from pixconnect.doors.console.wanted import Wanted
from pixconnect.features.cases import tables as case_store
from pixconnect.features.cases.rules import Difference
from pixconnect.features.finding.tables import browse as browse_store
from pixconnect.features.finding.tables import search as search_store
from pixconnect.features.finding.tables import timeline as timeline_store
from pixconnect.features.identity.tables import access as access_store
from pixconnect.features.institutions.tables import alarm as alarm_store
from pixconnect.features.institutions.tables import books as books_store
from pixconnect.features.monitoring import tables as figures_store
from pixconnect.features.pix_api import tables as pix_store
from pixconnect.features.pix_api.rules import ChargeSearch, ReceivedSearch
from pixconnect.features.pix_api.tables import LOCATIONS, search_charges
from pixconnect.features.webhooks.rules.delivery import Attempt, BacklogWalk, Conclusion, DueCursor
from pixconnect.features.webhooks.tables import delivery as delivery_store
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.features.webhooks.tables import feed as feed_store
from pixconnect.kernel.rules.charge import STATUSES, read_contents
from pixconnect.kernel.rules.ledger import Held
from pixconnect.kernel.rules.listing import Cursor, Page, Span, TransferSearch
from pixconnect.kernel.rules.location import list_statuses
from pixconnect.kernel.rules.refund import RefundStatus
from pixconnect.kernel.rules.transfer import TransferStatus
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables import order as order_store
from pixconnect.kernel.tables import origin as origin_store
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import tally as tally_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.charge import CHARGE, CHARGES, REVISIONS, ChargeRevision
from pixconnect.kernel.tables.fact import Changes
from pixconnect.kernel.tables.refund import REFUNDS
from pixconnect.kernel.tables.transfer import TRANSFERS
from pixconnect.platform.base import errors
from pixconnect.platform.pool import connect
from support.postgres import Addresses
from support.records import a_transfer, make_delivery
from support.service import FakeClock

if TYPE_CHECKING:
    from pixconnect.platform.pool import Connection, Pool

HOT = 1
ROWS_COUNT = 30_000
GROUP = range(5_000, 5_064)
STARTED_AT = FakeClock().now()
EARLIER = STARTED_AT - timedelta(days=1)
LATER = STARTED_AT + timedelta(days=1)
_ALL_HELD = Held(balances=frozenset({1, 2, 3}), statements=frozenset({1, 2, 3}))

_HOLDERS = """
    insert into holder (id, name, tax_id, city, branch, account_number, account_type, created_at)
    select n, 'Maria', '52998224725', 'Sao Paulo', '0001', n::text, 'TRANSACTIONAL', now() from generate_series(1, 3) as n;
    insert into balance (holder_id, modified_at) select id, now() from holder;
    insert into statement_head (holder_id) select id from holder;
"""
_ROWS = "(select n, $3::bigint as holder_id, $4::timestamptz + n * interval '1 s' as at from generate_series($1::int, $2) n) r"
_FILL: Final = (
    f"""insert into charge (id, holder_id, external_id, fingerprint, txid, amount_cents, key, br_code, status, slot,
        created_at, modified_at, expires_at, payer_name, payer_tax_id, is_unbound)
    select n, holder_id, 'c' || n, '', 'T' || lpad(n::text, 31, '0'), 1, 'k', 'T' || lpad(n::text, 31, '0'),
        case when n % 100 = 0 then 'PENDING' else 'EXPIRED' end, n % 256, at, at, at, 'p', (n / 8)::text,
        case when n % 1000 = 1 then true end from {_ROWS}""",
    f"""insert into charge_opening (charge_id, holder_id, institution_id, external_id, txid, state, wanted, fingerprint,
        network_txid, due_at, created_at)
    select n, holder_id, 1, 'c' || n, 'T' || lpad(n::text, 31, '0'), 'opened', '{{}}', '', 'n' || lpad(n::text, 31, '0'),
        at, at from {_ROWS}""",
    f"""insert into transfer (id, holder_id, direction, initiation_type, external_id, fingerprint, end_to_end_id,
        correlation_id, amount_cents, status, counterparty, slot, settled_at, created_at, modified_at, charge_id, network_id)
    select n, holder_id, case n % 2 when 0 then 'OUT' else 'IN' end, 'KEY', case n % 2 when 0 then 't' || n end,
        case n % 2 when 0 then ''::bytea end, 'E99999003202607011500' || lpad(n::text, 11, '0'), gen_random_uuid(), 1,
        case when n % 100 = 0 then 'PROCESSING' else 'CONFIRMED' end,
        '{{"account_number":"1","account_type":"CHECKING","branch":"1","ispb":"99999004","name":"A","tax_id":"1"}}', n % 256,
        case when n % 100 <> 0 then at end, at, at, case n % 2 when 1 then n end,
        case n % 4 when 0 then 'E99999004202607011500' || lpad(n::text, 11, '0') end from {_ROWS}""",
    f"""insert into location (id, holder_id, token, status, charge_id, created_at)
    select n, holder_id, lpad(n::text, 22, '0'), case when n % 100 = 0 then 'COB_FREE' else 'COB_BOUND' end,
        case when n % 100 <> 0 then n end, at from {_ROWS}""",
    f"""insert into charge_revision (charge_id, holder_id, revision, contents, next_digest) select n, holder_id, 7,
        '{{"lifetime_s":3600,"amount_cents":1,"key":"a@example.com"}}', '' from {_ROWS}""",
    f"""insert into refund (id, holder_id, transfer_id, flow, external_id, fingerprint, return_id, original_end_to_end_id,
        correlation_id, amount_cents, status, reason, slot, settled_at, created_at, modified_at, network_id)
    select n, holder_id, n, 'OUT', 'r' || n, '', 'D99999003202607011500' || lpad(n::text, 11, '0'), 'E', gen_random_uuid(), 1,
        case when n % 100 = 0 then 'PROCESSING' else 'RETURNED' end, 'MD06', n % 256, case when n % 100 <> 0 then at end, at,
        at, case n % 4 when 0 then 'D99999004202607011500' || lpad(n::text, 11, '0') end from {_ROWS}""",
    f"""insert into open_order (name, holder_id, resource_id, slot, ordered_at, due_at, give_up_at, handed_at)
    select 'E99999003202607011500' || lpad(n::text, 11, '0'), holder_id, n, n % 256, at, at, at,
        case when n % 128 < 64 then at end from {_ROWS}""",
    f"""insert into ledger_entry (id, holder_id, debit_account, credit_account, amount_cents, number, running_balance_cents,
        created_at, cause_kind, cause_id, cause_state)
    select n, holder_id, 'funding', 'available', 1, n, n, at, 'deposit', n, 'MADE' from {_ROWS}""",
    f"""insert into event (id, holder_id, name, resource, resource_id, slot, body, created_at)
    select n, holder_id, 'qrcode.pending', 'charge', n, n % 256, '{{}}', at from {_ROWS}""",
    f"""insert into delivery (id, holder_id, endpoint_id, event_id, resource, resource_id, slot, status, due_at,
        attempts_count, created_at, modified_at)
    select n, holder_id, 1, n, 'charge', n, n % 256, case when n % 100 = 0 then 'pending' else 'delivered' end,
        case when n % 100 = 0 then at end, 1, at, at from {_ROWS}""",
    f"""insert into event_feed (position, holder_id, event_ids)
    select n, holder_id, array[n] from {_ROWS} where at > $4""",
    f"""insert into token_failure (subject, failed_at)
    select decode(lpad((n / 10)::text, 32, '0'), 'hex'), now() - n * interval '1 ms' from {_ROWS}""",
    f"""insert into client (client_id, holder_id, name, scopes, secret_hash, created_at)
    select 'client-' || n, holder_id, 'shop', array['charge.read'], sha256(''), at from {_ROWS} where n % 100 = 0""",
    """insert into tally (holder_id, kind, status, hour, count)
    select holder_id, kind, status, date_trunc('hour', at, 'UTC'), count(*) from (
        select 'charge' as kind, holder_id, status, created_at as at from charge
        union all select 'transfer', holder_id, status, created_at from transfer
        union all select 'refund', holder_id, status, created_at from refund
        union all select 'location', holder_id, status, created_at from location
    ) as listed where holder_id = $3 and at between $4::timestamptz + $1::int * interval '1 s'
        and $4::timestamptz + $2::int * interval '1 s'
    group by 1, 2, 3, 4
    on conflict (holder_id, kind, status, hour) do update set count = tally.count + excluded.count""",
    """insert into received_hour (holder_id, hour, count)
    select holder_id, date_trunc('hour', settled_at, 'UTC'), count(*) from transfer
    where holder_id = $3 and direction = 'IN' and settled_at between $4::timestamptz + $1::int * interval '1 s'
        and $4::timestamptz + $2::int * interval '1 s'
    group by 1, 2 on conflict (holder_id, hour) do update set count = received_hour.count + excluded.count""",
    f"""insert into kept_case (kind, name, facts, since, ended_at, ended_as)
    select 'report', n::text, 'x', at, case when n % 100 <> 0 then at end, case when n % 100 <> 0 then 'recorded' end
    from {_ROWS} where holder_id is not null""",
    """update holder set institution_id = 1
    where id = $3 and $1::int <= $2::int and $4::timestamptz is not null""",
    f"""insert into received_known (holder_id, until) select distinct holder_id, $4 + interval '1 day' from {_ROWS}
    on conflict (holder_id) do nothing""",
)
_BLOCKS: Final = """
    select coalesce(sum(pg_stat_get_xact_blocks_fetched(oid)), 0)::bigint from pg_class
    where relnamespace = 'pixconnect'::regnamespace and relkind in ('r', 'i')
"""

Statement = Callable[["Connection"], Awaitable[object]]


def a_pool(connection: "Connection") -> "Pool":
    return cast("Pool", connection)


class OneConnection:
    """A pool of one connection that has a transaction open already."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator["OneConnection"]:
        yield self

    @asynccontextmanager
    async def transaction(self, **_: object) -> AsyncIterator[None]:
        yield

    async def fetch(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        return await self._connection.fetch(statement, *arguments)

    async def fetchval(self, statement: str, *arguments: object) -> object:
        return await self._connection.fetchval(statement, *arguments)


def listing(read: Callable[["Pool", Span], Awaitable[object]], span: Span) -> Statement:
    return lambda connection: read(cast("Pool", OneConnection(connection)), span)


def searching(search: TransferSearch, span: Span) -> Statement:
    read = transfer_store.filter_page if search.is_filtered else transfer_store.search_page
    return listing(lambda pool, span: read(pool, HOT, search, span), span)


def too_many(search: TransferSearch) -> Statement:
    async def read(pool: "Pool", span: Span) -> None:
        # Where the tables are small, it is no refusal but an answer.
        with suppress(errors.BadRequest):
            await transfer_store.filter_page(pool, HOT, search, span)

    return listing(read, Span())


PAIRS = [(n, HOT) for n in GROUP]
EVEN = [n for n in GROUP if n % 2 == 0]
ODD = [n for n in GROUP if n % 2 == 1]
PAGE = Span(page=1, page_size=64)
DEEP_PAGE = Span(page=200, page_size=64)
DEEP_RECEIVED = Span(page=100, page_size=64)
DEEP_CURSOR = Span(
    page_size=64,
    after=Cursor(created_at=STARTED_AT + timedelta(seconds=17_200), id=17_200, position=12_800, total_count=ROWS_COUNT),
)
MIDDLE = STARTED_AT + timedelta(seconds=9_000)
SPAN = Span(page=1, page_size=64, initial_at=MIDDLE, final_at=MIDDLE + timedelta(seconds=100))


def end_to_end_id(n: int) -> str:
    return f"E99999003202607011500{n:011}"


def return_id(n: int) -> str:
    return f"D99999003202607011500{n:011}"


def network_id(letter: str, n: int) -> str:
    return f"{letter}99999004202607011500{n:011}"


NAMES = [end_to_end_id(n) for n in GROUP]
NETWORK_IDS = {letter: [network_id(letter, n) for n in GROUP if n % 4 == 0] for letter in "ED"}


async def change_all(connection: "Connection") -> None:
    """The statements of a batch of settlements, on 64 rows of each kind."""
    changes = Changes()
    for charge in (await charge_store.lock(connection, PAIRS))[0].values():
        changes.move(CHARGES, charge, charge)
    for transfer in (await transfer_store.lock_by_id(connection, PAIRS)).values():
        changes.move(TRANSFERS, transfer, transfer)
    for refund in (await refund_store.lock(connection, [(return_id(n), HOT) for n in GROUP], "OUT")).values():
        changes.move(REFUNDS, refund, refund)
    await changes.write_all(connection)


async def confirm_alike(connection: "Connection") -> None:
    """The same on transfers of one holder, which it leaves alike."""
    changes = Changes()
    for n in GROUP:
        transfer = a_transfer(id=n, holder_id=HOT, status="CONFIRMED", settled_at=STARTED_AT + timedelta(seconds=n))
        if n % 100 != 0:
            changes.move(TRANSFERS, transfer, transfer)
    # The statement is for existing rows, and its plan is made when there are none.
    with suppress(errors.InvariantBroken):
        await changes.write_all(connection)


async def revise_all(connection: "Connection") -> None:
    """The statements of a batch of revisions, which gives each of 64 charges another location."""
    changes = Changes()
    for charge in (await charge_store.lock_by_txid(connection, [(f"T{n:031}", HOT) for n in GROUP]))[0].values():
        revised = msgspec.structs.replace(charge, contents=read_contents(charge), revision=(charge.revision or 0) + 1)
        changes.move(CHARGES, charge, revised)
        before = ChargeRevision(
            charge_id=charge.id, holder_id=HOT, revision=0, contents=read_contents(charge), next_digest=bytes(32)
        )
        changes.put(REVISIONS, before)
    for location in (await pix_store.lock_locations(connection, PAIRS)).values():
        changes.move(LOCATIONS, location, location)
    await changes.write_all(connection)


async def name_orders(connection: "Connection") -> None:
    """The statements that record the network's ids of 32 transfers."""
    unnamed = [transfer for transfer in (await transfer_store.lock_by_id(connection, PAIRS)).values() if transfer.id % 4 == 2]
    told = [(transfer, network_id("E", 10**6 + transfer.id)) for transfer in unnamed]
    wanted = [(name, transfer.amount_cents) for transfer, name in told]
    assert await order_store.find_taken_ids(connection, wanted) == set()
    await order_store.name_all(connection, told, STARTED_AT)


async def refuse_payments(connection: "Connection") -> None:
    """The statements of a batch of refused payments: for each it is checked that its entries do not exist."""
    changes = Changes()
    for transfer in (await transfer_store.lock_by_id(connection, PAIRS)).values():
        name = f"E99999004{transfer.end_to_end_id[9:]}"
        refused = {
            "status": "ERROR", "outcome_code": "X", "direction": "IN", "external_id": None, "fingerprint": None,
            "charge_id": None,
        }  # fmt: skip
        changes.put(
            TRANSFERS, msgspec.structs.replace(transfer, id=transfer.id + 10**6, end_to_end_id=name, settled_at=None, **refused)
        )
    await changes.write_all(connection)


PENDING = [make_delivery(id=n, event_id=n, resource_id=n, slot=n % 256) for n in range(5_000, 11_400, 100)]


async def record_attempts(connection: "Connection") -> None:
    """Record the results of 64 pending deliveries of 300."""
    attempt = Attempt(number=1, started_at=LATER, status_code=200, duration_us=1, response="", error=None)
    done = [
        Conclusion(
            delivery=due, attempt=attempt, status="delivered", due_at=None, failures_count=0, ended_at=LATER,
            is_gone=False,
        )
        for due in PENDING
    ]  # fmt: skip
    assert await delivery_store.record(connection, dict.fromkeys(range(64), 0), done, [1])


async def read_timeline(connection: "Connection") -> None:
    """The statements of the timeline of a charge that was paid and returned."""
    pool = a_pool(connection)
    charge = await timeline_store.find_charge(pool, 5_001, None)
    if charge is None:
        return
    transfers = await timeline_store.find_transfers_to(pool, charge)
    assert [transfer.charge_id for transfer in transfers] == [5_001]
    refunds = await timeline_store.find_refunds(pool, HOT, [5_001])
    await timeline_store.find_ledger_entries(pool, HOT, transfers, refunds)
    await timeline_store.find_open_orders(pool, [end_to_end_id(5_001), return_id(5_001)])
    events = await timeline_store.find_events(pool, HOT, [charge.created_at], ["charge"], [5_001])
    deliveries = await timeline_store.find_deliveries(pool, [1], events)
    assert (len(refunds), len(events), len(deliveries)) == (1, 1, 1)


def looking_back(lookback: browse_store.Lookback, holder_id: int | None, *names: str) -> Statement:
    before = browse_store.BrowsePosition(at=STARTED_AT + timedelta(seconds=17_200), id=17_200)
    whose = None if holder_id is None else [holder_id]
    return lambda c: browse_store.look_back(c, lookback, whose, Wanted(amount_min_cents=1), names, before, 64, 20)


STANDING = [
    Difference(kind="report", institution_id=None, name=str(n), amount_cents=None, facts="x", since=STARTED_AT)
    for n in range(100, ROWS_COUNT + 1, 100)
]


STATEMENTS: Final[dict[str, Statement]] = {
    "cases that stand": lambda c: case_store.keep(c, ("report",), None, EARLIER, STANDING),
    "clients that log in": lambda c: access_store.find_logging_in(
        a_pool(c), [bytes(15) + bytes([n]) for n in range(8)], [f"client-{n}00" for n in range(50, 60)], 60, 10
    ),
    "how long the newest took": lambda c: figures_store.read_settling(a_pool(c), HOT, MIDDLE, LATER),
    "how long the newest took, of all holders": lambda c: figures_store.read_settling(a_pool(c), None, MIDDLE, LATER),
    "why the newest failed": lambda c: figures_store.read_reasons(a_pool(c), HOT, MIDDLE, LATER),
    "charges looked back through": looking_back(browse_store.CHARGES, HOT, *STATUSES),
    "charges looked back through, of all holders": looking_back(browse_store.CHARGES, None, *STATUSES),
    "transfers looked back through": looking_back(browse_store.TRANSFERS, HOT, *get_args(TransferStatus)),
    "transfers looked back through, of all holders": looking_back(browse_store.TRANSFERS, None, "CONFIRMED"),
    "refunds looked back through": looking_back(browse_store.REFUNDS, HOT, *get_args(RefundStatus)),
    "refunds looked back through, of all holders": looking_back(browse_store.REFUNDS, None, "RETURNED"),
    "events looked back through": looking_back(browse_store.EVENTS, HOT, "qrcode.pending"),
    "events looked back through, of all holders": looking_back(browse_store.EVENTS, None, "qrcode.pending"),
    "deliveries looked back through": lambda c: browse_store.look_back_at_deliveries(
        c,
        [1, 2],
        Wanted(event_types=("qrcode.pending",)),
        ["delivered"],
        browse_store.BrowsePosition(at=LATER, id=17_200),
        64,
        20,
    ),
    "charges listed, of several statuses, far down": listing(
        lambda pool, span: listing_store.read_page(
            pool, listing_store.source_of_statuses("charge", CHARGE.select), HOT, list(STATUSES), span
        ),
        DEEP_PAGE,
    ),
    "what waits for endpoints": lambda c: endpoint_store.read_backlogs(a_pool(c), [1, 2], 100),
    "a line of time": read_timeline,
    "a transfer of any holder": lambda c: timeline_store.find_transfer(a_pool(c), 5_000, None),
    "a refund of any holder": lambda c: timeline_store.find_refund(a_pool(c), 5_000, None),
    "a delivery of any holder": lambda c: timeline_store.find_delivery(a_pool(c), 5_000, None),
    "the feed from a position": lambda c: feed_store.read_rows(a_pool(c), HOT, 5_000, 64),
    "events of the feed": lambda c: feed_store.read_events(a_pool(c), HOT, list(GROUP), 64, None, None, None),
    "events of the feed, filtered": lambda c: feed_store.read_events(
        a_pool(c), HOT, list(GROUP), 64, ["qrcode.pending"], "charge", [("charge", 5_001)]
    ),
    "what an event is about": lambda c: feed_store.find_resources(a_pool(c), HOT, "t5000", 5_000),
    "what events are about": lambda c: charge_store.find_by_ids(a_pool(c), HOT, GROUP),
    "what paid charges": lambda c: transfer_store.find_all_paying(a_pool(c), HOT, GROUP),
    "charges by external id": lambda c: charge_store.find_external(c, [(f"c{n}", HOT) for n in GROUP]),
    "charges locked by txid": lambda c: charge_store.lock_by_txid(c, [(f"T{n:031}", HOT) for n in GROUP]),
    "charges locked beside lots": lambda c: pix_store.lock_charges(c, [(f"T{n:031}", HOT) for n in GROUP]),
    "charges locked by id": lambda c: charge_store.lock(c, PAIRS),
    "a charge by id": lambda c: charge_store.find_by_id(a_pool(c), HOT, 5_000),
    "a charge by external id": lambda c: charge_store.find_by_external_id(a_pool(c), HOT, "c5000"),
    "a charge by txid": lambda c: charge_store.find_by_txid(a_pool(c), HOT, f"T{5000:031}"),
    "charges of the contract by txid": lambda c: charge_store.find_of_contract(c, [f"T{n:031}" for n in GROUP]),
    "charges at txids": lambda c: charge_store.find_served(a_pool(c), [f"T{n:031}" for n in GROUP]),
    "charges at locations": lambda c: charge_store.find_served(a_pool(c), [f"{n:022}" for n in GROUP]),
    "the charge at a location": lambda c: charge_store.find_served(a_pool(c), [f"{5000:022}"]),
    "charges past their time": lambda c: charge_store.find_expired(a_pool(c), list(range(256)), LATER, 64),
    "charges listed": listing(lambda pool, span: charge_store.read_page(pool, HOT, "EXPIRED", span), PAGE),
    "charges listed, a rare status": listing(lambda pool, span: charge_store.read_page(pool, HOT, "PENDING", span), PAGE),
    "charges listed, far down": listing(lambda pool, span: charge_store.read_page(pool, HOT, "EXPIRED", span), DEEP_PAGE),
    "charges listed by cursor, far down": listing(
        lambda pool, span: charge_store.read_page(pool, HOT, "EXPIRED", span), DEEP_CURSOR
    ),
    "charges listed by cursor, a rare status": listing(
        lambda pool, span: charge_store.read_page(pool, HOT, "PENDING", span), DEEP_CURSOR
    ),
    "charges listed, of a span": listing(lambda pool, span: charge_store.read_page(pool, HOT, "EXPIRED", span), SPAN),
    "charges listed, of several statuses": listing(
        lambda pool, span: charge_store.read_page_of(pool, HOT, ["PENDING", "EXPIRED", "APPROVED"], span), PAGE
    ),
    "charges listed, of several statuses, of a span": listing(
        lambda pool, span: charge_store.read_page_of(pool, HOT, ["PENDING", "EXPIRED"], span), SPAN
    ),
    "charges of a debtor": listing(
        lambda pool, span: search_charges(pool, HOT, ChargeSearch(statuses=["EXPIRED"], tax_id="500"), span), PAGE
    ),
    "charges that no code leads to": listing(
        lambda pool, span: search_charges(pool, HOT, ChargeSearch(statuses=["EXPIRED"], is_placed=False), span), PAGE
    ),
    "charges that a code leads to": listing(
        lambda pool, span: search_charges(pool, HOT, ChargeSearch(statuses=["EXPIRED"], is_placed=True), span), PAGE
    ),
    "what left an account of late": lambda c: alarm_store.sum_out(a_pool(c), 1, STARTED_AT + timedelta(days=365)),
    "the books of an account": lambda c: books_store.read_books(
        a_pool(c), 1, STARTED_AT + timedelta(seconds=ROWS_COUNT - 30), tells_fees_later=True
    ),
    "strays of an account": lambda c: alarm_store.count_strays(a_pool(c), 1, STARTED_AT + timedelta(days=365)),
    "locations of charges": lambda c: pix_store.find_locations_of_charges(c, PAIRS),
    "locations locked": lambda c: pix_store.lock_locations(c, PAIRS),
    "a location": lambda c: pix_store.find_location(a_pool(c), HOT, 5_000),
    "locations listed": listing(
        lambda pool, span: pix_store.read_locations(pool, HOT, list_statuses(None, is_bound=None), span), PAGE
    ),
    "locations listed, far down": listing(
        lambda pool, span: pix_store.read_locations(pool, HOT, ["COB_BOUND"], span), DEEP_PAGE
    ),
    "a revision of a charge": lambda c: charge_store.find_revision(a_pool(c), HOT, 5_000, 7),
    "transfers by external id": lambda c: transfer_store.find_external(c, [(f"t{n}", HOT) for n in GROUP]),
    "transfers received": lambda c: transfer_store.find_received(c, [end_to_end_id(n) for n in GROUP]),
    "transfers locked by id": lambda c: transfer_store.lock_by_id(c, PAIRS),
    "transfers by the network's id": lambda c: transfer_store.find_named(a_pool(c), NETWORK_IDS["E"], "OUT"),
    "a transfer by the network's id": lambda c: transfer_store.find_by_end_to_end_id(a_pool(c), HOT, NETWORK_IDS["E"][0]),
    "charges of transfers": lambda c: transfer_store.find_charge_ids(c, [end_to_end_id(n) for n in ODD]),
    "transfers by name": lambda c: transfer_store.find_named(a_pool(c), [end_to_end_id(n) for n in EVEN], "OUT"),
    "a transfer by id": lambda c: transfer_store.find_by_id(a_pool(c), HOT, 5_000),
    "a transfer by external id": lambda c: transfer_store.find_by_external_id(a_pool(c), HOT, "t5000"),
    "a transfer by name": lambda c: transfer_store.find_by_end_to_end_id(a_pool(c), HOT, end_to_end_id(5_000)),
    "the transfer that paid a charge": lambda c: transfer_store.find_paying(a_pool(c), HOT, 5_001),
    "payments accepted": lambda c: transfer_store.find_accepted(a_pool(c), LATER, HOT, end_to_end_id(5_001), 64),
    "payments accepted, counted": lambda c: transfer_store.count_accepted(a_pool(c), LATER, 64),
    "anything by an external id": lambda c: search_store.find_by_any_id(a_pool(c), "t5000", None, "t5000", 100),
    "anything by the beginning of an external id": lambda c: search_store.find_by_external_beginning(a_pool(c), "t50", 5),
    "the names of charges": lambda c: browse_store.read_charge_names(a_pool(c), GROUP, [HOT] * len(GROUP)),
    "anything by a number": lambda c: search_store.find_by_any_id(a_pool(c), "5000", 5000, "5000", 100),
    "anything by a name": lambda c: search_store.find_by_any_id(a_pool(c), return_id(5_000), None, "r", 100),
    "anything by the network's id": lambda c: search_store.find_by_any_id(a_pool(c), NETWORK_IDS["E"][0], None, "n", 100),
    "anything by a static code's reference": lambda c: search_store.find_by_any_id(a_pool(c), "r" * 25, None, "r", 100),
    "anything by the institution's own txid": lambda c: search_store.find_by_any_id(a_pool(c), f"n{5000:031}", None, "n", 100),
    "anything by half a name": lambda c: search_store.find_by_beginning(a_pool(c), end_to_end_id(5_000)[:-2], 100),
    "anything by half a name, of one holder": lambda c: search_store.find_by_beginning(
        a_pool(c), return_id(5_000)[:-2], 100, HOT
    ),
    "anything by an id that nothing has": lambda c: search_store.find_by_any_id(a_pool(c), "nothing", None, "n", 100),
    "holders by a tax id": lambda c: search_store.find_holders(a_pool(c), "5", "12345678000195", 100, 1_000),
    "what a request made": lambda c: origin_store.list_of_request(
        a_pool(c), "r5", EARLIER, None, looked_at_max=100, count_max=10
    ),
    "what a request of late made": lambda c: origin_store.list_of_request(
        a_pool(c), "r5", None, HOT, looked_at_max=100, count_max=10
    ),
    "orders due": lambda c: order_store.find_due(a_pool(c), list(range(256)), EARLIER, LATER, 64),
    "oldest orders": lambda c: order_store.find_oldest(a_pool(c)),
    "orders locked": lambda c: order_store.lock(c, NAMES),
    "orders marked": lambda c: order_store.mark_handed(c, {0: 0, 1: 0}, NAMES, STARTED_AT, STARTED_AT),
    "orders postponed": lambda c: order_store.postpone(c, dict.fromkeys(NAMES, STARTED_AT)),
    "orders unmarked": lambda c: order_store.unmark(c, NAMES, STARTED_AT, STARTED_AT),
    "transfers listed": listing(lambda pool, span: transfer_store.read_page(pool, HOT, "CONFIRMED", span), PAGE),
    "transfers listed, far down": listing(lambda pool, span: transfer_store.read_page(pool, HOT, "CONFIRMED", span), DEEP_PAGE),
    "transfers listed by cursor, far down": listing(
        lambda pool, span: transfer_store.read_page(pool, HOT, "CONFIRMED", span), DEEP_CURSOR
    ),
    "transfers searched": searching(TransferSearch(), PAGE),
    "transfers searched, far down": searching(TransferSearch(), DEEP_PAGE),
    "transfers searched by cursor, far down": searching(TransferSearch(), DEEP_CURSOR),
    "transfers searched, of a span": searching(TransferSearch(), SPAN),
    "transfers searched, a rare status": searching(TransferSearch(status="PROCESSING"), PAGE),
    "transfers searched, a status that none has": searching(TransferSearch(status="ERROR"), PAGE),
    "transfers searched by key, of a span": searching(TransferSearch(key="nobody's"), SPAN),
    "transfers searched by direction, of a span": searching(TransferSearch(direction="IN", status="PROCESSING"), SPAN),
    "transfers searched by amount, tax id and a part, of a span": searching(
        TransferSearch(amount_cents=7, tax_id="52998224725", end_to_end_id_part="zz"), SPAN
    ),
    "transfers searched by txid, too many": too_many(TransferSearch(txid="t")),
    "received Pix listed": listing(lambda pool, span: pix_store.read_received_page(pool, HOT, span), PAGE),
    "received Pix listed, far down": listing(lambda pool, span: pix_store.read_received_page(pool, HOT, span), DEEP_RECEIVED),
    "received Pix listed, of a span": listing(lambda pool, span: pix_store.read_received_page(pool, HOT, span), SPAN),
    "received Pix looked for, of a span": listing(
        lambda pool, span: pix_store.read_searched_page(pool, HOT, ReceivedSearch(has_refunds=True), span), SPAN
    ),
    "received Pix of a charge's txid": listing(
        lambda pool, span: pix_store.read_searched_page(pool, HOT, ReceivedSearch(txid=f"T{5001:031}"), span), PAGE
    ),
    "received Pix of a txid that nothing has": listing(
        lambda pool, span: pix_store.read_searched_page(pool, HOT, ReceivedSearch(txid="PEDIDO1"), span), PAGE
    ),
    "hours counted that are known": lambda c: pix_store.count_hours(a_pool(c), HOT, STARTED_AT),
    "refunds of Pix": lambda c: refund_store.find_of_transfers(a_pool(c), PAIRS),
    "refunds by external id": lambda c: refund_store.find_external(c, [(f"r{n}", HOT) for n in GROUP]),
    "refunds locked by name": lambda c: refund_store.lock(c, [(return_id(n), HOT) for n in GROUP], "OUT"),
    "refunds by the network's id": lambda c: refund_store.find_named(a_pool(c), NETWORK_IDS["D"], "OUT"),
    "refunds locked by id": lambda c: refund_store.lock_by_id(c, PAIRS),
    "refunds by name": lambda c: refund_store.find_named(a_pool(c), [return_id(n) for n in GROUP], "OUT"),
    "a refund by id": lambda c: refund_store.find_by_id(a_pool(c), HOT, 5_000),
    "a refund by external id": lambda c: refund_store.find_by_external_id(a_pool(c), HOT, "r5000"),
    "a refund by name": lambda c: refund_store.find_by_return_id(a_pool(c), HOT, return_id(5_000)),
    "refunds listed": listing(lambda pool, span: refund_store.read_page(pool, HOT, None, span), PAGE),
    "refunds listed, one status": listing(lambda pool, span: refund_store.read_page(pool, HOT, "RETURNED", span), PAGE),
    "refunds listed, far down": listing(lambda pool, span: refund_store.read_page(pool, HOT, None, span), DEEP_PAGE),
    "refunds listed by cursor, far down": listing(
        lambda pool, span: refund_store.read_page(pool, HOT, None, span), DEEP_CURSOR
    ),
    "refunds listed by cursor, one status": listing(
        lambda pool, span: refund_store.read_page(pool, HOT, "PROCESSING", span), DEEP_CURSOR
    ),
    "what was sent today": lambda c: tally_store.read_spent(c, HOT, (MIDDLE, LATER), None),
    "balances": lambda c: ledger_store.lock_balances(c, _ALL_HELD),
    "ledger entries": lambda c: ledger_store.find_entry_times(c, PAIRS),
    "transactions": lambda c: ledger_store.read_page(a_pool(c), HOT, PAGE),
    "transactions, far down": lambda c: ledger_store.read_page(a_pool(c), HOT, DEEP_PAGE),
    "transactions by cursor, far down": lambda c: ledger_store.read_page(a_pool(c), HOT, DEEP_CURSOR),
    "transactions of a span": lambda c: ledger_store.read_page(a_pool(c), HOT, SPAN),
    "deliveries due": lambda c: delivery_store.read_due(a_pool(c), DueCursor(due_at=MIDDLE), LATER, range(256), 64, [0]),
    "a backlog": lambda c: delivery_store.read_backlog(
        a_pool(c), 1, BacklogWalk(after_resource_id=5_000), range(256), LATER, 64
    ),
    "a backlog from its first": lambda c: delivery_store.read_backlog(a_pool(c), 1, BacklogWalk(), range(256), LATER, 64),
    "deliveries that come next": lambda c: delivery_store.read_followers(a_pool(c), PENDING, LATER),
    "attempts recorded": record_attempts,
    "orders named": name_orders,
    "charges revised": revise_all,
    "everything changed": change_all,
    "transfers of one holder changed alike": confirm_alike,
    "payments refused": refuse_payments,
}
BLOCKS_MAX: Final = 64 * 9
"""For 64 rows: down an index of two or three levels and to the row, twice where it is locked, past versions that the tests left
behind. The smallest of the tables has more blocks."""
WRITTEN_BLOCKS_MAX: Final = 64 * 130  # for writes to three tables: each row goes to a new place, and into every index
DUE_BLOCKS_MAX: Final = 256 * 8  # for due rows in 256 slots: an index walk for each of them, as in PostgreSQL 16
BLOCKS_MAX_OF: Final = (
    dict.fromkeys(("orders named", "charges revised", "everything changed", "payments refused"), WRITTEN_BLOCKS_MAX)
    | dict.fromkeys(("charges past their time", "orders due", "deliveries due"), DUE_BLOCKS_MAX)
    # Each is looked for by its name, and all that are open are gone through once.
    | {"cases that stand": len(STANDING) * 12}
    # In three tables.
    | {"transfers received": 64 * 12}
    # Up to 100 rows, each found by its name and read with its party, a refund's from the transfer that it returns.
    | dict.fromkeys(("anything by half a name", "anything by half a name, of one holder"), 100 * 12)
    # An endpoint's newest deliveries are looked at for those of old events, up to a bound.
    | {"a line of time": 2 * timeline_store.NEWEST_LOOKED_AT_MAX}
    | dict.fromkeys(
        ("deliveries sent again", "deliveries that are pending, sent again", "transfers of one holder changed alike"),
        WRITTEN_BLOCKS_MAX // 3,
    )
    | dict.fromkeys(("orders postponed", "orders unmarked"), WRITTEN_BLOCKS_MAX // 8)
    # With the transfers.
    | {"orders marked": WRITTEN_BLOCKS_MAX // 8 + BLOCKS_MAX}
    # In two tables: 16 blocks a row where they lie well. A walk through all deliveries would come to more.
    | {"attempts recorded": 64 * 18}
)


async def fill(owner: "Connection", first: int, last: int, holder_id: int) -> None:
    async with owner.transaction():
        await owner.execute("set local session_replication_role = replica")  # neither triggers nor foreign keys
        for statement in _FILL:
            await owner.execute(statement, first, last, holder_id, STARTED_AT)


async def count_blocks(connection: "Connection", statement: Statement, *, times: int = 1) -> int:
    fetched = 0
    for _ in range(times):
        transaction = connection.transaction()
        await transaction.start()
        before: int = await connection.fetchval(_BLOCKS)
        await statement(connection)
        fetched = await connection.fetchval(_BLOCKS) - before
        await transaction.rollback()
    return fetched


async def find_wasteful(connection: "Connection", *, times: int) -> dict[str, int]:
    counted = {name: await count_blocks(connection, statement, times=times) for name, statement in STATEMENTS.items()}
    return {name: blocks for name, blocks in counted.items() if blocks > BLOCKS_MAX_OF.get(name, BLOCKS_MAX)}


@asynccontextmanager
async def open_tables(database: Addresses) -> AsyncIterator[tuple["Connection", Callable[..., Awaitable["Connection"]]]]:
    """The owner's connection, with three holders made, and a way to more of the service's."""
    opened: list[asyncpg.Connection[asyncpg.Record]] = []

    async def open_one(role: str | None = "pixconnect_service", *, plans_once: bool = False) -> "Connection":
        url = database.owner_url if role is None else database.service_url
        connection = await connect(url, role=role, schema="pixconnect", name="test", plans_once=plans_once)
        opened.append(connection)
        return connection

    owner = await open_one(None)
    await owner.execute(_HOLDERS)
    try:
        yield owner, open_one
    finally:
        for connection in opened:
            await connection.close()


# From the sixth time on the plan is kept; as the worker's connections are set, from the first.
@pytest.mark.long
@pytest.mark.parametrize(("plans_once", "kept_after"), [(False, 6), (True, 1)])
async def test_plans_of_empty_tables_serve_full(new_database: Addresses, *, plans_once: bool, kept_after: int) -> None:
    async with open_tables(new_database) as (owner, open_one):
        early = await open_one(plans_once=plans_once)
        for statement in STATEMENTS.values():
            await count_blocks(early, statement, times=kept_after)
        await fill(owner, 1, ROWS_COUNT, HOT)
        assert await find_wasteful(early, times=1) == {}
        assert await find_wasteful(await open_one(plans_once=plans_once), times=kept_after + 1) == {}
        await owner.execute("analyze")
        assert await find_wasteful(early, times=1) == {}
        assert await find_wasteful(await open_one(plans_once=plans_once), times=kept_after + 1) == {}


@pytest.mark.long
async def test_plans_made_from_the_first_statistics_serve_a_holder_who_grew(new_database: Addresses) -> None:
    async with open_tables(new_database) as (owner, open_one):
        # Autovacuum looks at a table for the first time when it has 50 rows.
        for holder_id in (1, 2, 3):
            await fill(owner, holder_id * 20 - 19, holder_id * 20, holder_id)
        await owner.execute("analyze")
        early = await open_one()
        for statement in STATEMENTS.values():
            await count_blocks(early, statement, times=6)
        await fill(owner, 61, ROWS_COUNT, HOT)
        assert await find_wasteful(early, times=1) == {}
        assert await find_wasteful(await open_one(), times=7) == {}


async def test_a_plan_made_on_a_young_table_finds_transfers_that_change_by_their_ids(new_database: Addresses) -> None:
    # A walk through all of them reads as many blocks, and more with more rows.
    async with open_tables(new_database) as (_, open_one):
        connection = await open_one()
        await count_blocks(connection, confirm_alike, times=7)
        kept = await connection.fetchrow("""
            select name, cardinality(parameter_types) as parameters_count from pg_prepared_statements
            where statement like 'with transfer_change%' and generic_plans > 0
        """)
        assert kept is not None
        nulls = ", ".join(["null"] * kept["parameters_count"])
        plan = [row[0] for row in await connection.fetch(f'explain execute "{kept["name"]}" ({nulls})')]
        looks = [condition for scan, condition in pairwise(plan) if " on transfer " in scan and "Index Cond" in condition]
        assert ["(id = " in look for look in looks] == [True], plan


@pytest.mark.long
@pytest.mark.parametrize("page_size", [7, 1000])
async def test_totals_and_pages_are_the_same_as_counted(new_database: Addresses, page_size: int) -> None:
    async with open_tables(new_database) as (owner, _):
        await fill(owner, 1, 9_000, HOT)
        for initial_s, final_s in ((0, 99_999), (1_799, 5_401), (3_599, 3_601), (40, 50), (50, 40)):
            initial_at = STARTED_AT + timedelta(seconds=initial_s)
            final_at = STARTED_AT + timedelta(seconds=final_s)
            wanted = [n for n in range(min(final_s, 9_000), max(initial_s, 1) - 1, -1) if n % 100 != 0]
            pages_count = -(-len(wanted) // page_size)
            for page in {1, 2, max(pages_count - 1, 1), max(pages_count, 1), pages_count + 1}:
                span = Span(page=page, page_size=page_size, initial_at=initial_at, final_at=final_at)
                found = await charge_store.read_page(cast("Pool", OneConnection(owner)), HOT, "EXPIRED", span)
                assert found.total_count == len(wanted)
                assert [charge.id for charge in found.items] == wanted[(page - 1) * page_size : page * page_size]


@pytest.mark.long
@pytest.mark.parametrize("page_size", [7, 1000])
async def test_a_search_has_the_totals_and_pages_that_are_counted(new_database: Addresses, page_size: int) -> None:
    searches: list[tuple[TransferSearch, Callable[[int], bool]]] = [
        (TransferSearch(), lambda _: True),
        (TransferSearch(status="PROCESSING"), lambda n: n % 100 == 0),
        (TransferSearch(direction="IN"), lambda n: n % 2 == 1),
        (TransferSearch(end_to_end_id_part=end_to_end_id(7_777)[-4:].lower()), lambda n: n % 10_000 == 7_777),
        (TransferSearch(direction="OUT", status="CONFIRMED"), lambda n: n % 2 == 0 and n % 100 != 0),
    ]
    async with open_tables(new_database) as (owner, _):
        await fill(owner, 1, 9_000, HOT)
        pool = cast("Pool", OneConnection(owner))
        for search, is_wanted in searches:
            read = transfer_store.filter_page if search.is_filtered else transfer_store.search_page
            for initial_s, final_s in ((0, 99_999), (1_799, 5_401), (40, 250), (50, 40)):
                initial_at = STARTED_AT + timedelta(seconds=initial_s)
                final_at = STARTED_AT + timedelta(seconds=final_s)
                wanted = [n for n in range(min(final_s, 9_000), max(initial_s, 1) - 1, -1) if is_wanted(n)]
                pages_count = -(-len(wanted) // page_size)
                for page in {1, 2, max(pages_count, 1), pages_count + 1}:
                    span = Span(page=page, page_size=page_size, initial_at=initial_at, final_at=final_at)
                    found = await read(pool, HOT, search, span)
                    assert found.total_count == len(wanted)
                    assert [item.id for item in found.items] == wanted[(page - 1) * page_size : page * page_size]
                    if found.next is not None:
                        after = msgspec.structs.replace(span, page=1, after=found.next)
                        rest = await read(pool, HOT, search, after)
                        assert [item.id for item in rest.items] == wanted[page * page_size : (page + 1) * page_size]


@pytest.mark.long
@pytest.mark.parametrize("known_s", [None, 3_600, 86_400])
async def test_what_was_received_has_its_totals_and_pages(new_database: Addresses, known_s: int | None) -> None:
    async with open_tables(new_database) as (owner, _):
        await fill(owner, 1, 9_000, HOT)
        # Hours that are not known yet are counted from the index.
        until = None if known_s is None else STARTED_AT + timedelta(seconds=known_s)
        await owner.execute("delete from received_known where $1::timestamptz is null", until)
        await owner.execute("update received_known set until = $1", until)
        await owner.execute("delete from received_hour where hour >= coalesce($1::timestamptz, '-infinity')", until)
        for initial_s, final_s in ((-9_999, 99_999), (1_799, 5_401), (3_599, 3_601), (3_600, 7_199), (40, 250), (50, 40)):
            span = Span(
                page_size=7,
                initial_at=STARTED_AT + timedelta(seconds=initial_s),
                final_at=STARTED_AT + timedelta(seconds=final_s),
            )
            wanted = [n for n in range(min(final_s, 9_000), max(initial_s, 1) - 1, -1) if n % 2 == 1]
            found = await pix_store.read_received_page(cast("Pool", OneConnection(owner)), HOT, span)
            assert found.total_count == len(wanted)
            assert [item.id for item in found.items] == wanted[:7]


@pytest.mark.long
async def test_a_page_by_cursor_reads_the_same_at_any_depth(new_database: Addresses) -> None:
    async with open_tables(new_database) as (owner, open_one):
        await fill(owner, 1, ROWS_COUNT, HOT)
        await owner.execute("analyze")
        connection = await open_one()
        kinds: list[Callable[[Pool, Span], Awaitable[Page[Any]]]] = [
            lambda pool, span: charge_store.read_page(pool, HOT, "EXPIRED", span),
            lambda pool, span: transfer_store.read_page(pool, HOT, "CONFIRMED", span),
            lambda pool, span: refund_store.read_page(pool, HOT, None, span),
        ]
        for read in kinds:
            blocks: list[int] = []
            for seen_count in (64, 15_000, 29_000):
                last = ROWS_COUNT - seen_count
                after = Cursor(
                    created_at=STARTED_AT + timedelta(seconds=last), id=last, position=seen_count, total_count=ROWS_COUNT
                )
                span = Span(page_size=64, after=after)
                page = await read(cast("Pool", OneConnection(connection)), span)
                assert [item.id for item in page.items][:1] == [last - 1]
                assert page.next is not None
                blocks.append(await count_blocks(connection, listing(read, span), times=7))
            assert max(blocks) <= 2 * 64, blocks


async def test_orders_due_over_our_own_rail_are_found_by_their_own_index(new_database: Addresses) -> None:
    async with open_tables(new_database) as (owner, _):
        await fill(owner, 1, 9_000, HOT)
        await owner.execute("analyze open_order")
        pool = cast("Pool", OneConnection(owner))
        await order_store.find_due(pool, range(256), STARTED_AT, MIDDLE, 64)
        kept = await owner.fetchrow(
            "select name, cardinality(parameter_types) as parameters_count from pg_prepared_statements"
            " where statement like '%institution_id is null order by due_at%' and statement not like '%pg_prepared%'"
        )
        assert kept is not None
        arguments = f"array{list(range(256))}, '{STARTED_AT}', '{MIDDLE}', 64"
        plan = [row[0] for row in await owner.fetch(f'explain execute "{kept["name"]}" ({arguments})')]
        scans = [line.strip() for line in plan if "Scan" in line]
        assert [" using open_order_due on open_order " in scan for scan in scans] == [True], plan
