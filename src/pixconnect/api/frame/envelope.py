"""The envelope around every JSON answer, and the status of every error.

::

    {"success": true,  "data": ...,                          "meta": {"request_id", "timestamp", "version"}}
    {"success": true,  "data": [...],                        "meta": ..., "pagination": {...}}
    {"success": false, "error": {"code": ..., "message": ...}, "meta": ...}

A key that does not apply is left out. The envelope is put together from bytes, because only its parts need encoding.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
from msgspec import Struct, structs

from pixconnect.api.frame.wire import Instant
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_instant
from pixconnect.domain.frame.entropy import Entropy
from pixconnect.domain.frame.rate import RatePolicy

ItemT = TypeVar("ItemT")

VERSION: Final = "1.0"
JSON: Final = "application/json"

_RULES: Final = (
    "EXTERNAL_ID_CONFLICT AMOUNT_OUT_OF_RANGE LIMIT_EXCEEDED INVALID_PIX_KEY PIX_KEY_NOT_OWNED "
    "PIX_KEY_NOT_FOUND INVALID_TAX_ID INVALID_ACCOUNT INVALID_QR_CODE QR_CODE_EXPIRED "
    "QR_CODE_ALREADY_PAID AMOUNT_MISMATCH SAME_ACCOUNT HOLDER_BLOCKED ORIGINAL_NOT_REFUNDABLE "
    "REFUND_EXCEEDS_ORIGINAL REFUND_WINDOW_CLOSED REFUND_INFRACTION_OPEN INFRACTION_ANSWERED "
    "INFRACTION_CLOSED INSUFFICIENT_FUNDS INVALID_WEBHOOK_URL"
)
STATUSES: Final[Mapping[str, int]] = {
    "BAD_REQUEST": 400,
    "UNAUTHORIZED": 401,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "CURSOR_EXPIRED": 410,
    "PAYLOAD_TOO_LARGE": 413,
    **dict.fromkeys(_RULES.split(), 422),
    "RATE_LIMITED": 429,
    "INTERNAL_ERROR": 500,
    "SERVICE_UNAVAILABLE": 503,
    "OUTCOME_UNKNOWN": 504,
}
"""Every error code and its HTTP status."""

Headers = list[tuple[bytes, bytes]]

# It goes into headers and log lines as it is.
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_ITEMS_AT_ONCE: Final = 50
"""A page of 1,000 takes milliseconds, of which each request beside it would wait for all."""
_encode: Final = msgspec.json.Encoder().encode


class Listing(Struct, Generic[ItemT], frozen=True, kw_only=True):
    """The answer of a list operation: becomes ``data``, ``pagination`` and, where there is a next page, ``Link``."""

    items: Iterable[ItemT] | msgspec.Raw
    """In their wire form: made one by one while they are written, and ``Raw`` afterwards."""
    page: int
    """The number of the page, from 1."""
    page_size: int
    total_count: int
    """Items in the whole list."""
    has_next: bool | None = None
    """Known of a page by cursor; of one by number, ``total_count`` says it."""
    next_after: str = ""
    """The cursor to the next page; empty if there is none."""


class Meta(Struct, frozen=True, kw_only=True):
    """About the answer itself."""

    request_id: str
    """The caller's ``X-Request-Id``, or ours; keep it for questions."""
    timestamp: Instant
    """When it was answered."""
    version: str
    """The interface's version."""


class ErrorInfo(Struct, frozen=True, kw_only=True):
    """Why there is no ``data``."""

    code: str
    """For programs; stable."""
    message: str
    """For developers: names the field and the rule."""


class Pagination(Struct, frozen=True, kw_only=True):
    """Which page of the list this is."""

    page: int
    """This one, from 1."""
    page_size: int
    """Items a page."""
    total_items: int
    """Items in the whole list."""
    total_pages: int
    """0 when the list is empty."""
    has_next: bool
    """Whether there is a page after this one."""
    has_prev: bool
    """Whether there is a page before this one."""


