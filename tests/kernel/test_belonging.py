"""Related rows stay together, even if a statement with the service's login omits one."""

import asyncio

import asyncpg
import pytest

from pixconnect.kernel.flows import incoming, settlement
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.rail import Settled
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.platform.pool import Connection
from support.attacker import end_order, entry, refuse
from support.service import Service, credit_report, make_charge, open_holder, send_out

COPIED = (
    *("holder_id", "direction", "initiation_type", "is_book", "external_id", "fingerprint", "end_to_end_id"),
    *("correlation_id", "amount_cents", "status", "counterparty", "slot", "settled_at", "created_at", "modified_at"),
)


async def send(service: Service, caller: Caller, amount_cents: int = 500) -> int:
    return (await send_out(service, caller, amount_cents)).id


async def send_settled(service: Service, caller: Caller, amount_cents: int = 500) -> int:
    sent_id = await send(service, caller, amount_cents)
    name = await service.context.pool.fetchval("select end_to_end_id from transfer where id = $1", sent_id)
    await settlement.end_orders(service.context, [(name, Settled(settled_at=service.clock.now()))])
    return sent_id


async def receive(service: Service, amount_cents: int = 1000, txid: str | None = None) -> int:
    report = credit_report(service, amount_cents=amount_cents, txid=txid)
    await incoming.receive_credit(service.context, report)
    return await service.context.pool.fetchval("select id from transfer where end_to_end_id = $1", report.end_to_end_id)


async def give_back(service: Service, caller: Caller, received_id: int, amount_cents: int) -> int:
    name = await service.context.pool.fetchval("select end_to_end_id from transfer where id = $1", received_id)
    request = RefundRequest(end_to_end_id=name, amount_cents=amount_cents)
    return (await refund_usecases.start_refund(service.context, caller, request)).id


def new_transfer(like_id: int, **changes: str) -> str:
    """A transfer like another one but for some columns, given as SQL."""
    columns = {**dict.fromkeys(COPIED), "id": "777", **changes}
    values = ", ".join(value or name for name, value in columns.items())
    return f"insert into transfer ({', '.join(columns)}) select {values} from transfer where id = {like_id}"


def new_refund(transfer_id: int, name: str, *, id: int = 777, cents: int, **changes: str) -> str:  # noqa: A002 - the column's name
    columns = {
        "id": str(id), "holder_id": "holder_id", "transfer_id": "id", "flow": "'OUT'", "external_id": f"'{name}'",
        "fingerprint": "''", "return_id": f"'{name}'", "original_end_to_end_id": "end_to_end_id",
        "correlation_id": "correlation_id", "amount_cents": str(cents), "status": "'PROCESSING'", "reason": "'MD06'",
        "slot": "slot", "created_at": "now()", "modified_at": "now()", **changes,
    }  # fmt: skip
    return (
        f"insert into refund ({', '.join(columns)}) select {', '.join(columns.values())} from transfer where id = {transfer_id}"
    )


def new_order(name: str, resource_id: int, *, slot: str = "0", holder_id: int = 1) -> str:
    return f"""insert into open_order (name, holder_id, resource_id, slot, ordered_at, due_at, give_up_at)
        values ('{name}', {holder_id}, {resource_id}, {slot}, now(), now(), now())"""


INCOMING = {"flow": "'IN'", "external_id": "null", "fingerprint": "null", "status": "'RETURNED'", "settled_at": "now()"}
OTHER_NAME = "overlay(end_to_end_id placing 'zzzz' from 25)"


async def test_one_name_of_the_network_is_one_payment_whoever_the_holder_is(
    attacker: Connection, service: Service, caller: Caller
) -> None:
    other = await open_holder(service, account_number="2")
    received_id = await receive(service, 700)
    twice = new_transfer(received_id, holder_id=str(other.holder_id))
    paid = entry("settlement", "available", 700, transfer_id=777, holder_id=other.holder_id)
    await refuse(attacker, f"with x as ({paid}) {twice}")
    # Nor under the id of a sent one, with another amount.
    sent_id = await send_settled(service, caller, 500)
    name = await attacker.fetchval("select end_to_end_id from transfer where id = $1", sent_id)
    paid = entry("settlement", "available", 700, transfer_id=777)
    await refuse(attacker, f"with x as ({paid}) {new_transfer(received_id, end_to_end_id=repr(name))}")


