"""The envelope around every JSON answer, the status of every error, and types that several resources share.

::

    {"success": true,  "data": ...,                          "meta": {"request_id", "timestamp", "version"}}
    {"success": true,  "data": [...],                        "meta": ..., "pagination": {...}}
    {"success": false, "error": {"code": ..., "message": ...}, "meta": ...}

A key that does not apply is left out. The envelope is joined from bytes, because only its parts need encoding.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Annotated, Any, Final, Generic, TypeVar, cast

import msgspec
from msgspec import Struct, structs

from pixconnect.doors.api.decoding import HUGE
from pixconnect.kernel.feature import gather
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS, AMOUNT_MIN_CENTS
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import RatePolicy, format_instant
from pixconnect.platform.base.entropy import Entropy

# Far beyond any list, and exactly countable in JavaScript.
PAGE_MAX: Final = 2**53
PAGE_SIZE_MAX: Final = 1000

Amount = Annotated[
    int,
    msgspec.Meta(
        description="Cents, without a fraction.", extra_json_schema={"minimum": AMOUNT_MIN_CENTS, "maximum": AMOUNT_MAX_CENTS}
    ),
]
"""Any integer is decoded: use cases check the range, after a possible replay, and with their own error code."""

Cents = Annotated[int, msgspec.Meta(description="Cents.", examples=[1234])]

# Below 2^53, so that a JavaScript program reads each id exactly.
Id = Annotated[int, msgspec.Meta(description="Below 2^53.", extra_json_schema={"minimum": 1, "maximum": 2**53 - 1})]

Instant = Annotated[
    str, msgspec.Meta(description="RFC 3339, UTC, with microseconds.", extra_json_schema={"format": "date-time"})
]
"""Made by ``format_instant``; read by ``read_instant``."""

ExternalId = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=255,
        description="Your own unique name for it, which makes a repeated request safe; the service makes one otherwise.",
    ),
]


class ListQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The page of a list."""

    page: Annotated[int, msgspec.Meta(ge=1, le=PAGE_MAX)] = 1
    """From 1. Exact, and slower the further down; to read a whole list use `after`."""
    page_size: Annotated[int, msgspec.Meta(ge=1, le=PAGE_SIZE_MAX)] = 10
    """Items a page."""
    after: str | None = None
    """Instead of `page`: the cursor out of the last answer's `Link` header. As fast at any depth."""
    initial_date: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """The oldest `create_timestamp` included. RFC 3339 with an offset."""
    final_date: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """The newest `create_timestamp` included. RFC 3339 with an offset."""


AMOUNT_ON_THE_WIRE: Final = dict(amount_cents="amount")  # the name of an amount in requests


class BoundedAmount:
    """A request that is passed on unchanged, except that ``clamp_cents`` cuts its amount."""

    __slots__ = ()
    amount_cents: int

    def __post_init__(self) -> None:
        bounded = clamp_cents(self.amount_cents)
        if bounded != self.amount_cents:
            # Frozen, but not yet shared.
            structs.force_setattr(cast("Struct", self), "amount_cents", bounded)


def clamp_cents(amount: int) -> int:
    """Cut a huge amount, which could not be fingerprinted, to one that is still out of range."""
    return amount if -HUGE <= amount <= HUGE else HUGE if amount > 0 else -HUGE


