"""The port to webhook receivers, which may be anything.

An implementation bounds every exchange in time and size, connects only to addresses that it has judged, and follows no
redirects. An attempt never raises: whatever a receiver does is an outcome, in words that its owner can act on.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class WebhookExchange(Struct, frozen=True, kw_only=True):
    status_code: int | None
    """``None`` where no answer came."""
    retry_after: str | None
    response: bytes
    error: str | None
    """Why there is no whole answer; ``None`` where there is one, whatever its status."""
    detail: str | None = None
    """More for the operator alone: the receiver's owner must not learn from us such things as which ports are open."""
    duration_us: int


class Receivers(Protocol):
    async def check_url(self, url: str) -> None:
        """Judge a URL before it is saved, by its form and by every address that its name leads to now."""
        ...

    async def post(self, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> WebhookExchange:
        """Post once, under the same rules, to an address that we have just checked."""
        ...
