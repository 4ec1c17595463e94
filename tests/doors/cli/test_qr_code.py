"""A QR code in a terminal is read back by a library."""

import pytest
import zxingcpp
from PIL import Image

from pixconnect.doors.cli import qr_code

TEXT = "00020101021126580014br.gov.bcb.pix0136123e4567-e12b-12d1-a456-4266554400005204000053039865802BR6304ABCD"


def test_what_is_drawn_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = qr_code.draw(TEXT)
    assert lines is not None
    assert {len(line) for line in lines} == {len(lines[0])}
    picture = Image.new("L", (len(lines[0]), 2 * len(lines)))
    for at, line in enumerate(lines):
        for column, block in enumerate(line):
            picture.putpixel((column, 2 * at), 255 * (block in "▀█"))
            picture.putpixel((column, 2 * at + 1), 255 * (block in "▄█"))
    bigger = picture.resize((8 * picture.width, 8 * picture.height), Image.Resampling.NEAREST)
    assert [found.text for found in zxingcpp.read_barcodes(bigger)] == [TEXT]


def test_a_code_that_would_be_folded_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert qr_code.draw(TEXT) is None
