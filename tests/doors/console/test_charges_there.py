"""Charges at institutions in the console, beside a live service in this process."""

from collections.abc import Awaitable

import pytest
from starlette.responses import Response

from doors.console.test_account_days import visit
from pixconnect.features.console_pages import figures, payments
from pixconnect.features.finding import pages as finding
from pixconnect.features.finding.service import browse, search
from pixconnect.features.institutions.rules.institution import NotSent, UnknownOutcome
from pixconnect.kernel.rules.access import SCOPES, Viewer
from pixconnect.kernel.rules.br_code import parse_br_code
from pixconnect.platform.base import errors
from support.account_shop import open_shop
from support.fake_institution import FakeInstitution
from support.service import Service


async def read(shown: Awaitable[Response]) -> str:
    return bytes((await shown).body).decode()


async def test_what_was_asked_stands_beside_what_was_paid(live: Service) -> None:
    shop = await open_shop(live, FakeInstitution(live.clock), options={"static_fallback": True})
    shop.there.answers = [NotSent(reason="no connection")]
    charge = await shop.charge("order-1", amount_cents=123_456)
    reference = parse_br_code(charge.br_code).txid
    assert reference is not None
    await shop.receive(77_700, txid=reference)
    page = await read(payments.show_payment(visit(live, f"/charges/{charge.id}", id=str(charge.id)), "charge"))
    assert ("777,00" in page, "Paid with another amount or party" in page, "1.234,56" in page) == (True, True, True)
    listed = await read(payments.list_payments(visit(live, "/charges"), browse.CHARGES))
    assert "asked for" in listed
    # The receipt of a payer only has the reference.
    every = await search.find_anything(shop.context, Viewer(holder_id=None, scopes=frozenset(SCOPES)), reference)
    assert [one.kind for one in every] == ["charge", "transfer"]
    found = every[0]
    assert (found.id, found.amount_cents, found.asked_cents) == (str(charge.id), 77_700, 123_456)
    stranger = Viewer(holder_id=charge.holder_id + 1, scopes=frozenset(SCOPES))
    assert await search.find_anything(shop.context, stranger, reference) == []
    # The payment and its charge are one result.
    answer = await finding.find(visit(live, "/search", q=reference))
    assert (answer.status_code, answer.headers["location"]) == (303, f"/charges/{charge.id}")


async def test_the_first_page_tells_of_charges_that_wait_too_long(live: Service) -> None:
    shop = await open_shop(live, FakeInstitution(live.clock))
    shop.there.answers = [UnknownOutcome(reason="silence")]
    with pytest.raises(errors.OutcomeUnknown) as caught:
        await shop.charge("order-1")
    assert caught.value.txid is not None
    assert caught.value.txid not in await read(figures.show_overview(visit(live, "/")))
    live.clock.advance(minutes=16)
    assert caught.value.txid in await read(figures.show_overview(visit(live, "/")))
    assert caught.value.txid not in await read(figures.show_overview(visit(live, "/", kind="holder")))
