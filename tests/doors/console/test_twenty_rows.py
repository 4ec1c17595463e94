"""The purpose of the console as a table of nineteen rows, each in both languages, with and without a script, in a browser.

A row is a story: a function that visits pages as a person does, and looks for words in the page's language. Parts that
need a script say so; without one the same is seen by reloading.
"""

import csv
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from msgspec import Struct
from playwright.async_api import Locator, Page, expect

from pixconnect.doors.console.language import LANGUAGES
from support.browser import needs_chromium
from support.console_shop import Shop, open_shop

pytestmark = [*needs_chromium, pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("console table")]


class Cell(Struct, frozen=True, kw_only=True):
    """The visitor of a row: an operator with a browser in one language."""

    page: Page
    played: Any
    door: Any
    shop: Shop
    language: str
    has_script: bool

    def say(self, text: str, **values: object) -> str:
        return LANGUAGES["pt" if self.language == "pt" else "en"].text(text, **values)

    def say_what_begins(self, text: str) -> str:
        """The text with this English beginning, up to its first placeholder."""
        whole = next(each for each in LANGUAGES["pt"].texts if each.startswith(text))
        return self.say(whole).partition("%")[0].strip()

    async def open(self, path: str) -> None:
        await self.page.goto(f"{path}{'&' if '?' in path else '?'}holder={self.shop.holder.holder_id}")

    def button(self, text: str) -> Locator:
        return self.page.get_by_role("button", name=self.say(text), exact=True)

    @property
    def rows(self) -> Locator:
        return self.page.locator("tbody tr")

    async def open_box(self, text: str) -> None:
        await self.page.locator("form.filters summary", has_text=self.say(text)).click()

    async def filter(self) -> None:
        await self.page.locator("form.filters button").last.click()


async def _one_timeline(cell: Cell) -> None:
    await cell.open(f"/charges/{cell.shop.paid['id']}")
    line = cell.page.locator("ol.line-of-time")
    for words in ("Charge created", "Charge paid", "Transfer settled", "Webhook delivered"):
        await expect(line).to_contain_text(cell.say(words))
    await expect(line).to_contain_text(f"{cell.say('settlement')} → {cell.say('available')}")
    await expect(line.locator("li:not(.day) > time[datetime]").first).to_be_visible()
    assert await line.locator(".gap").count() >= 2
    await cell.open(f"/transfers/{cell.shop.sent['id']}")
    await expect(line).to_contain_text(cell.say("Counted as sent to the rail"))


async def _retries_are_in_it(cell: Cell) -> None:
    await cell.open(f"/charges/{cell.shop.retried['id']}")
    line = cell.page.locator("ol.line-of-time")
    await expect(line).to_contain_text(cell.say("Webhook failed"))
    await expect(line.locator(".planned", has_text=cell.say("The webhook is sent again"))).to_have_count(1)
    await expect(line).to_contain_text(cell.say("planned"))


async def _an_attempt(cell: Cell) -> None:
    await cell.open(f"/deliveries/{cell.shop.failed_id}")
    first = cell.page.locator("article").last
    await expect(first).to_contain_text(f"{cell.say('Attempt %(number)s', number=1)}: 40")
    await expect(first).to_contain_text(re.compile(r"\d (ms|s)"))
    await cell.page.locator("#request > summary").click()
    await expect(cell.page.locator("#request")).to_contain_text("webhook-signature: ")
    await expect(cell.page.locator("#request")).to_contain_text('"qrcode.pending"')


async def _one_is_sent_again(cell: Cell) -> None:
    await cell.open("/deliveries?status=pending")
    await cell.page.locator("a.row-link").first.click()
    await cell.button("Send it again").click()
    await expect(cell.page.get_by_role("status")).to_contain_text(cell.say("It will be sent again now."))


