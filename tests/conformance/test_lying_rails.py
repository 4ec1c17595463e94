"""The suite notices each lie: a rail that breaks one promise fails."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from conformance.rail import RailConformance
from conformance.sandbox_under_test import SandboxUnderTest, open_sandbox
from conformance.under_test import RailUnderTest
from pixconnect.features.sandbox.rail import SandboxRail
from pixconnect.kernel.rules import rail as rails
from support import sandbox as support
from support.bare_rail import BareRail, make_name
from support.postgres import Addresses


class Liar:
    """A rail with one lie."""

    def __init__(self, rail: rails.Rail) -> None:
        self._rail = rail

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rail, name)


class TellsDuplicatesAsRejected(Liar):
    async def submit(self, orders: Sequence[rails.Order]) -> list[rails.SubmitAnswer]:
        answers = await self._rail.submit(orders)
        return [rails.Rejected(code="ED05", reason="x") if isinstance(one, rails.AlreadyKnown) else one for one in answers]

    async def submit_refunds(self, orders: Sequence[rails.RefundOrder]) -> list[rails.SubmitAnswer]:
        answers = await self._rail.submit_refunds(orders)
        return [rails.Rejected(code="ED05", reason="x") if isinstance(one, rails.AlreadyKnown) else one for one in answers]


class TellsUnknownAsNotTaken(Liar):
    async def submit(self, orders: Sequence[rails.Order]) -> list[rails.SubmitAnswer]:
        answers = await self._rail.submit(orders)
        return [rails.NotTaken() if isinstance(one, rails.Unknown) else one for one in answers]


class TellsNotTakenAsUnknown(Liar):
    async def submit(self, orders: Sequence[rails.Order]) -> list[rails.SubmitAnswer]:
        answers = await self._rail.submit(orders)
        return [rails.Unknown() if isinstance(one, rails.NotTaken) else one for one in answers]


class ResendsUnderAnotherName(Liar):
    async def submit(self, orders: Sequence[rails.Order]) -> list[rails.SubmitAnswer]:
        return await self._rail.submit([structs.replace(one, end_to_end_id=support.network_id()) for one in orders])


class AnswersOutOfOrder(Liar):
    async def query(self, ids: Sequence[str]) -> list[rails.QueryAnswer]:
        return (await self._rail.query(ids))[::-1]


class TakesTheUnseenForTaken(Liar):
    async def query(self, ids: Sequence[str]) -> list[rails.QueryAnswer]:
        return [rails.Taken() if isinstance(one, rails.Unknown) else one for one in await self._rail.query(ids)]


class TellsTheUnseenAsNeverTaken(Liar):
    async def query(self, ids: Sequence[str]) -> list[rails.QueryAnswer]:
        return [rails.NeverTaken() if isinstance(one, rails.Unknown) else one for one in await self._rail.query(ids)]


class NeverEndsWhatIsNeverTaken(Liar):
    async def query(self, ids: Sequence[str]) -> list[rails.QueryAnswer]:
        return [rails.Unknown() if isinstance(one, rails.NeverTaken) else one for one in await self._rail.query(ids)]


class TellsLateOrdersAsTaken(Liar):
    async def submit(self, orders: Sequence[rails.Order]) -> list[rails.SubmitAnswer]:
        answers = await self._rail.submit(orders)
        return [rails.Taken() if isinstance(one, rails.AlreadyKnown) else one for one in answers]


class AcknowledgesWhatItReads(Liar):
    async def reports(self, wait_s: float) -> list[rails.Report]:
        reports = await self._rail.reports(wait_s)
        await self._rail.acknowledge([rails.Acknowledgement(report_id=one.report_id) for one in reports])
        return reports


class ForgetsRefusals(Liar):
    async def acknowledge(self, acknowledgements: Sequence[rails.Acknowledgement]) -> None:
        await self._rail.acknowledge([rails.Acknowledgement(report_id=one.report_id) for one in acknowledgements])


class DatesReportsItself(Liar):
    async def reports(self, wait_s: float) -> list[rails.Report]:
        reports = await self._rail.reports(wait_s)
        now = datetime.now(UTC)
        return [structs.replace(one, settled_at=now) if isinstance(one, rails.SettledReport) else one for one in reports]


class LeavesOutReturns(Liar):
    async def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[rails.SettledItem]]:
        async for batch in self._rail.statement(since, until):
            yield [item for item in batch if item.kind != "return"]


class TellsPagesTwice(Liar):
    async def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[rails.SettledItem]]:
        async for batch in self._rail.statement(since, until):
            yield batch
            yield batch


class TellsTheLatestFirst(Liar):
    async def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[rails.SettledItem]]:
        async for batch in self._rail.statement(since, until):
            yield batch[::-1]


class IncludesTheEnd(Liar):
    async def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[rails.SettledItem]]:
        async for batch in self._rail.statement(since, until + timedelta(microseconds=1)):
            yield batch


class BeginsAfterTheBeginning(Liar):
    async def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[rails.SettledItem]]:
        async for batch in self._rail.statement(since + timedelta(microseconds=1), until):
            yield batch


class DatesStatementsByTheDay(Liar):
    async def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[rails.SettledItem]]:
        today = since.replace(hour=0, minute=0, second=0, microsecond=0)
        async for batch in self._rail.statement(today, today + timedelta(days=2)):
            yield batch


class NeverMovesItsPosition(Liar):
    async def position(self) -> rails.Position:
        return structs.replace(await self._rail.position(), amount_cents=0)


class SumsUpYesterday(Liar):
    async def position(self) -> rails.Position:
        position = await self._rail.position()
        return structs.replace(position, as_of=position.as_of - timedelta(days=1))


class RefusesAfterAll(Liar):
    """It accepts refusals though it declares that it does not."""

    @property
    def abilities(self) -> rails.Abilities:
        return structs.replace(self._rail.abilities, refuses_credits=False)


class SettlesWhatItWasToldToRefuse(Liar):
    @property
    def abilities(self) -> rails.Abilities:
        return structs.replace(self._rail.abilities, refuses_credits=True)


class SaysThatItRefundsPartly(Liar):
    @property
    def abilities(self) -> rails.Abilities:
        return structs.replace(self._rail.abilities, refunds_partly=True)


class SaysThatItHasADirectory(Liar):
    @property
    def abilities(self) -> rails.Abilities:
        return structs.replace(self._rail.abilities, resolves_keys=True)

    async def lookup_key(self, key: str, payer_tax_id: str, end_to_end_id: str) -> rails.DirectoryEntry | None:
        return None


class SaysThatItAnswersByOurIds(Liar):
    @property
    def abilities(self) -> rails.Abilities:
        return structs.replace(self._rail.abilities, answers_by_our_id=True)


class SaysThatItKeepsOurIds(Liar):
    @property
    def abilities(self) -> rails.Abilities:
        return structs.replace(self._rail.abilities, keeps_our_id=True)


class NeverTellsNames(Liar):
    async def submit(self, orders: Sequence[rails.Order]) -> list[rails.SubmitAnswer]:
        answers = await self._rail.submit(orders)
        return [rails.Taken() if isinstance(one, rails.Taken) else one for one in answers]

    async def reports(self, wait_s: float) -> list[rails.Report]:
        return [
            structs.replace(one, network_id=None) if isinstance(one, rails.SettledReport) else one
            for one in await self._rail.reports(wait_s)
        ]


class ChangesNames(Liar):
    async def reports(self, wait_s: float) -> list[rails.Report]:
        return [
            structs.replace(one, network_id=make_name(one.id)) if isinstance(one, rails.SettledReport) else one
            for one in await self._rail.reports(wait_s)
        ]


class GivesAllOneName(Liar):
    async def reports(self, wait_s: float) -> list[rails.Report]:
        return [
            structs.replace(one, network_id=f"{one.id[0]}{'8' * 31}") if isinstance(one, rails.SettledReport) else one
            for one in await self._rail.reports(wait_s)
        ]


class TellsNamesThatAreNone(Liar):
    async def reports(self, wait_s: float) -> list[rails.Report]:
        return [
            structs.replace(one, network_id="payment 7") if isinstance(one, rails.SettledReport) else one
            for one in await self._rail.reports(wait_s)
        ]


class SettlesAtOnceWhatItAccepts(Liar):
    async def reports(self, wait_s: float) -> list[rails.Report]:
        return [
            rails.CreditReport(**structs.asdict(one)) if isinstance(one, rails.CreditAccepted) else one
            for one in await self._rail.reports(wait_s)
        ]


class SettlesWhatWasCancelled(Liar):
    async def reports(self, wait_s: float) -> list[rails.Report]:
        reports: list[rails.Report] = []
        for one in await self._rail.reports(wait_s):
            if isinstance(one, rails.CreditCancelled):
                fields = structs.asdict(one)
                del fields["code"]
                reports.append(rails.CreditReport(**fields))
            else:
                reports.append(one)
        return reports


class SettlesAnotherAmount(Liar):
    async def reports(self, wait_s: float) -> list[rails.Report]:
        return [
            structs.replace(one, amount_cents=one.amount_cents - 1) if type(one) is rails.CreditReport else one
            for one in await self._rail.reports(wait_s)
        ]


class SettlesWhenItAccepts(Liar):
    """Its statement includes payments that are accepted and not settled."""

    def __init__(self, rail: rails.Rail) -> None:
        super().__init__(rail)
        self._accepted: list[rails.CreditAccepted] = []

    async def reports(self, wait_s: float) -> list[rails.Report]:
        reports = await self._rail.reports(wait_s)
        self._accepted += [one for one in reports if isinstance(one, rails.CreditAccepted)]
        return reports

    async def statement(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[rails.SettledItem]]:
        yield [
            rails.SettledItem(id=one.end_to_end_id, kind="credit", amount_cents=one.amount_cents, settled_at=since)
            for one in self._accepted
        ]
        async for batch in self._rail.statement(since, until):
            yield batch


Test = Callable[[RailConformance, RailUnderTest], Awaitable[None]]

OF_THE_SANDBOX: list[tuple[type[Liar], Test]] = [
    (TellsDuplicatesAsRejected, RailConformance.test_a_duplicate_at_once_is_no_rejection),
    (TellsDuplicatesAsRejected, RailConformance.test_a_resend_of_a_settled_order_is_no_rejection),
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
    (ForgetsRefusals, RailConformance.test_our_refusal_of_a_payment_counts_where_the_rail_takes_it),
    (LeavesOutReturns, RailConformance.test_two_positions_differ_by_the_statement_between_them),
    (NeverMovesItsPosition, RailConformance.test_two_positions_differ_by_the_statement_between_them),
    (SumsUpYesterday, RailConformance.test_two_positions_differ_by_the_statement_between_them),
    (TellsPagesTwice, RailConformance.test_a_statement_is_in_the_order_of_time_and_has_each_item_once),
    (TellsTheLatestFirst, RailConformance.test_a_statement_is_in_the_order_of_time_and_has_each_item_once),
    (IncludesTheEnd, RailConformance.test_a_statement_has_its_first_instant_and_not_its_last),
    (BeginsAfterTheBeginning, RailConformance.test_a_statement_has_its_first_instant_and_not_its_last),
    (DatesStatementsByTheDay, RailConformance.test_the_statement_of_a_span_that_is_over_stays_as_it_is),
    (DatesReportsItself, RailConformance.test_an_order_settles_and_everybody_says_the_same),
    (RefusesAfterAll, RailConformance.test_our_refusal_of_a_payment_counts_where_the_rail_takes_it),
    (SettlesAtOnceWhatItAccepts, RailConformance.test_a_payment_that_was_accepted_settles_by_a_report_of_its_own),
    (SettlesAnotherAmount, RailConformance.test_a_payment_that_was_accepted_settles_by_a_report_of_its_own),
    (SettlesWhenItAccepts, RailConformance.test_a_payment_that_was_accepted_settles_by_a_report_of_its_own),
    (SettlesWhatWasCancelled, RailConformance.test_a_payment_that_was_accepted_and_cancelled_never_settles),
]
OF_THE_BARE_RAIL: list[tuple[type[Liar], Test]] = [
    (SettlesWhatItWasToldToRefuse, RailConformance.test_our_refusal_of_a_payment_counts_where_the_rail_takes_it),
    (SaysThatItRefundsPartly, RailConformance.test_a_part_is_refunded_by_a_rail_that_does_that_and_by_no_other),
    (SaysThatItHasADirectory, RailConformance.test_a_known_key_leads_to_an_account),
    (SaysThatItAnswersByOurIds, RailConformance.test_an_order_is_asked_about_by_the_name_that_the_rail_says),
    (SaysThatItAnswersByOurIds, RailConformance.test_a_resend_of_a_settled_order_is_no_rejection),
    (SaysThatItKeepsOurIds, RailConformance.test_an_order_settles_and_everybody_says_the_same),
    (NeverTellsNames, RailConformance.test_a_name_of_the_network_is_told_by_the_time_of_the_outcome),
    (ChangesNames, RailConformance.test_an_order_settles_and_everybody_says_the_same),
    (GivesAllOneName, RailConformance.test_a_group_is_answered_order_by_order),
    (TellsNamesThatAreNone, RailConformance.test_an_order_settles_and_everybody_says_the_same),
]


@pytest.mark.parametrize(("liar", "test"), OF_THE_SANDBOX)
async def test_a_rail_like_the_sandboxs_that_lies_fails(
    database: Addresses, monkeypatch: pytest.MonkeyPatch, liar: type[Liar], test: Test
) -> None:
    async with open_sandbox(database, monkeypatch, lambda connection: make_liar(liar, SandboxRail(connection))) as under:
        await fails(under, test)


@pytest.mark.parametrize(("liar", "test"), OF_THE_BARE_RAIL)
async def test_a_bare_rail_that_lies_fails(
    database: Addresses, monkeypatch: pytest.MonkeyPatch, liar: type[Liar], test: Test
) -> None:
    async with open_sandbox(database, monkeypatch, lambda connection: make_liar(liar, BareRail(connection))) as under:
        await fails(under, test)


def make_liar(liar: type[Liar], rail: rails.Rail) -> rails.Rail:
    lying: Any = liar(rail)
    return lying


async def fails(under: SandboxUnderTest, test: Test) -> None:
    under.timeout_s = 1.0
    with pytest.raises(AssertionError):
        await asyncio.wait_for(test(RailConformance(), under), 60)
