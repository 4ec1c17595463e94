"""A COMMIT whose answer is lost: every write has its effect once, and its caller gets the right answer."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, structs

import pixconnect
from pixconnect.features.contests.service.defence import defend, list_infractions
from pixconnect.features.contests.service.infraction import receive_infraction
from pixconnect.features.lots import service as lot_usecases
from pixconnect.features.lots.rules import WantedItem, slot_of
from pixconnect.features.lots.service import NewItem, do_due_items
from pixconnect.features.movements.service import receive_blocks, receive_movement
from pixconnect.features.pix_api.service import charge as usecases
from pixconnect.features.pix_api.service import location as location_usecases
from pixconnect.features.pix_api.service.charge import create_due_charge
from pixconnect.features.pix_api.service.charge_write import StandardCharge
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows.incoming import receive_credit, receive_return
from pixconnect.kernel.flows.network_id import NamedOrder, name_orders
from pixconnect.kernel.flows.settlement import Ending, end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.block_report import BlockReport, BlockTerms
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.charge_contents import ChargeContents, ContentsChange, DueTerms, Payer
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.rail import Abilities, Rejected, Settled
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.writing import batch as timeouts
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated
from support.books import check_books
from support.cut_connections import Cut, Wire, open_wire
from support.postgres import Addresses
from support.records import OUTSIDE_ISPB, a_return, own_key
from support.service import (
    STARTED_AT,
    Service,
    accepted,
    cancelled,
    credit_report,
    decided,
    infraction_report,
    movement_report,
    open_holder,
    open_service,
    send_out,
)

Act = Callable[[], Awaitable[object]]


class Shop(Struct, frozen=True, kw_only=True):
    service: Service
    caller: Caller
    wire: Wire
    numbers: Iterator[int]

    @property
    def context(self) -> Any:
        return self.service.context

    def name(self) -> str:
        """A new txid or external id."""
        return f"n{next(self.numbers):025}"

    async def put(self, txid: str, **changes: Any) -> StandardCharge:
        location_id = changes.pop("location_id", None)
        contents = ChargeContents(**{"lifetime_s": 3600, "amount_cents": 1000, "key": own_key()} | changes)
        return await usecases.put_charge(self.context, self.caller, txid, contents, location_id)

    async def patch(self, txid: str, location_id: int | None = None, **changes: Any) -> StandardCharge:
        removes = changes.pop("removes", False)
        change = ContentsChange(**changes)
        return await usecases.patch_charge(self.context, self.caller, txid, change, location_id=location_id, removes=removes)

    async def locate(self) -> int:
        return (await location_usecases.create_location(self.context, self.caller, "cob")).id

    async def send(self) -> Transfer:
        return await send_out(self, self.caller, 400)


@pytest.fixture
async def shop(database: Addresses) -> AsyncIterator[Shop]:
    rail = Abilities(keeps_our_id=False, contests="theirs", defence_length_max=1000)
    async with open_wire(database) as (wire, near), open_service(near, abilities=rail) as service:
        caller = await open_holder(service, funds_cents=1_000_000)
        yield Shop(service=service, caller=caller, wire=wire, numbers=count(1))


# Each prepares what it needs and returns the act to do under a lost COMMIT; the act returns the answer that is
# required.


async def _create_charge(shop: Shop) -> Act:
    request = ChargeRequest(amount_cents=100, key=own_key(), external_id=shop.name())

    async def act() -> object:
        return (await charge_usecases.create_charge(shop.context, shop.caller, request)).status

    return act


def _contents_of_due(key: str) -> ChargeContents:
    payer, due = Payer(name="Ana", tax_id="52998224725"), DueTerms(due_on=STARTED_AT.date())
    return ChargeContents(lifetime_s=0, amount_cents=100, key=key, payer=payer, due=due)


async def _create_due_charge(shop: Shop) -> Act:
    contents, name = _contents_of_due(own_key()), shop.name()

    async def act() -> object:
        return (await create_due_charge(shop.context, shop.caller, contents, name)).status

    return act


def _work_at_item(key: str) -> Callable[[Shop], Awaitable[Act]]:
    """A worker's part: its write of an item stands, and nothing more is to be done."""

    async def prepare(shop: Shop) -> Act:
        contents = _contents_of_due(key)
        item = NewItem(txid=shop.name(), asked=WantedItem(contents=contents), wanted="{}")
        number = next(shop.numbers)
        await lot_usecases.put_lot(shop.context, shop.caller, number, "Lote", [item])

        async def act() -> object:
            await do_due_items(shop.context, [slot_of(number)], 10)
            assert (await do_due_items(shop.context, [slot_of(number)], 10))[0] == 0
            shown = await lot_usecases.read_lot(shop.context, shop.caller, number)
            return [each.status for each in shown.items]

        return act

    return prepare


