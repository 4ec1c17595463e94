"""Files of an institution about past days: requested once, read once, and again after failures."""

from collections.abc import AsyncIterator, Callable
from datetime import date, datetime, timedelta

import pytest
from msgspec import structs

from pixconnect.features.cases.service.case import list_cases, look_for_cases
from pixconnect.features.institutions.rules.institution import InstitutionUnavailable
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service.statement import preview_file, record_file, settle_items
from pixconnect.features.institutions.service.statement_sweep import fetch_own_file, read_day_files
from pixconnect.features.institutions.service.sweep import post_opening
from pixconnect.features.institutions.tables import statement_file as file_store
from pixconnect.features.institutions.tables.statement_file import DayFile
from pixconnect.features.movements.service import receive_blocks
from pixconnect.kernel.rules.block_report import BlockReport, BlockTerms
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from support.account_shop import Shop, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.postgres import Addresses, make_live
from support.service import open_service
from support.statement_files import confirm_own_files, make_efi_file


class Files:
    """The port ``DayFiles``: a file is written as soon as it is prepared."""

    def __init__(self) -> None:
        self.asked: list[date] = []
        self.fetched: list[str] = []
        self.written: dict[str, bytes] = {}
        self.is_reachable = True

    async def request_day_file(self, day: date) -> str:
        self._check()
        self.asked.append(day)
        return f"{day}-{len(self.asked)}"

    async def fetch_day_file(self, name: str) -> bytes | None:
        self._check()
        self.fetched.append(name)
        return self.written.get(name)

    def _check(self) -> None:
        if not self.is_reachable:
            raise InstitutionUnavailable("it is away")


@pytest.fixture
async def shop(database: Addresses) -> AsyncIterator[Shop]:
    await make_live(database)
    async with open_service(database, is_sandbox=False, has_rail=False) as live:
        there = FakeInstitution(live.clock)
        there.balance_cents = 10_000
        shop = await open_shop(live, there)
        await confirm_own_files(shop.context.pool, shop.account.id)
        yield shop


async def look(shop: Shop, files: Files, **later: int) -> int:
    shop.live.clock.advance(**(later or dict(minutes=1)))
    return await read_day_files(shop.at, shop.account, files)


async def read_state(shop: Shop, day: date) -> str:
    (shown,) = await day_usecases.list_days(shop.context, shop.account, day, 1)
    return shown.state


async def read_failure(shop: Shop) -> str | None:
    how = await day_usecases.read_how(as_operator(shop.live.context), shop.there.open, shop.account)
    return how.failure


async def read_asked(shop: Shop, day: date) -> DayFile:
    return (await file_store.list_since(shop.context.pool, shop.account.id, day))[day]


def write(day: date, opening: str, closing: str, *records: str) -> bytes:
    balances = f"SD0;{opening};{day - timedelta(days=1)}\nSD1;{closing};{day}"
    return make_efi_file(*records, day=day.isoformat(), balances=balances)


def a_fee(number: int, at: datetime) -> str:
    return f"TTFE;{number};{number};1.00;{at:%Y-%m-%dT%H:%M:%S}.000Z"


async def test_a_day_closes_by_the_file_that_the_institution_writes_of_it(shop: Shop) -> None:
    files, first = Files(), to_day(shop.live.clock.real_now())
    await shop.read()
    fee = a_fee(1, shop.live.clock.real_now() + timedelta(hours=1))
    assert await look(shop, files) == 0
    assert files.asked == [], "the day is not over"
    await look(shop, files, days=1)
    assert (files.asked, files.fetched) == ([first], [])
    for _ in range(3):
        assert await look(shop, files) == 0
    assert (files.asked, files.fetched) == ([first], [f"{first}-1"] * 3), "the name is kept, whoever asks on"
    files.written[f"{first}-1"] = write(first, "100.00", "99.00", fee)
    assert await look(shop, files) == 1
    assert await read_state(shop, first) == "closed"
    for _ in range(3):
        assert await look(shop, files, hours=3) == 0
    assert (files.asked, len(files.fetched)) == ([first], 4), "what is closed is not asked for again"
    assert await shop.live.fetch("select item_id, amount_cents from movement where kind = 'fee'")
    await check_books(shop.live)


