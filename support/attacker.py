"""What a person with the service's password might try in SQL, and that nothing comes of it."""

from typing import Any, Final

import asyncpg
import pytest

from pixconnect.foundation.pool import Connection

FUNDS: Final = frozenset({"available", "reserved", "blocked"})
REFUSED: Final = (asyncpg.IntegrityConstraintViolationError, asyncpg.InsufficientPrivilegeError)


def entry(debit: str, credit: str, cents: int, *, id: int = 10**9, **columns: Any) -> str:  # noqa: A002 - the column's name
    """An entry of holder 1 that follows all others, as SQL."""
    change = (credit in FUNDS) - (debit in FUNDS)
    number = "last_number + 1" if change else "null"
    running = f"available_cents + reserved_cents + blocked_cents + {change * cents}" if change else "null"
    transfer_id, refund_id = columns.get("transfer_id", "null"), columns.get("refund_id", "null")
    return f"""
        insert into ledger_entry (id, holder_id, debit_account, credit_account, amount_cents, number, running_balance_cents,
            created_at, transfer_id, refund_id)
        select {id}, holder_id, '{debit}', '{credit}', {cents}, {number}, {running}, last_entry_at + interval '1 hour',
            {transfer_id}::bigint, {refund_id}::bigint from balance where holder_id = {columns.get("holder_id", 1)}
    """


async def funds(connection: Connection) -> list[tuple[int, ...]]:
    rows = await connection.fetch(
        """
        select holder_id, available_cents, reserved_cents, blocked_cents, deficit_cents, settlement_cents, funding_cents
        from balance order by 1
        """
    )
    return [tuple(row) for row in rows]


async def attempt(connection: Connection, *statements: str) -> None:
    async with connection.transaction():
        for statement in statements:
            await connection.execute(statement)


async def refuse(connection: Connection, *statements: str) -> None:
    """Try it, and see that nothing came of it."""
    before = await funds(connection)
    with pytest.raises(REFUSED):
        await attempt(connection, *statements)
    assert await funds(connection) == before


def end_order(resource_id: int) -> str:
    """The end of the order of a transfer or refund, as SQL."""
    return f"delete from open_order where resource_id = {resource_id}"
