"""The rail of an account passes the conformance suite at each kind of institution, over TLS to a simulated bank."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from conformance.institution_under_test import InstitutionUnderTest, open_institution_under_test
from conformance.rail import RailConformance
from conformance.under_test import RailUnderTest, Work
from pixconnect.features.institutions.profiles.profile import NAMES
from support.faces import Bank, Control
from support.two_books import MonthClock

DOES: frozenset[Work] = frozenset(("refunds", "refusals", "repeats", "lists", "memory"))
"""At an institution with the central bank's API."""
# Santander's simulated bank takes the grant in the body, where the real institution takes it in the query.
PROFILES = [name for name in NAMES if name not in ("efi", "inter", "sicoob", "woovi", "santander")]


@pytest.fixture
def face(request: pytest.FixtureRequest) -> str:
    return request.cls.face


@pytest.fixture
async def under(
    request: pytest.FixtureRequest, face: str, bank: Bank, control: Control, clock: MonthClock, tmp_path: Path
) -> AsyncIterator[InstitutionUnderTest]:
    by_code = getattr(request.cls, "by_code", False)
    async with open_institution_under_test(face, request.cls.does, bank, control, clock, tmp_path, by_code=by_code) as under:
        yield under


class TestInShort:
    """A short selection of the suite, on one account."""

    face, does = "inter", DOES | {"orders"}

    async def test_an_order_is_sent_once(self, under: InstitutionUnderTest) -> None:
        is_one: RailUnderTest = under
        await RailConformance().test_a_lost_answer_is_unknown_until_it_is_asked_for(is_one)

    async def test_refunds_are_made_once_and_payments_are_listed_once(self, under: InstitutionUnderTest) -> None:
        is_one: RailUnderTest = under
        for test in (
            RailConformance.test_a_payment_is_listed_once_and_again_and_says_the_same,
            RailConformance.test_a_refund_moves_its_amount_once_however_often_it_is_sent,
            RailConformance.test_a_refund_is_made_once_though_what_was_remembered_of_it_is_lost,
            RailConformance.test_while_nothing_can_be_reached_no_refund_is_taken,
            RailConformance.test_a_refund_that_was_taken_in_time_is_not_never_taken,
        ):
            await test(RailConformance(), is_one)


@pytest.mark.long
class TestEfi(RailConformance):
    """No source documents the error for a refund above the amount."""

    face, does = "efi", DOES - {"refusals"} | {"orders"}


@pytest.mark.long
class TestInter(RailConformance):
    face, does = "inter", DOES | {"orders"}


@pytest.mark.long
class TestSicoob(RailConformance):
    face, does = "sicoob", DOES | {"orders"}


@pytest.mark.long
@pytest.mark.each_change
class TestWoovi(RailConformance):
    """Its errors are plain texts, and no source documents a second request."""

    face, does = "woovi", DOES - {"refusals", "repeats"} | {"orders"}


@pytest.mark.long
class TestEfiByCode(RailConformance):
    face, does, by_code = "efi", frozenset[Work](("orders", "memory")), True


@pytest.mark.long
class TestWooviByCode(RailConformance):
    face, does, by_code = "woovi", frozenset[Work](("orders", "memory")), True


@pytest.mark.long
@pytest.mark.parametrize("face", [pytest.param(PROFILES[0], marks=pytest.mark.each_change), *PROFILES[1:]])
class TestStandard(RailConformance):
    does = DOES
