"""Both days of the console's guide are followed word by word, in a browser.

Bold text in a step is a menu entry, slanted text is pressed or chosen, and code is seen. A step with words that the
page lacks fails. What a step leaves to the reader is done here.
"""

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from support.browser import needs_chromium
from support.listener import open_hook
from support.waiting import wait_until

pytestmark = [*needs_chromium, pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("console acts")]

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "console.md").read_text()
_DAYS_OF_FAILING_S = 4 * 86_400

Doings = dict[tuple[int, str], Callable[[Page], Awaitable[None]]]
"""What is done at a step before its words are followed."""


async def test_a_developers_day_is_as_the_guide_tells_it(played: Any, door: Any) -> None:
    own = played.open_holder()
    with _receiver() as receiver:

        async def type_address(page: Page) -> None:
            await page.fill("main [name=url]", receiver.url)

        async def mend(_page: Page) -> None:
            receiver.is_up = True

        async def transfer(page: Page) -> None:
            body = dict(amount=100, key="settle@sandbox.pix.example", key_type="EMAIL")
            made = played.call(own, "POST", "/v1/connect/transfer/key", body)
            await page.goto(f"/transfers/{made['id']}")

        async def back_to_sandbox(page: Page) -> None:
            await page.goto("/sandbox")

        doings: Doings = {
            (4, "Add"): type_address,
            (7, "Send it again"): mend,
            (8, "under way"): transfer,
            (8, "Restore the network"): back_to_sandbox,
        }
        async with door.holder(own) as page:
            await _live(page, "a developer", doings, 10)


async def test_an_operators_day_is_as_the_guide_tells_it(played: Any, door: Any) -> None:
    own = played.open_holder()
    with _receiver() as receiver:
        endpoint = dict(url=receiver.url, secret="s" * 32, event_types=["qrcode.pending"])
        made = played.call(own, "POST", "/v1/webhook/endpoints", endpoint)
        listed = f"/v1/webhook/endpoints/{made['id']}/deliveries"
        played.charge(own, 700)
        wait_until(lambda: [len(each["attempts"]) > 0 for each in played.call(own, "GET", listed)] == [True])
        played.call(own, "POST", "/sandbox/v1/clock", dict(advance_s=_DAYS_OF_FAILING_S))
        charge = played.charge(own, 4200, external_id="as-read-out")

        async def find(page: Page) -> None:
            await page.keyboard.press("/")
            await page.keyboard.type("as-read-out")
            await page.keyboard.press("Enter")
            await page.wait_for_url(re.compile(f"/charges/{charge['id']}$"))

        async def search(page: Page) -> None:
            await page.goto("/search?q=25,50+yesterday")

        async def name(page: Page) -> None:
            listed = page.locator(f'a.row-link[href="/holders/{own.holder_id}"]')
            await page.fill("main [name=name]", await listed.inner_text())

        async def choose(page: Page) -> None:
            await page.locator(f'a.row-link[href="/holders/{own.holder_id}"]').click()

        async def open_delivery(page: Page) -> None:
            receiver.is_up = True
            await page.locator("main a.row-link").first.click()

        doings: Doings = {
            (2, "25,50 yesterday"): search,
            (2, "/"): find,
            (3, "Show"): name,
            (3, "Deliveries"): choose,
            (5, "Send it again"): open_delivery,
        }
        async with door.operator() as page:
            await page.goto("/help")
            await _live(page, "an operator", doings, 7)


async def _live(page: Page, who: str, doings: Doings, steps_count: int) -> None:
    steps = re.findall(r"^\d+\. (.*?)(?=^\d+\. |\n\n)", _section(who), re.MULTILINE | re.DOTALL)
    assert len(steps) == steps_count
    left = dict(doings)
    for number, step in enumerate(steps, start=1):
        for bold, slanted, code in re.findall(r"\*\*([^*]+)\*\*|\*([^*]+)\*|`([^`]+)`", " ".join(step.split())):
            if (do := left.pop((number, bold or slanted or code), None)) is not None:
                await do(page)
            if bold:
                await page.locator("nav.side").get_by_role("link", name=bold, exact=True).click()
            elif slanted:
                await _press(page, slanted)
            elif code != "/":
                await expect(page.locator("main")).to_contain_text(code)
    assert not left, "words that the guide has no more"


async def _press(page: Page, word: str) -> None:
    main = page.locator("main, details.who .pop")
    options = page.locator("option", has_text=word)
    if await options.count():
        await page.select_option("select", label=word)
        return
    choice = page.locator(".pick label", has_text=word)
    if await choice.count():
        await choice.click()
        # A choice is applied at once.
        await page.wait_for_url(re.compile("status="))
        return
    pressed: Locator = main.get_by_role("button", name=word, exact=True)
    for other in (
        main.get_by_role("link", name=word, exact=True),
        main.locator("summary", has_text=word),
        main.locator("a.row-link", has_text=word),
    ):
        pressed = pressed.or_(other)
    await pressed.first.click()


def _section(who: str) -> str:
    return GUIDE.partition(f"## A day with the console: {who}\n")[2].partition("\n## ")[0] + "\n\n"


class _Receiver:
    """Fails while it is down."""

    url = ""
    is_up = False


@contextmanager
def _receiver() -> Iterator[_Receiver]:
    receiver = _Receiver()
    with open_hook(lambda _: (204 if receiver.is_up else 503, b"")) as receiver.url:
        yield receiver
