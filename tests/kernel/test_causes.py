"""The service's login cannot create money, destroy it, or move it without a cause."""

from typing import TYPE_CHECKING

import asyncpg
import pytest

from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import incoming, settlement
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows.holder import HolderChanges
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.rail import Abilities, Settled
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.platform import privileges
from support.attacker import attempt, end_order, entry, refuse
from support.books import check_books
from support.operators import as_operator
from support.postgres import Addresses
from support.records import own_key
from support.service import Service, accepted, credit_report, make_charge, open_holder, open_service, send_out

if TYPE_CHECKING:
    from pixconnect.platform.pool import Connection

FUNDS_CENTS = 1_000_000
OTHER_NAME = "overlay(end_to_end_id placing 'zzzz' from 25)"


async def send(service: Service, caller: Caller, amount_cents: int = 500) -> int:
    return (await send_out(service, caller, amount_cents)).id


async def receive(service: Service, amount_cents: int = 1000, txid: str | None = None) -> str:
    report = credit_report(service, amount_cents=amount_cents, txid=txid)
    await incoming.receive_credit(service.context, report)
    return report.end_to_end_id


async def test_the_function_that_posts_is_nobodys_to_call_and_no_table_is_temporary(attacker: "Connection") -> None:
    await refuse(attacker, "create temporary table mine (like ledger_entry)")
    await refuse(attacker, "create table mine (like ledger_entry)")
    await refuse(
        attacker,
        "create trigger mine after insert on ledger_entry referencing new table as new_entry "
        "for each statement execute function post_ledger_entries()",
    )


async def test_the_function_alone_posts_for_the_ledger(attacker: "Connection", database: Addresses) -> None:
    owner = await asyncpg.connect(database.owner_url)
    try:
        for name in ("mine", "ledger_entry"):
            made = entry("settlement", "available", 999).replace("into ledger_entry", f"into pg_temp.{name}")
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="for the ledger alone"):
                await attempt(
                    owner,
                    f"create temporary table {name} (like pixconnect.ledger_entry) on commit drop",
                    f"create trigger mine after insert on pg_temp.{name} referencing new table as new_entry "
                    "for each statement execute function pixconnect.post_ledger_entries()",
                    "set local search_path = pixconnect",
                    made,
                )
    finally:
        await owner.close()


@pytest.mark.parametrize(("debit", "credit"), [("settlement", "available"), ("funding", "available")])
async def test_no_money_comes_without_a_cause(attacker: "Connection", debit: str, credit: str) -> None:
    await refuse(attacker, entry(debit, credit, 999_999_999))
    await refuse(attacker, entry(debit, credit, 100, transfer_id=404))
    await refuse(attacker, entry(debit, credit, 100, transfer_id=404, refund_id=404))


@pytest.mark.parametrize(
    ("debit", "credit"), [("available", "settlement"), ("available", "reserved"), ("available", "funding")]
)
async def test_no_money_goes_without_a_cause(attacker: "Connection", debit: str, credit: str) -> None:
    await refuse(attacker, entry(debit, credit, 100))


async def test_a_deposit_is_made_by_the_role_for_it_alone(
    attacker: "Connection", service: Service, caller: Caller, database: Addresses
) -> None:
    deposit = "insert into deposit (id, holder_id, amount_cents, created_at) values (1000000000, 1, 100, now())"
    await refuse(attacker, deposit, entry("funding", "available", 100))
    # In a sandbox the service's login may take that role; then the entry is the deposit's: its id, holder and amount, once.
    taken = ("set local role pixconnect_funding", deposit, "set local role pixconnect_service")
    await refuse(attacker, *taken, entry("funding", "available", 101))
    await refuse(attacker, *taken, entry("funding", "available", 100, id=7))
    await refuse(attacker, *taken, entry("funding", "available", 100, id=7, cause_id=10**9))
    await refuse(attacker, *taken, entry("funding", "available", 100, cause_kind="repayment"))
    await refuse(attacker, *taken, entry("settlement", "available", 100))
    await refuse(attacker, *taken, entry("funding", "available", 100), entry("funding", "available", 100))
    # In live mode that role has nothing to give.
    owner = await asyncpg.connect(database.owner_url)
    await privileges.forbid_play(owner, "pixconnect")
    try:
        await refuse(attacker, *taken, entry("funding", "available", 100))
    finally:
        await privileges.allow_play(owner, "pixconnect", "pixconnect_login")
        await owner.close()
    assert (await ledger_usecases.deposit(service.context, caller.holder_id, 100)).amount_cents == 100