async def test_a_day_closes_with_blocks_in_it(shop: Shop) -> None:
    """Blocked money is still there: the day's last balance is available and blocked money, less debts."""
    files, first = Files(), to_day(shop.live.clock.real_now())
    await post_opening(shop.at, shop.account)
    await shop.read()
    court = BlockTerms(reference="PROC-77", kind="judicial", wanted_cents=20_000, held_cents=9_950)
    party = (await shop.context.directory.read_account(shop.account.house_id)).party
    report = BlockReport(report_id="B1", party=party, blocks=(court,), reported_at=shop.live.clock.now())
    await receive_blocks(shop.at, report)
    # Only half of the fee is available, and the rest is owed: a block is not used for it.
    fee = a_fee(1, shop.live.clock.real_now() + timedelta(hours=1))
    await look(shop, files, days=1)
    files.written[f"{first}-1"] = write(first, "100.00", "99.00", fee)
    assert await look(shop, files) == 1
    (row,) = await shop.live.fetch("select available_cents, blocked_cents, deficit_cents, settlement_cents from whole_balance")
    assert tuple(row) == (0, 9_950, 50, -9_900)
    assert await read_state(shop, first) == "closed"
    await check_books(shop.live)


async def test_a_balance_without_what_is_blocked_closes_the_day_with_it(shop: Shop) -> None:
    await post_opening(shop.at, shop.account)
    await shop.read()
    first, maria = to_day(shop.live.clock.real_now()), as_operator(shop.live.context)
    court = BlockTerms(reference="PROC-77", kind="judicial", wanted_cents=3_000, held_cents=3_000)
    party = (await shop.context.directory.read_account(shop.account.house_id)).party
    report = BlockReport(report_id="B1", party=party, blocks=(court,), reported_at=shop.live.clock.now())
    await receive_blocks(shop.at, report)
    fee = a_fee(1, shop.live.clock.real_now() + timedelta(hours=1))
    content = write(first, "100.00", "69.00", fee)
    shop.live.clock.advance(days=1)
    for means, difference_cents in (("ledger", -3_000), ("available", None)):
        await shop.live.execute_as_owner(f'update institution_account set options = \'{{"balance": "{means}"}}\'')
        await record_file(maria, "loja", content)
        await settle_items(shop.at, shop.account, first)
        (shown,) = await day_usecases.list_days(shop.context, shop.account, first, 1)
        assert (shown.difference_cents or None) == difference_cents
    assert shown.state == "closed"


@pytest.mark.parametrize(
    ("fault", "failure"),
    [
        (lambda content: content[:40], "file: line 1: CA: the header must have 10 columns"),
        (lambda content: content.replace(b"T;1;", b"T;2;"), "the file is cut off"),
        (lambda content: b"<html>", "file: "),
        (lambda _: write(date(2026, 6, 20), "100.00", "100.00"), "file: it is of 2026-06-20 to 2026-06-20"),
    ],
)
async def test_an_unreadable_file_is_fetched_later(shop: Shop, fault: Callable[[bytes], bytes], failure: str) -> None:
    files, first = Files(), to_day(shop.live.clock.real_now())
    await shop.read()
    good = write(first, "100.00", "99.00", a_fee(1, shop.live.clock.real_now() + timedelta(hours=1)))
    await look(shop, files, days=1)
    files.written[f"{first}-1"] = fault(good)
    assert await look(shop, files) == 0
    assert failure in ((await read_asked(shop, first)).failure or "")
    told = await read_failure(shop) or ""
    assert (told.startswith(f"{first}: file: "), failure in told) == (True, True)
    assert await look(shop, files, hours=2) == 0
    assert (files.asked, len(files.fetched)) == ([first], 1)
    await look(shop, files, days=1)
    assert files.asked == [first, first, first + timedelta(days=1)]
    files.written[f"{first}-2"] = good
    assert await look(shop, files) == 1
    assert await read_state(shop, first) == "closed"
    assert (await read_asked(shop, first)).failure is None
    assert await read_failure(shop) is None


