"""What is to be changed is there, or the group fails: nothing is ever changed by half."""

import asyncpg
import msgspec
import pytest

from pixconnect.domain.frame.errors import InvariantBroken
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money.charge import Charge, ChargeRequest, expire_charge
from pixconnect.domain.money.order import OpenOrder
from pixconnect.domain.money.refund import Refund, RefundRequest, fail_refund
from pixconnect.domain.money.transfer import AccountTransferRequest, Transfer, begin_return
from pixconnect.store.money import order as order_store
from pixconnect.store.money import transfer as transfer_store
from pixconnect.usecases.money import charge as charge_usecases
from pixconnect.usecases.money import incoming
from pixconnect.usecases.money import refund as refund_usecases
from pixconnect.usecases.money import transfer as transfer_usecases
from pixconnect.writing.changes import Changes
from support.records import outside_party, own_key
from support.service import Service, credit_report


async def test_a_change_that_finds_no_row_fails_the_group(service: Service, caller: Caller) -> None:
    context = service.context
    charge = await charge_usecases.create_charge(context, caller, ChargeRequest(amount_cents=1, key=own_key()))
    report = credit_report(service)
    await incoming.receive_credit(context, report)
    received = (await transfer_store.find_named(context.pool, [report.end_to_end_id], "IN"))[report.end_to_end_id]
    refund = await refund_usecases.start_refund(
        context, caller, RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=1)
    )
    request = AccountTransferRequest(amount_cents=1, credit_party=outside_party())
    sent = (await transfer_usecases.start_transfer(context, caller, request)).transfer
    async with context.pool.acquire() as connection, connection.transaction():
        order = (await order_store.lock(connection, [sent.end_to_end_id]))[sent.end_to_end_id]
    for missing in (charge, received, refund, order):
        changes = Changes()
        _change(changes, _elsewhere(missing), service)
        async with context.pool.acquire() as connection, connection.transaction():
            with pytest.raises(InvariantBroken):
                await changes.write(connection)


@pytest.mark.usefixtures("caller")
async def test_what_a_group_makes_is_not_moved_by_the_same_group(service: Service) -> None:
    report = credit_report(service)
    await incoming.receive_credit(service.context, report)
    found = await transfer_store.find_named(service.context.pool, [report.end_to_end_id], "IN")
    received = found[report.end_to_end_id]
    made = msgspec.structs.replace(received, id=received.id + 1, end_to_end_id="E" + "0" * 31)
    changes = Changes()
    changes.add_transfer(made)
    changes.move_transfer(made, begin_return(made, 1))
    connection = await asyncpg.connect(service.database.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        # Without triggers, which would refuse a transfer that has no entries before anything is counted.
        await connection.execute("set session_replication_role = replica")
        with pytest.raises(InvariantBroken, match="transfer_change"):
            await changes.write(connection)
    finally:
        await connection.close()


def _elsewhere(thing: Charge | Transfer | Refund | OpenOrder) -> Charge | Transfer | Refund | OpenOrder:
    """The same, as another holder's."""
    if isinstance(thing, OpenOrder):
        return msgspec.structs.replace(thing, name="E" + "0" * 31)
    return msgspec.structs.replace(thing, holder_id=404)


def _change(changes: Changes, thing: Charge | Transfer | Refund | OpenOrder, service: Service) -> None:
    now = service.clock.now()
    match thing:
        case Charge():
            changes.move_charge(thing, expire_charge(thing, now))
        case Transfer():
            changes.move_transfer(thing, begin_return(thing, 1))
        case Refund():
            changes.move_refund(thing, fail_refund(thing, "AC03", "x", now))
        case OpenOrder():
            changes.end_order(thing)