def choose_request_id(given: bytes | None, entropy: Entropy) -> str:
    """The caller's name for a request where it has the right form, otherwise a UUIDv7."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode()
    return entropy.uuid7()


SUCCESS_HEAD: Final = b'{"success":true,"data":'
"""The octets before ``data``, for an answer that we send while we write it."""


def write_success_tail(request_id: str, now: datetime) -> bytes:
    """The octets after ``data``, for an answer that we send while we write it."""
    return b',"meta":%b}' % _meta(request_id, now)


async def write_items(listing: Listing[Any]) -> Listing[Any]:
    items = iter(cast("Iterable[object]", listing.items))
    written: list[bytes] = []
    while some := [_encode(item) for item in islice(items, _ITEMS_AT_ONCE)]:
        written += some
        # Between groups of items the event loop does other requests' work.
        if len(some) == _ITEMS_AT_ONCE:
            await asyncio.sleep(0)
    return structs.replace(listing, items=msgspec.Raw(b"[%b]" % b",".join(written)))


def write_success(answer: object, request_id: str, now: datetime) -> bytes:
    if type(answer) is Listing:
        return b'{"success":true,"data":%b,"meta":%b,"pagination":%b}' % (
            _encode(answer.items),  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]  any item
            _meta(request_id, now),
            _encode(paginate(answer.page, answer.page_size, answer.total_count, has_next=answer.has_next)),
        )
    return SUCCESS_HEAD + _encode(answer) + write_success_tail(request_id, now)


class Refused(Struct, frozen=True, kw_only=True):
    status: int
    content: bytes
    headers: Headers
    media_type: str = JSON


def refuse(error: errors.PixConnectError, request_id: str, now: datetime) -> Refused:
    info = ErrorInfo(code=error.code, message=error.message)
    content = b'{"success":false,"error":%b,"meta":%b}' % (_encode(info), _meta(request_id, now))
    return Refused(status=STATUSES[error.code], content=content, headers=error_headers(error))


def error_headers(error: errors.PixConnectError) -> Headers:
    match error:
        case errors.MethodNotAllowed():
            return [(b"allow", ", ".join(error.allowed).encode())]
        case errors.Unauthorized():
            return [(b"www-authenticate", b"Bearer")]
        case errors.RateLimited():
            retry_after = (b"retry-after", b"%d" % error.retry_after_s)
            return [
                retry_after,
                *([] if error.policy is None else rate_headers((error.policy, 0, error.retry_after_s))),
            ]
        case errors.ServiceUnavailable():
            return [(b"retry-after", b"%d" % error.retry_after_s)]
        case _:
            return []


def rate_headers(*rates: tuple[RatePolicy, int, int]) -> Headers:
    """Headers on rates: the policy, what is left of it, and seconds until there is more.

    Source:
        draft-ietf-httpapi-ratelimit-headers-10.

    Example:
        >>> rate_headers((RatePolicy(name="lookups", tokens_max=1000, refill_per_s=0.5), 0, 2))[1]
        (b'ratelimit', b'"lookups";r=0;t=2')
    """
    policies = [f'"{policy.name}";q={policy.tokens_max};w={policy.window_s}' for policy, _, _ in rates]
    left = [f'"{policy.name}";r={max(0, left)};t={reset_s}' for policy, left, reset_s in rates]
    return [(b"ratelimit-policy", ", ".join(policies).encode()), (b"ratelimit", ", ".join(left).encode())]


def paginate(page: int, page_size: int, total_count: int, *, has_next: bool | None = None) -> Pagination:
    """The numbers of a page; ``has_next``, if the caller knows it, overrides what the total says.

    Example:
        >>> paginate(2, 10, 11).total_pages
        2
    """
    # Rounded up: the last page need not be full.
    total_pages = -(-total_count // page_size)
    return Pagination(
        page=page,
        page_size=page_size,
        total_items=total_count,
        total_pages=total_pages,
        has_next=page < total_pages if has_next is None else has_next,
        has_prev=page > 1,
    )


def _meta(request_id: str, now: datetime) -> bytes:
    return f'{{"request_id":"{request_id}","timestamp":"{format_instant(now)}","version":"{VERSION}"}}'.encode()