async def test_the_first_file_waits_for_a_person_with_one_case(shop: Shop) -> None:
    await shop.live.execute_as_owner("delete from institution_source")
    files, first, maria = Files(), to_day(shop.live.clock.real_now()), as_operator(shop.live.context)
    shop.there.day_files = files
    await shop.read()
    with pytest.raises(errors.NotFound, match="loja has no file of the institution's own that waits"):
        await fetch_own_file(maria, shop.there.open, "loja")
    await look(shop, files, days=1)
    with pytest.raises(errors.ServiceUnavailable, match=f"the file of {first} is not written yet"):
        await fetch_own_file(maria, shop.there.open, "loja")
    fee = a_fee(1, shop.live.clock.real_now() - timedelta(hours=20))
    files.written[f"{first}-1"] = write(first, "100.00", "99.00", fee)
    await look(shop, files, days=2)
    files.fetched.clear()
    assert await look(shop, files) == 0
    assert (files.asked, files.fetched) == ([first, first], [])
    files.written[f"{first}-2"] = files.written[f"{first}-1"]
    for _ in range(2):
        await look_for_cases(shop.context)
    (case,) = await list_cases(shop.context, kind="file")
    assert "`institution statement loja`" in case.case.facts
    content = await fetch_own_file(maria, shop.there.open, "loja")
    preview = await preview_file(maria, "loja", content, is_own=True)
    assert preview is not None
    assert (preview.chosen.first.account.number, len(preview.recorded.new)) == ("517613", 1)
    assert [(one.kind, one.item.amount_cents) for one in preview.posts] == [("fee", 100)]
    assert await shop.live.fetch("select from institution_item") == []
    await record_file(maria, "loja", content, is_own=True)
    await settle_items(shop.at, shop.account, first)
    assert (await read_state(shop, first), await preview_file(maria, "loja", content, is_own=True)) == ("closed", None)
    await look_for_cases(shop.context)
    assert await list_cases(shop.context, kind="file") == []
    day = first + timedelta(days=1)
    await look(shop, files)
    files.written[f"{day}-3"] = write(day, "99.00", "99.00")
    assert await look(shop, files) == 1


async def test_a_file_of_another_account_says_nothing_against_the_institutions(shop: Shop) -> None:
    files, first = Files(), to_day(shop.live.clock.real_now())
    await shop.live.execute_as_owner("delete from institution_source")
    await shop.read()
    maria = as_operator(shop.context)
    foreign = make_efi_file(account="99", day=(first - timedelta(days=3)).isoformat())
    await record_file(maria, "loja", foreign)
    await confirm_own_files(shop.context.pool, shop.account.id)
    await look(shop, files, days=1)
    files.written[f"{first}-1"] = write(first, "100.00", "100.00")
    assert await look(shop, files) == 1
    assert await read_state(shop, first) == "closed"
    # From then on the account's number is known.
    with pytest.raises(errors.BadRequest, match="the number is 99, and loja's is 517613"):
        await record_file(maria, "loja", make_efi_file(account="99", day=(first - timedelta(days=2)).isoformat()))


async def test_a_file_that_came_too_soon_leaves_its_day_open_until_the_next_one(shop: Shop) -> None:
    files, first = Files(), to_day(shop.live.clock.real_now())
    await shop.read()
    fee = a_fee(1, shop.live.clock.real_now() + timedelta(hours=1))
    await look(shop, files, days=1)
    files.written[f"{first}-1"] = write(first, "100.00", "99.00")
    assert await look(shop, files) == 1
    assert await read_state(shop, first) == "open"
    await look(shop, files, days=1)
    files.written[f"{first}-2"] = write(first, "100.00", "99.00", fee)
    await look(shop, files)
    assert await read_state(shop, first) == "closed"


async def test_while_the_institution_is_away_what_was_asked_for_stays(shop: Shop) -> None:
    files, first = Files(), to_day(shop.live.clock.real_now())
    await shop.read()
    await look(shop, files, days=1)
    files.is_reachable = False
    with pytest.raises(InstitutionUnavailable):
        await look(shop, files)
    files.is_reachable = True
    # A day of silence is over: another file is requested, and that of the day that has ended since.
    await look(shop, files, days=1)
    assert files.asked == [first, first, first + timedelta(days=1)]


async def test_it_is_told_where_days_come_from_and_what_failed_of_them(shop: Shop) -> None:
    async def read() -> tuple[str, bool, str | None]:
        how = await day_usecases.read_how(as_operator(shop.live.context), shop.there.open, shop.account)
        return how.source, how.close_by_themselves, how.failure

    assert await read() == ("file_by_hand", False, None)
    shop.there.traits = structs.replace(shop.there.traits, has_statement=True)
    assert await read() == ("api", True, None)
    files = shop.there.day_files = Files()
    await shop.read()
    await look(shop, files, days=1)
    files.is_reachable = False
    with pytest.raises(InstitutionUnavailable):
        await look(shop, files, days=1)
    assert await read() == ("own_file", True, "it is away")
