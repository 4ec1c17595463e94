"""A process dies at each point between two writes, as by kill -9: nothing is lost, and nothing is done twice."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from support.killed_process import POINTS
from support.story import AMOUNT_CENTS, Story
from support.waiting import wait_until
from support.whole_installation import Account, Answer, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("kill points")]

A_DAY_S = 86_400


Tell = Callable[[Story, str], None]  # what happens to a holder while a point is armed


def create_a_charge(story: Story, point: str) -> None:
    story.service.points.arm(point)
    story.ask("charge", "/v1/connect/charge", "PENDING", key=story.account.key)


def deposit(story: Story, point: str) -> None:
    """A deposit has no name for repeating it: it exists if its group was committed, and otherwise not."""
    if "COMMIT" in point:
        story.model.deposits[story.account.holder_id][AMOUNT_CENTS] += 1
    story.service.points.arm(point)
    assert story.service.ask(story.account, "POST", "/sandbox/v1/deposits", {"amount": AMOUNT_CENTS}) is None


def transfer_to(payee: str, ending: str) -> Tell:
    def tell(story: Story, point: str) -> None:
        story.service.points.arm(point)
        _transfer(story, payee, ending)

    return tell


def _transfer(story: Story, payee: str, ending: str) -> Answer:
    key = f"{payee}@sandbox.pix.example"
    return story.ask("transfer", "/v1/connect/transfer/key", ending, key=key, key_type="EMAIL")


def transfer_over_a_rail_that_is_away(story: Story, point: str) -> None:
    rule = {"match": {"operation": "submit"}, "effect": "unavailable", "times": 1}
    story.service.insist(story.account, "PUT", "/sandbox/v1/faults", {"rules": [rule]})
    transfer_to("settle", "CONFIRMED")(story, point)


def refund(story: Story, point: str) -> None:
    story.be_paid(key=story.account.key, amount=2 * AMOUNT_CENTS)
    seen = story.service.settle([story.account])
    (paid,) = (thing for thing in seen.things if thing.direction == "IN")
    story.service.points.arm(point)
    story.ask("refund", "/v1/connect/refund", "RETURNED", end_to_end_id=paid.name)


def be_paid_by_charge(story: Story, point: str) -> None:
    emv = _charge(story, "APPROVED")
    story.service.settle([story.account])
    story.service.points.arm(point)
    story.be_paid(emv=emv)


def _charge(story: Story, ending: str) -> str:
    """The code of a new charge."""
    return story.ask("charge", "/v1/connect/charge", ending, key=story.account.key).data["emvqrcps"]


def pay_a_fee(story: Story, point: str) -> None:
    """A process dies between a payment and the institution's fee for it."""
    story.let_next_payment("fee:7")
    story.service.points.arm(point)
    story.be_paid(key=story.account.key, amount=AMOUNT_CENTS)


def be_moved(story: Story, point: str) -> None:
    story.service.points.arm(point)
    body = {"kind": "by_hand", "direction": "OUT", "amount": AMOUNT_CENTS}
    story.service.ask(story.account, "POST", "/sandbox/v1/movements", body)


def hear_the_first_step(effect: str) -> Tell:
    """A process dies between the payer's order and our answer to the first step of its payment."""

    def tell(story: Story, point: str) -> None:
        emv = _charge(story, "APPROVED")
        story.let_next_payment(effect)
        story.service.points.arm(point)
        story.be_paid(emv=emv)

    return tell


def hear_the_end(effect: str, ending: str) -> Tell:
    """A process dies when the second step of a payment is reported, whose first was recorded and acknowledged."""

    def tell(story: Story, point: str) -> None:
        emv = _charge(story, ending)
        story.let_next_payment(effect)
        story.be_paid(emv=emv)
        story.service.wait_until_accepted(story.account)
        story.service.points.arm(point)
        story.service.advance_clock(story.account, 20)

    return tell