async def test_no_more_settles_than_is_reserved(
    attacker: "Connection", service: Service, caller: Caller, database: Addresses
) -> None:
    sent_id = await send(service, caller)
    await service.execute_without_guards("update balance set reserved_cents = 400, available_cents = available_cents + 100")
    settle = f"update transfer set status = 'CONFIRMED', settled_at = now() where id = {sent_id}"
    taken = entry("reserved", "settlement", 500, transfer_id=sent_id)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
        await attempt(attacker, f"with x as ({taken}), y as ({end_order(sent_id)}) {settle}")
    assert caught.value.constraint_name == "statement_ends_with_the_balance"


async def test_a_transfer_settles_once_by_its_amount(attacker: "Connection", service: Service, caller: Caller) -> None:
    sent_id, other_id = await send(service, caller), await send(service, caller)
    settle = f"update transfer set status = 'CONFIRMED', settled_at = now() where id = {sent_id}"
    taken = entry("reserved", "settlement", 500, transfer_id=sent_id)
    await refuse(attacker, taken)  # before it is CONFIRMED
    await refuse(attacker, settle)  # and CONFIRMED not without it
    await refuse(attacker, f"with x as ({entry('reserved', 'settlement', 499, transfer_id=sent_id)}) {settle}")
    await refuse(attacker, f"with x as ({entry('reserved', 'available', 500, transfer_id=sent_id)}) {settle}")
    await refuse(attacker, f"with x as ({entry('reserved', 'settlement', 500, transfer_id=other_id)}) {settle}")
    await refuse(attacker, f"with x as ({taken}) {settle}")  # while its order is open
    # By another cause than its own it is moved by nothing.
    for odd in (
        {"cause_state": "PROCESSING"},
        {"cause_state": "RETURNED"},
        {"cause_kind": "refund", "cause_state": "RETURNED"},
        {"cause_kind": "deposit", "cause_state": "MADE"},
        {"cause_kind": "movement", "cause_state": "POSTED"},
        {"cause_kind": "adjustment", "cause_state": "settlement"},
        {"cause_kind": "block_step", "cause_state": "hold_ended"},
    ):
        other = entry("reserved", "settlement", 500, transfer_id=sent_id, **odd)
        await refuse(attacker, f"with x as ({other}), y as ({end_order(sent_id)}) {settle}")
    await attacker.execute(f"with x as ({taken}), y as ({end_order(sent_id)}) {settle}")
    again = entry("reserved", "settlement", 500, transfer_id=sent_id, id=10**9 + 1)
    await refuse(attacker, again)
    for status in ("'ERROR', outcome_code = 'X'", "'CANCELLED', outcome_code = 'X'", "'PROCESSING'"):
        failed = f"update transfer set status = {status}, settled_at = null where id = {sent_id}"
        await refuse(attacker, failed)
        await refuse(attacker, f"with x as ({entry('reserved', 'available', 500, transfer_id=sent_id, id=10**9 + 2)}) {failed}")


async def test_what_is_reserved_belongs_to_its_holder(attacker: "Connection", service: Service, caller: Caller) -> None:
    stranger = await open_holder(service, account_number="2", funds_cents=5_000)
    sent_id = await send(service, stranger, 500)
    await refuse(attacker, entry("available", "reserved", 500, transfer_id=sent_id))
    await refuse(attacker, entry("available", "reserved", 500, transfer_id=sent_id, holder_id=stranger.holder_id))


async def test_a_transfer_begins_with_its_entry(attacker: "Connection", service: Service, caller: Caller) -> None:
    sent_id = await send(service, caller)
    name = await receive(service)

    def copy(where: str, **changes: str) -> str:
        columns = [
            "id", "holder_id", "direction", "initiation_type", "is_book", "external_id", "fingerprint",
            "end_to_end_id", "correlation_id", "amount_cents", "status", "counterparty", "slot", "settled_at",
            "created_at", "modified_at",
        ]  # fmt: skip
        values = (changes.get(column, column) for column in columns)
        return f"insert into transfer ({', '.join(columns)}) select {', '.join(values)} from transfer where {where}"

    sent, received = f"id = {sent_id}", f"end_to_end_id = '{name}'"
    new = {"id": "777", "end_to_end_id": OTHER_NAME}
    await refuse(attacker, copy(sent, **new, external_id="'x'"))
    await refuse(attacker, copy(received, **new))
    await refuse(attacker, copy(sent, **new, external_id="'x'", status="'CONFIRMED'", settled_at="now()"))
    # One leg of a book transfer without the other.
    paid = entry("settlement", "available", 1000, transfer_id=777)
    await refuse(attacker, f"with x as ({paid}) {copy(received, **new, is_book='true')}")
    # A schema cannot distinguish a payment from a forged one: the row of a payment that the rail never reported, and
    # its entry.
    await attacker.execute(f"with x as ({paid}) {copy(received, **new)}")


