"""The judge of what goes from cell to cell finds each lie, and none where both sides say the same or nothing has gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from msgspec import structs

from pixconnect.domain.frame.cell import IDS_MAX
from support.both_sides import Thing
from support.chaos.crossings import count_crossings, find_torn
from support.chaos.history import NO_ANSWER, Call, Entry, History, find_contradictions

PAYER, PAYEE, OTHER = 1, IDS_MAX + 1, IDS_MAX + 2
CENTS, BACK_CENTS = 700, 300


def a_thing(**changes: Any) -> Thing:
    told = dict(id=7, holder_id=PAYER, kind="transfer", direction="OUT", is_book=False, external_id="sent", name="E1")
    told |= dict(original=None, charge_id=None, amount_cents=CENTS, status="RETURNED", code=None, events=[])
    return Thing(**(told | changes))


OUT: Final = a_thing()
IN: Final = a_thing(id=IDS_MAX + 7, holder_id=PAYEE, direction="IN", external_id=None)
_BACK: Final[dict[str, Any]] = dict(kind="refund", name="D1", original="E1", amount_cents=BACK_CENTS)
BACK: Final = a_thing(id=IDS_MAX + 9, holder_id=PAYEE, external_id="back", **_BACK)
GOT_BACK: Final = a_thing(id=9, direction="IN", external_id=None, **_BACK)
OUTSIDE: Final = a_thing(id=8, name="E2", external_id="outside")
"""A transfer to another institution has one side here."""
PAID: Final = a_thing(id=10, direction="IN", external_id=None, name="E3")
"""So has a payment from there."""
THINGS: Final = (OUT, IN, BACK, GOT_BACK, OUTSIDE, PAID)
CALL: Final = Call(
    holder_id=PAYER, kind="transfer", name="sent", amount_cents=CENTS, began_s=1, ended_s=2, status=200, payee_id=PAYEE
)
Things = Sequence[Thing]


def with_thing(thing: Thing, **changes: Any) -> Things:
    return [structs.replace(each, **changes) if each is thing else each for each in THINGS]


def without(*things: Thing) -> Things:
    return [each for each in THINGS if each not in things]


def none_of_it(**changes: Any) -> Things:
    """The order has ended otherwise, and nothing came of it."""
    return [structs.replace(OUT, **changes), OUTSIDE, PAID]


BELIEVED: Final[dict[str, Things]] = {
    "both ends of both": THINGS,
    "given up": none_of_it(status="CANCELLED"),
    "refused where it was to arrive": [*none_of_it(status="ERROR"), structs.replace(IN, status="ERROR")],
    "under way": none_of_it(status="PROCESSING"),
    "a refund under way": with_thing(BACK, status="PROCESSING"),
    "a refund that has failed": [*without(BACK, GOT_BACK), structs.replace(BACK, status="ERROR")],
    "never asked for": [OUTSIDE, PAID],
}


@pytest.mark.parametrize("name", BELIEVED)
def test_what_can_have_happened_is_believed(name: str) -> None:
    assert find_torn(BELIEVED[name], [CALL]) == []


LIES: Final[dict[str, tuple[Callable[[], Things], str]]] = {
    "it left and never arrived": (lambda: without(IN, BACK, GOT_BACK), "left and never arrived"),
    "it left, and was refused there": (lambda: with_thing(IN, status="ERROR"), "left and never arrived"),
    "it arrived and never left": (lambda: with_thing(OUT, status="CANCELLED"), "arrived and never left"),
    "it arrived twice": (lambda: [*THINGS, structs.replace(IN, id=IDS_MAX + 8)], "2 times"),
    "it left twice": (lambda: [*THINGS, structs.replace(OUT, id=17)], "2 times"),
    "other cents arrive": (lambda: with_thing(IN, amount_cents=701), "another thing than the other"),
    "it is returned on one side": (lambda: with_thing(IN, status="CONFIRMED"), "another thing than the other"),
    "it arrives at another": (lambda: with_thing(IN, holder_id=OTHER), "arrived at another"),
    "a refund left and never arrived": (lambda: without(GOT_BACK), "given back to nobody"),
    "a refund arrived and never left": (lambda: without(BACK), "given back by nobody"),
    "a refund that failed has arrived": (lambda: with_thing(BACK, status="ERROR"), "given back by nobody"),
    "a refund arrives twice": (lambda: [*THINGS, structs.replace(GOT_BACK, id=19)], "2 times"),
    "other cents are given back": (lambda: with_thing(GOT_BACK, amount_cents=301), "gives back another thing"),
    "another is given it back": (lambda: with_thing(GOT_BACK, holder_id=2), "to another than its payer"),
}


@pytest.mark.parametrize("name", LIES)
def test_each_lie_is_found(name: str) -> None:
    make, words = LIES[name]
    found = find_torn(make(), [CALL])
    assert any(words in each for each in found), found


def test_who_pays_in_its_own_cell_does_it_by_book() -> None:
    found = find_torn(with_thing(IN, holder_id=2), [structs.replace(CALL, payee_id=2)])
    assert any("over the rail in one cell" in each for each in found), found


def test_what_has_settled_on_both_sides_is_counted() -> None:
    assert count_crossings(THINGS) == {"payments across": 1, "refunds across": 1}
    assert count_crossings(without(IN, GOT_BACK)) == {"payments across": 0, "refunds across": 0}


def a_history(*calls: Call) -> History:
    """The payee has nothing but what has arrived."""
    arrived = Entry(holder_id=PAYEE, number=1, change_cents=CENTS, running_cents=CENTS, transfer_id=IN.id)
    sent = structs.replace(CALL, id=OUT.id)
    funds = Call(holder_id=PAYER, kind="deposit", amount_cents=CENTS, began_s=0, ended_s=0.5, status=200)
    entries = [
        Entry(holder_id=PAYER, number=1, change_cents=CENTS, running_cents=CENTS),
        Entry(holder_id=PAYER, number=2, change_cents=-CENTS, running_cents=0, transfer_id=OUT.id),
        arrived,
    ]
    return History(calls=[funds, sent, *calls], things=[OUT, IN], entries=entries)


def a_read(began_s: float, cents: int) -> Call:
    return Call(holder_id=PAYEE, kind="balance", began_s=began_s, ended_s=began_s + 0.1, status=200, cents=cents)


TOLD: Final = structs.replace(CALL, id=OUT.id, began_s=5, ended_s=6, state="CONFIRMED")
"""The payer asks for the same again, and hears that it has settled."""


@pytest.mark.parametrize("read", [a_read(0.5, 0), a_read(3, 0), a_read(3, CENTS), a_read(7, CENTS)])
def test_a_payee_may_see_it_once_it_is_sent_and_must_once_its_payer_was_told(read: Call) -> None:
    assert find_contradictions(a_history(TOLD, read)) == []


@pytest.mark.parametrize("read", [a_read(0.5, CENTS), a_read(7, 0)])
def test_a_payee_sees_nothing_before_it_is_sent_and_everything_after_its_payer_was_told(read: Call) -> None:
    found = find_contradictions(a_history(TOLD, read))
    assert any("nothing that it can have seen" in each for each in found), found


def test_what_came_from_nobody_is_found() -> None:
    history = structs.replace(a_history(), things=[IN])
    assert any("nobody asked for" in each for each in find_contradictions(history))


def test_who_got_no_answer_may_have_sent_it() -> None:
    assert find_torn(THINGS, [structs.replace(CALL, status=NO_ANSWER, ended_s=1e12)]) == []
