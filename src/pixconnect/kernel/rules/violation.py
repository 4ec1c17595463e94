"""All errors of a request in one answer, as in the central bank's Pix API."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pixconnect.platform.base import errors


class Violation(Struct, frozen=True, kw_only=True):
    property: str
    """With its path, such as ``cob.loc.id``; a parameter by its bare name."""
    reason: str
    """In Portuguese, for developers."""
    value: str | None = None
    """As sent; ``None`` if missing."""


class Violated(errors.BadRequest):
    """A request violates rules of its entity, in its form or in the present state."""

    def __init__(self, entity: str, rows: Sequence[Violation]) -> None:
        super().__init__(f"{entity}: {'; '.join(row.property for row in rows) or 'the body must be a JSON object'}")
        self.entity = entity
        self.rows = rows