async def test_legs_by_book_are_of_one_amount(attacker: "Connection", service: Service, caller: Caller) -> None:
    payee = await open_holder(service, account_number="2")

    def leg(id: int, holder_id: int, direction: str, cents: int, status: str = "CONFIRMED") -> str:  # noqa: A002
        client = "'x', ''" if direction == "OUT" else "null, null"
        settled, code = ("now()", "null") if status == "CONFIRMED" else ("null", "'X'")
        return f"""insert into transfer (external_id, fingerprint, id, holder_id, direction, initiation_type, is_book,
            end_to_end_id, correlation_id, amount_cents, status, outcome_code, counterparty, slot, settled_at, created_at,
            modified_at)
            values ({client}, {id}, {holder_id}, '{direction}', 'KEY', true, 'E{"9" * 31}', gen_random_uuid(), {cents},
                '{status}', {code}, '{{}}', 0, {settled}, now(), now())"""

    def both(sent_cents: int, received_cents: int, received_status: str = "CONFIRMED") -> str:
        paid = entry("settlement", "available", received_cents, transfer_id=778, id=10**9 + 1, holder_id=payee.holder_id)
        return f"""with a as ({entry("available", "settlement", sent_cents, transfer_id=777)}), b as ({paid}),
            c as ({leg(777, caller.holder_id, "OUT", sent_cents)})
            {leg(778, payee.holder_id, "IN", received_cents, received_status)}"""

    await refuse(attacker, both(100, 101))
    await refuse(attacker, both(100, 100, "ERROR"))
    await attacker.execute(both(100, 100))


async def test_a_refund_has_original_and_entries(attacker: "Connection", service: Service, caller: Caller) -> None:
    name = await receive(service)
    request = RefundRequest(end_to_end_id=name, amount_cents=400)
    refund = await refund_usecases.start_refund(service.context, caller, request)
    done = f"update refund set status = 'RETURNED', settled_at = now() where id = {refund.id}"
    failed = f"update refund set status = 'ERROR', outcome_code = 'X' where id = {refund.id}"
    await refuse(attacker, done)
    await refuse(attacker, failed)
    cause = {"transfer_id": refund.transfer_id, "refund_id": refund.id}
    await refuse(attacker, entry("reserved", "settlement", 400, **cause))
    await refuse(attacker, f"with x as ({entry('reserved', 'settlement', 400, transfer_id=refund.transfer_id)}) {done}")
    await refuse(attacker, f"with x as ({entry('reserved', 'settlement', 399, **cause)}) {done}")
    counted = f"update transfer set returning_cents = 0, returned_cents = 400 where id = {refund.transfer_id}"
    settled = entry("reserved", "settlement", 400, **cause)
    await refuse(attacker, f"with x as ({settled}), y as ({end_order(refund.id)}) {done}")  # and is not counted
    await refuse(attacker, f"with x as ({settled}), y as ({counted}) {done}")  # and its order stays
    await attacker.execute(f"with x as ({settled}), y as ({end_order(refund.id)}), z as ({counted}) {done}")
    await refuse(attacker, failed)
    returned = """insert into refund (id, holder_id, transfer_id, flow, return_id, original_end_to_end_id, correlation_id,
        amount_cents, status, reason, slot, settled_at, created_at, modified_at)
        select 777, holder_id, transfer_id, 'IN', overlay(return_id placing 'zzzz' from 25), original_end_to_end_id,
        correlation_id, 400, 'RETURNED', reason, slot, now(), now(), now() from refund"""
    back = entry("settlement", "available", 400, transfer_id=refund.transfer_id, refund_id=777, id=10**9 + 1)
    await refuse(attacker, f"with x as ({back}) {returned}")  # a received payment is not received again


async def test_a_network_id_is_told_once_and_is_the_name_of_no_other(
    attacker: "Connection", service: Service, caller: Caller
) -> None:
    name = await receive(service)
    first, second = [await send(service, caller) for _ in range(2)]

    def call(transfer_id: int, network_id: str) -> str:
        return f"update transfer set network_id = {network_id} where id = {transfer_id}"

    told = "'E' || repeat('1', 31)"
    await refuse(attacker, call(first, "end_to_end_id"))
    await refuse(attacker, call(first, f"(select end_to_end_id from transfer where id = {second})"))
    await refuse(attacker, call(first, f"'{name}'"))
    await refuse(attacker, call(first, "'D' || repeat('1', 31)"))
    await refuse(attacker, f"update transfer set network_id = {told} where end_to_end_id = '{name}'")  # it has its own
    await attacker.execute(
        f"with x as (update open_order set network_id = {told} where resource_id = {first}) {call(first, told)}"
    )
    await refuse(attacker, call(second, told))
    await refuse(attacker, call(first, "'E' || repeat('2', 31)"))
    await refuse(attacker, call(first, "null"))
    await refuse(attacker, "update refund set original_end_to_end_id = 'E' || repeat('3', 31)")