async def _start_transfer(shop: Shop) -> Act:
    async def act() -> object:
        return (await shop.send()).status

    return act


async def _start_refund(shop: Shop) -> Act:
    report = credit_report(shop.service)
    await receive_credit(shop.context, report)
    request = RefundRequest(end_to_end_id=report.end_to_end_id, amount_cents=1000)

    async def act() -> object:
        return (await refund_usecases.start_refund(shop.context, shop.caller, request)).status

    return act


async def _deposit(shop: Shop) -> Act:
    async def act() -> object:
        return (await ledger_usecases.deposit(shop.context, shop.caller.holder_id, 5)).amount_cents

    return act


async def _receive_credit(shop: Shop) -> Act:
    report = credit_report(shop.service)

    async def act() -> object:
        return (await receive_credit(shop.context, report)).refusal_code

    return act


async def _refuse_credit(shop: Shop) -> Act:
    report = credit_report(shop.service, txid=(await shop.put(shop.name())).charge.txid, amount_cents=1)

    async def act() -> object:
        return (await receive_credit(shop.context, report)).refusal_code

    return act


async def _refuse_nobodys_credit(shop: Shop) -> Act:
    report = credit_report(shop.service, account_number="9")

    async def act() -> object:
        return (await receive_credit(shop.context, report)).refusal_code

    return act


async def _accept_credit(shop: Shop) -> Act:
    report = credit_report(shop.service, txid=(await shop.put(shop.name())).charge.txid)

    async def act() -> object:
        return (await receive_credit(shop.context, accepted(report))).refusal_code

    return act


async def _cancel_credit(shop: Shop) -> Act:
    report = credit_report(shop.service)
    await receive_credit(shop.context, accepted(report))

    async def act() -> object:
        return (await receive_credit(shop.context, cancelled(report))).refusal_code

    return act


async def _receive_return(shop: Shop) -> Act:
    sent = await shop.send()
    await end_orders(shop.context, [(sent.end_to_end_id, Settled(settled_at=STARTED_AT))])
    return_id = f"D{OUTSIDE_ISPB}202607011500{next(shop.numbers):011}"
    report = a_return(sent.end_to_end_id, report_id=shop.name(), return_id=return_id, amount_cents=400)

    async def act() -> object:
        answer = await receive_return(shop.context, report)
        return answer and answer.refusal_code

    return act


def _receive_movement(amount_cents: int) -> Callable[[Shop], Awaitable[Act]]:
    async def prepare(shop: Shop) -> Act:
        report = movement_report(shop.service, shop.name(), amount_cents=amount_cents)

        async def act() -> object:
            return (await receive_movement(shop.context, report)).refusal_code

        return act

    return prepare


async def _receive_blocks(shop: Shop) -> Act:
    terms = BlockTerms(reference=shop.name(), kind="judicial", wanted_cents=100, held_cents=90)
    party = structs.replace(credit_report(shop.service).credit_party, key=None)
    report = BlockReport(report_id=shop.name(), party=party, blocks=(terms,), reported_at=shop.service.clock.now())

    async def act() -> object:
        await receive_blocks(shop.context, report)
        found = await shop.service.fetch("select covered_cents from block where reference = $1", terms.reference)
        return [row["covered_cents"] for row in found]

    return act


async def _receive_infraction(shop: Shop) -> Act:
    paid = credit_report(shop.service)
    await receive_credit(shop.context, paid)
    told = infraction_report(shop.service, paid.end_to_end_id, shop.name())
    taken = decided(shop.service, told, 400)

    async def act() -> object:
        await receive_infraction(shop.context, taken)
        found = await shop.service.fetch("select state, taken_cents from infraction where name = $1", told.name)
        return [tuple(row) for row in found]

    return act


async def _answer_infraction(shop: Shop) -> Act:
    paid = credit_report(shop.service)
    await receive_credit(shop.context, paid)
    await receive_infraction(shop.context, infraction_report(shop.service, paid.end_to_end_id, shop.name()))
    page = await list_infractions(shop.context, shop.caller, "open", Span(page_size=1))
    contested = page.items[0].infraction.id

    async def act() -> object:
        shown = await defend(shop.context, shop.caller, contested, "It was delivered")
        return shown.infraction.defence, shown.infraction.defence_state

    return act


