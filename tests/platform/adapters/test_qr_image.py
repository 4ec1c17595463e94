"""The picture is read back by an independent reader."""

import asyncio
import io
from contextvars import Context
from types import SimpleNamespace

import pytest
from PIL import Image

from pixconnect.kernel.rules import br_code
from pixconnect.platform.adapters import qr_image
from pixconnect.platform.adapters.qr_image import REST_TIMES, QrPictures, render_qr_png
from pixconnect.platform.flow.shares import current_party
from pixconnect.platform.flow.turns import Turns
from support.qr_symbol import read_symbol

LOCATION = "pix.example.com/8b3da2f39a4140d1a91abd93113bd441"
CODE = br_code.format_dynamic_br_code(LOCATION, "Fulano de Tal", "BRASILIA")


def test_the_picture_of_a_charge_says_its_code() -> None:
    assert read_symbol(render_qr_png(CODE)).text == CODE


def test_the_error_correction_is_m_and_the_quiet_zone_four_modules_wide() -> None:
    symbol = read_symbol(render_qr_png(CODE))
    assert symbol.level == "M"
    assert symbol.quiet_modules == (4, 4, 4, 4)


@pytest.mark.parametrize("length", [1, 7, 14, 15, 62, 107, 152, 180, 213, 251, 287, 331, 362, 450, 504, 512])
def test_every_length_up_to_the_longest_code_is_read_back(length: int) -> None:
    text = (CODE * 4)[:length]
    assert read_symbol(render_qr_png(text)).text == text


@pytest.mark.parametrize("text", ["0123456789012", "HELLO WORLD $%", "pix@bcb.gov.br 00020126 ABCDEFGHIJKL"])
def test_whatever_the_text_is_made_of_it_is_read_back(text: str) -> None:
    assert read_symbol(render_qr_png(text)).text == text


def test_the_picture_is_a_small_png_of_one_bit_a_pixel() -> None:
    png = render_qr_png(CODE)
    with Image.open(io.BytesIO(png)) as image:
        image.verify()
        assert (image.format, image.mode, image.width) == ("PNG", "1", image.height)
    assert len(png) < 2_000


def test_the_reader_would_notice_one_wrong_module() -> None:
    with Image.open(io.BytesIO(render_qr_png(CODE))) as image:
        image.paste(255 - image.getpixel((280, 240)), (280, 240, 288, 248))
        changed = io.BytesIO()
        image.save(changed, "PNG")
    with pytest.raises(AssertionError, match="error correction"):
        read_symbol(changed.getvalue())


async def test_one_picture_is_drawn_in_a_turn_of_the_loop_for_each_party_in_turn() -> None:
    turn, drawn = 0, list[tuple[str, int]]()

    def render(text: str) -> bytes:
        drawn.append((text, turn))
        return text.encode()

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def ask(party: str) -> bytes:
        current_party.set(party)
        return await pictures.draw(party)

    pictures = QrPictures(Turns(), render)
    counting = asyncio.create_task(count_turns())
    asked = [asyncio.create_task(ask(party), context=Context()) for party in ["greedy"] * 20 + ["calm"] * 2]
    assert await asyncio.gather(*asked) == [b"greedy"] * 20 + [b"calm"] * 2
    counting.cancel()
    assert [text for text, _ in drawn[:5]].count("calm") == 2
    assert len({turn for _, turn in drawn}) == len(drawn)


async def test_beside_others_the_loop_rests_after_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    rests_s: list[float] = []
    loop, turns, monotonic_s = asyncio.get_running_loop(), Turns(), iter(range(100))
    pictures = QrPictures(turns, str.encode)
    monkeypatch.setattr(qr_image, "time", SimpleNamespace(monotonic=lambda: next(monotonic_s)))
    monkeypatch.setattr(loop, "call_later", lambda delay_s, *_: rests_s.append(delay_s))
    for others in ((), ("calm",)):
        for party in (*others, "greedy"):
            assert turns.acquire_now(party)
            turns.release(party)
        asked = asyncio.create_task(ask_for(pictures, "greedy"), context=Context())
        await asyncio.sleep(0)
        pictures._semaphore.release("greedy")
        assert await asked == b"code"
    assert rests_s == [0, REST_TIMES]


async def ask_for(pictures: QrPictures, party: str) -> bytes:
    current_party.set(party)
    return await pictures.draw("code")
