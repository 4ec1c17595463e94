"""What PostgreSQL refuses of charges, transfers and refunds, in SQL as the service's role."""

import asyncpg
import pytest

from pixconnect.kernel.flows import incoming
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.refund import RefundRequest
from support.service import Service, credit_report, make_charge, send_out

_COPIED = {
    "transfer": """id, holder_id, direction, initiation_type, is_book, external_id, fingerprint, end_to_end_id, correlation_id,
        txid, charge_id, amount_cents, status, outcome_code, own_key, counterparty, slot, handed_at, settled_at, created_at,
        modified_at""",
    "refund": """id, holder_id, transfer_id, flow, is_book, external_id, fingerprint, return_id, original_end_to_end_id,
        correlation_id, amount_cents, status, reason, slot, settled_at, created_at, modified_at""",
}


async def copy(service: Service, table: str, source_id: int, **changes: str) -> None:
    """A second row like the first one but for some columns, given as SQL."""
    columns = [column.strip() for column in _COPIED[table].split(",")]
    values = [changes.get(column, column) for column in columns]
    statement = f"insert into {table} ({', '.join(columns)}) select {', '.join(values)} from {table} where id = $1"
    await service.context.pool.execute(statement, source_id)


async def receive(service: Service, txid: str | None = None) -> int:
    report = credit_report(service, txid=txid)
    await incoming.receive_credit(service.context, report)
    return await service.context.pool.fetchval("select id from transfer where end_to_end_id = $1", report.end_to_end_id)


async def send(service: Service, caller: Caller) -> int:
    return (await send_out(service, caller, 500, external_id="a")).id


RELEASE = """
    insert into ledger_entry (id, holder_id, debit_account, credit_account, amount_cents, cause_kind, cause_id, cause_state,
        created_at)
    select 1000000 + id, holder_id, 'reserved', 'available', amount_cents, 'transfer', id, 'CANCELLED', created_at
    from transfer where id = $1
"""
NEW_NAME = "overlay(end_to_end_id placing 'zzzz' from 25)"


async def test_a_charge_is_not_paid_twice(service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller, amount_cents=1000)
    paid_id = await receive(service, charge.txid)
    with pytest.raises(asyncpg.UniqueViolationError, match="charge_is_paid_once"):
        await copy(service, "transfer", paid_id, id="id + 1", end_to_end_id=NEW_NAME)
    refused = {
        "id": "id + 1", "end_to_end_id": NEW_NAME, "status": "'ERROR'", "settled_at": "null",
        "outcome_code": "'AC07'",
    }  # fmt: skip
    await copy(service, "transfer", paid_id, **refused)  # a refused payment of it is no second payment


async def test_names_are_used_once(service: Service, caller: Caller) -> None:
    sent_id = await send(service, caller)
    with pytest.raises(asyncpg.UniqueViolationError, match="transfer_external_id_is_used_once"):
        await copy(service, "transfer", sent_id, id="id + 1", end_to_end_id=NEW_NAME)
    with pytest.raises(asyncpg.UniqueViolationError, match="transfer_name_is_used_once"):
        await copy(service, "transfer", sent_id, id="id + 1", external_id="'b'")
    received_id = await receive(service)
    with pytest.raises(asyncpg.UniqueViolationError, match="transfer_name_is_used_once"):
        await copy(service, "transfer", received_id, id="id + 1")


async def test_what_was_handed_over_is_not_cancelled(service: Service, caller: Caller) -> None:
    sent_id = await send(service, caller)
    cancel = f"""with released as ({RELEASE}), ended as (delete from open_order where resource_id = $1)
        update transfer set status = 'CANCELLED', outcome_code = 'X', modified_at = modified_at + interval '1 hour',
            handed_at = {{}} where id = $1"""
    with pytest.raises(asyncpg.CheckViolationError, match="handed_transfer_is_never_cancelled"):
        await service.context.pool.execute(cancel.format("now()"), sent_id)
    await service.context.pool.execute(cancel.format("null"), sent_id)


