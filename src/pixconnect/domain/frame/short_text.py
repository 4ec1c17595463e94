"""Texts of strangers where they are kept or logged: so much of each, and that there was more."""

from typing import Final

LENGTH_MAX: Final = 200


def cut_text(text: str, length_max: int = LENGTH_MAX) -> str:
    """The text; of a longer one its beginning, and how long it was."""
    return text if len(text) <= length_max else f"{text[:length_max]}... (cut, of {len(text)} characters)"
