"""Pages of a list that go on where the one before ended: what ``after`` holds, and the link to the next page.

A cursor is 39 octets in base64url: a version, four numbers (microseconds since 1970, id, position, total; see
``domain.listing.Cursor``), and a check over them and over the list: whose it is, under which filters. The check is no secret;
it only tells a cursor of this list from one of another. That nobody sees another holder's items is the work of the SQL, which
names the caller's holder whatever the cursor says. Callers may keep cursors, so a change of any of this needs a new version; an
old one may be refused, and the caller begins again at the first page.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote_to_bytes

import msgspec
from msgspec import Struct

from pixconnect.api.frame.envelope import Listing
from pixconnect.api.frame.operation import Nothing, ParameterT, Request
from pixconnect.api.frame.wire import ListQuery
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.listing import Cursor, Page, Span

QueryT = TypeVar("QueryT", bound=ListQuery)
ShownT = TypeVar("ShownT")

_VERSION: Final = 1
_NUMBERS: Final = struct.Struct(">BQQQQ")
# Enough to tell a mistake; a secret would need more.
_CHECK_SIZE: Final = 6
_SIZE: Final = _NUMBERS.size + _CHECK_SIZE
"""A multiple of three, so that the text needs no padding."""
_NUMBER_MAX: Final = 2**53 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LATEST: Final = datetime(9999, 12, 30, tzinfo=UTC)
_OF_THE_PAGE: Final = frozenset({"page", "page_size", "after"})
_NOT_OURS: Final = "after: must be a cursor that this list answered to you in a Link header, under the same filters"


class PageRequest(Struct, frozen=True, kw_only=True):
    """The page that a request asks for."""

    span: Span
    listed: bytes
    """Which list it is, whose, and under which filters, as octets for the check."""

    def show(self, page: Page[Any], items: Iterable[ShownT]) -> Listing[ShownT]:
        """The page on the wire, with a cursor to the next one."""
        span = self.span
        return Listing(
            items=items,
            # By cursor, pages are counted from where the caller began; where that was no whole page it is rounded up.
            page=span.page if span.after is None else -(-span.position // span.page_size) + 1,
            page_size=span.page_size,
            total_count=page.total_count,
            has_next=None if span.after is None else page.next is not None,
            next_after="" if page.next is None else write_cursor(page.next, self.listed),
        )


def read_asked(name: str, request: Request[ParameterT, QueryT, Nothing]) -> PageRequest:
    """Read which page of a list a request asks for; two paths to one list give the same name.

    Raises:
        BadRequest: The cursor is not one of this list, or there is a page number beside it.
    """
    query = request.query
    fields = {field: getattr(query, field) for field in query.__struct_fields__ if field not in _OF_THE_PAGE}
    # What is left out is not hashed, so a list may gain a filter and yesterday's cursors stay good.
    filters = {field: value for field, value in fields.items() if value is not None}
    listed = msgspec.json.encode([name, request.caller.holder_id, request.parameter, filters])
    after = None
    if query.after is not None:
        if query.page > 1:
            raise errors.BadRequest("after: must not stand beside a page greater than 1")
        after = read_cursor(query.after, listed)
    span = Span(
        page=query.page,
        page_size=query.page_size,
        initial_at=query.initial_date,
        final_at=query.final_date,
        after=after,
    )
    return PageRequest(span=span, listed=listed)


def write_cursor(cursor: Cursor, listed: bytes) -> str:
    """A cursor as text."""
    microseconds = (cursor.created_at - _EPOCH) // _MICROSECOND
    numbers = _NUMBERS.pack(_VERSION, microseconds, cursor.id, cursor.position, cursor.total_count)
    return urlsafe_b64encode(numbers + _check(numbers, listed)).decode()


def read_cursor(text: str, listed: bytes) -> Cursor:
    """Read a cursor, which callers can garble or make up.

    Raises:
        BadRequest: It is garbled, or not of this list, this caller and these filters.
    """
    try:
        octets = urlsafe_b64decode(text)
    except ValueError:
        raise errors.BadRequest(_NOT_OURS) from None
    numbers, check = octets[: _NUMBERS.size], octets[_NUMBERS.size :]
    # Python's decoder passes over what is no base64: written anew, the text must be the same.
    if len(octets) != _SIZE or urlsafe_b64encode(octets).decode() != text or check != _check(numbers, listed):
        raise errors.BadRequest(_NOT_OURS)
    version, microseconds, last_id, position, total_count = _NUMBERS.unpack(numbers)
    # Whoever makes a cursor up can make the check up too: PostgreSQL, Python and JSON must be able to hold its numbers.
    is_bounded = (
        microseconds <= (_LATEST - _EPOCH) // _MICROSECOND and max(last_id, position, total_count) <= _NUMBER_MAX
    )
    if version != _VERSION or not is_bounded:
        raise errors.BadRequest(_NOT_OURS)
    created_at = _EPOCH + timedelta(microseconds=microseconds)
    return Cursor(created_at=created_at, id=last_id, position=position, total_count=total_count)


def link_next(base_url: str, path: bytes, query: bytes, next_after: str) -> tuple[bytes, bytes]:
    """The header that leads to the next page: the same address with ``after``, and without ``page``.

    Source:
        RFC 8288, 3; the relation ``next`` of RFC 5005.

    Example:
        >>> link_next("https://pix.example", b"/v1/webhook/events", b"page=3&page_size=50", "AQID")[1]
        b'<https://pix.example/v1/webhook/events?page_size=50&after=AQID>; rel="next"'
    """
    kept: list[str] = []
    # Encoded anew, since the query is the caller's and the header is ours.
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        if part and unquote_to_bytes(name) not in (b"page", b"after"):
            kept.append(f"{quote(unquote_to_bytes(name))}={quote(unquote_to_bytes(value), safe=':')}")
    address = f"{base_url}{path.decode('ascii')}?{'&'.join([*kept, f'after={next_after}'])}"
    return b"link", f'<{address}>; rel="next"'.encode()


def _check(numbers: bytes, listed: bytes) -> bytes:
    return blake2b(numbers + listed, digest_size=_CHECK_SIZE).digest()