def _end(ending: Ending) -> Callable[[Shop], Awaitable[Act]]:
    async def prepare(shop: Shop) -> Act:
        sent = await shop.send()

        async def act() -> object:
            return await end_orders(shop.context, [(sent.end_to_end_id, ending)])

        return act

    return prepare


async def _name_order(shop: Shop) -> Act:
    told = NamedOrder(ordered=await shop.send(), network_id=f"E{OUTSIDE_ISPB}202607011500{next(shop.numbers):011}")

    async def act() -> object:
        return await name_orders(shop.context, [told])

    return act


async def _create_location(shop: Shop) -> Act:
    async def act() -> object:
        return (await location_usecases.create_location(shop.context, shop.caller, "cob")).status

    return act


async def _unbind_location(shop: Shop) -> Act:
    made = await shop.put(shop.name())
    assert made.location is not None
    location_id = made.location.id

    async def act() -> object:
        return (await location_usecases.unbind_location(shop.context, shop.caller, location_id)).status

    return act


def _shown(shown: StandardCharge) -> object:
    return shown.charge.status, shown.revision, shown.contents, shown.location is not None


async def _put_new(shop: Shop) -> Act:
    txid = shop.name()

    async def act() -> object:
        return _shown(await shop.put(txid))

    return act


async def _put_at_location(shop: Shop) -> Act:
    txid, location_id = shop.name(), await shop.locate()

    async def act() -> object:
        return _shown(await shop.put(txid, location_id=location_id))

    return act


def _change(**changes: Any) -> Callable[[Shop], Awaitable[Act]]:
    async def prepare(shop: Shop) -> Act:
        txid = (await shop.put(shop.name())).charge.txid
        location_id = await shop.locate() if changes.get("moves") else None
        asked = {name: value for name, value in changes.items() if name != "moves"}

        async def act() -> object:
            return _shown(await shop.patch(txid, location_id, **asked))

        return act

    return prepare


async def _put_again(shop: Shop) -> Act:
    txid = (await shop.put(shop.name())).charge.txid

    async def act() -> object:
        return _shown(await shop.put(txid, amount_cents=7, question="?"))

    return act


ACTS = {
    "create_charges": [_create_charge],
    "start_transfers": [_start_transfer],
    "start_refunds": [_start_refund],
    "deposit_all": [_deposit],
    "receive_credits": [_receive_credit, _refuse_credit, _accept_credit, _cancel_credit],
    "receive_returns": [_receive_return],
    "receive_movements": [_receive_movement(100), _receive_movement(99_999_999)],
    "receive_blocks": [_receive_blocks],
    "receive_infractions": [_receive_infraction],
    "answer_infractions": [_answer_infraction],
    "refuse_credits": [_refuse_nobodys_credit],
    "write_endings": [_end(Settled(settled_at=STARTED_AT)), _end(Rejected(code="AC03", reason="no such account"))],
    "name_orders": [_name_order],
    "create_locations": [_create_location],
    "unbind_locations": [_unbind_location],
    "write_standard_charges": [
        _put_new, _create_due_charge, _put_at_location, _put_again, _change(amount_cents=7), _change(moves=True),
        _change(moves=True, amount_cents=7), _change(removes=True), _work_at_item(own_key()),
        _work_at_item("nobody@example.com"),
    ],
}  # fmt: skip
ELSEWHERE = {*("record_attempts", "record_returns", "complete_payers", "take_back_movements", "note_waiting", "reserve_lines")}
"""An attempt has a number, under which it is recorded once: ``tests/journeys/test_kill_points.py``. The others are of live
mode: ``tests/features/institutions/service``.
"""


def test_every_write_operation_is_in_the_table() -> None:
    sources = [path.read_text() for path in Path(pixconnect.__file__).parent.rglob("*.py")]
    names = {name for source in sources for name in re.findall(r'WriteOperation\(\s*"(\w+)"', source)}
    assert names == ACTS.keys() | ELSEWHERE


_TABLES = (
    "charge", "charge_revision", "location", "transfer", "refund", "ledger_entry", "event", "open_order",
    "refused_credit",
)  # fmt: skip


async def _count_rows(shop: Shop) -> list[int]:
    return [await shop.context.pool.fetchval(f"select count(*) from {table}") for table in _TABLES]


