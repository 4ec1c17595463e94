"""Money that was reserved is judged again when it leaves: by what its holder may do then, and by contests that came since."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money.limit import Spent
from pixconnect.domain.money.rail import NotTaken, Settled
from pixconnect.domain.money.refund import RefundRequest
from pixconnect.domain.money.transfer import Transfer
from pixconnect.store.frame import tally as tally_store
from pixconnect.usecases.money import refund as refund_usecases
from pixconnect.usecases.money import transfer as transfer_usecases
from pixconnect.usecases.money.approval import decide_transfer, find_holds, list_waiting_transfers
from pixconnect.usecases.money.handover import HELD_AGAIN_AFTER
from pixconnect.usecases.money.incoming import receive_credit
from pixconnect.usecases.money.report import take_reports
from support.books import check_books
from support.operators import as_operator, execute
from support.service import Service, credit_report, decided, infraction_report, open_holder, read_funds, send_out


async def want(service: Service, caller: Caller, **changes: Any) -> None:
    await service.set_holder(caller, **changes)


async def send(service: Service, caller: Caller, amount_cents: int = 400) -> Transfer:
    return await send_out(service, caller, amount_cents)


async def decide(service: Service, transfer: Transfer, *, is_approved: bool = True) -> None:
    await decide_transfer(as_operator(service.context, "maria"), transfer.id, is_approved=is_approved)


async def read(service: Service, caller: Caller, transfer: Transfer) -> Transfer:
    return (await transfer_usecases.read_transfer_by_id(service.context, caller, transfer.id)).transfer


async def receive(service: Service, amount_cents: int) -> str:
    report = credit_report(service, amount_cents=amount_cents)
    await receive_credit(service.context, report)
    return report.end_to_end_id


async def contest(service: Service, paid: str, amount_cents: int) -> None:
    await take_reports(service.context, [infraction_report(service, paid, amount_cents=amount_cents)])


@pytest.fixture
async def payer(service: Service) -> AsyncIterator[Caller]:
    """Holder 1, of R$ 10.00; what is above R$ 3.00 waits for an operator."""
    caller = await open_holder(service, funds_cents=1000)
    await want(service, caller, approve_above_cents=300)
    service.rail.answer(*[Settled(settled_at=service.clock.now())] * 9)
    yield caller
    await check_books(service)


@pytest.mark.parametrize(
    ("change", "back", "hold"),
    [
        (dict(may_withdraw=False), dict(may_withdraw=True), "the holder may not withdraw"),
        (dict(is_disabled=True), dict(is_disabled=False), "the holder is disabled"),
        (dict(transfer_limit_cents=399), dict(transfer_limit_cents=400), "399 cents a transfer"),
        (dict(day_limit_cents=499), dict(day_limit_cents=500), "499 cents a day"),
    ],
)
async def test_a_yes_is_refused_while_the_holder_may_not_send_and_the_list_shows_it(
    service: Service, payer: Caller, change: dict[str, Any], back: dict[str, Any], hold: str
) -> None:
    await send(service, payer, 100)
    sent = await send(service, payer)
    await service.work()
    await want(service, payer, **change)
    # A limit counts on the day on which a transfer was accepted.
    service.clock.advance(hours=10)
    (waiting,) = await list_waiting_transfers(service.context)
    assert hold in (waiting.hold or "")
    with pytest.raises(errors.BadRequest, match=hold):
        await decide(service, sent)
    await want(service, payer, **back)
    (waiting,) = await list_waiting_transfers(service.context)
    assert waiting.hold is None
    await decide(service, sent)
    await service.work()
    assert (await read(service, payer, sent)).status == "CONFIRMED"


async def test_a_no_is_taken_whatever_the_holder_may_do(service: Service, payer: Caller) -> None:
    sent = await send(service, payer)
    await want(service, payer, is_disabled=True)
    await decide(service, sent, is_approved=False)
    await service.work()
    assert await read_funds(service, payer) == (1000, 0)


async def test_what_is_contested_takes_the_money_of_what_waits(service: Service, payer: Caller) -> None:
    paid = await receive(service, 800)
    sent = await send(service, payer, 1500)
    await contest(service, paid, 800)
    with pytest.raises(errors.BadRequest, match="has blocked more of the holder's money than is blocked here"):
        await decide(service, sent)
    await decide(service, sent, is_approved=False)
    await service.work()
    assert await read_funds(service, payer) == (1000, 0)


async def test_an_approved_order_does_not_leave_a_blocked_holder(service: Service, payer: Caller) -> None:
    sent = await send(service, payer)
    await decide(service, sent)
    await want(service, payer, may_withdraw=False)
    await service.work()
    await service.work(seconds=61)
    ended = await read(service, payer, sent)
    reason = "An operator approved it, and it could not be handed to the rail in time: the holder may not withdraw."
    assert (ended.status, ended.outcome_reason) == ("CANCELLED", reason)
    assert service.rail.orders == []
    assert await read_funds(service, payer) == (1000, 0)


@pytest.mark.parametrize("is_allowed_again", [True, False])
async def test_a_late_order_is_judged_again(service: Service, payer: Caller, *, is_allowed_again: bool) -> None:
    service.rail.answers.clear()
    service.rail.answer(NotTaken(), Settled(settled_at=service.clock.now()))
    sent = await send(service, payer, 100)
    await service.work()
    await want(service, payer, is_disabled=True)
    for _ in range(3):
        service.clock.advance(seconds=HELD_AGAIN_AFTER.total_seconds())
        await service.work()
    assert len(service.rail.orders) == 1, "the one that was turned away"
    if is_allowed_again:
        await want(service, payer, is_disabled=False)
    service.clock.advance(seconds=HELD_AGAIN_AFTER.total_seconds())
    await service.work()
    await service.work(seconds=61)
    ended = await read(service, payer, sent)
    reason = "It could not be handed to the rail in time: the holder is disabled."
    expected = ("CONFIRMED", None) if is_allowed_again else ("CANCELLED", reason)
    assert (ended.status, ended.outcome_reason) == expected


async def test_an_unseen_order_is_not_sent_while_the_holder_may_not(service: Service, payer: Caller) -> None:
    service.rail.answers.clear()
    await send(service, payer, 100)
    await service.work()
    await want(service, payer, may_withdraw=False)
    await service.work(seconds=3)
    assert (len(service.rail.queried), len(service.rail.orders)) == (1, 1)
    await want(service, payer, may_withdraw=True)
    await service.work(seconds=5)
    assert (len(service.rail.queried), len(service.rail.orders)) == (2, 2)


async def test_a_waiting_refund_stays_while_its_original_is_contested(service: Service, payer: Caller) -> None:
    paid = await receive(service, 200)
    service.rail.answers.clear()
    service.rail.answer(NotTaken())
    request = RefundRequest(end_to_end_id=paid, amount_cents=100)
    refund = await refund_usecases.start_refund(service.context, payer, request)
    await service.work()
    report = infraction_report(service, paid, amount_cents=200)
    await take_reports(service.context, [report])
    await service.work(seconds=5)
    assert len(service.rail.refund_orders) == 1
    await service.work(seconds=60)
    ended = await refund_usecases.read_refund_by_id(service.context, payer, refund.id)
    assert ended.status == "ERROR"
    assert "contests the Pix that it returns" in (ended.outcome_reason or "")
    await take_reports(service.context, [decided(service, report)])


async def test_the_schema_approves_nothing_for_a_blocked_holder(service: Service, payer: Caller) -> None:
    sent = await send(service, payer)
    await want(service, payer, may_withdraw=False)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
        await execute(
            service.context, f"insert into approval_answer values ('{sent.end_to_end_id}', true, 'maria', now())"
        )
    assert caught.value.constraint_name == "only_what_may_leave_is_approved"


async def test_a_days_sum_is_read_once(service: Service, payer: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    await want(service, payer, day_limit_cents=900)
    sent = [await send(service, payer, 100) for _ in range(3)]
    read_spent, asked = tally_store.read_spent, list[int]()

    async def count(connection: Any, holder_id: int, *spans: Any) -> Spent:
        asked.append(holder_id)
        return await read_spent(connection, holder_id, *spans)

    monkeypatch.setattr(tally_store, "read_spent", count)
    assert await find_holds(service.context.pool, sent) == {}
    assert asked == [payer.holder_id]
