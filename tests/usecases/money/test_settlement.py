"""How orders end, and what is given back over the rail: said once or often, in any order."""

import asyncio
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money.rail import Rejected, ReturnReport, Settled
from pixconnect.domain.money.transfer import Transfer
from pixconnect.usecases.money import transfer as transfer_usecases
from pixconnect.usecases.money.incoming import receive_return
from pixconnect.usecases.money.settlement import Ending, GivenUp, end_orders
from support.books import check_books
from support.postgres import Addresses
from support.records import OUTSIDE_ISPB
from support.service import STARTED_AT, Service, open_holder, open_service, read_funds, send_out

SETTLED = Settled(settled_at=STARTED_AT)
REJECTED = Rejected(code="AC03", reason="no such account")


async def send(service: Service, caller: Caller, amount_cents: int = 1000) -> Transfer:
    return await send_out(service, caller, amount_cents)


async def now(service: Service, caller: Caller, transfer: Transfer) -> Transfer:
    return (await transfer_usecases.read_transfer_by_id(service.context, caller, transfer.id)).transfer


async def end(service: Service, transfer: Transfer, *endings: Ending) -> None:
    await end_orders(service.context, [(transfer.end_to_end_id, ending) for ending in endings])


@pytest.mark.parametrize(
    ("ending", "status", "available_cents"),
    [(SETTLED, "CONFIRMED", 999_000), (REJECTED, "ERROR", 1_000_000), (GivenUp(), "CANCELLED", 1_000_000)],
)
async def test_an_ending_counts_once_however_often_it_is_said(
    service: Service, caller: Caller, database: Addresses, ending: Ending, status: str, available_cents: int
) -> None:
    transfer = await send(service, caller)
    service.clock.advance(seconds=60)
    async with open_service(database, clock=service.clock) as other:
        await asyncio.gather(*(end(one, transfer, ending, ending) for _ in range(10) for one in (service, other)))
    ended = await now(service, caller, transfer)
    assert ended.status == status
    assert await read_funds(service, caller) == (available_cents, 0)
    await check_books(service)


async def test_an_order_is_not_given_up_by_a_worker_whose_clock_is_ahead(service: Service, caller: Caller) -> None:
    transfer = await send(service, caller)
    service.clock.advance(seconds=59)
    await end(service, transfer, GivenUp())
    assert (await now(service, caller, transfer)).status == "PROCESSING"
    service.clock.advance(seconds=1)
    await end(service, transfer, GivenUp())
    assert (await now(service, caller, transfer)).status == "CANCELLED"


@pytest.mark.parametrize("endings", list(permutations([SETTLED, REJECTED, GivenUp()])))
async def test_the_first_word_stands(service: Service, caller: Caller, endings: tuple[Ending, ...]) -> None:
    transfers = [await send(service, caller) for _ in range(2)]
    service.clock.advance(seconds=60)
    for ending in endings:
        await end(service, transfers[0], ending)
    await end(service, transfers[1], *endings)
    expected = {Settled: "CONFIRMED", Rejected: "ERROR", GivenUp: "CANCELLED"}[type(endings[0])]
    assert [(await now(service, caller, transfer)).status for transfer in transfers] == [expected] * 2
    await check_books(service)


async def test_names_that_are_not_ours_are_passed_over(service: Service, caller: Caller) -> None:
    transfer = await send(service, caller)
    foreign = [(f"E{OUTSIDE_ISPB}202607011500abcdefghijk", SETTLED), ("D404", REJECTED), ("nonsense", SETTLED)]
    await end_orders(service.context, [*foreign, (transfer.end_to_end_id, SETTLED)])
    assert (await now(service, caller, transfer)).status == "CONFIRMED"


# Returns: money that comes back.


def a_return(service: Service, transfer: Transfer, **changes: Any) -> ReturnReport:
    values: dict[str, Any] = {
        "report_id": "r1",
        "return_id": f"D{OUTSIDE_ISPB}202607011500{service.context.entropy.token(11)}",
        "original_end_to_end_id": transfer.end_to_end_id,
        "amount_cents": 1000,
        "reason": "MD06",
        "description": None,
        "reported_at": service.clock.now(),
    }
    return ReturnReport(**(values | changes))


async def code_of(service: Service, report: ReturnReport) -> str | None:
    answer = await receive_return(service.context, report)
    assert answer is not None
    assert answer.report_id == report.report_id
    return answer.refusal_code


