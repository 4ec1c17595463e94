"""Paged lists. Iterating over a list fetches further pages as needed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Generic, TypeVar

from msgspec import Struct

ItemT = TypeVar("ItemT")


class Pagination(Struct, frozen=True, kw_only=True):
    """The position of a page in its list."""

    page: int
    """From 1."""
    page_size: int
    total_items: int
    total_pages: int
    has_next: bool
    has_prev: bool


class Page(Struct, Generic[ItemT], frozen=True, kw_only=True):
    items: list[ItemT]
    pagination: Pagination
    next_query: Mapping[str, str] | None
    """The cursor of the next page; None after the last."""


class Items(Generic[ItemT]):
    """A list: iterate over its items or over its ``pages()``. Pages are fetched lazily."""

    def __init__(self, read_page: Callable[[Mapping[str, str] | None], Page[ItemT]]) -> None:
        self._read_page = read_page

    def __iter__(self) -> Iterator[ItemT]:
        for page in self.pages():
            yield from page.items

    def pages(self) -> Iterator[Page[ItemT]]:
        page = self._read_page(None)
        yield page
        while page.next_query is not None:
            page = self._read_page(page.next_query)
            yield page


class AsyncItems(Generic[ItemT]):
    """A list: iterate with ``async for`` over its items or over its ``pages()``. Pages are fetched lazily."""

    def __init__(self, read_page: Callable[[Mapping[str, str] | None], Awaitable[Page[ItemT]]]) -> None:
        self._read_page = read_page

    async def __aiter__(self) -> AsyncIterator[ItemT]:
        async for page in self.pages():
            for item in page.items:
                yield item

    async def pages(self) -> AsyncIterator[Page[ItemT]]:
        page = await self._read_page(None)
        yield page
        while page.next_query is not None:
            page = await self._read_page(page.next_query)
            yield page
