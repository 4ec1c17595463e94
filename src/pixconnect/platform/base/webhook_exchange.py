"""One attempt to post to a receiver, and its result."""

from msgspec import Struct


class WebhookExchange(Struct, frozen=True, kw_only=True):
    status_code: int | None  # ``None`` without an answer
    retry_after: str | None
    response: bytes
    error: str | None  # why there is no complete answer; ``None`` for a complete one, with any status
    # Further details for the operator alone: the receiver's owner must not learn from us which ports are open.
    detail: str | None = None
    duration_us: int
