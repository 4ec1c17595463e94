"""Types that several resources share on the wire: amounts, instants, names, and the queries of lists."""

from datetime import datetime
from typing import Annotated, Final, cast

from msgspec import Meta, Struct, structs

from pixconnect.api.frame.decoding import HUGE
from pixconnect.domain.frame.money import AMOUNT_MAX_CENTS, AMOUNT_MIN_CENTS

# Far beyond any list, and what JavaScript can still count exactly.
PAGE_MAX: Final = 2**53
PAGE_SIZE_MAX: Final = 1000

Amount = Annotated[
    int,
    Meta(
        description="Cents, without a fraction.",
        extra_json_schema={"minimum": AMOUNT_MIN_CENTS, "maximum": AMOUNT_MAX_CENTS},
    ),
]
"""Any integer is decoded: the domain checks the range, after it has looked for a replay, and with its own error code."""

Cents = Annotated[int, Meta(description="Cents.", examples=[1234])]

# Below 2^53, so that a JavaScript program reads each id exactly.
Id = Annotated[int, Meta(description="Below 2^53.", extra_json_schema={"minimum": 1, "maximum": 2**53 - 1})]

Instant = Annotated[
    str, Meta(description="RFC 3339, UTC, with microseconds.", extra_json_schema={"format": "date-time"})
]
"""Made by ``format_instant``; read by ``read_instant``."""

ExternalId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        description="Your own unique name for it, which makes a repeated request safe; the service makes one otherwise.",
    ),
]


class ListQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The page of a list."""

    page: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 1
    """From 1. Exact, and slower the further down; to read a whole list use `after`."""
    page_size: Annotated[int, Meta(ge=1, le=PAGE_SIZE_MAX)] = 10
    """Items a page."""
    after: str | None = None
    """Instead of `page`: the cursor out of the last answer's `Link` header. As fast at any depth."""
    initial_date: Annotated[datetime, Meta(tz=True)] | None = None
    """The oldest `create_timestamp` included. RFC 3339 with an offset."""
    final_date: Annotated[datetime, Meta(tz=True)] | None = None
    """The newest `create_timestamp` included. RFC 3339 with an offset."""


AMOUNT_ON_THE_WIRE: Final = dict(amount_cents="amount")
"""How an amount is called in requests."""


class BoundedAmount:
    """A request that is handed on as it is, with an amount that is cut where ``clamp_cents`` cuts it."""

    __slots__ = ()
    amount_cents: int

    def __post_init__(self) -> None:
        bounded = clamp_cents(self.amount_cents)
        if bounded != self.amount_cents:
            # Frozen, but nobody has seen it yet.
            structs.force_setattr(cast("Struct", self), "amount_cents", bounded)


def clamp_cents(amount: int) -> int:
    """An amount as it was sent; a huge one is cut to one that is still out of range, because it could not be fingerprinted."""
    return amount if -HUGE <= amount <= HUGE else HUGE if amount > 0 else -HUGE


def format_duration(duration_s: float) -> str:
    """A duration in the unit that suits it.

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