def be_given_back(story: Story, point: str) -> None:
    answer = _transfer(story, "settle", "RETURNED")
    story.service.settle([story.account])
    story.service.points.arm(point)
    story.service.ask(story.account, "POST", "/sandbox/v1/returns", {"end_to_end_id": answer.data["end_to_end_id"]})


def let_a_charge_expire(story: Story, point: str) -> None:
    _charge(story, "EXPIRED")
    story.service.settle([story.account])
    story.service.points.arm(point)
    story.service.advance_clock(story.account, A_DAY_S)
    story.service.advance_clock(story.account, 0)


def let_a_charge_fall_due(story: Story, point: str) -> None:
    _charge(story, "EXPIRED")
    story.service.settle([story.account])
    story.service.points.arm(point)
    story.service.let_charges_fall_due(story.account)


_GROUP_WRITE = ("before group write", "after group write")
_CREDIT = (*_GROUP_WRITE, "after COMMIT of receive_credits", "before acknowledgement")
_WORD = ("before word on arrivals", "after word on arrivals")
_MOVED_CLOCK = ("before move of the clock", "after move of the clock")
_STORIES: dict[str, tuple[Tell, dict[str, tuple[str, ...]]]] = {
    "a charge": (create_a_charge, {"serve": (*_GROUP_WRITE, "after COMMIT of create_charges")}),
    "a deposit": (deposit, {"serve": (*_GROUP_WRITE, "after COMMIT of deposit_all")}),
    "a transfer": (transfer_to("settle", "CONFIRMED"), {
        "serve": (*_GROUP_WRITE, "after COMMIT of start_transfers"),
        "work": (
            *("before mark", "after mark", "before call", "after call", *_GROUP_WRITE, "after COMMIT of write_endings"),
            *("before acknowledgement", "after acknowledgement", "before post", "after post"),
            *("before record of the post", "after record of the post", "after COMMIT of record_attempts"),
        ),
        "sandbox": ("before orders", "after orders", "before word on orders", "after word on orders"),
    }),
    "a silent transfer": (transfer_to("silent", "CONFIRMED"), {
        "work": ("before postponement", "after postponement", "before question", "after question", *_GROUP_WRITE),
    }),
    "a rejected transfer": (transfer_to("reject-ac07", "ERROR"), {
        "work": ("after call", *_GROUP_WRITE), "sandbox": ("after orders",),
    }),
    "a transfer without a rail": (transfer_over_a_rail_that_is_away, {"work": ("before unmark", "after unmark")}),
    "a refund": (refund, {
        "serve": (*_GROUP_WRITE, "after COMMIT of start_refunds"),
        "work": ("before mark", "after mark", "before refund call", "after refund call", *_GROUP_WRITE, "after notice"),
        "sandbox": ("after orders",),
    }),
    "a payment": (be_paid_by_charge, {
        "work": (*_CREDIT, "after acknowledgement", "before notice", "after notice"),
        "sandbox": ("after arrivals", *_WORD),
    }),
    "a fee": (pay_a_fee, {
        "work": ("after COMMIT of receive_credits", "after COMMIT of receive_movements"),
        "sandbox": ("after arrivals", "before fees", "after fees", "after word on arrivals"),
    }),
    "a movement": (be_moved, {
        "work": (*_GROUP_WRITE, "after COMMIT of receive_movements", "before acknowledgement", "after acknowledgement"),
        "sandbox": ("after arrivals", *_WORD),
    }),
    "an accepted payment": (hear_the_first_step("two_steps:20"), {
        "work": (*_CREDIT, "after acknowledgement"), "sandbox": ("after arrivals", *_WORD),
    }),
    "a settled payment": (hear_the_end("two_steps:20000", "APPROVED"), {"work": _CREDIT, "sandbox": _WORD}),
    "a cancelled payment": (hear_the_end("cancel:AB03:20000", "PENDING"), {"work": _CREDIT, "sandbox": _WORD[:1]}),
    "a held payment": (hear_the_first_step("suspect:release:20"), {
        "work": (*_CREDIT, "after acknowledgement"), "sandbox": _WORD,
    }),
    "a released payment": (hear_the_end("suspect:release:20000", "APPROVED"), {"work": _CREDIT, "sandbox": _WORD}),
    "a returned payment": (hear_the_end("suspect:return:20000", "PENDING"), {"work": _CREDIT, "sandbox": _WORD[:1]}),
    "a return": (be_given_back, {
        "work": (*_GROUP_WRITE, "after COMMIT of receive_returns", "before acknowledgement"),
        "sandbox": ("after arrivals", "before word on arrivals"),
    }),
    "an expiry": (let_a_charge_expire, {"serve": _MOVED_CLOCK, "sandbox": _MOVED_CLOCK}),
    "a charge that is due": (let_a_charge_fall_due, {"work": ("before expiry", "after expiry")}),
}  # fmt: skip
_CASES = [
    pytest.param(tell, f"{part} {moment}", id=f"{name}: {part} {moment}")
    for name, (tell, parts) in _STORIES.items()
    for part, moments in parts.items()
    for moment in moments
]


