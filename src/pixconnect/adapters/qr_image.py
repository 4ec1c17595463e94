"""QR codes as PNG pictures.

zxing-cpp makes the symbol (QR Code Model 2, error correction M, quiet zone of four modules) and no PNG, so the picture is
put together here. That is short because of one choice: a module is eight pixels wide, hence one byte of a picture of one
bit a pixel, 0x00 where dark and 0xFF where light, which is the very byte that zxing-cpp has for it.

A picture takes ten times as long as the charge that it shows, so the event loop draws one in each of its turns, of each
party in turn. Not on a thread: zxing-cpp keeps the interpreter's lock for nearly all of it, and the loop, which takes that lock
anew for each thing that it does, would wait for a whole picture each time.
"""

import asyncio
import struct
import sys
import zlib
from math import isqrt
from typing import Final, cast

import zxingcpp

from pixconnect.foundation.shares import FairPlaces, current_party

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_PIXELS_PER_MODULE: Final = 8


class QrPictures:
    """Draws QR codes one after the other, of each party in turn.

    Whoever waits has what is to be drawn already, so nobody is refused: as many wait at most as requests are under way.
    """

    def __init__(self) -> None:
        self._places = FairPlaces(1, waiting_max=sys.maxsize, what="pictures")

    async def draw(self, text: str) -> bytes:
        """Draw a QR code, as ``render_qr_png``, when it is this party's turn."""
        async with self._places.lend(current_party.get()):
            picture = render_qr_png(text)
            await asyncio.sleep(0)  # only then the next one: between two pictures the loop does what else there is
            return picture


def render_qr_png(text: str) -> bytes:
    """Draw a QR code.

    Args:
        text: What it says; of a BR Code's length.

    Returns:
        A black and white PNG.

    Source:
        ISO/IEC 18004 for the symbol; RFC 2083 for the picture.
    """
    # The library's stubs leave its options untyped and do not know that an image is a buffer.
    barcode = zxingcpp.create_barcode(text, zxingcpp.BarcodeFormat.QRCode, ec_level="M")  # pyright: ignore[reportUnknownMemberType]
    octets = bytes(cast(bytes, barcode.to_image(scale=1, add_quiet_zones=True)))
    width = isqrt(len(octets))
    # Each row of modules is written once (filter 0) and then seven times as "the same as above" (filter 2, all zeros).
    repeats = (b"\x02" + bytes(width)) * (_PIXELS_PER_MODULE - 1)
    rows = b"".join(b"\x00" + octets[at : at + width] + repeats for at in range(0, len(octets), width))
    picture = zlib.compress(rows, 3)  # 1.6 ms less than level 9, and 300 bytes more
    pixels = width * _PIXELS_PER_MODULE
    header = struct.pack(">IIBBBBB", pixels, pixels, 1, 0, 0, 0, 0)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", picture) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
