"""What PostgreSQL refuses of the ledger, in SQL as the service's role."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.platform.pool import connect
from support import operators
from support.postgres import Addresses
from support.service import FakeClock, Service, open_holder

if TYPE_CHECKING:
    from pixconnect.platform.pool import Connection

FUNDS_CENTS = 1_000_000
STARTED_AT = FakeClock().now()
SECOND = timedelta(seconds=1)

_DEPOSIT = """
    insert into deposit (id, holder_id, amount_cents, created_at)
    select id, holder_id, greatest(amount_cents, 1), now() from unnest($1::bigint[], $2::bigint[], $3::bigint[])
        as new (id, holder_id, amount_cents) where holder_id <> 404
"""
_INSERT = """
    insert into ledger_entry
        (id, holder_id, debit_account, credit_account, amount_cents, number, running_balance_cents, created_at, cause_kind,
        cause_id, cause_state)
    select *, 'deposit', id, 'MADE' from unnest($1::bigint[], $2::bigint[], $3::text[]::ledger_account[],
        $4::text[]::ledger_account[], $5::bigint[], $6::bigint[], $7::bigint[], $8::timestamptz[])
        as new (id, holder_id, debit, credit, amount_cents, number, running_balance_cents, created_at)
"""


class Row:
    """A deposit that would be accepted as the second of a holder with R$ 10.000,00; one keyword changes one thing."""

    def __init__(self, holder_id: int, /, **changes: Any) -> None:
        values: dict[str, Any] = {
            "id": 77, "holder_id": holder_id, "debit": "funding", "credit": "available", "amount_cents": 100,
            "number": 2, "running_balance_cents": FUNDS_CENTS + 100, "created_at": STARTED_AT + SECOND,
        }  # fmt: skip
        self.values = list((values | changes).values())


async def insert(connection: "Connection", *rows: Row) -> None:
    columns = [list(column) for column in zip(*(row.values for row in rows), strict=True)]
    async with connection.transaction():
        await connection.execute("set local role pixconnect_funding")
        await connection.execute(_DEPOSIT, columns[0], columns[1], columns[4])
        await connection.execute("set local role pixconnect_service")
        await connection.execute(_INSERT, *columns)


async def read_balance(connection: "Connection", holder_id: int) -> dict[str, Any]:
    row = await connection.fetchrow("select * from whole_balance where holder_id = $1", holder_id)
    assert row is not None
    return dict(row)


async def test_the_role_of_these_tests_is_the_services_own(service: Service) -> None:
    assert await service.context.pool.fetchval("select current_user") == "pixconnect_service"
    owned = "select count(*) from pg_class where pg_get_userbyid(relowner) = current_user"
    assert await service.context.pool.fetchval(owned) == 0


async def test_an_entry_moves_its_balance(service: Service, caller: Caller) -> None:
    async with service.context.pool.acquire() as connection:
        await insert(connection, Row(caller.holder_id))
        balance = await read_balance(connection, caller.holder_id)
    assert (balance["available_cents"], balance["settlement_cents"], balance["funding_cents"]) == (
        FUNDS_CENTS + 100,
        0,
        -FUNDS_CENTS - 100,
    )
    assert (balance["last_number"], balance["last_entry_at"]) == (2, STARTED_AT + SECOND)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("from an account to itself", {"credit": "funding"}, "accounts_differ"),
    ("of no amount", {"amount_cents": 0}, "amount_is_positive"),
    ("of less than nothing", {"amount_cents": -100}, "amount_is_positive"),
    ("reserved below zero", {"debit": "reserved", "number": None, "running_balance_cents": None}, "reserved_is_not_negative"),
    (
        "available below zero",
        {"debit": "available", "credit": "funding", "amount_cents": FUNDS_CENTS + 1, "running_balance_cents": -1},
        "available_is_not_negative",
    ),
    ("without its number", {"number": None, "running_balance_cents": None}, "numbered_if_funds_change"),
    ("without its running balance", {"running_balance_cents": None}, "numbered_if_funds_change"),
    ("a number for a mere reservation", {"debit": "available", "credit": "reserved"}, "numbered_if_funds_change"),
    ("a number left out", {"number": 3}, "entries_follow_each_other"),
    ("a number taken", {"number": 1}, "ledger_entry_number"),
    ("a number from before", {"number": 0}, "entries_follow_each_other"),
    ("another running balance", {"running_balance_cents": FUNDS_CENTS + 99}, "entries_follow_each_other"),
    ("no balance to move", {"holder_id": 404}, "entries_follow_each_other"),
    ("dated with the one before", {"created_at": STARTED_AT}, "ledger_entry_created_at"),
    ("dated before the one before", {"created_at": STARTED_AT - SECOND}, "entries_follow_each_other"),
]


async def test_an_entry_that_breaks_a_rule_is_refused_and_moves_nothing(service: Service, caller: Caller) -> None:
    await operators.execute(
        service.context,
        """insert into holder (id, name, tax_id, city, branch, account_number, account_type, created_at)
        select 404, name, tax_id, city, branch, '404', account_type, created_at from holder""",
    )
    async with service.context.pool.acquire() as connection:
        before = await read_balance(connection, caller.holder_id)
        for why, changes, constraint in REFUSED:
            with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
                await insert(connection, Row(caller.holder_id, **changes))
            assert caught.value.constraint_name == constraint, why
            assert await read_balance(connection, caller.holder_id) == before, why


async def test_entries_of_one_statement_follow_each_other_too(service: Service, caller: Caller) -> None:
    stranger = await open_holder(service, account_number="2", funds_cents=5)
    first = Row(caller.holder_id)
    second = {"id": 78, "number": 3, "running_balance_cents": FUNDS_CENTS + 200, "created_at": STARTED_AT + 2 * SECOND}
    wrong: list[dict[str, Any]] = [
        {"created_at": STARTED_AT + SECOND / 2},
        {"number": 4},
        {"running_balance_cents": FUNDS_CENTS + 201},
        {"amount_cents": 99},
    ]
    async with service.context.pool.acquire() as connection:
        before = await read_balance(connection, caller.holder_id)
        for changes in wrong:
            with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="does not follow"):
                await insert(connection, first, Row(caller.holder_id, **(second | changes)))
            assert await read_balance(connection, caller.holder_id) == before
        others = Row(stranger.holder_id, id=79, running_balance_cents=105)
        await insert(connection, Row(caller.holder_id, **second), others, first)
        assert (await read_balance(connection, caller.holder_id))["available_cents"] == FUNDS_CENTS + 200
        assert (await read_balance(connection, stranger.holder_id))["available_cents"] == 105


async def test_what_happened_is_never_changed_nor_deleted_by_the_owner_either(
    service: Service, caller: Caller, database: Addresses
) -> None:
    changes = ["update ledger_entry set amount_cents = 1", "delete from ledger_entry", "truncate ledger_entry"]
    owner = await connect(database.owner_url, role=None, schema="pixconnect", name="test")
    try:
        for change in changes:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await service.context.pool.execute(change)
            with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="never changed or deleted"):
                await owner.execute(change)
        assert await owner.fetchval("select sum(amount_cents) from ledger_entry") == FUNDS_CENTS
    finally:
        await owner.close()


async def test_a_balance_moves_by_entries_only(service: Service, caller: Caller, database: Addresses) -> None:
    changes = [
        "update balance set available_cents = available_cents + 1, funding_cents = funding_cents - 1",
        "update balance set reserved_cents = reserved_cents + 1, available_cents = available_cents - 1",
        "update statement_head set last_number = last_number + 1",
        "update statement_head set last_entry_at = last_entry_at + interval '1 second'",
    ]
    owner = await connect(database.owner_url, role=None, schema="pixconnect", name="test")
    try:
        for change in changes:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await service.context.pool.execute(change)
            with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="by ledger entries only"):
                await owner.execute(change)
        made = "insert into balance (holder_id, modified_at, available_cents, funding_cents) values (7, now(), 1, -1)"
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.context.pool.execute(made)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.context.pool.execute("delete from balance")
    finally:
        await owner.close()


async def test_a_page_of_transactions_is_a_range_of_numbers_with_a_true_total(service: Service, caller: Caller) -> None:
    made = [await ledger_usecases.deposit(service.context, caller.holder_id, n) for n in range(1, 7)]
    newest_first = [deposit.id for deposit in reversed(made)]
    pool = service.context.pool
    for page, size in ((1, 2), (2, 2), (4, 2), (1, 1000), (7, 1), (2**53, 1000)):
        found = await ledger_store.read_page(pool, caller.holder_id, Span(page=page, page_size=size))
        expected = newest_first[(page - 1) * size : page * size]
        assert [item.id for item in found.items if item.amount_cents != FUNDS_CENTS] == expected
        assert found.total_count == 7
    spans = [(1, 4, 4), (0, 0, 1), (4, 1, 0)]
    for first, last, count in spans:
        span = Span(initial_at=made[first].created_at, final_at=made[last].created_at)
        found = await ledger_store.read_page(pool, caller.holder_id, span)
        assert (len(found.items), found.total_count) == (count, count)
    nobody = await ledger_store.read_page(pool, 404, Span())
    assert (nobody.items, nobody.total_count) == ([], 0)
