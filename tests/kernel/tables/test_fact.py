"""A changed row must exist, or the batch fails: no change is made by half."""

import importlib
import pkgutil
from typing import Any

import msgspec
import pytest

import pixconnect
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import incoming
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge, ChargeRequest, expire_charge
from pixconnect.kernel.rules.order import OpenOrder
from pixconnect.kernel.rules.refund import Refund, RefundRequest, fail_refund
from pixconnect.kernel.rules.transfer import Transfer, begin_return
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables import order as order_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.charge import CHARGES
from pixconnect.kernel.tables.fact import Changes, Fact, FactRows
from pixconnect.kernel.tables.order import ORDERS
from pixconnect.kernel.tables.refund import REFUNDS
from pixconnect.kernel.tables.transfer import TRANSFERS
from pixconnect.platform.base.errors import InvariantBroken
from support.records import a_charge, a_transfer, own_key
from support.service import Service, credit_report, send_out


async def test_a_change_that_finds_no_row_fails_the_group(service: Service, caller: Caller) -> None:
    context = service.context
    charge = await charge_usecases.create_charge(context, caller, ChargeRequest(amount_cents=1, key=own_key()))
    report = credit_report(service)
    await incoming.receive_credit(context, report)
    received = (await transfer_store.find_named(context.pool, [report.end_to_end_id], "IN"))[report.end_to_end_id]
    refund = await refund_usecases.start_refund(
        context, caller, RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=1)
    )
    sent = await send_out(service, caller, 1)
    async with context.pool.acquire() as connection, connection.transaction():
        order = (await order_store.lock(connection, [sent.end_to_end_id]))[sent.end_to_end_id]
    for missing in (charge, received, refund, order):
        changes = Changes()
        _change(changes, _elsewhere(missing), service)
        async with context.pool.acquire() as connection, connection.transaction():
            with pytest.raises(InvariantBroken):
                await changes.write_all(connection)


def test_what_a_group_makes_changes_in_it_only_where_its_insert_has_all_columns() -> None:
    changes, transfer = Changes(), a_transfer()
    changes.put(TRANSFERS, transfer)
    with pytest.raises(InvariantBroken):
        changes.move(TRANSFERS, transfer, begin_return(transfer, 1))
    rows, charge = FactRows(CHARGES), a_charge()
    rows.new[charge.id, charge.holder_id] = charge
    held = msgspec.structs.replace(charge, held_by=7)
    rows.move(charge, held)
    with pytest.raises(InvariantBroken):
        rows.list_parts()


def test_each_fact_has_a_rank_of_its_own() -> None:
    ranks = dict[int, Fact[Any]]()
    for module in pkgutil.walk_packages(pixconnect.__path__, "pixconnect."):
        if ".tables" not in module.name:
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Fact):
                assert ranks.setdefault(value.rank, value) is value, module.name
    assert len(ranks) > 10


def test_a_charge_is_written_by_the_narrowest_update_that_fits() -> None:
    charge = a_charge()
    for changed, part in (
        ({"status": "EXPIRED"}, charge_store.UPDATE),
        ({"held_by": 7}, charge_store.UPDATE_HELD),
        ({"held_by": 7, "amount_cents": charge.amount_cents + 1}, charge_store.UPDATE_REVISED),
    ):
        rows = FactRows(CHARGES)
        # Changed twice: the row before the first change counts.
        rows.move(charge, msgspec.structs.replace(charge, **changed))
        rows.move(msgspec.structs.replace(charge, **changed), msgspec.structs.replace(charge, **changed, slot=9))
        assert [each for each, _ in rows.list_parts()] == [part]


def _elsewhere(thing: Charge | Transfer | Refund | OpenOrder) -> Charge | Transfer | Refund | OpenOrder:
    """The same, as another holder's."""
    if isinstance(thing, OpenOrder):
        return msgspec.structs.replace(thing, name="E" + "0" * 31)
    return msgspec.structs.replace(thing, holder_id=404)


def _change(changes: Changes, thing: Charge | Transfer | Refund | OpenOrder, service: Service) -> None:
    now = service.clock.now()
    match thing:
        case Charge():
            changes.move(CHARGES, thing, expire_charge(thing, now))
        case Transfer():
            changes.move(TRANSFERS, thing, begin_return(thing, 1))
        case Refund():
            changes.move(REFUNDS, thing, fail_refund(thing, "AC03", "x", now))
        case OpenOrder():
            changes.delete(ORDERS, thing)
