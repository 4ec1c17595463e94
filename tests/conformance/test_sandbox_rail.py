"""The sandbox's adapter passes the conformance suite, over real HTTP; and adapters that lie do not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from conformance.rail import Fate, RailConformance, RailUnderTest
from conformance.wire import BreakableWire
from pixconnect.adapters.rail_sandbox import SandboxRail
from pixconnect.domain.rail import (
    Acknowledgement,
    AlreadyKnown,
    NeverTaken,
    NotTaken,
    Order,
    Position,
    QueryAnswer,
    Rail,
    RefundOrder,
    Rejected,
    Report,
    SettledItem,
    SettledReport,
    SubmitAnswer,
    Taken,
    Unknown,
)
from pixconnect.domain.sandbox_control import (
    GIVE_BACK,
    PAY,
    REPLACE_FAULTS,
    SET_OFFSET,
    Arrival,
    FaultRule,
    OutsidePayer,
    OutsideReturn,
)
from support import sandbox as support
from support.postgres import Addresses
from support.sandbox import Sandbox


class SandboxUnderTest:
    """The sandbox behind a wire that can be broken; its control is on a wire of its own."""

    timeout_s = 14.0
    known_key = "settle@sandbox.pix.example"
    unknown_key = "nobody@sandbox.pix.example"

    def __init__(self, sandbox: Sandbox, wire: BreakableWire, rail: Rail) -> None:
        self.rail: Rail = rail
        self._sandbox = sandbox
        self._wire = wire
        self._passed = timedelta(0)

    def make_order(self, fate: Fate = "settles", amount_cents: int = 100) -> Order:
        word = "settle" if fate == "settles" else "reject-ac03"
        return support.order(word, amount_cents=amount_cents, ordered_at=datetime.now(UTC) + self._passed)

    def make_refund_order(self, original_end_to_end_id: str, amount_cents: int) -> RefundOrder:
        ordered_at = datetime.now(UTC) + self._passed
        return support.refund_order(original_end_to_end_id, amount_cents=amount_cents, ordered_at=ordered_at)

    def pay_in(self, amount_cents: int, txid: str, payer_name: str = "Joana") -> Awaitable[str | None]:
        payer = OutsidePayer(name=payer_name)
        transfer = support.outside_transfer(amount_cents=amount_cents, txid=txid, payer=payer)
        return _told(self._sandbox.control.call(PAY, transfer))

    def give_back(self, end_to_end_id: str, amount_cents: int) -> Awaitable[str | None]:
        asked = OutsideReturn(end_to_end_id=end_to_end_id, amount_cents=amount_cents, reason="MD06")
        return _told(self._sandbox.control.call(GIVE_BACK, asked))

    async def lose_next_message(self) -> None:
        self._wire.lose("message")

    async def lose_next_answer(self) -> None:
        self._wire.lose("answer")

    async def repeat_next_report(self) -> None:
        await self._sandbox.control.call(REPLACE_FAULTS, [FaultRule(effect="duplicate_answer", times=1)])

    @asynccontextmanager
    async def unavailable(self) -> AsyncIterator[None]:
        await self._wire.cut()
        yield
        await self._wire.mend()

    async def pass_time(self, span: timedelta) -> None:
        self._passed += span
        await self._sandbox.control.call(SET_OFFSET, self._passed)


async def _told(arriving: Awaitable[Arrival]) -> str | None:
    arrival = await arriving
    assert arrival.status != "PROCESSING", "the service's word never came"
    return arrival.code


@pytest.fixture
async def under(database: Addresses, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SandboxUnderTest]:
    monkeypatch.setattr("pixconnect.sandbox.outbox.REDELIVERED_AFTER_S", 0.3)
    async with support.running(database.service_url) as sandbox:
        port = int(sandbox.url.rpartition(":")[2])
        async with (
            BreakableWire("127.0.0.1", port) as wire,
            support.connected(f"http://127.0.0.1:{wire.port}") as (
                rail,
                _,
            ),
        ):
            yield SandboxUnderTest(sandbox, wire, rail)


class TestSandboxRail(RailConformance):
    """The suite, run."""


async def test_what_is_run_is_a_rail_under_test(under: SandboxUnderTest) -> None:
    is_one: RailUnderTest = under
    assert is_one.rail is not None


# -- adapters that lie -------------------------------------------------------------------------------------


class Liar:
    """A rail like the sandbox's, but for one lie."""

    def __init__(self, rail: SandboxRail) -> None:
        self._rail = rail

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rail, name)


