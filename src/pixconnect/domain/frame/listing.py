"""Lists: the query for a page, and the page."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

from msgspec import Struct

Item = TypeVar("Item")
OtherItem = TypeVar("OtherItem")


class Cursor(Struct, frozen=True, kw_only=True):
    """Where a list continues: after the last item that the caller has seen."""

    created_at: datetime
    id: int
    position: int
    """How many items came before."""
    # Counted on the first page only: counting again for each page would cost more than the page.
    total_count: int


class Span(Struct, frozen=True, kw_only=True):
    """The query for a page; lists are newest first."""

    page: int = 1
    """From 1; ignored beside ``after``."""
    page_size: int = 10
    """1 to 1000."""
    initial_at: datetime | None = None
    """Both bounds are included; ``None`` is no bound."""
    final_at: datetime | None = None
    after: Cursor | None = None

    @property
    def position(self) -> int:
        return (self.page - 1) * self.page_size if self.after is None else self.after.position


class Page(Struct, Generic[Item], frozen=True, kw_only=True):
    items: list[Item]
    total_count: int
    """The count of the whole list, read together with the page; with a cursor, the count on the first page."""
    next: Cursor | None = None
    """``None`` on the last page."""

    def with_items(self, items: list[OtherItem]) -> Page[OtherItem]:
        return Page(items=items, total_count=self.total_count, next=self.next)
