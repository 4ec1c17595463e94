"""Reversals without names return failed orders, and wait for those that may still fail."""

from datetime import date, timedelta
from typing import Any, Literal

import pytest
from msgspec import structs

from pixconnect.features.institutions.rules.institution import InstitutionItem, InstitutionTraits
from pixconnect.features.institutions.rules.joining import BookLine
from pixconnect.features.institutions.rules.special_line import join_reversals
from pixconnect.features.institutions.service.statement import settle_items
from pixconnect.features.institutions.service.statement_sweep import note_listed, record_listed
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.platform.base.clock import to_day
from support.account_shop import Shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.service import Service

DAY = date(2026, 7, 1)
BOTH = [("D", 1, False), ("R", 1, True)]


@pytest.fixture
def there(live: Service) -> FakeInstitution:
    return FakeInstitution(live.clock, InstitutionTraits(sends=("KEY", "MANUAL")))


def a_line(item_id: str, kind: Any = "reversal", day: date = DAY, **changes: Any) -> InstitutionItem:
    direction: Any = "IN" if kind == "reversal" else "OUT"
    line = InstitutionItem(item_id=item_id, day=day, settled_at=None, direction=direction, amount_cents=400, kind=kind)
    return structs.replace(line, **changes)


def an_order(n: int, state: Literal["open", "failed"] = "failed") -> BookLine:
    return BookLine(
        key=("transfer", n), holder_id=1, direction="OUT", amount_cents=400, day=DAY, settled_at=None, names=(), state=state
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "orders", "debited", "joined"),
    [
        ([a_line("R")], [an_order(1)], {1}, [("R", 1, True)]),
        ([a_line("D", "pix"), a_line("R")], [an_order(1)], set[int](), BOTH),
        ([a_line("R"), a_line("S")], [an_order(1), an_order(2)], {1, 2}, [("R", 1, True), ("S", 2, True)]),
        ([a_line("R"), a_line("S")], [an_order(1)], {1}, [("R", 1, True)]),
        # An open order may have the debit, unless it has another or was made later.
        ([a_line("D", "pix"), a_line("R")], [an_order(1), an_order(2, "open")], set[int](), []),
        ([a_line("D", "pix"), a_line("R")], [an_order(1), an_order(2, "open")], {2}, BOTH),
        ([a_line("D", "pix", DAY - timedelta(1)), a_line("R")], [an_order(1), an_order(2, "open")], set[int](), BOTH),
        # Nothing shows that it was debited, which of two debits it reverses, or that it has failed.
        ([a_line("R")], [an_order(1)], set[int](), []),
        ([a_line("D", "pix"), a_line("E", "pix"), a_line("R")], [an_order(1)], set[int](), []),
        ([a_line("D", "pix"), a_line("R")], [an_order(1, "open")], set[int](), []),
        ([a_line("R", day=DAY + timedelta(days=11))], [an_order(1)], {1}, []),
        ([a_line("R", end_to_end_id="E1")], [an_order(1)], {1}, []),
        ([a_line("R", amount_cents=401)], [an_order(1)], {1}, []),
    ],
)
def test_what_gives_an_order_back(
    lines: list[InstitutionItem], orders: list[BookLine], debited: set[int], joined: list[tuple[str, int, bool]]
) -> None:
    joins = join_reversals(lines, orders, {("transfer", number) for number in debited})
    assert [(join.item_id, join.key[1], join.is_reversal) for join in joins] == joined