class TellsDuplicatesAsRejected(Liar):
    async def submit(self, orders: Sequence[Order]) -> list[SubmitAnswer]:
        answers = await self._rail.submit(orders)
        return [Rejected(code="ED05", reason="x") if isinstance(one, AlreadyKnown) else one for one in answers]

    async def submit_refunds(self, orders: Sequence[RefundOrder]) -> list[SubmitAnswer]:
        answers = await self._rail.submit_refunds(orders)
        return [Rejected(code="ED05", reason="x") if isinstance(one, AlreadyKnown) else one for one in answers]


class TellsUnknownAsNotTaken(Liar):
    async def submit(self, orders: Sequence[Order]) -> list[SubmitAnswer]:
        answers = await self._rail.submit(orders)
        return [NotTaken() if isinstance(one, Unknown) else one for one in answers]


class TellsNotTakenAsUnknown(Liar):
    async def submit(self, orders: Sequence[Order]) -> list[SubmitAnswer]:
        answers = await self._rail.submit(orders)
        return [Unknown() if isinstance(one, NotTaken) else one for one in answers]


class ResendsUnderAnotherName(Liar):
    async def submit(self, orders: Sequence[Order]) -> list[SubmitAnswer]:
        return await self._rail.submit([structs.replace(one, end_to_end_id=support.network_id()) for one in orders])


class AnswersOutOfOrder(Liar):
    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        return (await self._rail.query(ids))[::-1]


class TakesTheUnseenForTaken(Liar):
    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        return [Taken() if isinstance(one, Unknown) else one for one in await self._rail.query(ids)]


class TellsTheUnseenAsNeverTaken(Liar):
    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        return [NeverTaken() if isinstance(one, Unknown) else one for one in await self._rail.query(ids)]


class NeverEndsWhatIsNeverTaken(Liar):
    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        return [Unknown() if isinstance(one, NeverTaken) else one for one in await self._rail.query(ids)]


class TellsLateOrdersAsTaken(Liar):
    async def submit(self, orders: Sequence[Order]) -> list[SubmitAnswer]:
        answers = await self._rail.submit(orders)
        return [Taken() if isinstance(one, AlreadyKnown) else one for one in answers]


class AcknowledgesWhatItReads(Liar):
    async def reports(self, wait_s: float) -> list[Report]:
        reports = await self._rail.reports(wait_s)
        await self._rail.acknowledge([Acknowledgement(report_id=one.report_id) for one in reports])
        return reports


class ForgetsRefusals(Liar):
    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        await self._rail.acknowledge([Acknowledgement(report_id=one.report_id) for one in acknowledgements])


class DatesReportsItself(Liar):
    async def reports(self, wait_s: float) -> list[Report]:
        reports = await self._rail.reports(wait_s)
        now = datetime.now(UTC)
        return [structs.replace(one, settled_at=now) if isinstance(one, SettledReport) else one for one in reports]


class LeavesOutReturns(Liar):
    async def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[SettledItem]]:
        async for batch in self._rail.statement(since, until):
            yield [item for item in batch if item.kind != "return"]


class TellsPagesTwice(Liar):
    async def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[SettledItem]]:
        async for batch in self._rail.statement(since, until):
            yield batch
            yield batch


class TellsTheLatestFirst(Liar):
    async def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[SettledItem]]:
        async for batch in self._rail.statement(since, until):
            yield batch[::-1]


class IncludesTheEnd(Liar):
    async def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[SettledItem]]:
        async for batch in self._rail.statement(since, until + timedelta(microseconds=1)):
            yield batch


class BeginsAfterTheBeginning(Liar):
    async def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[SettledItem]]:
        async for batch in self._rail.statement(since + timedelta(microseconds=1), until):
            yield batch