async def test_impossible_states_are_refused(service: Service, caller: Caller) -> None:
    sent_id, received_id = await send(service, caller), await receive(service)
    impossible = [
        (sent_id, "status = 'CONFIRMED'"),  # settled without an instant
        (sent_id, "settled_at = now()"),  # an instant and not settled
        (sent_id, "status = 'LOST'"),
        (received_id, "handed_at = now()"),
        (received_id, "outcome_code = 'AC07'"),  # failed, and settled
        (sent_id, "network_settled_at = now()"),  # settled on the network alone
        (received_id, "returned_cents = 1001"),
        (received_id, "returned_cents = 600, returning_cents = 600"),
        (received_id, "returned_cents = -1"),
        (received_id, "returned_cents = 1000"),  # wholly returned and not RETURNED
        (received_id, "status = 'RETURNED'"),
        (sent_id, "returning_cents = 1"),  # of one that has not settled
    ]
    for transfer_id, change in impossible:
        with pytest.raises(asyncpg.CheckViolationError):
            await service.context.pool.execute(f"update transfer set {change} where id = $1", transfer_id)
    for column in ("amount_cents = 1", "holder_id = 2", "end_to_end_id = 'x'", "external_id = 'x'", "charge_id = 1"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.context.pool.execute(f"update transfer set {column} where id = $1", sent_id)
    for table in ("charge", "transfer", "refund", "event"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.context.pool.execute(f"delete from {table}")


async def test_a_refund_stands_on_its_original_and_its_names_are_used_once(service: Service, caller: Caller) -> None:
    received_id = await receive(service)
    name = await service.context.pool.fetchval("select end_to_end_id from transfer where id = $1", received_id)
    request = RefundRequest(end_to_end_id=name, amount_cents=1, external_id="a")
    refund = await refund_usecases.start_refund(service.context, caller, request)
    new_name = "overlay(return_id placing 'zzzz' from 25)"
    with pytest.raises(asyncpg.UniqueViolationError, match="refund_external_id_is_used_once"):
        await copy(service, "refund", refund.id, id="id + 1", return_id=new_name)
    with pytest.raises(asyncpg.UniqueViolationError, match="refund_name_is_used_once"):
        await copy(service, "refund", refund.id, id="id + 1", external_id="'b'")
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await copy(service, "refund", refund.id, id="id + 1", return_id=new_name, external_id="'b'", transfer_id="404")


async def test_an_order_ends_with_its_transfer_and_not_before(service: Service, caller: Caller) -> None:
    sent_id = await send(service, caller)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="ends otherwise than what was ordered"):
        await service.context.pool.execute("delete from open_order where resource_id = $1", sent_id)


async def test_what_was_handed_over_is_not_cancelled_as_if_it_had_not_been(service: Service, caller: Caller) -> None:
    sent_id = await send(service, caller)
    await service.context.pool.execute("update open_order set handed_at = now() where resource_id = $1", sent_id)
    cancel = f"""
        with released as ({RELEASE}), cancelled as (
            update transfer set status = 'CANCELLED', outcome_code = 'X', modified_at = modified_at + interval '1 hour'
            where id = $1
        )
        delete from open_order where resource_id = $1
    """
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="ends otherwise than what was ordered"):
        await service.context.pool.execute(cancel, sent_id)
    await service.context.pool.execute(
        "update open_order set handed_at = null, due_at = due_at - interval '1 second' where resource_id = $1", sent_id
    )
    await service.context.pool.execute(cancel, sent_id)


async def test_nothing_is_asked_about_that_was_not_handed_over(service: Service, caller: Caller) -> None:
    sent_id = await send(service, caller)
    with pytest.raises(asyncpg.CheckViolationError, match="only_handed_order_is_asked_about"):
        await service.context.pool.execute("update open_order set asked_count = 1 where resource_id = $1", sent_id)
