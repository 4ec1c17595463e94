"""The guide's pictures show the current console: each is kept with the words of its page, and those are compared.

``make pictures`` takes them again. Pixels depend on a machine's fonts, so words are compared: headings, states,
columns, labels and buttons, without numbers.
"""

import hashlib
import io
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.async_api import Page

from support.browser import needs_chromium
from support.listener import open_hook
from support.waiting import wait_until

pytestmark = [*needs_chromium, pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("console pictures")]

PICTURES = Path(__file__).resolve().parents[3] / "docs" / "guides" / "console"
WORDS = PICTURES / "words.json"
MEND = "the pictures are of pages that are others now: run `make pictures`, and look at them"
SIZE_MAX = 100_000
_STORY = "order-1042"
_DAY_S = 86_400

_READ = """() => [...document.querySelectorAll(
    'h1, h2, th, dt, summary, button:not(.copy), .field > span, .state, .what strong'
      .split(', ').map(each => 'main ' + each).join())]
  .filter(each => each.checkVisibility() && !each.closest('.day')).map(each => each.innerText)"""


class Picture(Struct, frozen=True, kw_only=True):
    path: str
    scheme: str = "light"
    size: tuple[int, int] = (1280, 800)
    language: str = "en"
    unfolds: bool = False  # whether folded parts are open, as after a click


PHONE = (390, 844)


async def test_the_pictures_of_the_guide_show_the_pages_as_they_are(played: Any, door: Any) -> None:
    own = played.open_holder()
    with _failing_once() as url:
        charge, delivery = _live_through_three_days(played, own, url)
    phone = f"/sandbox/phone/{played.charge(own, 4990, payer=dict(name='Maria Silva', tax_id='12345678909'))['id']}"
    contested = f"/infractions/{played.contest(own, external_id='order-1077')}"
    pictures = {
        "list": Picture(path="/charges"),
        "list-phone": Picture(path="/charges", scheme="dark", size=PHONE, language="pt"),
        "timeline": Picture(path=f"/charges/{charge}"),
        "timeline-dark": Picture(path=f"/charges/{charge}", scheme="dark"),
        "attempt": Picture(path=f"/deliveries/{delivery}", size=(1280, 1200), unfolds=True),
        "phone": Picture(path=phone, size=PHONE),
        "infraction": Picture(path=contested, size=(1280, 1000)),
        "infraction-answer": Picture(path=f"{contested}#answer", size=(1280, 600)),
        "infractions-phone": Picture(path="/infractions", size=PHONE, language="pt"),
        "figures": Picture(path="/figures?days=7", size=(1280, 1200)),
        "figures-dark": Picture(path="/figures?days=7", scheme="dark", size=(390, 1200), language="pt"),
    }
    words, shots = dict[str, list[str]](), dict[str, bytes]()
    async with door.holder(own) as page:
        for name, picture in pictures.items():
            words[name], shots[name] = await _take(page, picture)
    if os.environ.get("PIXCONNECT_WRITE_PICTURES"):
        _write(words, shots)
    assert json.loads(WORDS.read_text()) == words, MEND
    assert {file.stem for file in PICTURES.glob("*.png")} == set(words), MEND
    for name, said in words.items():
        file = PICTURES / f"{name}.png"
        assert file.stat().st_size < SIZE_MAX
        with Image.open(file) as image:
            assert image.info["words"] == _digest(said), MEND


async def _take(page: Page, picture: Picture) -> tuple[list[str], bytes]:
    """The sorted words of a page, and its picture."""
    width, height = picture.size
    # A cookie for a page's address would only be sent below that page.
    origin = "/".join(page.url.split("/")[:3])
    await page.context.add_cookies([{"name": "pixconnect_language", "value": picture.language, "url": origin}])
    await page.emulate_media(color_scheme="dark" if picture.scheme == "dark" else "light")
    await page.set_viewport_size({"width": width, "height": height})
    await page.goto(picture.path)
    if picture.unfolds:
        await page.evaluate("for (const each of document.querySelectorAll('main section details')) each.open = true")
    found = {re.sub(r"\d[\d.,:]*", "#", " ".join(text.split())) for text in await page.evaluate(_READ)}
    return sorted(found - {""}), await page.screenshot(animations="disabled")


def _live_through_three_days(played: Any, own: Any, url: str) -> tuple[int, int]:
    """Create something of everything; returns the charge and the delivery of the pictures."""
    played.call(own, "POST", "/v1/webhook/endpoints", dict(url=url, secret="s" * 32, event_types=["qrcode.approved"]))
    for number, (day, receiver) in enumerate([(2, "settle"), (4, "reject-ac03"), (3, "settle")]):
        if number:
            played.call(own, "POST", "/sandbox/v1/clock", dict(advance_s=_DAY_S))
        for each in range(day):
            played.paid_charge(own, 1990 + 1500 * each, external_id=f"order-{1000 + 10 * number + each}")
        played.charge(own, 7500, external_id=f"order-{1009 + 10 * number}")
        body = dict(amount=2550 + number, key=f"{receiver}@sandbox.pix.example", key_type="EMAIL")
        path = f"/v1/connect/transfer/id/{played.call(own, 'POST', '/v1/connect/transfer/key', body)['id']}"
        wait_until(lambda path=path: played.call(own, "GET", path)["status"] != "PROCESSING")
    charge = played.paid_charge(own, 12345, external_id=_STORY)

    def deliveries() -> list[Any]:
        [endpoint] = played.call(own, "GET", "/v1/webhook/endpoints")
        return played.call(own, "GET", f"/v1/webhook/endpoints/{endpoint['id']}/deliveries")

    wait_until(lambda: len(deliveries()) == 10 and all(each["status"] == "delivered" for each in deliveries()))
    return charge["id"], next(each["id"] for each in deliveries() if len(each["attempts"]) > 1)


@contextmanager
def _failing_once() -> Iterator[str]:
    """A receiver that does not take the first webhook about one charge, and takes all others."""
    failed = list[bytes]()

    def answer(body: bytes) -> tuple[int, bytes]:
        if _STORY.encode() not in body or failed:
            return 204, b""
        failed.append(body)
        return 500, b'{"error": "no connection to the database of orders"}'

    with open_hook(answer) as url:
        yield url


def _write(words: dict[str, list[str]], shots: dict[str, bytes]) -> None:
    PICTURES.mkdir(exist_ok=True)
    for old in PICTURES.glob("*.png"):
        old.unlink()
    for name, shot in shots.items():
        kept = PngInfo()
        kept.add_text("words", _digest(words[name]))
        with Image.open(io.BytesIO(shot)) as image:
            # The default would replace the few red pixels of failures by grey.
            few = image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
            few.save(PICTURES / f"{name}.png", optimize=True, pnginfo=kept)
    WORDS.write_text(json.dumps(words, indent=2, ensure_ascii=False) + "\n")


def _digest(words: list[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()