async def _nothing_leaves_its_holder(cell: Cell) -> None:
    async with cell.door.holder(cell.shop.other, java_script_enabled=cell.has_script) as page:
        for foreign in (
            f"/charges/{cell.shop.paid['id']}",
            f"/deliveries/{cell.shop.failed_id}",
            f"/deliveries?endpoint={cell.shop.failing['id']}",
        ):
            assert (await page.goto(foreign)).status == 404, foreign  # type: ignore[union-attr]
        # The holder in the address is ignored in favour of the signed-in one.
        await page.goto(f"/charges?holder={cell.shop.holder.holder_id}")
        await expect(page.locator("tbody tr")).to_have_count(1)


async def _by_several_types(cell: Cell) -> None:
    await cell.open("/events")
    await cell.page.get_by_text(cell.say("Event types")).click()
    for event_type in ("transfer.out.processing", "transfer.out.error"):
        await cell.page.get_by_role("checkbox", name=event_type).check()
    await cell.filter()
    await cell.page.wait_for_url(re.compile("type=transfer.out.processing&type=transfer.out.error"))
    await expect(cell.page.locator("tbody")).to_contain_text("transfer.out.error")
    assert set(await cell.page.locator("a.row-link").all_inner_texts()) == {"transfer.out.processing", "transfer.out.error"}


async def _by_any_id(cell: Cell) -> None:
    shop, page = cell.shop, cell.page
    transfer = cell.played.call(shop.holder, "GET", f"/v1/connect/transfer/id/{shop.sent['id']}")
    [refund] = cell.played.call(shop.holder, "GET", "/v1/connect/refund/list")
    await page.goto(f"/deliveries/{shop.failed_id}")
    event = str(await page.locator("a[href*='/events/']").get_attribute("href"))
    charge = f"/charges/{shop.paid['id']}"
    for text, path in (
        (shop.paid["id"], charge),
        ("order-1042", charge),
        (shop.paid["transaction_identification"], charge),
        (transfer["end_to_end_id"], f"/transfers/{transfer['id']}"),
        (refund["return_identification"], f"/refunds/{refund['id']}"),
        (f"evt_{event.rpartition('/')[2]}", event),
        (shop.failed_id, f"/deliveries/{shop.failed_id}"),
        (shop.holder.key, f"/charges?holder={shop.holder.holder_id}"),
    ):
        await page.fill("#find", str(text))
        async with page.expect_navigation():
            await page.press("#find", "Enter")
        # An id of several resources, such as a small number, leads to a list; a key has no page, so its holder is
        # shown.
        if not page.url.endswith(path):
            lead = page.locator(f"a.row-link[href='{path}']")
            await expect(lead if text != shop.holder.key else page.locator("td", has_text=str(text))).not_to_have_count(0)


async def _failed_only(cell: Cell) -> None:
    for path, word, thing in (
        ("/transfers", "refused", cell.shop.refused["id"]),
        ("/deliveries", "failed", cell.shop.failed_id),
    ):
        await cell.open(path)
        assert await cell.rows.count() > 1
        await cell.open_box("State")
        await cell.page.get_by_role("checkbox", name=cell.say(word)).click()
        # With a script, a choice is applied at once, by another page.
        if not cell.has_script:
            await cell.filter()
        await cell.page.wait_for_url(re.compile("status="))
        await expect(cell.rows).to_have_count(1)
        await expect(cell.rows).to_contain_text(str(thing))
        await expect(cell.rows.locator(".state.bad, .state .shape.bad").first).to_be_visible()
    # The page of a failed attempt leads to the other failures of its endpoint.
    await cell.open(f"/endpoints/{cell.shop.failing['id']}")
    await cell.page.get_by_role("link", name=cell.say("Failed only")).click()
    await expect(cell.rows).to_have_count(1)


async def _filters_with_operators(cell: Cell) -> None:
    for query, count in (
        ("amount=%3E%3D100,00", 1),
        ("amount=5..10", 2),
        ("amount=%3C1", 0),
        ("when=%3E%3D2020-01-01", 3),
        ("when=2020-01-01..2020-02-01", 0),
        ("status=APPROVED&amount=%3D123,45", 1),
    ):
        await cell.open(f"/charges?{query}")
        await expect(cell.page.locator("a.row-link")).to_have_count(count)
    await cell.open("/transfers?who=nobody+at+all")
    await expect(cell.page.get_by_role("heading", name=cell.say("Nothing matches"))).to_be_visible()


