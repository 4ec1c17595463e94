"""SQL that an attacker with the service's password might try, and checks that the database refuses it."""

from typing import Any, Final

import asyncpg
import pytest

from pixconnect.platform.pool import Connection

FUNDS: Final = frozenset({"available", "reserved", "blocked"})
REFUSED: Final = (asyncpg.IntegrityConstraintViolationError, asyncpg.InsufficientPrivilegeError)


def entry(debit: str, credit: str, cents: int, *, id: int = 10**9, **columns: Any) -> str:  # noqa: A002 - the column's name
    """SQL of an entry of holder 1 that follows all others.

    Args:
        columns: ``holder_id``; ``transfer_id`` or ``refund_id``, otherwise the row of another table with the entry's id
            is the cause; ``cause_kind``, ``cause_id`` and ``cause_state`` to override the defaults.
    """
    change = (credit in FUNDS) - (debit in FUNDS)
    number = "last_number + 1" if change else "null"
    running = f"available_cents + reserved_cents + blocked_cents + {change * cents}" if change else "null"
    kind, cause_id = ("transfer", columns["transfer_id"]) if "transfer_id" in columns else (_kind(debit, credit), id)
    kind, cause_id = ("refund", columns["refund_id"]) if "refund_id" in columns else (kind, cause_id)
    kind, cause_id = columns.get("cause_kind", kind), columns.get("cause_id", cause_id)
    state = columns.get("cause_state", _state(kind, debit, credit))
    return f"""
        insert into ledger_entry (id, holder_id, debit_account, credit_account, amount_cents, number, running_balance_cents,
            created_at, cause_kind, cause_id, cause_state)
        select {id}, holder_id, '{debit}', '{credit}', {cents}, {number}, {running}, last_entry_at + interval '1 hour',
            '{kind}', {cause_id}, '{state}' from whole_balance where holder_id = {columns.get("holder_id", 1)}
    """


def _kind(debit: str, credit: str) -> str:
    if "blocked" in (debit, credit):
        return "block_step"
    if "difference" in (debit, credit):
        return "adjustment"
    return "deposit" if debit == "funding" else "repayment" if credit == "deficit" else "movement"


def _state(kind: str, debit: str, credit: str) -> str:
    match kind:
        case "transfer" | "refund" if credit == "reserved":
            return "PROCESSING"
        case "transfer" | "refund" if debit == "reserved" and credit == "available":
            return "ERROR"
        case "block_step":
            return {"available": "covered", "settlement": "held"}.get(debit, "released")
        case _:
            states = {"transfer": "CONFIRMED", "refund": "RETURNED", "movement": "POSTED", "adjustment": "available"}
            return states.get(kind, "MADE")


async def funds(connection: Connection) -> list[tuple[int, ...]]:
    rows = await connection.fetch(
        """
        select holder_id, available_cents, reserved_cents, blocked_cents, deficit_cents, settlement_cents, funding_cents
        from whole_balance order by 1
        """
    )
    return [tuple(row) for row in rows]


async def attempt(connection: Connection, *statements: str) -> None:
    async with connection.transaction():
        for statement in statements:
            await connection.execute(statement)


async def refuse(connection: Connection, *statements: str) -> None:
    before = await funds(connection)
    with pytest.raises(REFUSED):
        await attempt(connection, *statements)
    assert await funds(connection) == before


def end_order(resource_id: int) -> str:
    return f"delete from open_order where resource_id = {resource_id}"
