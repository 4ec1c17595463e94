"""Which part of a list is asked for, and what comes back."""

from datetime import datetime
from typing import Generic, TypeVar

from msgspec import Struct

Item = TypeVar("Item")


class Span(Struct, frozen=True, kw_only=True):
    """A page of a list, newest first.

    Attributes:
        page: From 1.
        page_size: 1 to 1000.
        initial_at: The oldest instant included; ``None`` is no bound.
        final_at: The newest instant included; ``None`` is no bound.
    """

    page: int = 1
    page_size: int = 10
    initial_at: datetime | None = None
    final_at: datetime | None = None


class Page(Struct, Generic[Item], frozen=True, kw_only=True):
    """One page, and how many items there are in all.

    Attributes:
        items: Newest first.
        total_count: In the whole list, read together with the page.
    """

    items: list[Item]
    total_count: int