def format_duration(duration_s: float) -> str:
    """Write a duration in the unit that suits it.

    Example:
        >>> format_duration(0.00127), format_duration(11525.4)
        ('1.27ms', '3h12m5s')
    """
    # The contract's examples have the form of Go's durations.
    if duration_s < 0.001:
        return f"{round(duration_s * 1e6)}µs"
    if duration_s < 1:
        return f"{duration_s * 1e3:.2f}ms"
    if duration_s < 60:
        return f"{duration_s:.2f}s"
    minutes, seconds = divmod(int(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{seconds}s" if hours else f"{minutes}m{seconds}s"


ItemT = TypeVar("ItemT")

VERSION: Final = "1.0"
JSON: Final = "application/json"

_STATUSES: Final[Mapping[str, int]] = {
    "BAD_REQUEST": 400,
    "UNAUTHORIZED": 401,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "CURSOR_EXPIRED": 410,
    "PAYLOAD_TOO_LARGE": 413,
    "RATE_LIMITED": 429,
    "INTERNAL_ERROR": 500,
    "SERVICE_UNAVAILABLE": 503,
    "OUTCOME_UNKNOWN": 504,
}
_RULE_BROKEN: Final = 422


@cache
def list_statuses() -> Mapping[str, int]:
    """Return the HTTP status of every error code, those of features too."""
    of_features = cast("Sequence[type[errors.RuleBroken]]", gather("refusals", type))
    found = _STATUSES | {kind.code: _RULE_BROKEN for kind in (*errors.RULES, *of_features)}
    return dict(sorted(found.items(), key=lambda row: row[1]))


def find_status(code: str) -> int:
    return _STATUSES.get(code, _RULE_BROKEN)


Headers = list[tuple[bytes, bytes]]

# It goes into headers and log lines as it is.
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_ITEMS_AT_ONCE: Final = 50  # a page of 1,000 takes milliseconds, and each concurrent request would wait for all of them
_encode: Final = msgspec.json.Encoder().encode


class Listing(Struct, Generic[ItemT], frozen=True, kw_only=True):
    """The answer of a list operation: becomes ``data``, ``pagination`` and, if there is a next page, ``Link``."""

    # As JSON records: made one by one while they are written, and ``Raw`` afterwards.
    items: Iterable[ItemT] | msgspec.Raw
    page: int  # the number of the page, from 1
    page_size: int
    total_count: int  # items in the whole list
    has_next: bool | None = None  # known for a page by cursor; for one by number, ``total_count`` determines it
    next_after: str = ""  # the cursor to the next page; empty if there is none


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
    """Return the caller's name for a request if it has the right form, otherwise a UUIDv7."""
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode()
    return entropy.uuid7()


SUCCESS_HEAD: Final = b'{"success":true,"data":'  # the octets before ``data``, for an answer that we send while we write it


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
    return b'{"success":true,"data":%b,"meta":%b}' % (_encode(answer), _meta(request_id, now))


class Refused(Struct, frozen=True, kw_only=True):
    status: int
    content: bytes
    headers: Headers
    media_type: str = JSON


def refuse(error: errors.PixConnectError, request_id: str, now: datetime) -> Refused:
    info = ErrorInfo(code=error.code, message=error.message)
    content = b'{"success":false,"error":%b,"meta":%b}' % (_encode(info), _meta(request_id, now))
    return Refused(status=find_status(error.code), content=content, headers=error_headers(error))


def error_headers(error: errors.PixConnectError) -> Headers:
    match error:
        case errors.MethodNotAllowed():
            return [(b"allow", ", ".join(error.allowed).encode())]
        case errors.Unauthorized():
            return [(b"www-authenticate", b"Bearer")]
        case errors.RateLimited():
            retry_after = (b"retry-after", b"%d" % error.retry_after_s)
            return [retry_after, *([] if error.policy is None else rate_headers((error.policy, 0, error.retry_after_s)))]
        case errors.ServiceUnavailable():
            return [(b"retry-after", b"%d" % error.retry_after_s)]
        case _:
            return []


def rate_headers(*rates: tuple[RatePolicy, int, int]) -> Headers:
    """Make headers on rates: the policy, the remainder, and seconds until there is more.

    Source: draft-ietf-httpapi-ratelimit-headers-10.

    Example:
        >>> rate_headers((RatePolicy(name="lookups", tokens_max=1000, refill_per_s=0.5), 0, 2))[1]
        (b'ratelimit', b'"lookups";r=0;t=2')
    """
    policies = [f'"{policy.name}";q={policy.tokens_max};w={policy.window_s}' for policy, _, _ in rates]
    left = [f'"{policy.name}";r={max(0, left)};t={reset_s}' for policy, left, reset_s in rates]
    return [(b"ratelimit-policy", ", ".join(policies).encode()), (b"ratelimit", ", ".join(left).encode())]


def paginate(page: int, page_size: int, total_count: int, *, has_next: bool | None = None) -> Pagination:
    """Return the numbers of a page; a known ``has_next`` overrides the total.

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
