"""The suite notices false answers about refunds, transfers and received Pix, of an institution or of its reader."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from conformance.institution_under_test import open_institution_under_test
from conformance.rail import RailConformance
from conformance.test_institution_rail import DOES
from conformance.under_test import RailUnderTest
from pixconnect.features.institutions.rules import institution as institutions
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix
from pixconnect.features.institutions.rules.sweep import MalformedItem
from support.faces import Bank

pytestmark = pytest.mark.long

Page = Sequence[institutions.ReceivedPix | MalformedItem]


class Liar:
    """An institution with one lie."""

    def __init__(self, institution: institutions.Institution) -> None:
        self._institution = institution
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._institution, name)


class RefundsUnderANewNameEachTime(Liar):
    async def refund(self, end_to_end_id: str, refund_id: str, amount_cents: int) -> institutions.RefundAnswer:
        self._count += 1
        return await self._institution.refund(end_to_end_id, f"{refund_id}{self._count}", amount_cents)


class SendsUnderANewNameEachTime(Liar):
    async def send(self, pix: OutgoingPix) -> institutions.SendAnswer:
        self._count += 1
        return await self._institution.send(structs.replace(pix, name=f"{self._count:032x}"))


class TakesTheUnknownForRefused(Liar):
    async def send(self, pix: OutgoingPix) -> institutions.SendAnswer:
        answer = await self._institution.send(pix)
        return (
            institutions.CertainRefusal(code="408", reason=answer.reason)
            if isinstance(answer, institutions.UnknownOutcome)
            else answer
        )


class TellsTheLastRefundOfWhatever(Liar):
    asked = ("", "")

    async def refund(self, end_to_end_id: str, refund_id: str, amount_cents: int) -> institutions.RefundAnswer:
        self.asked = (end_to_end_id, refund_id)
        return await self._institution.refund(end_to_end_id, refund_id, amount_cents)

    async def read_refund(self, end_to_end_id: str, refund_id: str) -> institutions.ListedRefund | None:
        found = await self._institution.read_refund(*self.asked)
        # The amount would give it away.
        return found and structs.replace(found, amount_cents=700)


class TakesAwayForEmpty(Liar):
    async def list_received(self, since: datetime, until: datetime, *, only_returned: bool = False) -> AsyncIterator[Page]:
        try:
            async for page in self._institution.list_received(since, until, only_returned=only_returned):
                yield page
        except institutions.InstitutionUnavailable:
            return


class TakesAwayForNone(Liar):
    async def read_refund(self, end_to_end_id: str, refund_id: str) -> institutions.ListedRefund | None:
        try:
            return await self._institution.read_refund(end_to_end_id, refund_id)
        except institutions.InstitutionUnavailable:
            return None


class TakesTheUnknownForUnsent(Liar):
    async def refund(self, end_to_end_id: str, refund_id: str, amount_cents: int) -> institutions.RefundAnswer:
        answer = await self._institution.refund(end_to_end_id, refund_id, amount_cents)
        return institutions.NotSent(reason=answer.reason) if isinstance(answer, institutions.UnknownOutcome) else answer


class TakesTheUnsentForUnknown(Liar):
    async def refund(self, end_to_end_id: str, refund_id: str, amount_cents: int) -> institutions.RefundAnswer:
        answer = await self._institution.refund(end_to_end_id, refund_id, amount_cents)
        return institutions.UnknownOutcome(reason=answer.reason) if isinstance(answer, institutions.NotSent) else answer


class ListsLessThanCameIn(Liar):
    async def list_received(self, since: datetime, until: datetime, *, only_returned: bool = False) -> AsyncIterator[Page]:
        async for page in self._institution.list_received(since, until, only_returned=only_returned):
            yield [structs.replace(pix, amount_cents=pix.amount_cents - 1) for pix in page if _is_pix(pix)]


class ListsWhatIsLeftOfIt(Liar):
    async def list_received(self, since: datetime, until: datetime, *, only_returned: bool = False) -> AsyncIterator[Page]:
        async for page in self._institution.list_received(since, until, only_returned=only_returned):
            yield [
                structs.replace(pix, amount_cents=pix.amount_cents - sum(each.amount_cents for each in pix.refunds))
                for pix in page
                if _is_pix(pix)
            ]


def _is_pix(item: institutions.ReceivedPix | MalformedItem) -> bool:
    return isinstance(item, institutions.ReceivedPix)


Test = Callable[[RailConformance, RailUnderTest], Awaitable[None]]

LIARS: list[tuple[type[Liar], Test]] = [
    (RefundsUnderANewNameEachTime, RailConformance.test_a_refund_settles_and_everybody_says_the_same),
    (RefundsUnderANewNameEachTime, RailConformance.test_a_refund_is_made_once_though_what_was_remembered_of_it_is_lost),
    (RefundsUnderANewNameEachTime, RailConformance.test_a_refund_is_made_once_wherever_its_memory_is_put_back_to),
    (SendsUnderANewNameEachTime, RailConformance.test_an_order_is_sent_once_wherever_its_memory_is_put_back_to),
    (TakesTheUnknownForRefused, RailConformance.test_a_lost_answer_is_unknown_until_it_is_asked_for),
    (TellsTheLastRefundOfWhatever, RailConformance.test_refunds_are_asked_about_each_by_its_own_payment),
    (TakesAwayForEmpty, RailConformance.test_while_nothing_can_be_reached_no_list_is_empty),
    (TakesAwayForNone, RailConformance.test_while_all_is_away_a_refund_query_is_not_answered),
    (TakesTheUnknownForUnsent, RailConformance.test_a_refund_whose_answer_is_lost_is_asked_for),
    (TakesTheUnsentForUnknown, RailConformance.test_while_nothing_can_be_reached_no_refund_is_taken),
    (ListsLessThanCameIn, RailConformance.test_a_payment_is_listed_once_and_again_and_says_the_same),
    (ListsWhatIsLeftOfIt, RailConformance.test_a_payment_that_was_refunded_is_listed_as_before),
]


@pytest.mark.parametrize(("liar", "test"), LIARS)
async def test_an_institution_that_lies_fails(
    bank: Bank, control: Any, clock: Any, tmp_path: Path, liar: type[Liar], test: Test
) -> None:
    def tell(institution: institutions.Institution) -> institutions.Institution:
        lying: Any = liar(institution)
        return lying

    async with open_institution_under_test("inter", DOES | {"orders"}, bank, control, clock, tmp_path, tell) as under:
        under.timeout_s = 2.0
        # Where the suite expects an exception, pytest's own failure has another type.
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            await asyncio.wait_for(test(RailConformance(), under), 60)
