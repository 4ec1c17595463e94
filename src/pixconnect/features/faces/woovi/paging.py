"""Lists at Woovi: by a number to skip and a number to show."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Annotated, Final, TypeVar

from msgspec import Meta, Struct

from pixconnect.features.faces.frame import Shown
from pixconnect.features.pix_api.api.frame import Asked
from pixconnect.features.pix_api.api.violations import Violations, is_storable
from pixconnect.features.pix_api.service.pix import Instante
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.platform.base import errors

ItemT = TypeVar("ItemT")

NAME: Final = re.compile(r"[^\x00]{1,200}", re.DOTALL)
_LIMIT: Final = 100
_SKIP_MAX: Final = 1_000_000


class SliceQuery(Struct, frozen=True, kw_only=True):
    skip: Annotated[int, Meta(ge=0, le=_SKIP_MAX)] | None = None
    limit: Annotated[int, Meta(ge=1, le=_LIMIT)] | None = None
    start: Instante | None = None
    end: Instante | None = None


class Slice(Struct, frozen=True, kw_only=True):
    skip: int
    limit: int
    start: datetime | None
    end: datetime | None

    def describe(self, total_count: int) -> Shown:
        """Describe the page in the member ``pageInfo``."""
        return {
            "skip": self.skip,
            "limit": self.limit,
            "totalCount": total_count,
            "hasPreviousPage": self.skip > 0,
            "hasNextPage": self.skip + self.limit < total_count,
        }

    async def read(self, read: Callable[[Span], Awaitable[Page[ItemT]]]) -> tuple[Sequence[ItemT], Shown]:
        """Read the items and the page; two of our pages if it begins within one."""
        # Our lists have pages: the skipped number need not be a multiple of these.
        number, within = divmod(self.skip, self.limit)
        page = await read(self._span(number))
        items = page.items[within:]
        if within:
            items += (await read(self._span(number + 1))).items[:within]
        return items, self.describe(page.total_count)

    def _span(self, number: int) -> Span:
        return Span(page=number + 1, page_size=self.limit, initial_at=self.start, final_at=self.end)


def read_slice(violations: Violations, request: Asked) -> Slice:
    parameters = request.query.under(SliceQuery, violations)
    start, end = parameters.instant("start"), parameters.instant("end")
    if start is not None and end is not None and end < start:
        parameters.refuse("end", "não pode ser anterior a start")
    skip, limit = parameters.integer("skip"), parameters.integer("limit")
    return Slice(skip=skip or 0, limit=limit or _LIMIT, start=start, end=end)


def read_name(request: Asked) -> str:
    """Read the name in the path; an impossible name is not found."""
    (name,) = request.parameter
    if not NAME.fullmatch(name) or not is_storable(name):
        raise errors.NotFound("id: there is nothing of this name")
    return name