async def test_a_charge_is_paid_by_a_payment(attacker: "Connection", service: Service, caller: Caller) -> None:
    charge_request = ChargeRequest(amount_cents=1000, key=own_key())
    charge = await charge_usecases.create_charge(service.context, caller, charge_request)
    for status in ("APPROVED", "RETURNED"):
        await refuse(attacker, f"update charge set status = '{status}' where id = {charge.id}")
    await receive(service, txid=charge.txid)
    assert await attacker.fetchval("select status from charge") == "APPROVED"
    for status in ("PENDING", "EXPIRED", "REMOVED_BY_RECEIVER", "REMOVED_BY_PSP"):
        await refuse(attacker, f"update charge set status = '{status}' where id = {charge.id}")
    await refuse(attacker, "update charge set amount_cents = 1")
    await refuse(attacker, "update charge set amount_cents = 0, contents = '{}'")


async def test_a_removal_stays_and_a_location_has_one(attacker: "Connection", service: Service, caller: Caller) -> None:
    charge, other = await make_charge(service, caller), await make_charge(service, caller)
    await attacker.execute(f"update charge set status = 'EXPIRED' where id = {charge.id}")
    await attacker.execute(f"update charge set status = 'PENDING' where id = {charge.id}")
    await attacker.execute(f"update charge set status = 'REMOVED_BY_PSP' where id = {charge.id}")
    for status in ("PENDING", "EXPIRED", "REMOVED_BY_RECEIVER", "APPROVED"):
        await refuse(attacker, f"update charge set status = '{status}' where id = {charge.id}")
    await refuse(attacker, f"update charge set revision = 1 where id = {other.id}")  # and nothing in its contents
    await refuse(attacker, f"update charge set amount_cents = 0 where id = {other.id}")
    new = "insert into location values ({0}, {1}, repeat('{0}', 22), '{2}', {3}, now())"
    await attacker.execute(new.format(1, caller.holder_id, "COB_BOUND", other.id))
    await refuse(attacker, new.format(2, caller.holder_id, "COB_BOUND", other.id))
    await refuse(attacker, new.format(2, caller.holder_id, "COB_BOUND", "null"))
    await refuse(attacker, new.format(2, caller.holder_id, "COB_FREE", charge.id))
    await refuse(attacker, "update location set token = repeat('3', 22)")


async def test_an_acceptance_is_no_money(attacker: "Connection", service: Service, caller: Caller) -> None:
    report = credit_report(service)
    await incoming.receive_credit(service.context, accepted(report))
    transfer_id = await attacker.fetchval("select id from transfer")
    paid = entry("settlement", "available", 1000, transfer_id=transfer_id)
    settle = "update transfer set status = 'CONFIRMED', settled_at = now()"
    await refuse(attacker, paid)
    await refuse(attacker, settle)
    await refuse(attacker, f"with x as ({entry('settlement', 'available', 999, transfer_id=transfer_id)}) {settle}")
    await refuse(attacker, "update transfer set status = 'CANCELLED', outcome_code = 'X'")
    await incoming.receive_credit(service.context, report)
    await refuse(attacker, "update transfer set status = 'PROCESSING', settled_at = null, network_settled_at = null")
    await refuse(
        attacker, "update transfer set status = 'ERROR', outcome_code = 'X', settled_at = null, network_settled_at = null"
    )