@pytest.fixture(scope="module")
def service() -> Iterator[WholeInstallation]:
    """One installation for all points: it restarts killed processes, and nothing expires meanwhile."""
    with open_whole_installation(policy={"handover_timeout_s": 36000}) as opened:
        yield opened


@pytest.mark.parametrize(("tell", "point"), _CASES)
def test_nothing_is_lost_and_nothing_done_twice(service: WholeInstallation, tell: Tell, point: str) -> None:
    story = Story(service)
    tell(story, point)
    service.wait_until_killed(story.account, point)
    story.settle()
    service.check_heard([story.account])


_OF_A_LOT = (
    *("serve before lot", "serve after lot", "serve after answer to a lot"),
    *("work before look for lots", "work after look for lots", "work before group write"),
    *("work before end of charges of lots", "work after end of charges of lots"),
    "work after COMMIT of write_standard_charges",
)


@pytest.mark.parametrize("point", _OF_A_LOT)
def test_each_charge_of_a_lot_is_made_once(service: WholeInstallation, point: str) -> None:
    """More than one batch: a worker that dies in the first has not begun the last."""
    story = Story(service)
    service.points.arm(point)
    due_on = datetime.now(UTC).date() + timedelta(days=365)
    charges = [
        {
            "txid": f"carne{number:025d}",
            "calendario": {"dataDeVencimento": due_on.isoformat()},
            "devedor": {"cpf": "52998224725", "nome": "Ana"},
            "valor": {"original": f"{AMOUNT_CENTS // 100}.{AMOUNT_CENTS % 100:02d}"},
            "chave": "nobody@prove.example" if number % 100 == 50 else story.account.key,
        }
        for number in range(300)
    ]
    story.ask_for_lot(1, charges)
    service.wait_until_killed(story.account, point)
    story.settle()
    lot = service.insist(story.account, "GET", "/v2/lotecobv/1").body
    refused = [number for number, item in enumerate(lot["cobsv"]) if item["status"] == "NEGADA"]
    assert refused == [50, 150, 250]
    assert sum(item["status"] == "CRIADA" for item in lot["cobsv"]) == 297
    made = [thing for thing in service.see([story.account]).things if thing.kind == "charge"]
    assert len(made) == 297
    assert service.insist(story.account, "GET", f"/v2/cobv/{charges[0]['txid']}").body["revisao"] == 0
    service.check_heard([story.account])


_OF_AN_ANSWER = (
    *("serve before group write", "serve after group write", "serve after COMMIT of answer_infractions"),
    *("work before answer to a contest", "work after answer to a contest", "work after COMMIT of answer_infractions"),
    *("sandbox before contest", "sandbox after contest"),
)


