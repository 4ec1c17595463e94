"""Pages of a list, each continuing the one before: a request's page, and the link to the next one."""

from collections.abc import Iterable
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote_to_bytes

import msgspec
from msgspec import Struct

from pixconnect.doors.api.envelope import Listing, ListQuery
from pixconnect.doors.api.operation import Nothing, ParameterT, Request
from pixconnect.kernel.rules.listing import Page, Span, read_cursor, write_cursor
from pixconnect.platform.base import errors

QueryT = TypeVar("QueryT", bound=ListQuery)
ShownT = TypeVar("ShownT")

_OF_THE_PAGE: Final = frozenset({"page", "page_size", "after"})


class PageRequest(Struct, frozen=True, kw_only=True):
    span: Span
    listed: bytes  # the list's identity, holder and filters, as octets for the check

    def show(self, page: Page[Any], items: Iterable[ShownT]) -> Listing[ShownT]:
        span = self.span
        return Listing(
            items=items,
            # By cursor, pages are counted from the caller's start, rounded up to a whole page.
            page=span.page if span.after is None else -(-span.position // span.page_size) + 1,
            page_size=span.page_size,
            total_count=page.total_count,
            has_next=None if span.after is None else page.next is not None,
            next_after="" if page.next is None else write_cursor(page.next, self.listed),
        )


def read_asked(name: str, request: Request[ParameterT, QueryT, Nothing]) -> PageRequest:
    """Read which page of a list a request asks for; two paths to one list have the same name."""
    query = request.query
    fields = {field: getattr(query, field) for field in query.__struct_fields__ if field not in _OF_THE_PAGE}
    # Filters that are left out are not hashed, so a list may gain a filter and yesterday's cursors stay valid.
    filters = {field: value for field, value in fields.items() if value is not None}
    listed = msgspec.json.encode([name, request.caller.holder_id, request.parameter, filters])
    after = None
    if query.after is not None:
        if query.page > 1:
            raise errors.BadRequest("after: must not be given together with a page greater than 1")
        after = read_cursor(query.after, listed)
    span = Span(
        page=query.page, page_size=query.page_size, initial_at=query.initial_date, final_at=query.final_date, after=after
    )
    return PageRequest(span=span, listed=listed)


def link_next(base_url: str, path: bytes, query: bytes, next_after: str) -> tuple[bytes, bytes]:
    """The header that leads to the next page: the same address with ``after``, and without ``page``.

    Source:
        RFC 8288, 3; the relation ``next`` of RFC 5005.

    Example:
        >>> link_next("https://pix.example", b"/v1/webhook/events", b"page=3&page_size=50", "AQID")[1]
        b'<https://pix.example/v1/webhook/events?page_size=50&after=AQID>; rel="next"'
    """
    kept: list[str] = []
    # Encoded again, since the query is the caller's and the header is ours.
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        if part and unquote_to_bytes(name) not in (b"page", b"after"):
            kept.append(f"{quote(unquote_to_bytes(name))}={quote(unquote_to_bytes(value), safe=':')}")
    address = f"{base_url}{path.decode('ascii')}?{'&'.join([*kept, f'after={next_after}'])}"
    return b"link", f'<{address}>; rel="next"'.encode()
