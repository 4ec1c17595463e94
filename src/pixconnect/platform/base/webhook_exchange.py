"""One attempt to post to a receiver, and what came back."""

from msgspec import Struct


class WebhookExchange(Struct, frozen=True, kw_only=True):
    status_code: int | None
    """``None`` where no answer came."""
    retry_after: str | None
    response: bytes
    error: str | None
    """Why the answer is missing or incomplete; ``None`` for a whole answer, with any status."""
    detail: str | None = None
    """More for the operator alone: the receiver's owner must not learn from us such things as which ports are open."""
    duration_us: int
