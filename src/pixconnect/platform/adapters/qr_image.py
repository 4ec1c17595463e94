"""Draws QR codes as PNG pictures.

zxing-cpp makes the symbol (QR Code Model 2, error correction M) but no PNG, and choosing the mask takes it eight times as long
as us. We write the PNG ourselves, which is short because a module is eight pixels wide: at one bit a pixel it is one byte, 0x00
if dark and 0xFF if light, and that is the byte that zxing-cpp has for it.

A picture takes about as long as the charge that it shows, so the event loop draws one in each of its turns, for each party in
turn. A thread would not help: zxing-cpp holds the interpreter's lock for nearly all of it, and the loop, which takes that lock
again for each of its steps, would wait for a whole picture each time. While other parties are active, the loop pauses drawing
after each picture.

Chooses the mask of a QR code by the standard's rule: of eight, the one with the fewest penalty points.

zxing-cpp takes 0.3 ms for that, module by module, which is eight times as long as for the rest of the symbol. Here a symbol is
one large integer, with a bit for each module, row after row and dark ones set: a rule is a few shifts of the whole symbol.
"""

import asyncio
import struct
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from math import isqrt
from typing import Final, cast

import zxingcpp

from pixconnect.platform.flow.shares import FairSemaphore, current_party
from pixconnect.platform.flow.turns import Turns

MASKS_COUNT: Final = 8

# ISO/IEC 18004, 7.8.3.1.
_BLOCK_POINTS: Final = 3
_FINDER_POINTS: Final = 40
_BALANCE_POINTS: Final = 10


class Masks:
    """The masks of symbols of one width and level, derived from one text: they are the same for every text."""

    def __init__(self, width: int, symbols: Sequence[int]) -> None:
        self._width = width
        self._changes = [symbol ^ symbols[0] for symbol in symbols]
        self._all = (1 << width * width) - 1
        self._beside = _modules_from(1, width)
        self._after_ten = _modules_from(10, width)

    def choose(self, symbol: int) -> int:
        """Return the symbol under the mask with the lowest penalty; ``symbol`` is under the first mask."""
        return min((symbol ^ change for change in self._changes), key=self.count_penalty)

    def count_penalty(self, symbol: int) -> int:
        # A shift by one brings the module on the left, and one by a row's width the module above.
        down, modules_count = self._width, self._width**2
        light = self._all ^ symbol
        same_across = ~(symbol ^ symbol >> 1) & self._beside
        same_down = ~(symbol ^ symbol >> down) & self._all >> down
        blocks_count = (same_across & same_across >> down & same_down).bit_count()
        # A pattern across two rows is no finder.
        finders_across = _find_finders(symbol, light, 1) & self._after_ten
        finders_count = finders_across.bit_count() + _find_finders(symbol, light, down).bit_count()
        unbalanced_count = abs(20 * symbol.bit_count() - 10 * modules_count) // modules_count
        return (
            _count_run_points(same_across, 1)
            + _count_run_points(same_down, down)
            + _BLOCK_POINTS * blocks_count
            + _FINDER_POINTS * finders_count
            + _BALANCE_POINTS * unbalanced_count
        )


def _count_run_points(same: int, step: int) -> int:
    """Three points for five modules in a row that are the same, and one for each that follows."""
    three = same & same >> step
    five = three & three >> 2 * step
    return five.bit_count() + 2 * (five & ~(five >> step)).bit_count()


def _find_finders(symbol: int, light: int, step: int) -> int:
    """Where a pattern like a finder's ends: dark, light, three dark, light, dark, with four light beside it."""
    dark_light = symbol >> step & light
    core = dark_light >> 5 * step & symbol >> 4 * step & symbol >> 3 * step & symbol >> 2 * step
    core &= light >> step & symbol
    two_light = light & light >> step
    four_light = two_light & two_light >> 2 * step
    return core >> 4 * step & four_light | core & four_light >> 7 * step


