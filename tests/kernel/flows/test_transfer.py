"""Transfers out, from request to answer: by key, by account and by book, in groups and under fire, and searched."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules import listing
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.listing import Page, Span, TransferSearch
from pixconnect.kernel.rules.rail import DirectoryEntry
from pixconnect.kernel.rules.transfer import (
    AccountTransferRequest,
    KeyTransferRequest,
    QrCodeTransferRequest,
    TransferRequest,
    TransferView,
)
from pixconnect.kernel.writing.write_queues import WriteQueues
from pixconnect.platform.base import errors
from support.books import check_books
from support.postgres import Addresses
from support.records import ISPB, outside_party, own_key
from support.service import FakeClock, Service, credit_report, make_charge, open_holder, open_service, read_funds

OUTSIDE_KEY = "joana@outside.example"


def by_key(**changes: Any) -> KeyTransferRequest:
    return KeyTransferRequest(**{"amount_cents": 100, "key": OUTSIDE_KEY, "key_type": "EMAIL", **changes})


def by_account(**changes: Any) -> AccountTransferRequest:
    return AccountTransferRequest(**{"amount_cents": 100, "credit_party": outside_party(), **changes})


def party(**changes: Any) -> Party:
    return msgspec.structs.replace(outside_party(), **changes)


def know(service: Service, key: str = OUTSIDE_KEY) -> None:
    service.rail.entries[key] = DirectoryEntry(key=key, key_type="EMAIL", party=outside_party(key=key))


async def start(service: Service, caller: Caller, request: TransferRequest) -> TransferView:
    return await transfer_usecases.start_transfer(service.context, caller, request)


async def rows_count(service: Service) -> int:
    return await service.context.pool.fetchval("select (select count(*) from transfer) + (select count(*) from event)")


async def test_a_transfer_to_a_key_reserves_and_goes_where_the_directory_says(service: Service, caller: Caller) -> None:
    know(service)
    view = await start(service, caller, by_key(key="JOANA@outside.example", external_id="a"))
    transfer = view.transfer
    assert (transfer.status, transfer.direction, transfer.initiation_type) == ("PROCESSING", "OUT", "KEY")
    assert view.credit_party == outside_party(key=OUTSIDE_KEY)
    assert (view.debit_party.ispb, view.debit_party.key) == (ISPB, None)
    assert transfer.end_to_end_id.startswith(f"E{ISPB}202607011500")
    assert await read_funds(service, caller) == (999_900, 100)
    reads = [
        transfer_usecases.read_transfer_by_id(service.context, caller, transfer.id),
        transfer_usecases.read_transfer_by_external_id(service.context, caller, "a"),
        transfer_usecases.read_transfer_by_end_to_end_id(service.context, caller, transfer.end_to_end_id),
    ]
    assert await asyncio.gather(*reads) == [view] * 3
    assert service.rail.orders == []  # the worker's
    await check_books(service)


async def test_a_transfer_to_an_account_asks_nobody(service: Service, caller: Caller) -> None:
    service.rail.is_reachable = False
    view = await start(service, caller, by_account())
    assert (view.transfer.initiation_type, view.credit_party) == ("MANUAL", outside_party())


async def test_an_account_of_ours_is_shown_as_we_know_it(service: Service, caller: Caller) -> None:
    await open_holder(service, account_number="2")
    view = await start(service, caller, by_account(credit_party=party(ispb=ISPB, account_number="2", name="Someone")))
    assert (view.transfer.is_book, view.transfer.status, view.credit_party.name) == (True, "CONFIRMED", "Maria Souza")


async def test_another_holders_transfer_looks_like_an_absent_one(service: Service, caller: Caller) -> None:
    stranger = await open_holder(service, account_number="2")
    transfer = (await start(service, caller, by_account(external_id="a"))).transfer
    reads = [
        transfer_usecases.read_transfer_by_id(service.context, stranger, transfer.id),
        transfer_usecases.read_transfer_by_external_id(service.context, stranger, "a"),
        transfer_usecases.read_transfer_by_end_to_end_id(service.context, stranger, transfer.end_to_end_id),
    ]
    for read in reads:
        with pytest.raises(errors.NotFound):
            await read


# The order of refusals: each row breaks a rule and every later one that it can.

REFUSALS: list[tuple[str, TransferRequest, type[errors.PixConnectError]]] = [
    ("nothing of it", by_key(amount_cents=0, key="x"), errors.AmountOutOfRange),
    ("too much of it", by_account(amount_cents=10**12, credit_party=party(ispb="x")), errors.AmountOutOfRange),
    ("a limit, and a key without a form", by_key(amount_cents=5_001, key="x"), errors.LimitExceeded),
    ("a limit, and an unknown key", by_key(amount_cents=5_001), errors.LimitExceeded),
    ("a limit, and no account", by_account(amount_cents=5_001, credit_party=party(tax_id="1")), errors.LimitExceeded),
    ("a limit, and no code", QrCodeTransferRequest(amount_cents=5_001, br_code="x"), errors.LimitExceeded),
    ("a limit, and the same account", by_key(amount_cents=5_001, key=own_key()), errors.LimitExceeded),
    ("no form", by_key(key="x"), errors.InvalidPixKey),
    ("the form of another type", by_key(key=OUTSIDE_KEY, key_type="CPF"), errors.InvalidPixKey),
    ("unknown to the directory", by_key(key="nobody@outside.example"), errors.PixKeyNotFound),
    ("a key, a tax id, an account", by_account(credit_party=party(key="x", tax_id="1", ispb="")), errors.InvalidPixKey),
    ("a tax id and an account", by_account(credit_party=party(tax_id="1", ispb="x")), errors.InvalidTaxId),
    ("an ISPB", by_account(credit_party=party(ispb="9999900")), errors.InvalidAccount),
    ("a branch", by_account(credit_party=party(branch="00001")), errors.InvalidAccount),
    ("an account", by_account(credit_party=party(account_number="1-X")), errors.InvalidAccount),
    ("no such account of ours", by_account(credit_party=party(ispb=ISPB, account_number="9")), errors.InvalidAccount),
    ("no code", QrCodeTransferRequest(amount_cents=4_000, br_code="x"), errors.InvalidQrCode),
    ("the same account, by key", by_key(key=own_key()), errors.SameAccount),
    ("the same account", by_account(credit_party=party(ispb=ISPB, account_number="1")), errors.SameAccount),
    ("blocked, and no funds", by_account(amount_cents=4_000), errors.HolderBlocked),
]


async def test_the_first_rule_that_is_broken_is_the_answer_and_nothing_is_left(service: Service) -> None:
    caller = await open_holder(service, funds_cents=3_000)
    await service.set_holder(caller, transfer_limit_cents=5_000, may_withdraw=False)
    for why, request, refusal in REFUSALS:
        with pytest.raises(errors.PixConnectError) as caught:
            await start(service, caller, request)
        assert type(caught.value) is refusal, why
    await service.set_holder(caller, may_withdraw=True)
    with pytest.raises(errors.InsufficientFunds):
        await start(service, caller, by_account(amount_cents=3_001))
    assert await read_funds(service, caller) == (3_000, 0)
    assert await rows_count(service) == 0


async def test_a_directory_that_cannot_be_asked_is_passed_over_until_nothing_else_is_wrong(service: Service) -> None:
    caller = await open_holder(service, funds_cents=3_000)
    service.rail.is_reachable = False
    await service.set_holder(caller, transfer_limit_cents=5_000, may_withdraw=False)
    with pytest.raises(errors.LimitExceeded):
        await start(service, caller, by_key(amount_cents=5_001))
    with pytest.raises(errors.HolderBlocked):
        await start(service, caller, by_key(amount_cents=4_000))
    await service.set_holder(caller, may_withdraw=True)
    with pytest.raises(errors.InsufficientFunds):
        await start(service, caller, by_key(amount_cents=4_000))
    with pytest.raises(errors.ServiceUnavailable):
        await start(service, caller, by_key(amount_cents=3_000))
    with pytest.raises(errors.InvalidPixKey):
        await start(service, caller, by_key(key="x"))
    assert await rows_count(service) == 0


async def test_a_replay_comes_before_every_refusal_and_before_the_network(service: Service, caller: Caller) -> None:
    know(service)
    made = {
        name: await start(service, caller, request)
        for name, request in {"k": by_key(external_id="k"), "a": by_account(external_id="a")}.items()
    }
    service.rail.is_reachable = False
    service.rail.entries.clear()
    await service.set_holder(caller, may_withdraw=False, transfer_limit_cents=1)
    assert await start(service, caller, by_key(external_id="k")) == made["k"]
    assert await start(service, caller, by_account(external_id="a")) == made["a"]
    conflicts: list[TransferRequest] = [
        by_key(external_id="k", amount_cents=0),
        by_key(external_id="k", key="JOANA@outside.example"),  # texts are compared as they were sent
        by_key(external_id="a"),  # another operation
        by_account(external_id="k"),
        by_account(external_id="a", credit_party=party(tax_id="1")),
        QrCodeTransferRequest(external_id="a", amount_cents=100, br_code="x"),
    ]
    for request in conflicts:
        with pytest.raises(errors.ExternalIdConflict):
            await start(service, caller, request)
    assert await read_funds(service, caller) == (999_800, 200)


async def test_fifty_of_one_external_id_answer_alike(service: Service, caller: Caller, database: Addresses) -> None:
    know(service)
    async with open_service(database, clock=service.clock) as other:
        know(other)
        views = await asyncio.gather(
            *(start(one, caller, by_key(external_id="a")) for _ in range(25) for one in (service, other))
        )
    assert all(view == views[0] for view in views)
    assert await read_funds(service, caller) == (999_900, 100)
    await check_books(service)


async def test_of_a_hundred_at_once_exactly_the_affordable_are_accepted(service: Service, database: Addresses) -> None:
    caller = await open_holder(service, funds_cents=3_333)
    async with open_service(database, clock=service.clock) as other:
        outcomes = await asyncio.gather(
            *(start(one, caller, by_account()) for _ in range(50) for one in (service, other)), return_exceptions=True
        )
    assert Counter(type(outcome) for outcome in outcomes) == {TransferView: 33, errors.InsufficientFunds: 67}
    assert await read_funds(service, caller) == (33, 3_300)
    await check_books(service)


async def test_limits_count_what_was_accepted_in_the_same_group_too(service: Service, caller: Caller) -> None:
    await service.set_holder(caller, day_limit_cents=1_050)
    outcomes = await asyncio.gather(*(start(service, caller, by_account()) for _ in range(20)), return_exceptions=True)
    assert Counter(type(outcome) for outcome in outcomes) == {TransferView: 10, errors.LimitExceeded: 10}
    await start(service, caller, by_account(amount_cents=50))
    with pytest.raises(errors.LimitExceeded, match="a day"):
        await start(service, caller, by_account(amount_cents=1))


async def test_a_day_and_a_night_end_in_sao_paulo(database: Addresses) -> None:
    clock = FakeClock(datetime(2026, 7, 1, 22, 59, tzinfo=UTC))  # 19:59 in Sao Paulo
    async with open_service(database, clock=clock) as service:
        caller = await open_holder(service, funds_cents=100_000)
        await service.set_holder(caller, day_limit_cents=5_000, night_limit_cents=1_000)
        await start(service, caller, by_account(amount_cents=2_000))  # by day no limit of the night counts
        clock.advance(minutes=1)  # 20:00
        await start(service, caller, by_account(amount_cents=900))
        with pytest.raises(errors.LimitExceeded, match="a night"):
            await start(service, caller, by_account(amount_cents=101))
        clock.advance(hours=4)  # midnight: another day, the same night
        with pytest.raises(errors.LimitExceeded, match="a night"):
            await start(service, caller, by_account(amount_cents=101))
        await start(service, caller, by_account(amount_cents=100))
        clock.advance(hours=6)  # 06:00
        await start(service, caller, by_account(amount_cents=4_900))
        with pytest.raises(errors.LimitExceeded, match="a day"):
            await start(service, caller, by_account(amount_cents=1))


async def test_what_was_sent_on_later_days_does_not_count_once_the_clock_is_back(database: Addresses) -> None:
    clock = FakeClock(datetime(2026, 7, 1, 2, 0, tzinfo=UTC))  # 23:00 in Sao Paulo
    async with open_service(database, clock=clock) as service:
        caller = await open_holder(service, funds_cents=100_000)
        await service.set_holder(caller, day_limit_cents=1_000, night_limit_cents=1_200)
        for hours in (2, 12, 48):  # the same night on the next day, that day, and the night after it
            clock.advance(hours=hours)
            await start(service, caller, by_account(amount_cents=500))
            clock.advance(hours=-hours)
        with pytest.raises(errors.LimitExceeded, match="a night"):
            await start(service, caller, by_account(amount_cents=701))
        await start(service, caller, by_account(amount_cents=700))
        with pytest.raises(errors.LimitExceeded, match="a day"):
            await start(service, caller, by_account(amount_cents=301))


async def test_what_failed_does_not_count_against_a_limit(service: Service, caller: Caller) -> None:
    stranger = await open_holder(service, account_number="2")
    await service.set_holder(stranger, may_deposit=False)
    await service.set_holder(caller, day_limit_cents=100)
    # One after the other: of two at once, either could be the first of their group.
    failed = await start(service, caller, by_key(key=own_key("2")))
    accepted = await start(service, caller, by_account())
    assert (failed.transfer.status, accepted.transfer.status) == ("ERROR", "PROCESSING")


async def test_a_book_transfer_is_confirmed_and_seen_by_both_sides(service: Service, caller: Caller) -> None:
    other = await open_holder(service, account_number="2")
    view = await start(service, caller, by_key(key=own_key("2")))
    sent = view.transfer
    theirs = await transfer_usecases.read_transfer_by_end_to_end_id(service.context, other, sent.end_to_end_id)
    received = theirs.transfer
    assert (sent.status, received.status) == ("CONFIRMED", "CONFIRMED")
    assert (sent.direction, received.direction, received.external_id) == ("OUT", "IN", None)
    assert sent.correlation_id == received.correlation_id
    assert (theirs.debit_party, theirs.credit_party) == (view.debit_party, view.credit_party)
    assert (await read_funds(service, caller), await read_funds(service, other)) == ((999_900, 0), (100, 0))
    await check_books(service)


async def test_a_failed_book_transfer_ends(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    all_found, find_payee = asyncio.Barrier(3), transfer_usecases.find_payee

    async def find_together(*arguments: Any) -> object:
        payee = await find_payee(*arguments)
        await all_found.wait()
        return payee

    other = await open_holder(service, account_number="2")
    charge = await make_charge(service, other, amount_cents=100, key=own_key("2"))
    request = QrCodeTransferRequest(amount_cents=100, br_code=charge.br_code)
    with monkeypatch.context() as patch:
        patch.setattr(transfer_usecases, "find_payee", find_together)
        views = await asyncio.gather(*(start(service, caller, request) for _ in range(3)))
    assert Counter(view.transfer.status for view in views) == {"CONFIRMED": 1, "ERROR": 2}
    await service.set_holder(other, may_deposit=False)
    views.append(await start(service, caller, by_key(key=own_key("2"))))
    for view in views:
        theirs = await transfer_usecases.read_transfer_by_end_to_end_id(service.context, other, view.transfer.end_to_end_id)
        assert (theirs.transfer.status, theirs.transfer.outcome_code) == (view.transfer.status, view.transfer.outcome_code)
    assert [view.transfer.outcome_code for view in views if view.transfer.status == "ERROR"] == ["BE17", "BE17", "AC06"]
    assert (await read_funds(service, caller), await read_funds(service, other)) == ((999_900, 0), (100, 0))
    await check_books(service)


async def test_money_goes_both_ways_at_once_without_a_ring_of_locks(service: Service, database: Addresses) -> None:
    holders = [await open_holder(service, account_number=str(n), funds_cents=1_000) for n in (1, 2, 3)]
    async with open_service(database, clock=service.clock) as other:
        outcomes = await asyncio.gather(
            *(
                start(one, holders[a], by_key(key=own_key(str(b + 1)), amount_cents=7))
                for n in range(40)
                for a, b in ((0, 1), (1, 0), (1, 2), (2, 0), (0, 2), (2, 1))
                for one in ((service, other) if n % 2 else (other, service))
            ),
            *(receive_credit(one.context, credit_report(one, account_number="2")) for one in (service, other) * 10),
        )
        assert len(outcomes) == 500
    sums = [await read_funds(service, holder) for holder in holders]
    assert sum(available for available, _ in sums) == 3_000 + 20 * 1_000
    await check_books(service)


async def test_a_list_has_both_directions_of_one_status(service: Service, caller: Caller) -> None:
    other = await open_holder(service, account_number="2", funds_cents=1_000)
    made = [
        await start(service, caller, by_key(key=own_key("2"))),
        await start(service, other, by_key(key=own_key("1"), amount_cents=1)),
    ]
    await start(service, caller, by_account())
    page = await transfer_usecases.list_transfers(service.context, caller, "CONFIRMED", Span())
    ids = {view.transfer.end_to_end_id: view.transfer.direction for view in page.items}
    assert ids == {made[0].transfer.end_to_end_id: "OUT", made[1].transfer.end_to_end_id: "IN"}
    assert page.total_count == 2
    assert (await transfer_usecases.list_transfers(service.context, caller, "PROCESSING", Span())).total_count == 1


async def test_workers_are_told_of_the_order_alone_where_nobody_listens_for_its_event(service: Service) -> None:
    told: list[int] = []
    writes = WriteQueues(
        pool=service.context.pool,
        clock=service.clock,
        queue_length_max=256,
        wake_workers=lambda orders_count=0, *, only_deliveries=False: told.append(orders_count),
        wake_sequencer=lambda: None,
    )
    caller = await open_holder(service, funds_cents=1000)
    context = msgspec.structs.replace(service.context, writes=writes)
    await transfer_usecases.start_transfer(context, caller, by_account())
    assert told == [1]
    await writes.close()


async def search(service: Service, caller: Caller, span: Span | None = None, **wanted: Any) -> Page[TransferView]:
    return await transfer_usecases.search_transfers(service.context, caller, TransferSearch(**wanted), span or Span())


async def ids_of(service: Service, caller: Caller, span: Span | None = None, **wanted: Any) -> list[int]:
    page = await search(service, caller, span, **wanted)
    assert page.total_count == len(page.items)
    return [view.transfer.id for view in page.items]


async def send(service: Service, sender: Caller, payee: str, **changes: Any) -> TransferView:
    request = KeyTransferRequest(**{"amount_cents": 100, "key": own_key(payee), "key_type": "EMAIL", **changes})
    service.clock.advance(minutes=40)
    return await transfer_usecases.start_transfer(service.context, sender, request)


async def test_each_filter_finds_what_it_says_and_all_of_them_must_hold(service: Service, caller: Caller) -> None:
    other = await open_holder(service, account_number="2", funds_cents=10_000)
    await open_holder(service, account_number="3")
    charge = await make_charge(service, caller)
    sent = (await send(service, caller, "2", external_id="order-1")).transfer
    to_third = (await send(service, caller, "3")).transfer
    failed = await transfer_usecases.start_transfer(
        service.context, other, QrCodeTransferRequest(amount_cents=1000, br_code=charge.br_code)
    )
    await receive_credit(service.context, credit_report(service, txid=charge.txid))
    in_error = await transfer_usecases.read_transfer_by_end_to_end_id(service.context, caller, failed.transfer.end_to_end_id)
    everything = await ids_of(service, caller)
    assert len(everything) == 4
    paid = (await charge_usecases.read_paying_transfer(service.context, caller, charge.id)).id
    for wanted, found in (
        ({"status": "CANCELLED"}, []),
        ({"direction": "OUT"}, [to_third.id, sent.id]),
        ({"direction": "IN", "status": in_error.transfer.status}, None),
        ({"external_id": "order-1"}, [sent.id]),
        ({"external_id": "order-1", "direction": "OUT", "status": "CONFIRMED"}, [sent.id]),
        ({"external_id": "order-1", "direction": "IN"}, []),
        ({"external_id": "order-2"}, []),
        ({"end_to_end_id": sent.end_to_end_id}, [sent.id]),
        ({"end_to_end_id": sent.end_to_end_id, "external_id": "order-1"}, [sent.id]),
        ({"end_to_end_id": to_third.end_to_end_id, "external_id": "order-1"}, []),
        ({"key": own_key("2")}, [sent.id]),
        ({"key": own_key("3"), "status": "CONFIRMED"}, [to_third.id]),
        ({"key": own_key("3"), "status": "ERROR"}, []),
        ({"key": own_key()}, None),
        ({"txid": charge.txid}, None),
        ({"txid": charge.txid, "direction": "OUT"}, []),
        ({"txid": "t"}, []),
    ):
        ids = await ids_of(service, caller, **wanted)
        # What has to do with the charge: one that paid it and one that came too late, in either order.
        assert ids == found if found is not None else paid in ids, wanted
    until = Span(final_at=sent.created_at)
    assert await ids_of(service, caller, until, direction="OUT") == [sent.id]
    assert await ids_of(service, caller, until, external_id="order-1") == [sent.id]
    before = Span(final_at=sent.created_at - timedelta(microseconds=1))
    assert await ids_of(service, caller, before, direction="OUT") == []
    assert await ids_of(service, caller, before, end_to_end_id=sent.end_to_end_id) == []
    # Another holder sees its own side.
    assert await ids_of(service, other, external_id="order-1") == []
    theirs = await search(service, other, end_to_end_id=sent.end_to_end_id)
    assert [view.transfer.direction for view in theirs.items] == ["IN"]


async def test_failed_ones_are_found_which_the_list_does_not_show(service: Service, caller: Caller) -> None:
    await open_holder(service, account_number="2")
    charge = await make_charge(service, caller)
    for report_id in ("r1", "r2"):
        await receive_credit(service.context, credit_report(service, txid=charge.txid, report_id=report_id))
    (failed,) = (await search(service, caller, status="ERROR")).items
    assert failed.transfer.outcome_code == "BE17"
    assert len(await ids_of(service, caller, txid=charge.txid)) == 2


async def test_too_many_are_refused(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    await open_holder(service, account_number="2")
    made = [(await send(service, caller, "2")).transfer for _ in range(4)]
    monkeypatch.setattr(listing, "SEARCHED_MAX", 3)
    with pytest.raises(errors.BadRequest, match="at most 3 transfers are searched, and these dates and status have 4"):
        await search(service, caller, key=own_key("2"))
    assert len(await ids_of(service, caller)) == 4
    assert len(await ids_of(service, caller, Span(initial_at=made[1].created_at), key=own_key("2"))) == 3
    assert await ids_of(service, caller, key=own_key("2"), status="ERROR") == []
