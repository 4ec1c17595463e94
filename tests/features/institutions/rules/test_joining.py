"""Joining items with our lines: one to one, names first, and nothing that may be ours becomes a movement."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pixconnect.features.institutions.rules.institution import InstitutionItem, ItemParts
from pixconnect.features.institutions.rules.joining import (
    DAYS_APART_MAX,
    BookLine,
    Joined,
    find_claimed,
    find_parts,
    join_items,
    list_looks,
    make_movement_id,
)
from pixconnect.features.institutions.rules.sum_line import choose_parts, is_sum, mark_parts
from pixconnect.features.institutions.rules.unmatched import BookedLine, LeftLines, OpenAmounts, find_sums, judge_left

DAY = date(2026, 11, 2)
AT = datetime(2026, 11, 2, 15, 0, 0, 400_000, UTC)
E2E = "E99999004202611021500abcdefghijk"
OTHER_E2E = "E99999004202611021500abcdefghijz"
SENT_E2E = "E99999003202610311500abcdefghijk"
RETURN_ID = "D99999003202611021500abcdefghijk"
FEE: Any = dict(kind="fee", direction="OUT", end_to_end_id=E2E)
RETURNED: Any = dict(key=("refund", 1), direction="OUT", original=(E2E,))


def an_item(item_id: str = "N1", **changes: Any) -> InstitutionItem:
    fields: dict[str, Any] = dict(day=DAY, settled_at=None, direction="IN", amount_cents=1000, kind="pix")
    return InstitutionItem(item_id=item_id, **fields | changes)


def a_line(number: int = 1, **changes: Any) -> BookLine:
    fields: dict[str, Any] = dict(key=("transfer", number), holder_id=7, direction="IN", amount_cents=1000, day=DAY)
    fields |= dict(settled_at=AT, names=(), state="settled")
    return BookLine(**fields | changes)


def joined_by(joined: Joined) -> list[tuple[str, Any, str]]:
    return sorted((join.item_id, join.key[1], join.by) for join in joined.joins)


@pytest.mark.parametrize(
    ("item", "line", "by"),
    [
        (an_item(end_to_end_id=E2E, day=DAY + timedelta(days=30)), a_line(names=(E2E,)), "name"),
        (an_item(return_id=RETURN_ID, end_to_end_id=E2E), a_line(names=("D1", RETURN_ID)), "name"),
        (an_item(end_to_end_id=E2E), a_line(key=("refund", 1), names=("D1",), original=(E2E,)), "name"),
        (an_item(settled_at=AT, day=DAY + timedelta(days=9)), a_line(), "instant"),
        (an_item(tax_id="52998224725"), a_line(tax_id="52998224725"), "tax_id"),
        (an_item(counterparty="ANA"), a_line(counterparty="Ana"), "counterparty"),
        (an_item(), a_line(), "amount"),
        (an_item(day=DAY + timedelta(days=4)), a_line(), "near"),
        (an_item("M1", kind="fee"), a_line(key=("movement", "M1"), names=("M1",)), "name"),
        (an_item("x" * 99), a_line(key=("movement", "y"), names=(make_movement_id("x" * 99),)), "name"),
        (an_item("yield:1"), a_line(key=("movement", "y"), names=(make_movement_id("yield:1"),)), "name"),
        (an_item("yield:1"), a_line(key=("movement", "y"), names=("yield:1",)), None),
        (an_item(E2E, kind="fee"), a_line(key=("movement", "y"), names=(E2E,)), None),
        (an_item(), a_line(direction="OUT"), None),
        (an_item(), a_line(amount_cents=1001), None),
        (an_item(day=DAY + timedelta(days=5)), a_line(), None),
        # A bank books a payment on its day or later, and if that day was read, it is not there.
        (an_item(day=DAY - timedelta(days=1)), a_line(), None),
        (an_item(day=DAY + timedelta(days=2)), a_line(day=DAY + timedelta(days=1)), None),
        (an_item(end_to_end_id=E2E), a_line(names=(OTHER_E2E,)), None),
        (an_item(end_to_end_id=E2E, amount_cents=999), a_line(names=(E2E,)), None),
        (an_item(tax_id="52998224725"), a_line(tax_id="11144477735"), None),
        # Words for a kind may be a payer's: a line that is called a fee gives way to another line with the same name.
        (an_item(**FEE), a_line(direction="OUT", names=(E2E,)), "amount"),
        (an_item(kind="wire", direction="OUT", end_to_end_id=E2E), a_line(direction="OUT", names=(E2E,)), "name"),
        (an_item(return_id=RETURN_ID, **FEE), a_line(names=("D1", RETURN_ID), **RETURNED), "amount"),
        (an_item(kind="boleto", direction="OUT", end_to_end_id=E2E), a_line(names=("D1",), **RETURNED), "name"),
        (an_item(**FEE), a_line(names=("D1",), **RETURNED), None),
        (an_item(kind="boleto", end_to_end_id=E2E), a_line(names=(E2E,)), "name"),
        (an_item(kind="wire"), a_line(), None),
        (an_item(), a_line(state="open"), None),
        (an_item(), a_line(key=("movement", "M9"), names=("M9",)), None),
    ],
)
def test_what_joins_an_item_and_a_line(item: InstitutionItem, line: BookLine, by: str | None) -> None:
    joined = join_items([item], [line], proved=(DAY,))
    assert joined_by(joined) == ([] if by is None else [(item.item_id, line.key[1], by)])


@pytest.mark.parametrize("text", ["PIX RECEBIDOS QTD 2", "PIX RECEBIDOS QTDE: 12", "PIX RECEBIDOS", "PIX QRS QTD 2"])
def test_a_sum_of_many_pix_takes_the_place_of_none_and_no_other_line_does(text: str) -> None:
    total, other, pix = (an_item("S", text=text), an_item("R", kind="other", amount_cents=400), an_item("P", amount_cents=600))
    lines = [a_line(1, amount_cents=400), a_line(2, amount_cents=600), a_line(3)]
    joined = join_items([total, other, pix], lines, proved=(DAY,))
    assert joined_by(joined) == [("P", 2, "amount")]
    assert joined_by(join_items([other], lines)) == [("R", 1, "amount")]
    assert word_of(total, [lines[0]]) == "could_be_ours"
    late = an_item("L", amount_cents=600, day=DAY + timedelta(days=1))
    assert joined_by(join_items([total, late], lines, proved=(DAY,))) == []
    # The count may show that it is one.
    assert joined_by(join_items([an_item("S", text="PIX RECEBIDO QTD 1")], lines)) == [("S", 3, "amount")]


@pytest.mark.parametrize(
    ("changes", "is_one"),
    [
        (dict(text="PIX RECEBIDOS"), True),
        (dict(text="Pix - Recebimentos (2)"), True),
        (dict(text="CREDITO PIX LOTE 2 TRANSACOES"), True),
        (dict(kind="other", text="CREDITOS RECEBIDOS"), True),
        (dict(kind="other", text="TRANSFERÊNCIAS RECEBIDAS"), True),
        (dict(kind="other", text="CREDITO", parts=ItemParts(count=2)), True),
        (dict(text="PIX RECEBIDOS", counterparty="PIX RECEBIDOS"), True),
        (dict(text="PIX RECEBIDOS QTD 1"), False),
        (dict(text="PIX RECEBIDO"), False),
        (dict(kind="wire", text="TED RECEBIDA"), False),
        # A payer's text follows the bank's words.
        (dict(text="PIX RECEBIDO ANA camiseta qtd 2"), False),
        (dict(text="PIX RECEBIDO qtd 2 lote"), False),
        (dict(text="PIX RECEBIDOS", counterparty="ANA"), False),
        (dict(text="PIX RECEBIDOS", tax_id="52998224725"), False),
        (dict(text="PIX RECEBIDOS", end_to_end_id=E2E), False),
    ],
)
def test_what_is_called_a_sum(changes: dict[str, Any], is_one: bool) -> None:
    assert is_sum(an_item(**changes)) is is_one


def test_a_sum_is_joined_to_the_transfers_that_it_names() -> None:
    lines = [a_line(1, amount_cents=400, names=(E2E,)), a_line(2, amount_cents=600, names=(OTHER_E2E,)), a_line(3)]
    batch = an_item(parts=ItemParts(count=2, names=(E2E, OTHER_E2E)))
    (join,) = join_items([batch], lines).joins
    assert (join.key, join.by, join.parts) == (("sum", "N1"), "sum", (("transfer", 1), ("transfer", 2)))
    wrong: list[dict[str, Any]] = [dict(count=3, names=(E2E, OTHER_E2E)), dict(count=2, names=(E2E,)), dict(count=2)]
    others = [an_item(parts=batch.parts, **changes) for changes in (dict[str, Any](amount_cents=999), dict(direction="OUT"))]
    for other in (*others, *(an_item(parts=ItemParts(**parts)) for parts in wrong)):
        assert join_items([other], lines).joins == ()
    # An item that only looks like one of them gives way.
    assert find_claimed([batch], lines[:1], {("transfer", 1): an_item("B", kind="other")}) == {("transfer", 1)}


@pytest.mark.parametrize(
    ("text", "amount_cents", "lines", "count"),
    [
        ("PIX RECEBIDOS QTD 2", 1000, [a_line(1, amount_cents=400), a_line(2, amount_cents=600)], 2),
        ("PIX RECEBIDOS", 1000, [a_line(1, amount_cents=400), a_line(2, amount_cents=600)], 2),
        ("PIX RECEBIDOS QTD 3", 1000, [a_line(1, amount_cents=400), a_line(2, amount_cents=600)], 0),
        ("PIX RECEBIDOS QTD 2", 1001, [a_line(1, amount_cents=400), a_line(2, amount_cents=600)], 0),
        ("PIX RECEBIDOS QTD 2", 1000, [a_line(1), a_line(2, direction="OUT")], 0),
        # A late one, or one of another day, is not in it; all of the day are.
        ("PIX RECEBIDOS QTD 2", 1000, [a_line(1, amount_cents=400), a_line(2, amount_cents=600, day=date(2026, 11, 1))], 0),
        ("PIX RECEBIDOS QTD 2", 1000, [a_line(n, amount_cents=cents) for n, cents in enumerate((400, 600, 1))], 0),
        ("PIX RECEBIDOS", 1000, [a_line(1)], 0),
        # Refunds may be in it, or have lines of their own.
        ("PIX RECEBIDOS", 1000, [a_line(1, amount_cents=400), a_line(key=("refund", 1), amount_cents=600)], 2),
        ("PIX RECEBIDOS", 1000, [a_line(1, amount_cents=400), a_line(2, amount_cents=600), a_line(key=("refund", 1))], 2),
        # A person may recognise a sum under any text.
        ("CREDITO", 1000, [a_line(1, amount_cents=400), a_line(2, amount_cents=600)], 2),
    ],
)
def test_a_sum_is_joined_to_all_payments_of_its_day(text: str, amount_cents: int, lines: list[BookLine], count: int) -> None:
    total = an_item("S", text=text, amount_cents=amount_cents)
    assert len(find_parts(total, lines)) == count
    # For an answer a number that may count something else is no reason, and a part of the day suffices.
    answered = [len(join.parts) for join in find_sums([total], lines).values()]
    assert answered == ([2] if count or text.endswith("3") or len(lines) == 3 else [])
    assert join_items([total], lines).joins == ()
    joined = join_items([total], lines, sum_forms=["pix recebidos", "pix recebidos qtd #", "credito"])
    assert [len(join.parts) for join in joined.joins] == ([count] if count else [])


def test_a_sum_may_be_of_a_part_of_its_day_by_an_answer() -> None:
    assert choose_parts([1, 2, 3, 4], [(3, 2), (7, 2)]) == [[0, 1], [2, 3]]
    assert choose_parts([1, 2, 3, 4], [(5, 2)]) == [[]]  # there are two choices
    assert choose_parts([1, 2, 3, 4], [(5, None), (5, None)]) == [[0, 3], [1, 2]]  # together they are all
    assert choose_parts([1, 1, 3, 9], [(4, None)]) == [[0, 2]]
    assert choose_parts([1] * 101, [(50, None)]) == [[]]  # too many
    assert mark_parts([5, 5, 5, 1, 7, 3, 11], 10) == [True, True, True, False, True, True, False]
    assert mark_parts([2**n for n in range(14)], 9999) == [True] * 14  # too many choices
    assert mark_parts([1] * 101, 5) == [False] * 101


def test_another_line_of_the_day_of_a_sum_resembles_none_of_its_parts() -> None:
    items = [an_item("S", kind="other", text="CREDITO", amount_cents=1000), an_item("A", kind="other", amount_cents=400)]
    lines = [a_line(1, amount_cents=400), a_line(2, amount_cents=600)]
    assert join_items(items, lines).joins == ()
    assert [join.item_id for join in join_items(items[1:], lines).joins] == ["A"]


def test_names_come_before_what_looks_alike() -> None:
    named, bare = an_item("N2", end_to_end_id=E2E), an_item("N1")
    joined = join_items([bare, named], [a_line(1, names=(E2E,)), a_line(2)])
    assert joined_by(joined) == [("N1", 2, "amount"), ("N2", 1, "name")]


def test_no_more_alike_than_lines_are_paired_and_others_are_left() -> None:
    items = [an_item(f"N{number}") for number in range(3)]
    lines = [a_line(number) for number in range(3)]
    assert [by for _, _, by in joined_by(join_items(items, lines))] == ["alike"] * 3
    assert join_items(items, lines[:2]).joins == ()
    assert len(join_items(items[:2], lines).joins) == 2


def test_as_many_equal_parts_of_one_pix_as_returns_of_it_are_paired_though_only_the_pix_is_named() -> None:
    items = [an_item(f"N{number}", end_to_end_id=E2E) for number in range(2)]
    parts = [a_line(key=("refund", n), names=(f"D{n}",), original=(name,)) for n, name in enumerate((E2E, E2E, OTHER_E2E))]
    assert joined_by(join_items(items, parts)) == [("N0", 0, "name"), ("N1", 1, "name")]
    # Either would be a guess.
    assert join_items(items[:1], parts).joins == ()


def test_a_fee_is_told_of_the_pix_that_it_names() -> None:
    fee = an_item("F1", kind="fee", direction="OUT", amount_cents=50, end_to_end_id=E2E)
    joined = join_items([fee, an_item(end_to_end_id=E2E)], [a_line(names=(E2E,))])
    assert joined.fees == {"F1": ("transfer", 1)}
    assert "F1" not in {join.item_id for join in joined.joins}


def test_a_line_that_is_called_a_fee_gives_way_to_another_that_names_the_same() -> None:
    order = a_line(direction="OUT", names=(E2E,))
    fee, debit = (an_item(name, kind=kind, direction="OUT", end_to_end_id=E2E) for name, kind in (("A", "fee"), ("B", "pix")))
    joined = join_items([fee, debit], [order])
    assert (joined_by(joined), joined.fees) == ([("B", 1, "name")], {"A": ("transfer", 1)})
    assert join_items([fee], [order]).fees == {}
    assert find_claimed([debit], [order], {order.key: fee}) == {order.key}
    assert find_claimed([fee], [order], {order.key: an_item("C", kind="other")}) == set()


def test_an_order_may_be_a_pix_listed_some_days_later_and_a_credit_may_not() -> None:
    days = [{DAY - day for day, *_ in list_looks([an_item(direction=one, kind="pix")])} for one in ("OUT", "IN")]
    assert days == [{timedelta(days=late) for late in range(DAYS_APART_MAX + 1)}, {timedelta(0)}]


@pytest.mark.parametrize(
    ("listed", "settled", "orders"),
    [
        ([0, 1], [1], {0: 0}),  # an order made later may have the second line
        ([0, 0, 1], [1], {0: 0}),  # the first line may be of an order that failed
        ([0, 1], [0, 1], {0: 0, 1: 1}),
        ([0, 3], [3, 1], {0: 1, 1: 0}),
    ],
)
def test_a_debit_is_its_days_or_the_next_to_settle(listed: list[int], settled: list[int], orders: dict[int, int]) -> None:
    debits = [an_item(str(n), direction="OUT", day=DAY + timedelta(days=late)) for n, late in enumerate(listed)]
    made = [a_line(n, direction="OUT", made_at=AT, day=DAY + timedelta(days=late)) for n, late in enumerate(settled)]
    assert {int(join.item_id): join.key[1] for join in join_items(debits, made).joins} == orders


def test_of_orders_that_settle_on_one_day_a_debit_is_of_the_last_made() -> None:
    made = [a_line(n, direction="OUT", made_at=AT + timedelta(days=n), day=DAY + timedelta(days=2)) for n in range(2)]
    assert joined_by(join_items([an_item(direction="OUT", day=DAY + timedelta(days=1))], made)) == [("N1", 1, "near")]


@pytest.mark.parametrize(
    ("looks", "names", "is_claimed"),
    [
        (dict(kind="other"), {}, True),
        ({}, {}, True),
        (dict(kind="other"), dict(day=DAY + timedelta(days=1)), True),
        (dict(day=DAY + timedelta(days=1)), dict(day=DAY + timedelta(days=2)), True),
        # A payer's text about another Pix does not matter.
        ({}, dict(day=DAY + timedelta(days=1)), False),
        (dict(kind="other"), dict(amount_cents=999), False),
    ],
)
def test_a_line_that_names_a_pix_takes_it_from_one_that_looks_like_it(
    looks: dict[str, Any], names: dict[str, Any], is_claimed: bool
) -> None:
    pix, posted = a_line(names=(E2E,)), a_line(key=("movement", E2E), names=(E2E,))
    assert find_claimed([an_item("B", end_to_end_id=E2E)], [posted], {posted.key: an_item(E2E)}) == set()
    claimed = find_claimed([an_item("B", end_to_end_id=E2E, **names)], [pix], {pix.key: an_item(**looks)})
    assert claimed == ({pix.key} if is_claimed else set())


def test_a_debit_and_its_reversal_are_the_orders_and_cancel() -> None:
    order = a_line(direction="OUT", names=(E2E,), state="failed")
    debit = an_item("D", direction="OUT", end_to_end_id=E2E)
    reversal = an_item("R", kind="reversal", end_to_end_id=E2E)
    joined = join_items([reversal, debit], [order])
    assert {(join.item_id, join.is_reversal) for join in joined.joins} == {("D", False), ("R", True)}
    # The reversal may come days after the debit was joined.
    late = join_items([reversal], [order], [order.key])
    assert [(join.item_id, join.is_reversal) for join in late.joins] == [("R", True)]
    assert join_items([debit], [order]).joins == (), "it is a question until it is given back"
    # A reversal of a settled order, or a second reversal, is for a person.
    again = join_items([reversal, debit, an_item("S", kind="reversal", end_to_end_id=E2E)], [order])
    assert len(again.joins) == 2
    settled = join_items([reversal, debit], [a_line(direction="OUT", names=(E2E,))])
    assert [join.item_id for join in settled.joins] == ["D"]


def test_a_second_debit_of_one_order_is_left() -> None:
    items = [an_item(name, direction="OUT", end_to_end_id=E2E) for name in ("D1", "D2")]
    joined = join_items(items, [a_line(direction="OUT", names=(E2E,))])
    assert [join.item_id for join in joined.joins] == ["D1"]


_NAMES = st.sampled_from([None, E2E, OTHER_E2E])
_ITEMS = st.lists(
    st.builds(
        an_item,
        st.sampled_from([f"N{number}" for number in range(8)]),
        direction=st.sampled_from(["IN", "OUT"]),
        amount_cents=st.integers(1, 3),
        day=st.sampled_from([DAY, DAY + timedelta(days=1)]),
        kind=st.sampled_from(["pix", "refund", "fee", "other", "reversal"]),
        end_to_end_id=_NAMES,
        settled_at=st.sampled_from([None, AT]),
        tax_id=st.sampled_from([None, "52998224725"]),
    ),
    max_size=8,
    unique_by=lambda item: item.item_id,
)
_LINES = st.lists(
    st.builds(
        a_line,
        st.integers(1, 8),
        direction=st.sampled_from(["IN", "OUT"]),
        amount_cents=st.integers(1, 3),
        day=st.sampled_from([DAY, DAY + timedelta(days=1)]),
        names=st.sampled_from([(), (E2E,), (OTHER_E2E,), ("x", E2E)]),
        settled_at=st.sampled_from([None, AT]),
        state=st.sampled_from(["settled", "open", "failed"]),
    ),
    max_size=8,
    unique_by=lambda line: line.key,
)


@given(_ITEMS, _LINES, st.randoms())
def test_joining_is_one_to_one_complete_and_in_no_order(
    items: list[InstitutionItem], lines: list[BookLine], chance: Any
) -> None:
    joined = join_items(items, lines)
    told = {item.item_id: item for item in items}
    ours = {line.key: line for line in lines}
    joined_ids = [join.item_id for join in joined.joins]
    # No item twice, no line twice except for its reversal.
    assert len({*joined_ids}) == len(joined_ids)
    assert len({(join.key, join.is_reversal) for join in joined.joins}) == len(joined.joins)
    for join in joined.joins:
        item, line = told[join.item_id], ours[join.key]
        assert item.amount_cents == line.amount_cents
        assert (item.direction == line.direction) is not join.is_reversal
        assert join.by == "name" or not item.names or item.kind == "fee"
    chance.shuffle(items)
    chance.shuffle(lines)
    again = join_items(items, lines)
    assert set(again.joins) == set(joined.joins)


def word_of(item: InstitutionItem, lines: list[BookLine]) -> str:
    left = judge_left(item, LeftLines(lines), KNOWN)
    return left.waits or left.kind


KNOWN = OpenAmounts(
    open_since={500: DAY, 600: DAY}, unnamed_cents=frozenset({500}), our_names=frozenset({E2E}), today=date(2026, 11, 3),
    begins_at=datetime(2026, 10, 1, tzinfo=UTC), begins_on=date(2026, 10, 1), read_until=datetime(2026, 11, 3, 3, tzinfo=UTC),
    booked={E2E: {BookedLine("IN", 1, 1000)}}, reversible=frozenset({("reversal", SENT_E2E, 1000), ("fee", E2E, 175)}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "becomes"),
    [
        (dict(direction="OUT", kind="fee"), "fee"),
        (dict(direction="OUT", kind="fee", end_to_end_id=E2E), "fee"),
        (dict(direction="OUT", kind="pix"), "by_hand"),
        (dict(direction="OUT", kind="refund"), "reversal"),
        (dict(direction="OUT", kind="boleto", day=KNOWN.today), "boleto"),
        (dict(kind="wire"), "wire"),
        (dict(kind="other", text="CREDITOS RECEBIDOS"), "could_be_ours"),
        (dict(kind="other"), "other"),
        # An item with our name is ours, with any amount and on either side.
        (dict(direction="OUT", kind="pix", end_to_end_id=E2E), "not_yet_read"),
        (dict(kind="refund", end_to_end_id=E2E), "not_yet_read"),
        (dict(kind="wire", end_to_end_id=E2E), "not_yet_read"),
        # No reading has explained another side or amount for days.
        (dict(direction="OUT", kind="pix", end_to_end_id=E2E, day=date(2026, 10, 31)), "could_be_ours"),
        (dict(kind="refund", end_to_end_id=E2E, amount_cents=300, day=date(2026, 10, 31)), "could_be_ours"),
        # A returned fee has an earlier debit; the word and the name alone may be a payer's.
        (dict(kind="fee", end_to_end_id=E2E, amount_cents=175), "fee"),
        (dict(kind="fee", end_to_end_id=E2E), "could_be_ours"),
        (dict(kind="fee", end_to_end_id=E2E, amount_cents=175, day=KNOWN.today), "day_not_over"),
        (dict(kind="reversal", end_to_end_id=E2E), "not_yet_read"),
        # A failed order of a person at the bank.
        (dict(kind="reversal", end_to_end_id=SENT_E2E, amount_cents=1000), "reversal"),
        (dict(kind="reversal", end_to_end_id=SENT_E2E, amount_cents=999), "could_be_ours"),
        (dict(kind="pix", end_to_end_id=SENT_E2E, amount_cents=1000), "not_yet_read"),
        # A return of a Pix that a person sent at the bank: no reading has explained it for days.
        (dict(kind="refund", return_id=RETURN_ID, day=date(2026, 10, 31)), "could_be_ours"),
        (dict(kind="refund", return_id=RETURN_ID), "not_yet_read"),
        # A received Pix is credited by the reading.
        (dict(kind="pix"), "not_yet_read"),
        (dict(kind="other", end_to_end_id=OTHER_E2E), "not_yet_read"),
        (dict(kind="pix", day=date(2026, 10, 31)), "could_be_ours"),
        # A refunded fee of a Pix that a person made at the institution.
        (dict(kind="fee", end_to_end_id=OTHER_E2E), "could_be_ours"),
        (dict(kind="fee", end_to_end_id=OTHER_E2E, day=KNOWN.today), "not_yet_read"),
        # An order under way may be this very item.
        (dict(direction="OUT", kind="pix", amount_cents=500), "order_unknown"),
        (dict(direction="OUT", kind="pix", amount_cents=500, end_to_end_id=OTHER_E2E), "order_unknown"),
        (dict(direction="OUT", kind="fee", amount_cents=500), "order_unknown"),
        # One with a name is no line with another name, no fee, and none of a day before it.
        (dict(direction="OUT", kind="other", amount_cents=600), "order_unknown"),
        (dict(direction="OUT", kind="pix", amount_cents=600, end_to_end_id=OTHER_E2E), "by_hand"),
        (dict(direction="OUT", kind="pix", amount_cents=600, day=DAY - timedelta(days=1)), "by_hand"),
        (dict(direction="OUT", kind="fee", amount_cents=600), "fee"),
        # A sum may be of orders that have not ended, or that have another sum.
        (dict(direction="OUT", text="PIX ENVIADOS QTD 2"), "could_be_ours"),
        (dict(direction="OUT", kind="other", parts=ItemParts(count=2)), "could_be_ours"),
        (dict(direction="OUT", kind="wire", parts=ItemParts(count=2)), "wire"),
        (dict(direction="OUT", kind="wire", parts=ItemParts(count=2, names=(OTHER_E2E, E2E))), "could_be_ours"),
        (dict(direction="OUT", kind="fee", parts=ItemParts(count=2, names=(OTHER_E2E, E2E))), "fee"),
        (dict(kind="wire", day=KNOWN.today), "day_not_over"),
        (dict(kind="wire", day=date(2026, 9, 30)), "before_opening"),
        (dict(kind="wire", day=KNOWN.begins_on), "opening_day"),
        (dict(kind="wire", day=KNOWN.begins_on, settled_at=AT), "wire"),
        (dict(kind="wire", day=KNOWN.begins_on, settled_at=KNOWN.begins_at), "before_opening"),
    ],
)
def test_what_becomes_of_what_is_left(changes: dict[str, Any], becomes: str) -> None:
    assert word_of(an_item(**changes), []) == becomes


@pytest.mark.parametrize(
    ("settled_at", "read_until", "becomes"),
    [
        (None, None, "not_yet_read"),
        (None, datetime(2026, 11, 3, 2, 59, tzinfo=UTC), "not_yet_read"),
        (None, datetime(2026, 11, 3, 3, tzinfo=UTC), "other"),
        (AT, AT, "not_yet_read"),
        (AT, AT + timedelta(seconds=1), "other"),
    ],
)
def test_a_nameless_credit_waits_until_the_pix_of_its_instant_were_read(
    settled_at: datetime | None, read_until: datetime | None, becomes: str
) -> None:
    item, known = (an_item(settled_at=settled_at, kind="other", text="DEPOSITO"), structs.replace(KNOWN, read_until=read_until))
    left = judge_left(item, LeftLines([]), known)
    assert (left.waits or left.kind) == becomes
    assert judge_left(structs.replace(item, direction="OUT"), LeftLines([]), known).waits is None


@pytest.mark.parametrize("kind", ["pix", "other", "fee", "wire"])
def test_what_a_line_of_ours_may_be_is_no_movement(kind: str) -> None:
    item = an_item(kind=kind, direction="OUT")
    assert word_of(item, [a_line(direction="OUT")]) == "could_be_ours"
    assert word_of(item, [a_line(direction="OUT", day=DAY - timedelta(days=5))]) != "could_be_ours"