async def _the_address_has_it_all(cell: Cell) -> None:
    await cell.open("/charges")
    await cell.page.fill("[name=amount]", ">=1,00")
    await cell.open_box("When")
    await cell.page.fill("[name=when]", ">=2026-01-01")
    await cell.filter()
    await cell.page.wait_for_url(re.compile("amount="))
    seen = await cell.page.locator("a.row-link").all_inner_texts()
    assert len(seen) == 3
    async with cell.door.operator(java_script_enabled=cell.has_script) as other:
        await other.goto(cell.page.url)
        assert await other.locator("a.row-link").all_inner_texts() == seen
        assert await other.input_value("[name=amount]") == ">=1,00"


async def _the_feed(cell: Cell) -> None:
    own = cell.played.open_holder()
    await cell.page.goto(f"/events?holder={own.holder_id}")
    await expect(cell.page.get_by_role("heading", name=cell.say("No events"))).to_be_visible()
    if cell.has_script:
        await expect(cell.page.locator("#live[data-live=on]")).to_have_count(1)
    cell.played.charge(own, 100)
    # Needs a script: the row appears by itself.
    if not cell.has_script:
        await cell.page.reload()
    await expect(cell.rows).to_have_count(1)
    await expect(cell.rows).to_contain_text("qrcode.pending")


async def _endpoints(cell: Cell) -> None:
    own, page = cell.played.open_holder(), cell.page
    await page.goto(f"/endpoints?holder={own.holder_id}")
    await expect(page.get_by_role("heading", name=cell.say("No endpoints yet"))).to_be_visible()
    await page.fill("main [name=url]", f"{cell.played.base_url}/livez")
    await page.get_by_text(cell.say("Only some events")).click()
    await page.get_by_role("checkbox", name="qrcode.pending").check()
    await cell.button("Add").click()
    first = await page.locator("pre").inner_text()
    assert len(first) == 43
    await page.locator("main a.button").click()
    await cell.button("Replace the secret").click()
    assert await page.locator("pre").inner_text() != first
    await page.locator("main a.button").click()
    await cell.button("Send a test event").click()
    await expect(page.get_by_role("status")).to_contain_text(cell.say("A test charge was made: its event is on the way."))
    await cell.button("Switch it off").click()
    await expect(page.locator("#live")).to_contain_text(cell.say("switched off by its owner"))
    await page.get_by_text(cell.say("Remove it"), exact=True).click()
    await cell.button("Remove it permanently").click()
    await expect(page.get_by_role("status")).to_contain_text(cell.say("Saved."))


async def _an_endpoints_state_in_words(cell: Cell) -> None:
    await cell.open("/endpoints")
    row = cell.page.locator("tbody tr", has_text="/livez")
    await expect(row).to_contain_text(re.compile(cell.say("failing since %(at)s", at="../../....")))
    # At that time the page shows it; without a script it shows it until it is reloaded.
    soon, now = cell.say("next try in %(in)s", **{"in": r"\d+"}), cell.say("next try at any moment")
    await expect(row).to_contain_text(re.compile(f"{soon}|{now}"))
    await expect(cell.page.locator("tbody tr", has_text="/webhooks")).to_contain_text(cell.say("fine"))


async def _the_audit(cell: Cell) -> None:
    await cell.page.goto("/audit")
    await expect(cell.page.get_by_role("columnheader", name=cell.say("Who"), exact=True)).to_be_visible()
    await expect(cell.page.get_by_role("cell", name="console sign-in", exact=True).first).to_be_visible()
    await expect(cell.rows.first.locator("time[datetime]")).to_be_visible()