class DatesStatementsByTheDay(Liar):
    async def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[SettledItem]]:
        today = since.replace(hour=0, minute=0, second=0, microsecond=0)
        async for batch in self._rail.statement(today, today + timedelta(days=2)):
            yield batch


class NeverMovesItsPosition(Liar):
    async def position(self) -> Position:
        return structs.replace(await self._rail.position(), amount_cents=0)


class SumsUpYesterday(Liar):
    async def position(self) -> Position:
        position = await self._rail.position()
        return structs.replace(position, as_of=position.as_of - timedelta(days=1))


Test = Callable[[RailConformance, RailUnderTest], Awaitable[None]]


@pytest.mark.parametrize(
    ("liar", "test"),
    [
        (TellsDuplicatesAsRejected, RailConformance.test_a_duplicate_at_once_is_no_rejection),
        (TellsDuplicatesAsRejected, RailConformance.test_a_resend_of_a_settled_order_is_no_rejection),
        (TellsDuplicatesAsRejected, RailConformance.test_a_resend_that_comes_too_late_is_no_rejection),
        (TellsDuplicatesAsRejected, RailConformance.test_a_resend_after_a_lost_answer_is_no_rejection),
        (TellsDuplicatesAsRejected, RailConformance.test_a_resend_of_a_refund_is_no_rejection),
        (TellsUnknownAsNotTaken, RailConformance.test_a_lost_answer_is_unknown_until_it_is_asked_for),
        (TellsUnknownAsNotTaken, RailConformance.test_a_lost_message_is_unknown_and_can_be_sent_again),
        (TellsNotTakenAsUnknown, RailConformance.test_while_nothing_can_be_reached_nothing_is_taken),
        (ResendsUnderAnotherName, RailConformance.test_an_order_settles_and_everybody_says_the_same),
        (AnswersOutOfOrder, RailConformance.test_a_group_is_answered_order_by_order),
        (TakesTheUnseenForTaken, RailConformance.test_what_was_never_sent_is_unknown),
        (TellsTheUnseenAsNeverTaken, RailConformance.test_what_was_never_sent_is_unknown),
        (TellsTheUnseenAsNeverTaken, RailConformance.test_a_lost_message_is_unknown_and_can_be_sent_again),
        (NeverEndsWhatIsNeverTaken, RailConformance.test_an_order_that_comes_too_late_is_never_taken),
        (NeverEndsWhatIsNeverTaken, RailConformance.test_an_order_that_was_lost_is_never_taken_once_its_time_is_over),
        (TellsLateOrdersAsTaken, RailConformance.test_an_order_that_comes_too_late_is_never_taken),
        (AcknowledgesWhatItReads, RailConformance.test_a_report_comes_again_until_it_is_acknowledged),
        (ForgetsRefusals, RailConformance.test_a_payment_that_we_refuse_does_not_settle),
        (LeavesOutReturns, RailConformance.test_two_positions_differ_by_the_statement_between_them),
        (NeverMovesItsPosition, RailConformance.test_two_positions_differ_by_the_statement_between_them),
        (SumsUpYesterday, RailConformance.test_two_positions_differ_by_the_statement_between_them),
        (TellsPagesTwice, RailConformance.test_a_statement_is_in_the_order_of_time_and_has_each_item_once),
        (TellsTheLatestFirst, RailConformance.test_a_statement_is_in_the_order_of_time_and_has_each_item_once),
        (
            IncludesTheEnd,
            RailConformance.test_a_statement_begins_with_its_first_instant_and_ends_before_its_last,
        ),
        (
            BeginsAfterTheBeginning,
            RailConformance.test_a_statement_begins_with_its_first_instant_and_ends_before_its_last,
        ),
        (DatesStatementsByTheDay, RailConformance.test_the_statement_of_a_span_that_is_over_stays_as_it_is),
        (DatesReportsItself, RailConformance.test_an_order_settles_and_everybody_says_the_same),
    ],
)
async def test_an_adapter_that_lies_fails(under: SandboxUnderTest, liar: type[Liar], test: Test) -> None:
    under.timeout_s = 1.0
    under.rail = liar(under.rail)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        await asyncio.wait_for(test(RailConformance(), under), 60)
