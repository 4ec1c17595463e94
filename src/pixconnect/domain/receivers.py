"""The port to other people's webhook receivers: anything may be at the other end.

Whoever implements it bounds every exchange in time and size, connects only to addresses that it has judged, and follows
nothing. An attempt never raises: whatever a receiver does is an outcome, in words that its owner can act on.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class Exchange(Struct, frozen=True, kw_only=True):
    """What came of one POST.

    Attributes:
        status_code: Of the answer; ``None`` where there was none.
        retry_after: The header of that name, unread.
        response: The answer's first KiB.
        error: Why there is no answer, or none that is whole; ``None`` where there is one, whatever its status.
        detail: Why, for the operator alone: what the receiver's owner must not learn from us, such as which ports are open.
        duration_us: From looking the name up to the last byte, in microseconds.
    """

    status_code: int | None
    retry_after: str | None
    response: bytes
    error: str | None
    detail: str | None = None
    duration_us: int


class Receivers(Protocol):
    """Posts to URLs that holders have chosen."""

    async def check_url(self, url: str) -> None:
        """Judge a URL before it is kept: its form, and every address that its name leads to now.

        Raises:
            InvalidWebhookUrl: It may not be used; the message says which rule it breaks.
        """
        ...

    async def post(self, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> Exchange:
        """Post once, under the same rules, to an address that was judged just now."""
        ...