@pytest.mark.parametrize("point", _OF_AN_ANSWER)
def test_an_answer_to_a_contest_is_kept_and_heard_once(service: WholeInstallation, point: str) -> None:
    story, words = Story(service), {"text": "Delivered on the 20th"}
    story.be_paid(**_to(story.account))
    seen = service.settle([story.account])
    (paid,) = (thing for thing in seen.things if thing.direction == "IN")
    service.insist(story.account, "POST", "/sandbox/v1/infractions", {"end_to_end_id": paid.name})
    service.settle([story.account])
    (contest,) = service.insist(story.account, "GET", "/v1/connect/infraction/list").data
    service.points.arm(point)
    path = f"/v1/connect/infraction/id/{contest['id']}"
    service.insist(story.account, "POST", f"{path}/defence", words)
    service.wait_until_killed(story.account, point)
    story.settle()
    shown = service.insist(story.account, "GET", path).data
    assert (shown["status"], shown["defence"]["status"], shown["defence"]["text"]) == ("ANSWERED", "SENT", *words.values())
    assert [each.state for each in service.see([story.account]).rail_contests] == ["answered"]
    service.check_heard([story.account])


def test_a_payment_dies_with_the_sandbox_before_it_is_kept(service: WholeInstallation) -> None:
    """Its payer was never told that it arrived, because it never did."""
    story = Story(service)
    service.points.arm("sandbox before arrivals")
    answer = service.insist(story.account, "POST", "/sandbox/v1/payments", _to(story.account))
    assert answer.data["status"] in {"CONFIRMED", "PROCESSING"}  # the payer waits for our answer, but not long
    assert service.points.has_killed("sandbox before arrivals")
    story.settle()
    (paid,) = [thing for thing in service.see([story.account]).things if thing.direction == "IN"]
    assert paid.status == "CONFIRMED"


def test_a_charge_is_held_past_its_time_while_its_payment_is_under_way(service: WholeInstallation) -> None:
    for effect, ending in ((f"two_steps:{2 * A_DAY_S}000", "APPROVED"), (f"cancel:AB03:{2 * A_DAY_S}000", "EXPIRED")):
        story = Story(service)
        answer = story.ask("charge", "/v1/connect/charge", ending, key=story.account.key)
        story.let_next_payment(effect)
        story.be_paid(emv=answer.data["emvqrcps"])
        service.wait_until_accepted(story.account)
        service.advance_clock(story.account, A_DAY_S + 60)
        path = f"/v1/connect/charge/{answer.data['id']}"
        assert service.insist(story.account, "GET", path).data["status"] == "PENDING"
        assert be_refused(story, answer.data["emvqrcps"]) == "BE17"
        service.advance_clock(story.account, A_DAY_S)
        wait_until(
            lambda story=story, path=path, ending=ending: service.insist(story.account, "GET", path).data["status"] == ending,
            f"the charge is {ending}",
        )
        story.settle()
        service.check_heard([story.account])


def be_refused(story: Story, emv: str) -> str:
    """Make a payment that must fail; returns its code, or None because the payer does not wait long."""
    told: list[Answer] = []

    def is_told() -> bool:
        told.append(story.service.insist(story.account, "POST", "/sandbox/v1/payments", {"emv": emv}))
        return told[-1].data["status"] != "PROCESSING"

    wait_until(is_told, "the payer is told")
    assert told[-1].data["status"] == "ERROR", told[-1]
    return told[-1].data["code"]


@pytest.mark.each_change
def test_one_transfer_survives_a_death_at_every_point_of_its_way(service: WholeInstallation) -> None:
    story = Story(service)
    points = [point for point in POINTS if point.split()[0] in {"work", "sandbox"} and _is_on_the_way(point)]
    for point in points:
        service.points.arm(point)
    _transfer(story, "silent", "CONFIRMED")
    for point in points:
        service.wait_until_killed(story.account, point)
    story.settle()
    service.check_heard([story.account])


@pytest.mark.each_change
def test_after_all_that_the_books_are_right(service: WholeInstallation) -> None:
    service.check_books()


def _is_on_the_way(point: str) -> bool:
    return point.endswith(("mark", " call", "group write", "postponement", "question", "orders", "write_endings")) and (
        not any(word in point for word in ("unmark", "refund", "word", "name_orders"))
    )


def _to(account: Account) -> dict[str, object]:
    return {"key": account.key, "amount": AMOUNT_CENTS}
