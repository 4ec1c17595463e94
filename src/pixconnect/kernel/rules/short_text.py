"""Texts from outside: cutting long ones, and trimming pasted ones."""

from typing import Final

LENGTH_MAX: Final = 200


_PASTED: Final = " \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\xad\u1680\u202f\u3000\ufeff" + "".join(
    map(chr, (*range(0x2000, 0x2010), *range(0x2028, 0x202D), *range(0x205F, 0x2070)))
)
"""Blanks, and invisible marks of direction, which phones put around a number copied from contacts."""


def trim_pasted(text: str) -> str:
    """Trim blanks and line ends that people copy with a text."""
    return text.strip(_PASTED)


def cut_text(text: str, length_max: int = LENGTH_MAX) -> str:
    """Cut a long text and append its length."""
    return text if len(text) <= length_max else f"{text[:length_max]}... (cut, of {len(text)} characters)"