async def _figures(cell: Cell) -> None:
    await cell.open("/figures?days=7")
    for title in ("Charges", "Transfers", "Webhooks", "Time to settle", "From event to receiver"):
        await expect(cell.page.get_by_role("img", name=cell.say(title), exact=True)).to_be_visible()
    await expect(cell.page.locator("section", has_text=cell.say("Why transfers failed"))).to_contain_text("AC03")
    # A figure without a total is marked as a sample.
    for text in ("A sample of the newest %(count)s over the rail", "A sample of the newest %(count)s that arrived"):
        await expect(cell.page.locator("main")).to_contain_text(cell.say_what_begins(text))
    await cell.page.get_by_text(cell.say("As a table")).first.click()
    await expect(cell.page.locator("figure table").first).to_be_visible()


async def _what_is_stuck(cell: Cell) -> None:
    rules = [
        dict(effect="no_answer", match=dict(operation="submit", amount=777)),
        dict(effect="unavailable", match=dict(operation="query")),
    ]
    cell.played.call(cell.shop.holder, "PUT", "/sandbox/v1/faults", dict(rules=rules))
    body = dict(amount=777, key="settle@sandbox.pix.example", key_type="EMAIL")
    transfer = cell.played.call(cell.shop.holder, "POST", "/v1/connect/transfer/key", body)
    await cell.open(f"/transfers/{transfer['id']}")
    note = cell.page.get_by_role("note")
    await _until(cell, note.first, cell.say_what_begins("The rail has the order and has not reported the outcome."))
    await expect(note.first).to_contain_text(cell.say_what_begins("Since %(at)s (%(for)s)."))
    # Nothing there could pay twice.
    await expect(cell.page.locator("main form")).to_have_count(0)
    cell.played.call(cell.shop.holder, "PUT", "/sandbox/v1/faults", dict(rules=[]))


async def _the_sandbox(cell: Cell) -> None:
    page = cell.page
    await cell.open("/sandbox")
    await page.locator("form[action^='/sandbox/charge'] [name=amount]").fill("7,50")
    await cell.button("Create a charge and pay it").click()
    await expect(page.get_by_role("img", name=cell.say("QR code of the charge"))).to_be_visible()
    phone = page.url
    await cell.button("Refuse").click()
    await expect(page.get_by_role("status")).to_contain_text(cell.say("The payer has refused: nothing was paid."))
    await page.goto(phone)
    await page.fill("[name=name]", "Maria Silva")
    await cell.button("Pay").click()
    await expect(page.get_by_role("status")).to_contain_text(cell.say("The payment was made."))
    await cell.open("/sandbox")
    await cell.button("Put into the account").click()
    await expect(page.get_by_role("status")).to_contain_text(cell.say("The deposit was made."))
    await cell.open("/sandbox")
    await page.select_option("[name=effect]", "delay:5000")
    await cell.button("Apply").click()
    await expect(page.locator("#live li")).to_contain_text(cell.say("settles transfers after 5 s"))
    await cell.button("Restore the network").click()
    await expect(page.locator("#live")).to_contain_text(cell.say("works normally"))
    await page.get_by_role("button", name=f"+ {cell.say('a minute')}").click()
    await expect(page.get_by_role("status")).to_contain_text(cell.say("The clock was moved."))


async def _copying(cell: Cell) -> None:
    await cell.open(f"/charges/{cell.shop.paid['id']}")
    await cell.page.get_by_text(cell.say("Copy as…")).click()
    sources = cell.page.locator(".sources .source")
    await expect(sources.nth(0)).to_contain_text(f"/v1/connect/charge/{cell.shop.paid['id']}")
    await expect(sources.nth(1)).to_contain_text(f"pixconnect charge show {cell.shop.paid['id']}")
    await expect(sources.nth(2)).to_contain_text('"amount_cents": 12345')
    # Needs a script: a button that copies. Without one the text can be selected.
    button = sources.nth(1).get_by_role("button")
    await expect(button).to_have_count(1 if cell.has_script else 0)
    if cell.has_script:
        await button.click()
        assert await cell.page.evaluate("navigator.clipboard.readText()") == (f"pixconnect charge show {cell.shop.paid['id']}")