async def test_a_held_charge_and_the_payment_that_holds_it_agree(
    attacker: "Connection", service: Service, caller: Caller
) -> None:
    charge, other = await make_charge(service, caller), await make_charge(service, caller)
    report = credit_report(service, txid=charge.txid)
    await incoming.receive_credit(service.context, accepted(report))
    transfer_id = await attacker.fetchval("select id from transfer")
    hold, free = f"update charge set held_by = {transfer_id}", "update charge set held_by = null"
    cancel = f"update transfer set status = 'ERROR', outcome_code = 'X' where id = {transfer_id}"
    await refuse(attacker, f"{free} where id = {charge.id}")  # it is still under way
    await refuse(attacker, cancel)  # and would be over with the charge still held
    await refuse(attacker, f"{hold} where id = {other.id}")
    await refuse(attacker, f"update charge set held_by = 404 where id = {other.id}")
    # Meanwhile its contents stay; only a sandbox's clock that is set back brings its end nearer.
    for change in ("contents = '{}'", "key = 'else@test.example'", "expires_at = expires_at + interval '1 second'"):
        await refuse(attacker, f"update charge set {change} where id = {charge.id}")
    await attacker.execute("update charge set expires_at = expires_at - interval '1 second'")
    for status in ("EXPIRED", "APPROVED"):
        await refuse(attacker, f"update charge set status = '{status}' where id = {charge.id}")
        await refuse(attacker, f"update charge set status = '{status}', held_by = null where id = {charge.id}")
    await attacker.execute(f"with x as ({free} where id = {charge.id}) {cancel}")
    await refuse(attacker, f"{hold} where id = {charge.id}")  # an ended one holds nothing
    # Nor is a payment accepted for a charge without holding it.
    new = f"""insert into transfer (id, holder_id, direction, initiation_type, end_to_end_id, correlation_id, charge_id,
        amount_cents, status, counterparty, slot, created_at, modified_at)
        select 777, holder_id, direction, initiation_type, {OTHER_NAME}, correlation_id, {other.id}, amount_cents, 'PROCESSING',
        counterparty, slot, now(), now() from transfer"""
    await refuse(attacker, new)
    await attacker.execute(f"with x as (update charge set held_by = 777 where id = {other.id}) {new}")


async def test_a_payment_is_given_back_once(attacker: "Connection", service: Service, database: Addresses) -> None:
    async with open_service(database, clock=service.clock, abilities=Abilities(refuses_credits=False)) as other:
        blocked = HolderChanges(may_deposit=False)
        await holder_usecases.set_holder(as_operator(other.context), 1, blocked)
        await incoming.receive_credit(other.context, credit_report(other))
    assert await attacker.fetchval("select external_id like 'auto:E%' and amount_cents = 1000 from refund")
    again = """insert into refund (id, holder_id, transfer_id, flow, external_id, fingerprint, return_id,
        original_end_to_end_id, correlation_id, amount_cents, status, reason, slot, created_at, modified_at)
        select 777, holder_id, transfer_id, flow, external_id, fingerprint, overlay(return_id placing 'zzzz' from 25),
        original_end_to_end_id, correlation_id, amount_cents, status, reason, slot, now(), now() from refund"""
    cause = {"transfer_id": "(select transfer_id from refund)", "refund_id": 777}
    with pytest.raises(asyncpg.UniqueViolationError, match="refund_external_id_is_used_once"):
        await attacker.execute(f"with x as ({entry('available', 'reserved', 1000, **cause)}) {again}")


async def test_later_states_are_added_and_not_recoded(
    attacker: "Connection", service: Service, caller: Caller, database: Addresses
) -> None:
    """The allowed postings of later states are rows of a table, so a blocked amount can be returned after a settlement."""
    sent_id = await send(service, caller)
    ended = f"status = 'CANCELLED', outcome_code = 'X', modified_at = now() + interval '1 year' where id = {sent_id}"
    cancel = f"update transfer set {ended}"
    freed = entry("reserved", "available", 500, transfer_id=sent_id, cause_state="CANCELLED")
    released = f"with x as ({freed}), y as ({end_order(sent_id)}) {cancel}"
    owner = await asyncpg.connect(database.owner_url)
    for table in ("allowed_transition", "allowed_posting"):
        await refuse(attacker, f"delete from {table}")
        await refuse(attacker, f"insert into {table} select * from {table}")
    await owner.execute("set search_path = pixconnect; delete from allowed_transition where after = 'CANCELLED'")
    await refuse(attacker, released)
    await owner.execute(
        "insert into allowed_transition (kind, direction, is_book, before, after) "
        "values ('transfer', 'OUT', false, 'PROCESSING', 'CANCELLED')"
    )
    await attacker.execute(released)
    await owner.close()


async def test_what_the_service_does_has_its_causes(service: Service, caller: Caller) -> None:
    sent_id = await send(service, caller)
    name = await service.context.pool.fetchval("select end_to_end_id from transfer where id = $1", sent_id)
    await settlement.end_orders(service.context, [(name, Settled(settled_at=service.clock.now()))])
    await refund_usecases.start_refund(
        service.context, caller, RefundRequest(end_to_end_id=await receive(service), amount_cents=1)
    )
    await check_books(service)
