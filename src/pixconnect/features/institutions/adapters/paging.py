"""Lists in the central bank's form: an interval in windows, each of them in numbered pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.features.institutions.adapters.calls import Calls, read_required
from pixconnect.features.institutions.adapters.message import LIST_MAX
from pixconnect.features.institutions.adapters.wire import take_count, take_members, take_rows
from pixconnect.features.institutions.profiles.account_traits import Route
from pixconnect.platform.base.clock import format_instant

WINDOW: Final = timedelta(days=1)
"""The standard does not limit the span of a list, but institutions may."""
_PAGES_MAX: Final = 10_000


class PagedList(Struct, frozen=True, kw_only=True):
    route: Route
    path: str
    member: str = "pix"
    """The member with the rows."""
    query: Mapping[str, str] = {}
    page_size: int = 1000
    window: timedelta = WINDOW


async def list_rows(
    calls: Calls, listed: PagedList, since: datetime, until: datetime
) -> AsyncGenerator[Sequence[object]]:
    """Yield pages of raw rows; raises ``InstitutionUnavailable`` if a whole page is unreadable."""

    def read(members: Mapping[str, object]) -> tuple[Sequence[object], int]:
        paging = take_members(take_members(members, "parametros"), "paginacao")
        return take_rows(members, listed.member), take_count(paging, "quantidadeDePaginas", _PAGES_MAX)

    for begin, end in split(since, until, listed.window):
        # Instants without milliseconds are accepted everywhere; the truncated second is read too.
        span = {"inicio": format_second(begin), "fim": format_second(end + timedelta(seconds=1))}
        number, count = 0, 1
        while number < count:
            page = {"paginacao.paginaAtual": str(number), "paginacao.itensPorPagina": str(listed.page_size)}
            query = {**span, **listed.query, **page}
            content = await calls.read(listed.route, listed.path, query, body_max=LIST_MAX)
            rows, count = read_required(calls, content, lambda content=content: read(content.members))
            yield rows
            number += 1


def split(since: datetime, until: datetime, window: timedelta = WINDOW) -> list[tuple[datetime, datetime]]:
    """Split an interval into parts that share their ends, oldest first.

    Example:
        >>> from datetime import datetime
        >>> [begin.day for begin, _ in split(datetime(2026, 1, 1), datetime(2026, 1, 3, 12))]
        [1, 2, 3]
    """
    parts = list[tuple[datetime, datetime]]()
    while since < until or not parts:
        parts.append((since, min(since + window, until)))
        since += window
    return parts


def format_second(instant: datetime) -> str:
    return f"{format_instant(instant)[:19]}Z"
