"""Money that is contested, lived by the clock: the sandbox is the institution, and every story ends with books that hold."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import pytest

from pixconnect_client import Client, Infraction, InvalidRequest
from support.whole_installation import Account, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("contested money")]

AMOUNT_CENTS = 10_000
DAY_S = 86_400


@pytest.fixture(scope="module")
def service() -> Iterator[WholeInstallation]:
    with open_whole_installation() as opened:
        yield opened


class Shop:
    """A holder who is paid, and whose payer regrets it."""

    def __init__(
        self, service: WholeInstallation, funds_cents: int = 0, suspect: Literal["release", "return"] | None = None
    ) -> None:
        self.service = service
        self.account: Account = service.open_account(funds_cents)
        installation = service.installation
        self.client = Client(installation.base_url, self.account.client_id, self.account.client_secret)
        charge = self.client.charges.create(AMOUNT_CENTS, self.account.key)
        self.charge_id = charge.id
        self.emv = charge.emvqrcps
        self.paid = self.client.sandbox.pay(charge.emvqrcps, suspect=suspect).end_to_end_id

    def contest(self, judged: str | None = None) -> Infraction:
        told = self.client.sandbox.open_infraction(self.paid, words="I never got the shoes", judged=judged)
        return next(each for each in self.client.infractions.list() if each.infraction_id == told.infraction_id)

    def funds(self) -> tuple[int, int]:
        """Available and current."""
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


def test_contests_of_one_pix_at_one_moment_block_it_once(service: WholeInstallation) -> None:
    shop = Shop(service, funds_cents=4 * AMOUNT_CENTS)
    with ThreadPoolExecutor(4) as threads:
        held = list(threads.map(lambda _: shop.client.sandbox.open_infraction(shop.paid).held, range(4)))
    assert sorted(held) == [0, 0, 0, AMOUNT_CENTS]
    assert shop.funds() == (4 * AMOUNT_CENTS, 5 * AMOUNT_CENTS)
    shop.end()


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


def test_answered_in_time_it_is_released(shop: Shop) -> None:
    contested = shop.contest()
    answered = shop.client.infractions.defend(contested.id, "It was delivered")
    assert answered.defence is not None
    # The same words again are no second answer, and other words are refused.
    assert shop.client.infractions.defend(contested.id, "It was delivered").id == contested.id
    with pytest.raises(InvalidRequest) as again:
        shop.client.infractions.defend(contested.id, "It was not ordered")
    assert again.value.code == "INFRACTION_ANSWERED"
    shop.live(7.1)
    ended = shop.client.infractions.get(contested.id)
    assert (ended.status, ended.taken, shop.funds()) == ("RELEASED", 0, (AMOUNT_CENTS, AMOUNT_CENTS))
    assert ended.defence is not None
    assert ended.defence.status == "SENT"
    shop.client.refunds.create(shop.paid, 1)


def test_taken_with_too_little_left_the_rest_stays_wanted(shop: Shop) -> None:
    shop.client.transfers.create_by_key(9_000, "settle@sandbox.pix.example", "EMAIL")
    shop.service.settle([shop.account])
    contested = shop.contest()
    assert (contested.amount, contested.held, shop.funds()) == (AMOUNT_CENTS, 1_000, (0, 1_000))
    told = shop.client.sandbox.decide_infraction(contested.infraction_id, "take")
    assert (told.status, told.wanted, told.held) == ("TAKEN", 9_000, 0)
    shop.client.sandbox.receive(shop.account.key, 5_000)
    shop.client.sandbox.decide_infraction(contested.infraction_id, "hold", amount=4_000)
    assert shop.funds() == (1_000, 5_000)
    shop.client.sandbox.decide_infraction(contested.infraction_id, "take")
    assert (shop.client.infractions.get(contested.id).taken, shop.funds()) == (5_000, (1_000, 1_000))
    shop.live(91)
    assert shop.funds() == (1_000, 1_000)


def test_what_nobody_decides_ends_by_itself(shop: Shop) -> None:
    contested = shop.contest("never")
    shop.live(10.9)
    assert shop.client.infractions.get(contested.id).status == "OPEN"
    shop.live(0.2)
    assert (shop.client.infractions.get(contested.id).status, shop.funds()[0]) == ("RELEASED", AMOUNT_CENTS)


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
def test_held_as_suspect_it_is_released_when_its_time_is_over_and_pays_the_charge_that_would_have_expired(
    suspect: Shop,
) -> None:
    assert suspect.funds() == (0, AMOUNT_CENTS)
    assert suspect.client.charges.get(suspect.charge_id).status == "PENDING"
    with pytest.raises(InvalidRequest) as refused:
        suspect.client.refunds.create(suspect.paid, 1)
    assert refused.value.code == "ORIGINAL_NOT_REFUNDABLE"
    # Nobody else pays the charge meanwhile.
    assert suspect.client.sandbox.pay(suspect.emv).code == "BE17"
    suspect.live(2.9)
    assert suspect.client.charges.get(suspect.charge_id).status == "PENDING"
    suspect.live(0.2)
    assert suspect.funds() == (AMOUNT_CENTS, AMOUNT_CENTS)
    assert suspect.client.charges.get(suspect.charge_id).status == "APPROVED"
    suspect.client.refunds.create(suspect.paid, 1)


@pytest.mark.parametrize("suspect", ["return"], indirect=True)
def test_held_as_suspect_it_is_returned_when_its_time_is_over_and_its_charge_expires(suspect: Shop) -> None:
    suspect.live(3.1)
    assert suspect.funds() == (0, 0)
    assert suspect.client.transfers.get_by_end_to_end_id(suspect.paid).status == "ERROR"
    assert suspect.client.charges.get(suspect.charge_id).status == "EXPIRED"


@pytest.mark.parametrize("suspect", ["return", "release"], indirect=True)
@pytest.mark.parametrize("decision", ["return", "release"])
def test_by_hand_it_is_decided_before(suspect: Shop, decision: str) -> None:
    told = suspect.client.sandbox.judge_payment(suspect.paid, decision)
    assert (told.status, told.code) == (("CONFIRMED", None) if decision == "release" else ("ERROR", "FRAD"))
    charge = suspect.client.charges.get(suspect.charge_id)
    assert charge.status == ("APPROVED" if decision == "release" else "PENDING")
    with pytest.raises(InvalidRequest, match="no payment of this name is held"):
        suspect.client.sandbox.judge_payment(suspect.paid, decision)
    if decision == "return":
        # It can be paid again.
        suspect.client.sandbox.pay(suspect.emv)
        assert suspect.client.charges.get(suspect.charge_id).status == "APPROVED"
    assert suspect.funds() == (AMOUNT_CENTS, AMOUNT_CENTS)
    suspect.live(3.1)
    assert suspect.funds() == (AMOUNT_CENTS, AMOUNT_CENTS)


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