async def _the_ledger(cell: Cell) -> None:
    page, own = cell.page, cell.played.open_holder()
    cell.played.paid_charge(own, 12_345)
    await page.goto(f"/ledger?holder={own.holder_id}")
    await expect(page.locator(".figure").first).to_have_text("R$ 10.123,45")
    await expect(cell.rows).to_have_count(2)
    async with page.expect_download() as downloading:
        await page.get_by_role("link", name=cell.say("Save as CSV")).click()
    saved = (await (await downloading.value).path()).read_text().splitlines()
    # In the format of the country's spreadsheets, if the page is in Portuguese.
    separator, point = (";", ",") if cell.language == "pt" else (",", ".")
    balances = [row[-1] for row in csv.reader(saved, delimiter=separator)]
    assert balances[1:] == [f"10000{point}00", f"10123{point}45"]
    async with page.expect_download() as downloading:
        await page.get_by_role("link", name=cell.say("Save as JSON")).click()
    lines = json.loads((await (await downloading.value).path()).read_text())
    assert [line["running_balance_cents"] for line in lines] == [1_000_000, 1_012_345]
    # The balance at an instant before everything.
    await cell.open_box("When")
    await page.fill("[name=when]", "2020-01-01..2020-01-31")
    await cell.filter()
    await expect(page.get_by_role("heading", name=cell.say("No entries"))).to_be_visible()
    await expect(page.locator(".figure").last).to_have_text("R$ 0,00")


ROWS: dict[str, Callable[[Cell], Awaitable[None]]] = {
    "1 one timeline of a payment": _one_timeline,
    "2 retries are in it": _retries_are_in_it,
    "3 an attempt has request, answer and duration": _an_attempt,
    "4 one is sent again": _one_is_sent_again,
    "6 nothing leaves its holder": _nothing_leaves_its_holder,
    "7 by several types of events": _by_several_types,
    "8 anything by any id": _by_any_id,
    "9 failed only": _failed_only,
    "10 filters with operators": _filters_with_operators,
    "11 the address has it all": _the_address_has_it_all,
    "12 the feed, live": _the_feed,
    "13 endpoints": _endpoints,
    "14 an endpoint's state in words": _an_endpoints_state_in_words,
    "15 the audit": _the_audit,
    "16 figures": _figures,
    "17 what is stuck is explained": _what_is_stuck,
    "18 the sandbox": _the_sandbox,
    "19 copying": _copying,
    "20 the ledger": _the_ledger,
}


@pytest.fixture(scope="module")
def shop(played: Any) -> Iterator[Shop]:
    with open_shop(played) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pages(door: Any) -> AsyncIterator[dict[tuple[str, bool], Page]]:
    """One page for each column of the table, for all rows."""
    async with AsyncExitStack() as opened:
        yield {
            (language, has_script): await opened.enter_async_context(
                door.operator(
                    locale={"en": "en-US", "pt": "pt-BR"}[language],
                    java_script_enabled=has_script,
                    permissions=["clipboard-read", "clipboard-write"],
                )
            )
            for language in ("en", "pt")
            for has_script in (True, False)
        }


@pytest.mark.parametrize("language", ["en", pytest.param("pt", marks=pytest.mark.long)])
@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no script"])
@pytest.mark.parametrize("row", ROWS)
async def test_the_row_holds(
    played: Any, door: Any, shop: Shop, pages: dict[tuple[str, bool], Page], row: str, language: str, *, has_script: bool
) -> None:
    page = pages[language, has_script]
    await ROWS[row](Cell(page=page, played=played, door=door, shop=shop, language=language, has_script=has_script))


async def _until(cell: Cell, part: Locator, words: str) -> None:
    """With a script the page shows it by itself; without one it is reloaded."""
    if cell.has_script:
        await expect(part).to_contain_text(words)
        return
    for _ in range(600):
        if words in await part.inner_text():
            return
        await cell.page.reload()
    raise AssertionError(f"{words!r} never came")
