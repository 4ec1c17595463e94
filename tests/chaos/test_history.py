"""The judge of histories finds each lie, and nothing in possible histories."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from support.both_sides import Thing
from support.chaos.history import NO_ANSWER, Call, Entry, History, digest_of, find_contradictions

DEPOSIT_CENTS, PAYMENT_CENTS, SENT_CENTS = 10_000, 70, 300
AFTER = (10_000, 9_700, 9_770)  # current funds after the deposit, the transfer and the payment


def a_call(began_s: float, ended_s: float, **changes: Any) -> Call:
    return Call(**(dict(holder_id=1, kind="balance", began_s=began_s, ended_s=ended_s, status=200) | changes))


def a_thing(**changes: Any) -> Thing:
    told = dict(id=7, holder_id=1, kind="transfer", direction="OUT", is_book=False, external_id="sent", name="E1")
    told |= dict(original=None, charge_id=None, amount_cents=SENT_CENTS, status="CONFIRMED", code=None, events=[])
    return Thing(**(told | changes))


def an_entry(number: int, change_cents: int, **changes: Any) -> Entry:
    running_cents = AFTER[number - 1]
    return Entry(**(dict(holder_id=1, number=number, change_cents=change_cents, running_cents=running_cents) | changes))


CALLS = (
    a_call(0, 1, kind="deposit", amount_cents=DEPOSIT_CENTS),
    a_call(2, 3, cents=AFTER[0]),
    a_call(4, 5, kind="transfer", name="sent", amount_cents=SENT_CENTS, id=7, state="PROCESSING"),
    a_call(6, 7, cents=AFTER[0], reserved_cents=SENT_CENTS),
    a_call(8, 9, kind="look", name="7", id=7, state="CONFIRMED"),
    a_call(10, 11, kind="payment", amount_cents=PAYMENT_CENTS, state="CONFIRMED"),
    a_call(12, 13, cents=AFTER[2]),
    a_call(14, 15, kind="statement", cents=AFTER[2], lines_count=3, digest=""),
    a_call(16, 17, kind="transfer", name="sent", amount_cents=SENT_CENTS, id=7, state="CONFIRMED"),
)
THINGS = (a_thing(), a_thing(id=8, direction="IN", external_id=None, name="E2", amount_cents=PAYMENT_CENTS))
ENTRIES = (
    an_entry(1, DEPOSIT_CENTS),
    an_entry(2, -SENT_CENTS, cause_kind="transfer", cause_id=7),
    an_entry(3, PAYMENT_CENTS, cause_kind="transfer", cause_id=8),
)


def a_history(**changes: Any) -> History:
    digest = digest_of((entry.change_cents, entry.running_cents) for entry in ENTRIES)
    calls = [structs.replace(call, digest=digest) if call.kind == "statement" else call for call in CALLS]
    return History(**(dict(calls=calls, things=list(THINGS), entries=list(ENTRIES)) | changes))


def with_call(position: int, **changes: Any) -> History:
    calls = list(a_history().calls)
    calls[position] = structs.replace(calls[position], **changes)
    return a_history(calls=calls)


def with_calls(*more: Call) -> History:
    return a_history(calls=[*a_history().calls, *more])


def without_thing(position: int) -> History:
    return a_history(things=[thing for place, thing in enumerate(THINGS) if place != position])


def test_what_can_have_happened_is_believed() -> None:
    assert find_contradictions(a_history()) == []


@pytest.mark.parametrize(
    "call",
    [
        a_call(1.5, 1e12, status=NO_ANSWER, kind="transfer", name="never seen", amount_cents=5),
        a_call(18, 1e12, status=NO_ANSWER, kind="payment", amount_cents=6),
        a_call(18, 19, status=422, kind="transfer", name="refused", amount_cents=5),
        a_call(18, 19, status=503),
        # The second of two payments of one charge is refused.
        a_call(10.5, 18, kind="payment", amount_cents=PAYMENT_CENTS, state="ERROR"),
        a_call(10.5, 18, kind="payment", amount_cents=PAYMENT_CENTS, status=422),
        # During the payment either value is right.
        a_call(10.2, 10.8, cents=AFTER[1]),
        a_call(10.2, 10.8, cents=AFTER[2]),
    ],
)
def test_who_got_no_answer_knows_nothing(call: Call) -> None:
    assert find_contradictions(with_calls(call)) == []


def test_what_was_refused_after_an_unanswered_request_may_be_there() -> None:
    calls = [
        a_call(4, 1e12, kind="transfer", name="sent", amount_cents=SENT_CENTS, status=NO_ANSWER),
        a_call(9, 9.5, kind="transfer", name="sent", amount_cents=SENT_CENTS, status=422),
    ]
    others = [call for call in a_history().calls if call.kind != "transfer"]
    assert find_contradictions(a_history(calls=[*others, *calls])) == []


LIES: dict[str, tuple[Callable[[], History], str]] = {
    "a request fails": (lambda: with_calls(a_call(18, 19, status=500)), "a request failed"),
    "a transfer is lost": (lambda: without_thing(0), "acknowledged and lost"),
    "a payment is lost": (lambda: without_thing(1), "acknowledged and lost"),
    "two payments of one charge are acknowledged": (
        lambda: with_calls(a_call(18, 19, kind="payment", amount_cents=PAYMENT_CENTS, state="CONFIRMED")),
        "acknowledged and lost",
    ),
    "what was acknowledged is not there": (
        lambda: with_calls(a_call(18, 19, kind="look", name="7", status=404)),
        "acknowledged, and not there",
    ),
    "a deposit is lost": (lambda: with_calls(a_call(18, 19, kind="deposit", amount_cents=10_001)), "acknowledged and lost"),
    "a payment is posted twice": (lambda: a_history(things=[*THINGS, structs.replace(THINGS[1], id=9)]), "done 2 times"),
    "a transfer is made twice": (lambda: a_history(things=[*THINGS, a_thing(id=9, name="E3")]), "done twice"),
    "a repeat gets another id": (lambda: with_call(8, id=9), "several ids"),
    "another is made than was told": (lambda: a_history(things=[a_thing(id=9), THINGS[1]]), "and is another"),
    "another amount is sent": (lambda: a_history(things=[a_thing(amount_cents=301), THINGS[1]]), "asked for 300 cents"),
    "what was refused is done": (
        lambda: a_history(calls=[structs.replace(call, status=422) for call in CALLS if call.kind == "transfer"]),
        "refused and done",
    ),
    "nothing was done, and it was": (lambda: with_call(5, status=503, state=""), "refused, and done"),
    "nobody asked for a transfer": (
        lambda: a_history(things=[*THINGS, a_thing(id=9, external_id="x", name="E3")]),
        "nobody asked",
    ),
    "nobody sent a payment": (
        lambda: a_history(things=[*THINGS, structs.replace(THINGS[1], id=9, amount_cents=71)]),
        "nobody asked",
    ),
    "nobody sent what came by book": (
        lambda: a_history(things=[*THINGS, structs.replace(THINGS[1], id=9, name="E9", is_book=True)]),
        "nobody asked",
    ),
    "nobody put a deposit in": (lambda: a_history(calls=a_history().calls[1:]), "nobody put in"),
    "a state goes back": (
        lambda: with_calls(a_call(18, 19, kind="look", name="7", id=7, state="PROCESSING")),
        "a state goes back",
    ),
    "a state ends otherwise": (lambda: a_history(things=[a_thing(status="ERROR"), THINGS[1]]), "in the end"),
    "a read misses what was acknowledged": (lambda: with_call(6, cents=AFTER[1]), "nothing that it can have seen"),
    "a read sees what was not asked for yet": (lambda: with_call(1, cents=AFTER[2]), "nothing that it can have seen"),
    "a read shows less than one before": (
        lambda: with_calls(a_call(18, 19, cents=AFTER[2]), a_call(20, 21, cents=AFTER[1])),
        "nothing that it can have seen",
    ),
    "a read shows what never was": (lambda: with_call(1, cents=9_999), "nothing that it can have seen"),
    "what is on its way is not reserved": (lambda: with_call(3, reserved_cents=0), "nothing that it can have seen"),
    "more is reserved than was asked for": (lambda: with_call(6, reserved_cents=1), "nothing that it can have seen"),
    "a statement lacks a line": (lambda: with_call(7, lines_count=2), "nothing that it can have seen"),
    "a statement has another line": (lambda: with_call(7, digest="0"), "nothing that it can have seen"),
    "an entry is missing": (lambda: a_history(entries=ENTRIES[:1] + ENTRIES[2:]), "should leave"),
}


@pytest.mark.parametrize("name", LIES)
def test_each_lie_is_found(name: str) -> None:
    make, words = LIES[name]
    found = find_contradictions(make())
    assert any(words in each for each in found), found
