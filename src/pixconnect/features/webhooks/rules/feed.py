"""The feed: a holder's events in an order that never changes, for programs that fetch them."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.event import Event, EventName, Resource
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer

PAGE_SIZE_MAX: Final = 1000
WAIT_MAX_S: Final = 30
"""Below the minute after which proxies give up."""


class FeedCursor(Struct, frozen=True, kw_only=True, order=True):
    """Where a feed continues."""

    position: int
    passed_count: int
    """The number of earlier events at this position."""


class FeedQuery(Struct, frozen=True, kw_only=True):
    """The query for a part of the feed."""

    cursor: FeedCursor | None = None
    start: Literal["oldest", "now"] = "oldest"
    """Where to begin without a cursor."""
    page_size: int = 100
    names: frozenset[EventName] | None = None
    resource: Resource | None = None
    any_id: str | None = None
    """Any id of a charge, transfer, refund or movement."""

    @property
    def is_filtered(self) -> bool:
        return not self.names == self.resource == self.any_id == None  # noqa: E711


class FeedEvent(Struct, frozen=True, kw_only=True):
    """An event, with the present state of its subject."""

    event: Event
    charge: Charge | None = None
    transfer: Transfer | None = None
    """For a paid charge, the payment."""
    refund: Refund | None = None
    next: FeedCursor
    """Continues after this event."""


class FeedPage(Struct, frozen=True, kw_only=True):
    events: list[FeedEvent]
    next: FeedCursor
    has_more: bool
    """Whether there is more now; a filter may leave a page empty before the end."""