def _modules_from(column: int, width: int) -> int:
    row = (1 << width - column) - 1
    return sum(row << at * width for at in range(width))


_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_PIXELS_PER_MODULE: Final = 8
_QUIET_MODULES: Final = 4
_TO_DIGITS: Final = bytes.maketrans(b"\x00\xff", b"10")
_FROM_DIGITS: Final = bytes.maketrans(b"10", b"\x00\xff")
_masks: Final = dict[int, Masks]()
"""By a symbol's width; the standard has forty."""

REST_TIMES: Final = 3  # the pause after a picture, as a multiple of its time, while other parties are active


class QrPictures:
    """Draws QR codes one after the other, for each party in turn."""

    def __init__(self, turns: Turns, render: Callable[[str], bytes] | None = None) -> None:
        self._turns = turns
        self._render = render or render_qr_png
        # No request is refused: no more can wait than there are requests.
        self._semaphore = FairSemaphore(1, waiting_max=sys.maxsize, what="pictures")

    async def draw(self, text: str) -> bytes:
        party, loop = current_party.get(), asyncio.get_running_loop()
        if not self._semaphore.acquire_now(party):
            await self._semaphore.acquire(party)
        # The loop's own time stands still while a picture is drawn.
        began_at_s = time.monotonic()
        try:
            return self._render(text)
        finally:
            rest_s = 0.0 if self._turns.is_alone(party) else REST_TIMES * (time.monotonic() - began_at_s)
            # Between two pictures the event loop does its other work, even if only one holder waits.
            loop.call_later(rest_s, self._semaphore.release, party)


def render_qr_png(text: str) -> bytes:
    """Draw a text of a BR Code's length as a black and white PNG (ISO/IEC 18004, RFC 2083)."""
    octets, width = _make_symbol(text)
    light = b"\xff" * _QUIET_MODULES
    width_in_all = width + 2 * _QUIET_MODULES
    # Each row of modules is written once (filter 0) and then seven times as "the same as above" (filter 2, all zeros).
    repeats = (b"\x02" + bytes(width_in_all)) * (_PIXELS_PER_MODULE - 1)
    quiet = (b"\x00" + b"\xff" * width_in_all + repeats) * _QUIET_MODULES
    end, begin = light + repeats, b"\x00" + light
    rows = b"".join(begin + octets[at : at + width] + end for at in range(0, len(octets), width))
    # Level 3 takes 1.6 ms less than level 9 and makes 300 bytes more.
    picture = zlib.compress(quiet + rows + quiet, 3)
    pixels = width_in_all * _PIXELS_PER_MODULE
    header = struct.pack(">IIBBBBB", pixels, pixels, 1, 0, 0, 0, 0)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", picture) + _chunk(b"IEND", b"")


def _make_symbol(text: str) -> tuple[bytes, int]:
    """The modules of a text's symbol, row after row, 0x00 if dark and 0xFF if light, and how many are in a row."""
    octets = _encode(text, 0)
    width = isqrt(len(octets))
    masks = _masks.get(width)
    if masks is None:
        symbols = [_pack(_encode(text, mask)) for mask in range(MASKS_COUNT)]
        masks = _masks[width] = Masks(width, symbols)
    return f"{masks.choose(_pack(octets)):0{len(octets)}b}".encode().translate(_FROM_DIGITS), width


def _encode(text: str, mask: int) -> bytes:
    # The library's stubs leave its options untyped and do not know that an image is a buffer.
    barcode = zxingcpp.create_barcode(text, zxingcpp.BarcodeFormat.QRCode, ec_level="M", data_mask=mask)  # pyright: ignore[reportUnknownMemberType]
    return bytes(cast(bytes, barcode.to_image(scale=1, add_quiet_zones=False)))


def _pack(octets: bytes) -> int:
    return int(octets.translate(_TO_DIGITS), 2)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
