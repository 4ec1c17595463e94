"""Texts of strangers: what is kept of a long one, and what people paste around one."""

from typing import Final

LENGTH_MAX: Final = 200


_PASTED: Final = "\ufeff\u200b"
"""Marks without a width, which are no blanks to Python."""


def trim_pasted(text: str) -> str:
    """The text without the blanks and ends of lines that people copy with it."""
    return text.strip().strip(_PASTED).strip()


def cut_text(text: str, length_max: int = LENGTH_MAX) -> str:
    """The text; of a longer one its beginning, and how long it was."""
    return text if len(text) <= length_max else f"{text[:length_max]}... (cut, of {len(text)} characters)"
