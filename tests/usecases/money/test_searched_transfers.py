"""Searching transfers: of every status, by whatever names them, on a real database."""

from datetime import timedelta
from typing import Any

import pytest

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.listing import Page, Span
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money import transfer_search
from pixconnect.domain.money.transfer import KeyTransferRequest, QrCodeTransferRequest, TransferView
from pixconnect.domain.money.transfer_search import TransferSearch
from pixconnect.usecases.money import charge as charge_usecases
from pixconnect.usecases.money import transfer as transfer_usecases
from pixconnect.usecases.money.incoming import receive_credit
from support.records import own_key
from support.service import Service, credit_report, make_charge, open_holder


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
    in_error = await transfer_usecases.read_transfer_by_end_to_end_id(
        service.context, caller, failed.transfer.end_to_end_id
    )
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


@pytest.mark.parametrize("wanted", [{}, {"direction": "OUT"}])
async def test_pages_and_cursors_have_the_same_order(service: Service, caller: Caller, wanted: dict[str, Any]) -> None:
    await open_holder(service, account_number="2")
    made = [(await send(service, caller, "2")).transfer.id for _ in range(7)]
    by_number: list[int] = []
    for number in (1, 2, 3):
        page = await search(service, caller, Span(page=number, page_size=3), **wanted)
        assert page.total_count == 7
        by_number += [view.transfer.id for view in page.items]
    assert by_number == made[::-1]
    page = await search(service, caller, Span(page_size=3), **wanted)
    by_cursor = [view.transfer.id for view in page.items]
    while page.next is not None:
        page = await search(service, caller, Span(page_size=3, after=page.next), **wanted)
        by_cursor += [view.transfer.id for view in page.items]
    assert by_cursor == made[::-1]
    assert (await search(service, caller, Span(page=9), **wanted)).items == []
    one = await search(service, caller, Span(page=2, page_size=1), external_id="none")
    assert (one.items, one.total_count, one.next) == ([], 0, None)


async def test_too_many_are_refused(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    await open_holder(service, account_number="2")
    made = [(await send(service, caller, "2")).transfer for _ in range(4)]
    monkeypatch.setattr(transfer_search, "SEARCHED_MAX", 3)
    with pytest.raises(errors.BadRequest, match="at most 3 transfers are searched, and these dates and status have 4"):
        await search(service, caller, key=own_key("2"))
    assert len(await ids_of(service, caller)) == 4
    assert len(await ids_of(service, caller, Span(initial_at=made[1].created_at), key=own_key("2"))) == 3
    assert await ids_of(service, caller, key=own_key("2"), status="ERROR") == []
