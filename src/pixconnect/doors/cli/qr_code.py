"""QR codes in a terminal: two rows of modules a line, by half blocks."""

from __future__ import annotations

import shutil
from math import isqrt
from typing import Final, cast

import zxingcpp

# By the light modules of a pair: none, the lower, the upper, both. Light modules are drawn, so that a dark terminal shows a
# code as on paper.
_BLOCKS: Final = " ▄▀█"


def draw(text: str) -> list[str] | None:
    """Return the lines of a code; ``None`` if the terminal is too narrow, as a wrapped code is unreadable."""
    # The library's stubs leave its options untyped and do not know that an image is a buffer.
    barcode = zxingcpp.create_barcode(text, zxingcpp.BarcodeFormat.QRCode, ec_level="L")  # pyright: ignore[reportUnknownMemberType]
    modules = bytes(cast(bytes, barcode.to_image(scale=1, add_quiet_zones=True)))
    width = isqrt(len(modules))
    if width > shutil.get_terminal_size().columns:
        return None
    rows = [[module != 0 for module in modules[at : at + width]] for at in range(0, len(modules), width)]
    # Their number is odd: below the last row is light, as around the code.
    rows.append([True] * width)
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return ["".join(_BLOCKS[2 * upper + lower] for upper, lower in zip(*pair, strict=True)) for pair in pairs]
