"""Days of an account whose statement is read by API: when they close by themselves, and when they do not."""

from collections.abc import AsyncIterator, Sequence
from datetime import date, timedelta
from typing import Any

import pytest
from msgspec import structs

from features.cases.service.test_answer import answer, look, moved
from pixconnect.features.institutions.rules.day import JudgedDay
from pixconnect.features.institutions.rules.institution import InstitutionItem, InstitutionTraits, InstitutionUnavailable
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service.statement import record_file, settle_items
from pixconnect.features.institutions.service.statement_sweep import sweep_statement
from pixconnect.features.proof.service.verify import ProofRequest, verify
from pixconnect.platform.base.clock import to_day
from support.account_shop import Shop, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.postgres import Addresses, execute_as_owner, make_live
from support.service import open_service
from support.statement_files import make_ofx, make_ofx_line
from support.verifier import open_book_reader


class Teller(FakeInstitution):
    """Its balance is the sum of its lines; lines that are listed late are in the balance only."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.began_cents = self.unlisted_cents = self.moves_cents = 0
        self.asked: list[tuple[date, date]] = []

    def book(self, item_id: str, cents: int, day: date, kind: Any = "fee", **changes: Any) -> None:
        told: dict[str, Any] = dict(item_id=item_id, day=day, settled_at=None, kind=kind, amount_cents=abs(cents))
        self.items.append(InstitutionItem(**told | {"direction": "IN" if cents > 0 else "OUT"} | changes))

    async def read_balance(self) -> int:
        self._check()
        self.unlisted_cents += self.moves_cents
        return self.began_cents + self.unlisted_cents + sum(item.signed_cents for item in self.items)

    async def list_statement(self, since: date, until: date) -> AsyncIterator[Sequence[InstitutionItem]]:
        self.asked.append((since, until))
        async for page in super().list_statement(since, until):
            yield page


@pytest.fixture
async def shop(database: Addresses) -> AsyncIterator[Shop]:
    await make_live(database)
    async with open_service(database, is_sandbox=False, has_rail=False) as live:
        there = Teller(live.clock, InstitutionTraits(has_statement=True))
        there.began_cents = 10_000
        yield await open_shop(live, there)


def there_of(shop: Shop) -> Teller:
    assert isinstance(shop.there, Teller)
    return shop.there


async def read_day(shop: Shop, day: date) -> JudgedDay:
    (shown,) = await day_usecases.list_days(shop.context, shop.account, day, 1)
    return shown


async def sweep(shop: Shop) -> list[str]:
    """The states of the last four days, after one sweep."""
    shop.live.clock.advance(minutes=10)
    await sweep_statement(shop.at, shop.account, shop.there)
    return [day.state for day in await day_usecases.list_days(shop.context, shop.account, count=4)]


async def test_days_close_by_the_balance_at_their_ends(shop: Shop) -> None:
    there, first = there_of(shop), to_day(shop.live.clock.real_now())
    await shop.read()
    there.book("F1", -100, first, settled_at=shop.live.clock.real_now() + timedelta(minutes=1))
    shop.live.clock.advance(minutes=5)
    assert (await sweep(shop))[-1] == "provisional"
    shop.live.clock.advance(days=1)
    there.book("F2", -30, first + timedelta(days=1))
    assert (await sweep(shop))[-2:] == ["closed", "provisional"]
    shown = await read_day(shop, first)
    assert (shown.opening_cents, shown.closing_cents, shown.difference_cents) == (10_000, 9_900, 0)
    # Away for some days: two balances prove everything between them.
    shop.live.clock.advance(days=3)
    there.book("F3", -7, first + timedelta(days=3))
    assert await sweep(shop) == ["closed", "closed", "closed", "provisional"]
    assert there.asked[-2] == (first + timedelta(days=1), first + timedelta(days=4)), "no day is left out"
    await check_books(shop.live)


async def test_what_was_on_the_account_before_its_books_began_is_in_their_first_balance(shop: Shop) -> None:
    there, first = there_of(shop), to_day(shop.live.clock.real_now())
    await shop.read()
    there.began_cents += 700
    there.book("B1", -700, first, settled_at=shop.account.opened_at - timedelta(hours=1))
    shop.live.clock.advance(days=1)
    assert (await sweep(shop))[-2] == "closed"
    assert (await read_day(shop, first)).opening_cents == 10_700
    # One without an hour may be in it or not: a day without a balance at its beginning is not proved.
    there.book("B2", -10, first)
    shop.live.clock.advance(hours=1)
    assert (await sweep(shop))[-2] == "provisional"


@pytest.mark.parametrize(("late", "is_told"), [(0, False), (1, False), (1, True)])
async def test_what_the_balance_has_and_the_list_has_not_keeps_the_day_open(shop: Shop, late: int, *, is_told: bool) -> None:
    there, first = there_of(shop), to_day(shop.live.clock.real_now())
    await shop.read()
    there.unlisted_cents = -50
    shop.live.clock.advance(days=1)
    assert (await sweep(shop))[-2] == "open"
    assert (await read_day(shop, first)).difference_cents == -50
    if is_told:
        content = make_ofx(first=f"{first:%Y%m%d}", last=f"{first:%Y%m%d}", closing="100.00")
        await record_file(as_operator(shop.live.context), "loja", content)
        await settle_items(shop.at, shop.account, first)
        assert (await read_day(shop, first)).state == "closed"
    shop.live.clock.advance(days=late)
    there.unlisted_cents = 0
    there.book("L1", -50, first + timedelta(days=late), settled_at=shop.account.opened_at + timedelta(days=late, hours=1))
    assert (await sweep(shop))[-2 - late :] == [*["closed"] * (1 + late), "provisional"]
    assert (await read_day(shop, first)).closing_cents == 10_000 - (0 if late else 50)


async def test_a_late_line_reopens_its_day_until_a_balance_proves_it_again(shop: Shop) -> None:
    there, first = there_of(shop), to_day(shop.live.clock.real_now())
    await shop.read()
    for _ in range(3):
        shop.live.clock.advance(days=1)
        await sweep(shop)
    late = first + timedelta(days=1)
    there.book("L1", -50, late)
    there.unlisted_cents = 1
    shop.live.clock.advance(hours=1)
    # The balance moved by another amount than the line's: no day from then on is proved.
    assert await sweep(shop) == ["closed", "provisional", "open", "provisional"]
    assert (await read_day(shop, late)).reopened_at is not None
    there.unlisted_cents = 0
    assert await sweep(shop) == ["closed", "closed", "closed", "provisional"]
    assert there.asked[-2][0] <= late


async def test_a_day_that_disagrees_is_looked_for_in_thirty_days(shop: Shop) -> None:
    there, first = there_of(shop), to_day(shop.live.clock.real_now())
    await shop.read()
    for _ in range(8):
        shop.live.clock.advance(days=1)
        await sweep(shop)
    there.book("L1", -50, first + timedelta(days=2))
    shop.live.clock.advance(days=1)
    assert (await sweep(shop))[-2] == "open"
    shop.live.clock.advance(hours=1)
    assert await sweep(shop) == ["closed", "closed", "closed", "provisional"]
    assert (await read_day(shop, first + timedelta(days=2))).sums.fees_cents == 50
    await check_books(shop.live)


async def test_while_money_moves_no_balance_is_that_of_an_end_but_one_that_is_told(shop: Shop) -> None:
    there, first = there_of(shop), to_day(shop.live.clock.real_now())
    await shop.read()
    shop.live.clock.advance(days=1)
    there.moves_cents = 1
    assert (await sweep(shop))[-2] == "provisional"
    there.closing_balances[first] = 10_001
    assert (await sweep(shop))[-2] == "open"
    there.closing_balances[first] = 10_000
    assert (await sweep(shop))[-2] == "closed"


@pytest.mark.parametrize(("changes", "recorded"), [(dict(tax_id="1"), []), (dict(text="MERCADO"), [("B1", "changed")])])
async def test_a_line_that_the_api_lists_under_another_id_counts_once(
    shop: Shop, changes: dict[str, Any], recorded: list[tuple[str, str]]
) -> None:
    await shop.read()
    shop.live.clock.advance(days=1)
    there, day = there_of(shop), to_day(shop.live.clock.real_now())
    there.book("A1", -50, day, kind="wire")
    await sweep(shop)
    # The new line comes first, on a page of its own.
    there.book("A2", -50, day, kind="wire")
    there.page_size, there.items = 1, there.items[::-1]
    await sweep(shop)
    there.items[1] = structs.replace(there.items[1], item_id="B1", **changes)
    there.book("C1", -50, day, kind="wire", text="PADARIA")
    for days in (0, 1):
        shop.live.clock.advance(days=days)
        await sweep(shop)
        assert await moved(shop) == [-50, -50, -50]
        rows = await shop.live.fetch("select item_id, waits from institution_item where item_id > 'A2' order by 1")
        assert [tuple(row) for row in rows] == [*recorded, ("C1", None)]
    if recorded:
        (case,) = await look(shop)
        await answer(shop, case.id, out=["A1"], counts=["B1"])
        assert (await moved(shop), await look(shop)) == ([*[-50] * 4, 50], [])


async def test_a_list_that_breaks_off_leaves_its_lines_and_is_read_again(shop: Shop) -> None:
    there, first = there_of(shop), to_day(shop.live.clock.real_now())
    await shop.read()
    for number in range(5):
        there.book(f"F{number}", -1, first, settled_at=shop.live.clock.real_now() + timedelta(minutes=1))
    shop.live.clock.advance(days=1)
    answered = there.list_statement

    async def cut(since: date, until: date) -> AsyncIterator[Sequence[InstitutionItem]]:
        async for page in answered(since, until):
            yield page[:3]
            raise InstitutionUnavailable("cut")

    there.list_statement = cut  # type: ignore[method-assign]
    with pytest.raises(InstitutionUnavailable):
        await sweep_statement(shop.at, shop.account, there)
    assert (await read_day(shop, first)).sums.items_count == 3
    assert (await read_day(shop, first)).state == "open"
    there.list_statement = answered  # type: ignore[method-assign]
    assert (await sweep(shop))[-2] == "closed"
    assert (await read_day(shop, first)).sums.items_count == 5
    await check_books(shop.live)


async def test_a_closed_day_that_was_changed_by_hand_is_found_by_who_verifies(shop: Shop, database: Addresses) -> None:
    there, first = there_of(shop), to_day(shop.live.clock.real_now())
    await shop.read()
    there.book("F1", -100, first, settled_at=shop.live.clock.real_now() + timedelta(minutes=1))
    shop.live.clock.advance(days=1)
    assert (await sweep(shop))[-2] == "closed"
    assert await verify_account(shop, database) == ([], "provisional", f"closed until {first}")
    await execute_as_owner(database, "set session_replication_role = replica; update institution_item set amount_cents = 90")
    found, *_ = await verify_account(shop, database)
    name = shop.account.name
    assert found == [
        ("closed_days_close", (f"account {name}", f"day {first}"), "closed", "open"),
        ("line_agrees_with_what_it_is", (f"account {name}", "line F1"), f"movement F1 {name}: OUT 90", "OUT 100 on 1"),
    ]


async def test_accounts_are_closed_until_balances_have_a_gap(shop: Shop, database: Addresses) -> None:
    first = to_day(shop.live.clock.real_now())
    await shop.read()
    shop.live.clock.advance(days=3)
    assert await sweep(shop) == ["closed", "closed", "closed", "provisional"]
    lost = f"delete from institution_day where day = '{first + timedelta(days=1)}'"
    moved = f"update institution_day set opening_cents = 1, closing_cents = 1 where day > '{first}'"
    await execute_as_owner(database, f"set session_replication_role = replica; {lost}; {moved}")
    assert (await verify_account(shop, database))[1:] == ("provisional", f"closed until {first}")


async def verify_account(shop: Shop, database: Addresses) -> tuple[list[tuple[Any, ...]], str, str | None]:
    rules = ("closed_days_close", "line_agrees_with_what_it_is")
    async with open_book_reader(shop.live, database) as reader:
        proved = await verify(reader, ProofRequest(rules=rules, again_after_s=0), lambda *_: None)
    (judged,) = [each for each in proved.judgements if each.rule == "closed_days_close"]
    found = [(each.rule, each.ids, each.expected, each.found) for each in proved.findings]
    return sorted(found), judged.verdict, judged.reason


@pytest.mark.parametrize("is_file_first", [True, False])
async def test_a_file_and_the_lines_of_the_api_are_compared(shop: Shop, is_file_first: bool) -> None:
    await shop.read()
    shop.live.clock.advance(days=1)
    day = to_day(shop.live.clock.real_now())
    there_of(shop).book("A1", -100, day)
    at, closing = f"{day:%Y%m%d}", "97.00" if is_file_first else "99.00"
    lines = [make_ofx_line(item_id="F1", at=at, amount="-1.00"), make_ofx_line(item_id="F2", at=at, amount="-2.00")]

    async def read_file() -> None:
        await record_file(as_operator(shop.live.context), "loja", make_ofx(*lines, first=at, last=at, closing=closing))
        await settle_items(shop.at, shop.account, day)

    shop.live.clock.advance(days=1)
    if is_file_first:
        await read_file()
    for _ in range(2):
        await sweep(shop)
    for _ in range(0 if is_file_first else 2):
        await read_file()
    rows = await shop.live.fetch("select item_id, waits from institution_item order by item_id")
    waits = {"F1": None, "F2": None} if is_file_first else {"A1": None, "ofx:F2": "contradicts"}
    assert {row["item_id"]: row["waits"] for row in rows} == waits
    assert (await read_day(shop, day)).cases.disagreements_count == is_file_first
    moved = await shop.live.fetch("select amount_cents from movement where kind <> 'opening_balance' order by 1")
    assert [row["amount_cents"] for row in moved] == ([100, 200] if is_file_first else [100])


async def test_a_file_of_the_whole_month_takes_no_day_from_the_api_that_it_has_not_read_whole(
    shop: Shop, database: Addresses
) -> None:
    await shop.read()
    shop.live.clock.advance(days=1)
    there, day = there_of(shop), to_day(shop.live.clock.real_now())
    # The first may be a payer's text, the second a balance; the third was set aside.
    told = (("F1", "-1.00", "TARIFA"), ("S1", "-5.00", "SALDO APLICADO"), ("F2", "99.00", "SALDO DO DIA"))
    lines = [make_ofx_line(item_id=name, at=f"{day:%Y%m%d}", amount=amount, memo=memo) for name, amount, memo in told]
    content = make_ofx(*lines, first=f"{day:%Y%m%d}", last=f"{day + timedelta(days=29):%Y%m%d}", closing="")
    await record_file(as_operator(shop.live.context), "loja", content.replace(b"\n<STMTTRN>", b"<STMTTRN>"))
    await settle_items(shop.at, shop.account, day)
    aside = "set session_replication_role = replica; update institution_item set waits = 'no_money' where item_id = 'F2'"
    await execute_as_owner(database, aside)
    there.unlisted_cents = -9900
    there.book("A0", 9900, day, kind="other", text="SALDO DO DIA")
    # The API has the file's lines under its own ids, another like one, and the days to come.
    for name, cents, days in (("A1", -100, 0), ("A2", -500, 0), ("A3", -100, 0), ("B1", -700, 1)):
        there.book(name, cents, day + timedelta(days=days), kind="wire")
        for _ in range(2):
            shop.live.clock.advance(hours=1)
            await sweep(shop)
        if name > "A2":
            shop.live.clock.advance(days=1)
    assert (await sweep(shop))[1:] == ["closed", "closed", "provisional"]
    moved = await shop.live.fetch("select item_id from movement where kind <> 'opening_balance' order by 1")
    assert [row["item_id"] for row in moved] == ["A2", "A3", "B1", "F1"]
    await check_books(shop.live)
