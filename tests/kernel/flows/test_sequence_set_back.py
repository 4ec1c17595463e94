"""After a restore two holders may have resources of the same id, without any effect on each other."""

from collections.abc import AsyncIterator

import pytest
from msgspec import Struct

from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows.charge import expire_charges
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge, ChargeRequest
from pixconnect.kernel.rules.rail import Settled
from pixconnect.kernel.rules.refund import Refund, RefundRequest
from support.books import check_books
from support.postgres import Addresses, execute_as_owner
from support.records import own_key
from support.service import Service, credit_report, open_holder, open_service


class Twin(Struct, frozen=True):
    """One of two holders with the same ids, and the process that writes for it."""

    service: Service
    caller: Caller
    number: str

    async def charge(self, amount_cents: int = 1000) -> Charge:
        request = ChargeRequest(amount_cents=amount_cents, key=own_key(self.number))
        return await charge_usecases.create_charge(self.service.context, self.caller, request)

    async def be_paid(self, charge: Charge) -> str:
        report = credit_report(self.service, amount_cents=charge.amount_cents, account_number=self.number, txid=charge.txid)
        assert (await receive_credit(self.service.context, report)).refusal_code is None
        return report.end_to_end_id

    async def refund(self, end_to_end_id: str, amount_cents: int = 1000) -> Refund:
        request = RefundRequest(end_to_end_id=end_to_end_id, amount_cents=amount_cents)
        return await refund_usecases.start_refund(self.service.context, self.caller, request)

    async def status_of(self, charge: Charge) -> str:
        read = await charge_usecases.read_charge_by_id(self.service.context, self.caller, charge.id)
        assert read.external_id == charge.external_id
        return read.status


@pytest.fixture
async def twins(database: Addresses) -> AsyncIterator[tuple[Twin, Twin]]:
    """Each takes its first block of ids from sequences that were set back in between."""
    async with open_service(database) as first, open_service(database, clock=first.clock) as second:
        one = Twin(first, await open_holder(first, account_number="1"), "1")
        two = Twin(second, await open_holder(second, account_number="2"), "2")
        await first.context.ids.charge_id(), await first.context.ids.transfer_id(), await first.context.ids.refund_id()
        sequences = "unnest(array['charge_id', 'transfer_id', 'refund_id'])"
        await execute_as_owner(database, f"select setval(name, 1, false) from {sequences} as name")
        (await second.context.ids.charge_id(), await second.context.ids.transfer_id(), await second.context.ids.refund_id())
        yield one, two
        await check_books(first)


async def test_a_refund_returns_the_charge_of_its_own_holder(twins: tuple[Twin, Twin]) -> None:
    one, two = twins
    charge, other = await one.charge(), await two.charge()
    assert charge.id == other.id
    name, _ = await one.be_paid(charge), await two.be_paid(other)
    refund = await one.refund(name)
    await end_orders(one.service.context, [(refund.return_id, Settled(settled_at=one.service.clock.now()))])
    assert (await one.status_of(charge), await two.status_of(other)) == ("RETURNED", "APPROVED")


async def test_a_refund_can_be_settled_while_the_other_holders_charge_is_unpaid(twins: tuple[Twin, Twin]) -> None:
    one, two = twins
    charge, other = await one.charge(), await two.charge()
    refund = await one.refund(await one.be_paid(charge))
    failed = await end_orders(one.service.context, [(refund.return_id, Settled(settled_at=one.service.clock.now()))])
    assert failed == [None]
    assert (await one.status_of(charge), await two.status_of(other)) == ("RETURNED", "PENDING")


async def test_refunds_of_the_same_ids_in_one_group_stay_apart(twins: tuple[Twin, Twin]) -> None:
    one, two = twins
    charge, other = await one.charge(1000), await two.charge(700)
    name, other_name = await one.be_paid(charge), await two.be_paid(other)
    refund, other_refund = await one.refund(name, 1000), await two.refund(other_name, 300)
    assert refund.id == other_refund.id
    assert refund.transfer_id == other_refund.transfer_id
    settled = Settled(settled_at=one.service.clock.now())
    await end_orders(one.service.context, [(refund.return_id, settled), (other_refund.return_id, settled)])
    assert (await one.status_of(charge), await two.status_of(other)) == ("RETURNED", "APPROVED")


async def test_charges_of_the_same_id_expire_together_and_each_has_its_event(twins: tuple[Twin, Twin]) -> None:
    one, two = twins
    charge, other = await one.charge(), await two.charge()
    one.service.clock.advance(days=2)
    await expire_charges(one.service.context, range(256), one.service.clock.now(), 100)
    assert (await one.status_of(charge), await two.status_of(other)) == ("EXPIRED", "EXPIRED")
    query = "select holder_id from event where name = 'qrcode.expired' order by holder_id"
    rows = await one.service.context.pool.fetch(query)
    assert [row["holder_id"] for row in rows] == [one.caller.holder_id, two.caller.holder_id]


async def test_payments_to_both_in_one_group_are_each_recorded(twins: tuple[Twin, Twin]) -> None:
    one, two = twins
    charge, other = await one.charge(), await two.charge()
    names = [await one.be_paid(charge), await two.be_paid(other)]
    ids = await one.service.context.pool.fetch("select id, holder_id from transfer where end_to_end_id = any($1)", names)
    assert len({row["id"] for row in ids}) == 1
    assert len(ids) == 2