async def test_one_return_is_one_for_all_holders(attacker: Connection, service: Service, caller: Caller) -> None:
    other = await open_holder(service, account_number="2", funds_cents=5000)
    first, second = await send_settled(service, caller), await send_settled(service, other)
    name = "D" + "1" * 31

    def back(transfer_id: int, holder_id: int, refund_id: int) -> str:
        cause = {"transfer_id": transfer_id, "refund_id": refund_id, "holder_id": holder_id, "id": 10**9 + refund_id}
        counted = f"update transfer set returned_cents = 100 where id = {transfer_id}"
        made = new_refund(transfer_id, name, id=refund_id, cents=100, **INCOMING)
        return f"with x as ({entry('settlement', 'available', 100, **cause)}), y as ({counted}) {made}"

    await attacker.execute(back(first, caller.holder_id, 777))
    await refuse(attacker, back(second, other.holder_id, 778))


async def test_what_is_given_back_is_counted_and_stays_within_the_payment(
    attacker: Connection, service: Service, caller: Caller
) -> None:
    received_id = await receive(service, 1000)
    name = "D" + "1" * 31
    held = entry("available", "reserved", 1000, transfer_id=received_id, refund_id=777)
    ordered = new_order(name, 777, slot=f"(select slot from transfer where id = {received_id})")
    made = f"with x as ({held}), y as ({ordered}) {new_refund(received_id, name, cents=1000)}"
    await refuse(attacker, made)
    counted = f"update transfer set returning_cents = {{}} where id = {received_id}"
    for cents in (999, 0):
        await refuse(attacker, made.replace(") insert", f"), z as ({counted.format(cents)}) insert", 1))
    await attacker.execute(
        f"with x as ({held}), y as ({ordered}), z as ({counted.format(1000)}) {new_refund(received_id, name, cents=1000)}"
    )
    await refuse(attacker, counted.format(0))


async def test_returns_are_counted_within_what_was_sent(attacker: Connection, service: Service, caller: Caller) -> None:
    sent_id = await send_settled(service, caller, 500)
    cause = {"transfer_id": sent_id, "refund_id": 777}
    made = new_refund(sent_id, "D" + "1" * 31, cents=500, **INCOMING)
    await refuse(attacker, f"with x as ({entry('settlement', 'available', 500, **cause)}) {made}")
    counted = f"update transfer set status = 'RETURNED', returned_cents = 500 where id = {sent_id}"
    await attacker.execute(f"with x as ({entry('settlement', 'available', 500, **cause)}), y as ({counted}) {made}")


async def test_nothing_is_returned_without_a_refund_and_an_end_is_written_once(
    attacker: Connection, service: Service, caller: Caller
) -> None:
    received_id = await receive(service, 1000)
    sent_id = await send_settled(service, caller)
    refund_id = await give_back(service, caller, received_id, 100)
    for change in (
        "status = 'RETURNED', returned_cents = amount_cents, returning_cents = 0",
        "returned_cents = 1",
        "returning_cents = 0",
        "settled_at = settled_at - interval '200 days'",
        "outcome_code = 'AM09'",
        "outcome_reason = 'x'",
    ):
        await refuse(attacker, f"update transfer set {change} where id = {received_id}")
    await refuse(attacker, f"update transfer set handed_at = now() where id = {sent_id}")
    for change in ("handed_at = now()", "outcome_code = 'AM09'"):
        await refuse(attacker, f"update refund set {change} where id = {refund_id}")


async def test_what_is_under_way_has_its_order(attacker: Connection, service: Service, caller: Caller) -> None:
    sent_id = await send(service, caller)
    name = "E" + "1" * 31
    held = entry("available", "reserved", 500, transfer_id=777)
    made = new_transfer(sent_id, end_to_end_id=f"'{name}'", external_id="'x'")
    await refuse(attacker, f"with x as ({held}) {made}")
    slot = f"(select slot from transfer where id = {sent_id})"
    for ordered in (
        new_order(name, 778, slot=slot),
        new_order(name, 777, slot=f"{slot} # 1"),
        new_order(name, 777, slot=slot, holder_id=2),
        new_order("E" + "2" * 31, 777, slot=slot),
    ):
        await refuse(attacker, f"with x as ({held}), y as ({ordered}) {made}")
    await attacker.execute(f"with x as ({held}), y as ({new_order(name, 777, slot=slot)}) {made}")
    # It ends with its order.
    freed = entry("reserved", "available", 500, transfer_id=777, id=10**9 + 1, cause_state="CANCELLED")
    ended = "status = 'CANCELLED', outcome_code = 'X', modified_at = now()"
    early = f"update transfer set {ended} - interval '1 year' where id = 777"
    cancelled = early.replace("-", "+")
    await refuse(attacker, f"with x as ({freed}) {cancelled}")
    await refuse(attacker, f"with x as ({freed}), y as ({end_order(777)}) {early}")
    await attacker.execute(f"with x as ({freed}), y as ({end_order(777)}) {cancelled}")