async def test_a_nameless_reversal_waits_for_its_order_and_cancels_its_debit(shop: Shop) -> None:
    shop.live.clock.advance(days=1)
    await shop.allow_sending()
    await shop.receive(1000)
    shop.there.send_status = "under_way"
    sent = await shop.send(400)
    await shop.move_orders()
    day = to_day(shop.live.clock.real_now())
    lines = [a_line("D", "pix", day, end_to_end_id=sent.end_to_end_id), a_line("R", day=day + timedelta(days=1))]

    async def settle() -> list[tuple[str, str | None, str | None, bool]]:
        await settle_items(shop.at, shop.account, day)
        told = "select item_id, waits, joined_kind, is_reversal from institution_item where kind <> 'pix' or direction = 'OUT'"
        return [tuple(row) for row in await shop.live.fetch(f"{told} order by item_id")]

    shop.live.clock.advance(days=2)
    await record_listed(shop.at, shop.account, lines)
    for _ in range(2):
        assert [row[1:] for row in await settle()] == [(None, "transfer", False), ("order_unknown", None, False)]
    shop.there.end_sent("refused")
    shop.live.clock.advance(minutes=10)
    await shop.move_orders()
    for _ in range(2):
        assert [row[1:] for row in await settle()] == [(None, "transfer", False), (None, "transfer", True)]
    assert await shop.live.fetch("select from movement where kind in ('by_hand', 'reversal')") == []
    await check_books(shop.live)


async def test_a_credit_that_names_its_order_takes_the_place_of_a_nameless_one(shop: Shop) -> None:
    shop.live.clock.advance(days=1)
    await shop.allow_sending()
    await shop.receive(1000)
    shop.there.send_status = "refused"
    names = [(await shop.send(400)).end_to_end_id for _ in range(2)]
    await shop.move_orders(seconds=5)
    day = to_day(shop.live.clock.real_now())
    shop.live.clock.advance(days=2)
    await record_listed(shop.at, shop.account, [a_line(f"D{n}", "pix", day, end_to_end_id=names[n]) for n in range(2)])
    for back in (a_line("B1", day=day), a_line("B0", day=day, end_to_end_id=names[0])):
        await record_listed(shop.at, shop.account, [back])
        await settle_items(shop.at, shop.account, day)
    rows = await shop.live.fetch("""
        select item_id, transfer.end_to_end_id from institution_item
        join transfer on joined_id = id::text and transfer.direction = 'OUT' order by item_id
    """)
    assert [tuple(row) for row in rows] == [(name, names[int(name[1])]) for name in ("B0", "B1", "D0", "D1")]
    await check_books(shop.live)


@pytest.mark.parametrize("kind", ["transfer", "refund"])
@pytest.mark.parametrize("was_debited", [True, False])
async def test_a_reversal_waits_for_a_debit_of_a_day_that_is_not_read(shop: Shop, kind: str, *, was_debited: bool) -> None:
    shop.live.clock.advance(days=1)
    await shop.allow_sending()
    await shop.allow()
    pix = await shop.receive(1000)
    shop.there.send_status, shop.there.refund_status = "refused", "refused"
    await (shop.send(400) if kind == "transfer" else shop.give_back(pix, 400))
    await shop.move_orders(seconds=5)
    day = to_day(shop.live.clock.real_now())
    shop.live.clock.advance(days=2)
    debit, back = a_line("D", "other", day), a_line("R", day=day + timedelta(days=1))
    await record_listed(shop.at, shop.account, [back])
    for _ in range(2):
        await settle_items(shop.at, shop.account, day)
        assert await shop.live.fetchval("select waits from institution_item where item_id = 'R'") == "order_unknown"
    if was_debited:
        await record_listed(shop.at, shop.account, [debit])
    await note_listed(shop.at, shop.account, (day, day + timedelta(days=1)))
    await shop.read()
    await settle_items(shop.at, shop.account, day)
    lines = await shop.live.fetch("select item_id, joined_kind, is_reversal from institution_item order by item_id")
    expected = [("D", kind, False), ("R", kind, True)] if was_debited else [("R", "movement", False)]
    assert [tuple(line) for line in lines] == expected
    async with shop.live.context.pool.acquire() as connection:
        # A Pix that resembles the debit more does not part it from what gives it back.
        assert not await item_store.release_outdone(connection, shop.account.id, [(day, "OUT", 400)])
    await check_books(shop.live)
