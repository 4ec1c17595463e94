"""Which part of a list is asked for, and what comes back."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

from msgspec import Struct

Item = TypeVar("Item")
OtherItem = TypeVar("OtherItem")


class Cursor(Struct, frozen=True, kw_only=True):
    """Where a walk through a list goes on: after the item that was seen last."""

    created_at: datetime
    id: int
    position: int
    """How many items the walk has passed."""
    total_count: int
    """Of the whole list as the walk began: counting again for every page would cost more than the page."""


class Span(Struct, frozen=True, kw_only=True):
    """A page of a list, newest first.

    Attributes:
        page: From 1; not looked at beside ``after``.
        page_size: 1 to 1000.
        initial_at: The oldest instant included; ``None`` is no bound.
        final_at: The newest instant included; ``None`` is no bound.
        after: Where the page begins, if not by number.
    """

    page: int = 1
    page_size: int = 10
    initial_at: datetime | None = None
    final_at: datetime | None = None
    after: Cursor | None = None

    @property
    def position(self) -> int:
        """How many items are before the page."""
        return (self.page - 1) * self.page_size if self.after is None else self.after.position


class Page(Struct, Generic[Item], frozen=True, kw_only=True):
    """One page, and how many items there are in all.

    Attributes:
        items: Newest first.
        total_count: In the whole list, read together with the page; by cursor, as the walk began.
        next: Where the next page begins; ``None`` on the last one.
    """

    items: list[Item]
    total_count: int
    next: Cursor | None = None

    def with_items(self, items: list[OtherItem]) -> Page[OtherItem]:
        """The same page in another form."""
        return Page(items=items, total_count=self.total_count, next=self.next)