@pytest.mark.parametrize(
    "cut", [pytest.param("before", marks=pytest.mark.long), "after", pytest.param("late", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("operation", sorted(ACTS))
async def test_a_lost_commit_has_one_effect_and_the_right_answer(shop: Shop, operation: str, cut: Cut) -> None:
    for prepare in ACTS[operation]:
        whole, lost = await prepare(shop), await prepare(shop)
        before = await _count_rows(shop)
        expected = await whole()
        between = await _count_rows(shop)
        shop.wire.cuts = [cut]
        assert await lost() == expected, prepare
        assert not shop.wire.cuts, prepare
        after = await _count_rows(shop)
        added = [[now - then for now, then in zip(*pair, strict=True)] for pair in ((between, before), (after, between))]
        assert added[0] == added[1], prepare
    await check_books(shop.service)


async def _lose(shop: Shop, act: Act, meanwhile: Act, monkeypatch: pytest.MonkeyPatch) -> object:
    """Do something under a lost COMMIT, and something else beside it before the retry."""
    real_sleep, done = asyncio.sleep, False

    async def sleep(delay_s: float) -> None:
        nonlocal done
        if not done and shop.wire.cuts_count:
            done = True
            await meanwhile()
        await real_sleep(delay_s)

    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "sleep", sleep)
        shop.wire.cuts = ["after"]
        outcome = await act()
    assert done
    return outcome


@pytest.fixture
async def other(shop: Shop, database: Addresses) -> AsyncIterator[Shop]:
    """The same holder at another process."""
    async with open_service(database, clock=shop.service.clock, abilities=Abilities(keeps_our_id=False)) as service:
        yield structs.replace(shop, service=service)


async def test_a_written_change_is_not_written_twice(shop: Shop, other: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for first in (shop.put, shop.patch):
        txid = shop.name()
        if first == shop.patch:
            await shop.put(txid)

        async def act(txid: str = txid, first: Any = first) -> object:
            return await first(txid, amount_cents=5)

        async def meanwhile(txid: str = txid) -> object:
            return await other.patch(txid, amount_cents=6)

        answer = await _lose(shop, act, meanwhile, monkeypatch)
        now = await usecases.read_charge(shop.context, shop.caller, txid)
        assert answer == now
        assert (now.contents.amount_cents, now.revision) == (6, 1 if first == shop.put else 2)


async def test_anothers_removal_is_not_ones_own(shop: Shop, other: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    txid = (await shop.put(shop.name())).charge.txid

    async def meanwhile() -> object:
        shop.service.clock.advance(seconds=1)
        return await other.patch(txid, removes=True)

    monkeypatch.setattr(shop.wire, "_cut", _swallow(shop.wire))
    with pytest.raises(Violated):
        await _lose(shop, lambda: shop.patch(txid, removes=True), meanwhile, monkeypatch)


def _swallow(wire: Wire) -> Any:
    async def cut(*_: object) -> None:
        wire.cuts_count += 1

    return cut


async def test_a_taken_location_stays_with_its_next(shop: Shop, other: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    made, next_txid = await shop.put(shop.name()), shop.name()
    assert made.location is not None
    location_id = made.location.id

    async def act() -> object:
        return (await location_usecases.unbind_location(shop.context, shop.caller, location_id)).status

    answer = await _lose(shop, act, lambda: other.put(next_txid, location_id=location_id), monkeypatch)
    assert answer == "COB_FREE"
    kept = await usecases.read_charge(shop.context, shop.caller, next_txid)
    assert kept.location is not None
    assert kept.location.id == location_id


async def test_who_is_not_told_of_a_charge_is_told_its_txid(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "UNKNOWN_OUTCOME_TIMEOUT_S", 0.3)
    await shop.put(shop.name())
    shop.wire.cuts = ["after"]
    shop.wire.is_away_after_cut = True
    contents = ChargeContents(lifetime_s=60, amount_cents=5, key=own_key())
    with pytest.raises(errors.OutcomeUnknown) as caught:
        await usecases.put_charge(shop.context, shop.caller, None, contents)
    shop.wire.is_away = False
    txid = caught.value.txid
    assert txid
    assert txid in caught.value.message
    while shop.context.pool.is_away:  # noqa: ASYNC110  who comes now is refused at once, until the pool looks again
        await asyncio.sleep(0.01)
    made = await usecases.read_charge(shop.context, shop.caller, txid)
    assert await usecases.put_charge(shop.context, shop.caller, txid, contents) == made
