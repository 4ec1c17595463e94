"""Writes a receipt as PDF: one page of A4 in Helvetica, which every reader has, so that no font is embedded.

pydyf makes the file's objects and their table; this module positions texts. The same receipt gives the same octets.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from textwrap import wrap
from typing import Any, Final

from pixconnect.features.receipts.rules import ReceiptSheet
from pixconnect.platform import outgoing_text

_A4: Final = (0, 0, 595, 842)
_MARGIN: Final = 56
_TEXTS_AT: Final = 190
_LINE_HEIGHT: Final = 12
_CHARACTERS_MAX: Final = 40
"""Maximum in a line of ten points: even with the widest letters it stays on the page."""
_FONTS: Final = dict(F1="/Helvetica", F2="/Helvetica-Bold")

Placed = tuple[str, int, int, int, str]
"""A font, its size, its position from the left and from the bottom, and the text."""


def write_receipt_pdf(sheet: ReceiptSheet) -> bytes:
    import pydyf  # pyright: ignore[reportMissingTypeStubs]  # noqa: PLC0415  few processes are ever asked for one

    document: Any = pydyf.PDF()
    document.info = pydyf.Dictionary(dict(Title=_hex(sheet.title)))
    # So that screen readers pronounce it correctly.
    document.catalog["Lang"] = "(pt-BR)"
    fonts: dict[str, Any] = {}
    for name, base in _FONTS.items():
        font: Any = pydyf.Dictionary(dict(Type="/Font", Subtype="/Type1", BaseFont=base, Encoding="/WinAnsiEncoding"))
        document.add_object(font)
        fonts[name] = font.reference
    page: Any = pydyf.Stream()
    for font_name, size, left, height, text in _place(sheet):
        page.begin_text()
        page.set_font_size(font_name, size)
        page.set_text_matrix(1, 0, 0, 1, left, height)
        # As octets of the font's encoding: the library writes texts beyond ASCII as UTF-16, which no such font has.
        page.stream.append(_hex(text) + b" Tj")
        page.end_text()
    document.add_object(page)
    # A page names its resources; the fonts are the document's.
    resources: Any = pydyf.Dictionary(dict(Font=pydyf.Dictionary(fonts)))
    contents: Any = page.reference
    document.add_page(
        pydyf.Dictionary(
            dict(
                Type="/Page",
                Parent=document.pages.reference,
                MediaBox=pydyf.Array(_A4),
                Resources=resources,
                Contents=contents,
            )
        )
    )
    file = io.BytesIO()
    document.write(file)
    return file.getvalue()


def _place(sheet: ReceiptSheet) -> Iterator[Placed]:
    # PDF counts from the bottom up.
    height = _A4[3] - 80
    yield "F2", 18, _MARGIN, height, sheet.title
    if sheet.notice:
        height -= 24
        yield "F2", 12, _MARGIN, height, sheet.notice
    for section in sheet.sections:
        height -= 16
        if section.heading:
            height -= 10
            yield "F2", 12, _MARGIN, height, section.heading
        for label, text in section.lines:
            for number, line in enumerate(wrap(outgoing_text.in_pdf(text), _CHARACTERS_MAX) or [""]):
                height -= _LINE_HEIGHT
                # A long text continues without a label.
                if number == 0:
                    yield "F1", 10, _MARGIN, height, label
                yield "F1", 10, _TEXTS_AT, height, line


def _hex(text: str) -> bytes:
    return b"<" + text.encode(outgoing_text.PDF_ENCODING, "replace").hex().encode() + b">"
