"""An unreadable item of an institution's list."""

from __future__ import annotations

from msgspec import Struct


class MalformedItem(Struct, frozen=True, kw_only=True):
    """An item of a list in a wrong form or with an unknown word: it is never guessed, and blocks none of the others."""

    reason: str
    end_to_end_id: str | None
    """If at least that is readable."""
    content: str
    """As sent, cut if long. It may contain personal data: it is for an operator, not for logs."""
