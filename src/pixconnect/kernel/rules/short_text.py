"""Texts from outside: cutting long ones, and trimming pasted ones."""

from typing import Final

LENGTH_MAX: Final = 200


_PASTED: Final = " \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\xad\u1680\u202f\u3000\ufeff" + "".join(
    map(chr, (*range(0x2000, 0x2010), *range(0x2028, 0x202D), *range(0x205F, 0x2070)))
)
"""Blanks, and marks without a width: telephones set those of direction around a number that is copied from contacts."""


def trim_pasted(text: str) -> str:
    """The text without the blanks and ends of lines that people copy with it."""
    return text.strip(_PASTED)


def cut_text(text: str, length_max: int = LENGTH_MAX) -> str:
    """The text; of a longer one its beginning, and how long it was."""
    return text if len(text) <= length_max else f"{text[:length_max]}... (cut, of {len(text)} characters)"
