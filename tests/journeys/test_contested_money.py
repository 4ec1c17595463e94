"""Contested money over days: the sandbox is the institution, and every story ends with correct books."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal

import pytest

from pixconnect_client import Client, Infraction, InvalidRequest
from support.pages import ROOT, read_blocks
from support.whole_installation import Account, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("contested money")]

AMOUNT_CENTS = 10_000
DAY_S = 86_400


@pytest.fixture(scope="module")
def service() -> Iterator[WholeInstallation]:
    with open_whole_installation() as opened:
        yield opened


class Shop:
    """A holder with a payment that its payer contests."""

    def __init__(
        self, service: WholeInstallation, funds_cents: int = 0, suspect: Literal["release", "return"] | None = None
    ) -> None:
        self.service = service
        self.account: Account = service.open_account(funds_cents)
        installation = service.installation
        self.client = Client(installation.base_url, self.account.client_id, self.account.client_secret)
        charge = self.client.charges.create(AMOUNT_CENTS, self.account.key, external_id="order")
        self.charge_id = charge.id
        self.emv = charge.emvqrcps
        self.paid = self.client.sandbox.pay(charge.emvqrcps, suspect=suspect).end_to_end_id

    def contest(self, judged: str | None = None) -> Infraction:
        told = self.client.sandbox.open_infraction(self.paid, words="I never got the shoes", judged=judged)
        return next(each for each in self.client.infractions.list() if each.infraction_id == told.infraction_id)

    def funds(self) -> tuple[int, int]:
        balance = self.client.balance()
        return balance.available_funds, balance.current_funds

    def live(self, days: float) -> None:
        self.client.sandbox.advance_clock(int(days * DAY_S))

    def end(self) -> None:
        self.service.check_books()
        self.client.close()


@pytest.fixture
def shop(service: WholeInstallation) -> Iterator[Shop]:
    opened = Shop(service)
    yield opened
    opened.end()


def test_forgotten_until_the_time_is_over_it_is_taken_and_the_charge_is_returned(shop: Shop) -> None:
    contested = shop.contest()
    assert (contested.status, contested.held, shop.funds()) == ("OPEN", AMOUNT_CENTS, (0, AMOUNT_CENTS))
    with pytest.raises(InvalidRequest) as refused:
        shop.client.refunds.create(shop.paid, 1)
    assert refused.value.code == "REFUND_INFRACTION_OPEN"
    shop.live(7.1)
    ended = shop.client.infractions.get(contested.id)
    assert (ended.status, ended.taken, ended.held, shop.funds()) == ("TAKEN", AMOUNT_CENTS, 0, (0, 0))
    assert shop.client.charges.get(shop.charge_id).status == "RETURNED"
    with pytest.raises(InvalidRequest) as late:
        shop.client.infractions.defend(contested.id, "It was delivered")
    assert late.value.code == "INFRACTION_CLOSED"


_POINTS = (
    *("work after COMMIT of receive_infractions", "work before acknowledgement"),
    *("work before group write", "work after group write"),
)
_ACTS: dict[str, Callable[[Shop, Infraction], object]] = {
    "taken": lambda shop, told: shop.client.sandbox.decide_infraction(told.infraction_id, "take"),
    "released": lambda shop, told: shop.client.sandbox.decide_infraction(told.infraction_id, "release"),
    "answered": lambda shop, told: shop.client.infractions.defend(told.id, "It was delivered"),
}


@pytest.mark.parametrize("act", _ACTS)
@pytest.mark.parametrize("point", _POINTS)
def test_whoever_dies_on_the_way_each_step_is_taken_once(shop: Shop, act: str, point: str) -> None:
    contested = shop.contest()
    shop.service.points.arm(point)
    _ACTS[act](shop, contested)
    shop.service.settle([shop.account])
    if act == "answered":
        shop.live(7.1)
    ended = shop.client.infractions.get(contested.id)
    taken_cents = AMOUNT_CENTS if act == "taken" else 0
    assert (ended.status, ended.taken) == ("TAKEN" if taken_cents else "RELEASED", taken_cents)
    assert shop.funds() == (AMOUNT_CENTS - taken_cents, AMOUNT_CENTS - taken_cents)


@pytest.fixture
def suspect(service: WholeInstallation, request: pytest.FixtureRequest) -> Iterator[Shop]:
    opened = Shop(service, suspect=request.param)
    yield opened
    opened.end()


@pytest.mark.parametrize("suspect", ["release"], indirect=True)
def test_each_day_can_be_compared_with_ones_own_books(suspect: Shop) -> None:
    names: dict[str, Any] = {}
    (block,) = (one for one in read_blocks(ROOT / "docs" / "reference" / "statement.md") if one.language == "python")
    exec(block.text, names)  # noqa: S102  it is our own page

    def compare() -> tuple[dict[str, int], list[tuple[int, str]]]:
        last = suspect.client.statement(datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)).lines[-1]
        day = last.create_timestamp.astimezone(names["BRAZIL"]).date()
        lacking, others = names["compare"](suspect.client, day, {"order": AMOUNT_CENTS})
        return lacking, [(cents, words) for _, cents, words in others]

    assert compare() == ({"order": AMOUNT_CENTS}, [(AMOUNT_CENTS, "Suspect Pix held by the institution")])
    suspect.live(3.1)
    assert compare() == ({}, [(-AMOUNT_CENTS, "Suspect Pix not held any more")])


@pytest.mark.parametrize("suspect", ["release"], indirect=True)
def test_a_suspect_payment_is_released_in_time_and_pays_the_charge(suspect: Shop) -> None:
    assert suspect.funds() == (0, AMOUNT_CENTS)
    assert suspect.client.charges.get(suspect.charge_id).status == "PENDING"
    with pytest.raises(InvalidRequest) as refused:
        suspect.client.refunds.create(suspect.paid, 1)
    assert refused.value.code == "ORIGINAL_NOT_REFUNDABLE"
    # No other payer can pay the charge meanwhile.
    assert suspect.client.sandbox.pay(suspect.emv).code == "BE17"
    suspect.live(2.9)
    assert suspect.client.charges.get(suspect.charge_id).status == "PENDING"
    suspect.live(0.2)
    assert suspect.funds() == (AMOUNT_CENTS, AMOUNT_CENTS)
    assert suspect.client.charges.get(suspect.charge_id).status == "APPROVED"
    suspect.client.refunds.create(suspect.paid, 1)


_HEARD = ("work after COMMIT of receive_credits", "work before acknowledgement", "work before group write")


@pytest.mark.parametrize("point", _HEARD)
def test_whoever_dies_as_a_verdict_is_told_it_is_taken_once(service: WholeInstallation, point: str) -> None:
    shop = Shop(service, suspect="return")
    service.points.arm(point)
    shop.client.sandbox.judge_payment(shop.paid, "release")
    service.settle([shop.account])
    assert shop.funds() == (AMOUNT_CENTS, AMOUNT_CENTS)
    assert shop.client.charges.get(shop.charge_id).status == "APPROVED"
    shop.end()