async def test_returns_come_in_parts_and_in_the_end_the_transfer_is_returned(service: Service, caller: Caller) -> None:
    transfer = await send(service, caller)
    await end(service, transfer, SETTLED)
    first = a_return(service, transfer, amount_cents=400)
    assert await code_of(service, first) is None
    assert (await now(service, caller, transfer)).status == "CONFIRMED"
    assert await code_of(service, a_return(service, transfer, amount_cents=601)) == "AM09"
    assert await code_of(service, a_return(service, transfer, amount_cents=600)) is None
    assert await code_of(service, first) is None  # again, after all of it
    returned = await now(service, caller, transfer)
    assert (returned.status, returned.returned_cents) == ("RETURNED", 1000)
    assert await code_of(service, a_return(service, transfer, amount_cents=1)) == "AM09"
    assert await read_funds(service, caller) == (1_000_000, 0)
    await check_books(service)


async def test_a_return_that_comes_before_the_settlement_is_to_be_said_again(service: Service, caller: Caller) -> None:
    transfer = await send(service, caller)
    report = a_return(service, transfer)
    assert await receive_return(service.context, report) is None
    assert await service.context.pool.fetchval("select count(*) from refund") == 0
    await end(service, transfer, SETTLED)
    assert await code_of(service, report) is None
    assert (await now(service, caller, transfer)).status == "RETURNED"
    await end(service, transfer, SETTLED)  # the settlement, once more and late
    assert (await now(service, caller, transfer)).status == "RETURNED"
    await check_books(service)


async def test_a_return_of_what_never_settled_is_refused_and_recorded(service: Service, caller: Caller) -> None:
    transfer = await send(service, caller)
    await end(service, transfer, REJECTED)
    assert await code_of(service, a_return(service, transfer)) == "AM09"
    assert await service.context.pool.fetchval("select status from refund") == "ERROR"
    assert await read_funds(service, caller) == (1_000_000, 0)
    await check_books(service)


async def test_a_return_of_something_unknown_or_of_a_book_transfer_is_refused(service: Service, caller: Caller) -> None:
    await open_holder(service, account_number="2")
    unknown = await send(service, caller)
    report = a_return(service, unknown, original_end_to_end_id=f"E{OUTSIDE_ISPB}202607011500abcdefghijk")
    assert await code_of(service, report) == "AM09"
    party = await service.context.directory.find_account("0001", "2")
    assert party is not None
    book = await send_out(service, caller, 1000, credit_party=party.party)
    assert await code_of(service, a_return(service, book)) == "AM09"
    await check_books(service)


async def test_the_window_and_the_holders_flag_hold_for_returns_too(service: Service, caller: Caller) -> None:
    transfer = await send(service, caller)
    await end(service, transfer, SETTLED)
    service.clock.advance(days=90)
    assert await code_of(service, a_return(service, transfer, amount_cents=1)) is None
    service.clock.advance(seconds=1)
    assert await code_of(service, a_return(service, transfer, amount_cents=1)) == "DT05"
    fresh = await send(service, caller)
    await end(service, fresh, SETTLED)
    await service.set_holder(caller, may_deposit=False)
    assert await code_of(service, a_return(service, fresh)) == "AC06"
    await check_books(service)


async def test_returns_never_exceed_what_was_sent(service: Service, caller: Caller, database: Addresses) -> None:
    transfer = await send(service, caller)
    await end(service, transfer, SETTLED)
    reports = [a_return(service, transfer, amount_cents=30) for _ in range(50)]
    async with open_service(database, clock=service.clock) as other:
        codes = await asyncio.gather(*(code_of(one, report) for report in reports for one in (service, other)))
    assert codes.count(None) == 2 * 33
    assert await read_funds(service, caller) == (1_000_000 - 1000 + 33 * 30, 0)
    await check_books(service)


Step = Callable[[Service, Transfer, ReturnReport], Any]
STEPS: dict[str, Step] = {
    "settled": lambda service, transfer, _: end(service, transfer, SETTLED),
    "settled again": lambda service, transfer, _: end(service, transfer, SETTLED),
    "returned": lambda service, _, report: receive_return(service.context, report),
    "returned again": lambda service, _, report: receive_return(service.context, report),
}


@pytest.mark.long
async def test_any_order_of_settlements_and_returns_ends_alike(service: Service, caller: Caller) -> None:
    for order in permutations(STEPS):
        transfer = await send(service, caller)
        report = a_return(service, transfer)
        for step in order:
            await STEPS[step](service, transfer, report)
        await receive_return(service.context, report)  # what was not acknowledged comes again
        assert (await now(service, caller, transfer)).status == "RETURNED", order
    assert await read_funds(service, caller) == (1_000_000, 0)
    await check_books(service)
