"""An item of an institution's list that cannot be read."""

from __future__ import annotations

from msgspec import Struct


class MalformedItem(Struct, frozen=True, kw_only=True):
    """An item of a list in a wrong form or with an unknown word: it is never guessed, and stops none of the others."""

    reason: str
    end_to_end_id: str | None
    """Where at least that can be read."""
    content: str
    """As sent, of a long one its beginning. It may hold names and documents of people: it is for an operator, not for logs."""