@pytest.mark.parametrize("letter", ["E", "D"])
async def test_an_order_is_of_what_is_open(attacker: Connection, service: Service, caller: Caller, letter: str) -> None:
    sent_id, received_id = await send_settled(service, caller), await receive(service)
    for resource_id in (404, sent_id, received_id):
        await refuse(attacker, new_order(letter + "1" * 31, resource_id))
    name = await attacker.fetchval("select end_to_end_id from transfer where id = $1", sent_id)
    await refuse(attacker, new_order(name, sent_id, slot=f"(select slot from transfer where id = {sent_id})"))


async def test_a_settled_payment_and_its_charge_agree(attacker: Connection, service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    received_id = await receive(service, 1)
    for cents in (1, charge.amount_cents):
        paid = entry("settlement", "available", cents, transfer_id=777)
        made = new_transfer(received_id, end_to_end_id=OTHER_NAME, charge_id=str(charge.id), amount_cents=str(cents))
        await refuse(attacker, f"with x as ({paid}) {made}")
    approved = f"update charge set status = 'APPROVED' where id = {charge.id}"
    await attacker.execute(f"with x as ({paid}), y as ({approved}) {made}")
    # Nor is one of them returned without the other.
    await refuse(attacker, f"update charge set status = 'RETURNED' where id = {charge.id}")
    refund_id = await give_back(service, caller, 777, charge.amount_cents)
    cause = {"transfer_id": 777, "refund_id": refund_id, "id": 10**9 + 5}
    given = f"""with a as ({entry("reserved", "settlement", charge.amount_cents, **cause)}), b as ({end_order(refund_id)}),
        c as (update refund set status = 'RETURNED', settled_at = now() where id = {refund_id})"""
    counted = "update transfer set status = 'RETURNED', returned_cents = amount_cents, returning_cents = 0 where id = 777"
    await refuse(attacker, f"{given} {counted}")
    returned = f"d as (update charge set status = 'RETURNED' where id = {charge.id})"
    await attacker.execute(f"{given}, {returned} {counted}")


async def test_a_queried_order_was_handed_over(attacker: Connection, service: Service, caller: Caller) -> None:
    await send(service, caller)
    await attacker.execute("update open_order set handed_at = now()")
    await refuse(attacker, "update open_order set handed_at = handed_at + interval '1 hour'")
    await refuse(attacker, "update open_order set handed_at = null")
    # It certainly never left: it is tried again before the rail would have been asked.
    await attacker.execute("update open_order set handed_at = null, due_at = due_at - interval '1 second'")
    await attacker.execute("update open_order set handed_at = now(), asked_count = 1")
    for change in ("handed_at = null, asked_count = 0", "handed_at = null", "asked_count = 0"):
        await refuse(attacker, f"update open_order set {change}")
    # All that are open count as handed over when the database may have forgotten something.
    await attacker.execute(
        "update open_order set handed_at = coalesce(handed_at, now()), asked_count = greatest(asked_count, 1), due_at = now()"
    )


async def test_a_revision_of_a_charge_keeps_what_was_before_it(attacker: Connection, service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    revised = f"update charge set contents = '{{}}', revision = 1 where id = {charge.id}"
    kept = f"insert into charge_revision values ({charge.id}, {caller.holder_id}, {{}}, '{{{{}}}}', '')"
    await refuse(attacker, revised)
    await refuse(attacker, kept.format(0))
    await refuse(attacker, f"with x as ({kept.format(1)}) {revised}")
    await refuse(attacker, "insert into charge_revision values (404, 1, 0, '{}', '')")
    await attacker.execute(f"with x as ({kept.format(0)}) {revised}")
    await refuse(attacker, f"update charge set revision = 0 where id = {charge.id}")


async def test_what_is_kept_of_a_charge_is_what_it_said(attacker: Connection, service: Service, caller: Caller) -> None:
    charge = await make_charge(service, caller)
    kept = f"insert into charge_revision values ({charge.id}, {caller.holder_id}, {{}}, '{{}}', '')"
    revised = f"update charge set contents = '{{}}', revision = {{}} where id = {charge.id}"
    first, second = '{"said": 1}', '{"said": 2}'
    await attacker.execute(f"with x as ({kept.format(0, second)}) {revised.format(first, 1)}")
    await refuse(attacker, f"with x as ({kept.format(1, second)}) {revised.format(second, 2)}")
    await attacker.execute(f"with x as ({kept.format(1, first)}) {revised.format(second, 2)}")


@pytest.mark.parametrize("instant", ["infinity", "-infinity"])
async def test_no_date_is_beyond_the_end(attacker: Connection, service: Service, caller: Caller, instant: str) -> None:
    await send(service, caller)
    await make_charge(service, caller)
    await refuse(attacker, f"update open_order set due_at = '{instant}'")
    await refuse(attacker, f"update open_order set give_up_at = '{instant}'")
    await refuse(attacker, f"update charge set expires_at = '{instant}'")
    received_id = await receive(service)
    paid = entry("settlement", "available", 1000, transfer_id=777)
    made = new_transfer(received_id, end_to_end_id=OTHER_NAME)
    dated = paid.replace("last_entry_at + interval '1 hour'", f"'{instant}'::timestamptz")
    await refuse(attacker, f"with x as ({dated}) {made}")
    await attacker.execute(f"with x as ({paid}) {made}")


async def test_a_report_is_kept_open_and_a_refusal_stays_for_its_time(attacker: Connection, service: Service) -> None:
    columns = "kind, reason, explanation, name, report_id, report, fingerprint"
    report = "'credit', 'contradiction', 'x', 'x', 'x', '{}', 'x'"
    closed = f"insert into kept_report ({columns}, closed_at, closed_by, close_reason) values ({report}, now(), 'x', 'x')"
    await refuse(attacker, closed)
    refused = "insert into refused_credit (name, kind, refusal_code{}) values (rpad('E', 32, 'x'), 'credit', 'AC03'{})"
    await refuse(attacker, refused.format(", refused_at", ", now() - interval '1 year'"))
    await attacker.execute(refused.format("", ""))
    await refuse(attacker, "delete from refused_credit")
    age = "select pg_get_triggerdef(oid) from pg_trigger where tgname = 'keep_refusal'"
    assert f"'{incoming.REFUSALS_KEPT_FOR.days} days'" in await attacker.fetchval(age)


@pytest.mark.parametrize("is_given_first", [True, False])
async def test_a_name_given_at_once_has_one_amount(service: Service, caller: Caller, *, is_given_first: bool) -> None:
    sent_id, received_id = await send(service, caller, 1000), await receive(service, 999)
    told = "'E' || repeat('1', 31)"
    given = f"""with x as (update open_order set network_id = {told} where resource_id = {sent_id})
        update transfer set network_id = {told} where id = {sent_id}"""
    paid = entry("settlement", "available", 999, transfer_id=777)
    taken = f"with x as ({paid}) {new_transfer(received_id, end_to_end_id=told)}"
    first, second = (given, taken) if is_given_first else (taken, given)
    async with service.context.pool.acquire() as one, service.context.pool.acquire() as other:
        async with one.transaction():
            await one.execute(first)
            waiting = asyncio.create_task(other.execute(second))
            done, _ = await asyncio.wait([waiting], timeout=0.3)
            assert not done
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await waiting


async def test_an_order_has_its_transfers_name(attacker: Connection, service: Service, caller: Caller) -> None:
    sent_id, received_id = await send(service, caller, 1000), await receive(service, 1000)
    told = "'E' || repeat('1', 31)"
    call_order = f"update open_order set network_id = {{}} where resource_id = {sent_id}"
    call_transfer = f"update transfer set network_id = {{}} where id = {sent_id}"
    await refuse(attacker, call_order.format(told))
    await refuse(attacker, call_transfer.format(told))
    await refuse(attacker, f"with x as ({call_order.format(told)}) {call_transfer.format(told.replace('1', '2', 1))}")
    await attacker.execute(f"with x as ({call_order.format(told)}) {call_transfer.format(told)}")
    # A received payment under that id is the same payment, between two of our holders, or it is wrong.
    for cents in (999, 1000):
        paid = entry("settlement", "available", cents, transfer_id=777)
        made = f"with x as ({paid}) {new_transfer(received_id, end_to_end_id=told, amount_cents=str(cents))}"
        if cents == 1000:
            await attacker.execute(made)
        else:
            await refuse(attacker, made)


async def test_what_comes_in_first_may_be_what_went_out(attacker: Connection, service: Service, caller: Caller) -> None:
    await receive(service, 1000)
    name = await attacker.fetchval("select end_to_end_id from transfer")
    for cents in (999, 1000):
        sent_id = await send(service, caller, cents)
        both = f"""with x as (update open_order set network_id = '{name}' where resource_id = {sent_id})
            update transfer set network_id = '{name}' where id = {sent_id}"""
        if cents == 1000:
            await attacker.execute(both)
        else:
            await refuse(attacker, both)
