"""What can go wrong.

::

    PixConnectError
     ├── ApiError            the service said no: status, code, message, request_id
     │    ├── InvalidRequest  400, 405, 413, 422: as it stands it will never be accepted
     │    │    └── Conflict    the external_id is taken by something else
     │    ├── Unauthorized    401
     │    ├── Forbidden       403: the client lacks the scope
     │    ├── NotFound        404
     │    ├── CursorExpired   410: the feed begins later by now
     │    ├── RateLimited     429: retry_after_s
     │    └── Unavailable     5xx
     ├── NoAnswer            no answer came, or none that can be read
     └── InvalidWebhook      a webhook that is not from the service
          └── UnknownSigningKey

``may_have_happened`` is the one question after an error: only where it is true can what was asked for be done all the same.
Then ask by ``external_id``, or send the same again under the same one, until there is an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pixconnect_client.enums import ErrorCode


class PixConnectError(Exception):
    """Whatever this package raises about the service."""

    may_have_happened: bool = False
    """Whether what was asked for may be done all the same, by this try or by one before it."""
    external_id: str | None = None
    """What was asked for under, also where the client made it; none if it cannot be repeated safely."""
    is_of_login: bool = False
    """Whether no token could be had, so that what was asked for was not sent."""


class NoAnswer(PixConnectError):  # noqa: N818  it is what happened
    """No answer came, or none that can be read."""

    def __init__(self, message: str, *, may_have_happened: bool = False, is_transient: bool = True) -> None:
        super().__init__(message)
        self.may_have_happened = may_have_happened
        self.is_transient = is_transient


class ApiError(PixConnectError):
    """The service said no.

    Attributes:
        code: For programs; the reference of errors explains each.
        message: For people: names the field and the rule.
        details: What else the answer says.
        request_id: For questions about it.
        retry_after_s: How long the service asks to wait, if it does.
    """

    def __init__(
        self,
        status: int,
        code: ErrorCode,
        message: str,
        *,
        request_id: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(status, code, message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details or {}
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        # The service itself cannot say then what became of it.
        self.may_have_happened = code in {ErrorCode.OUTCOME_UNKNOWN, ErrorCode.INTERNAL_ERROR}

    def __str__(self) -> str:
        return f"{self.code}: {self.message} (request {self.request_id})"


class InvalidRequest(ApiError):  # noqa: N818  as all below
    """As it stands it will never be accepted, or not before something else changes: the balance, a limit."""


class Conflict(InvalidRequest):
    """The ``external_id`` is taken by something else."""


class Unauthorized(ApiError):  # noqa: N818
    """The client's id or secret is wrong, or it was disabled."""


class Forbidden(ApiError):  # noqa: N818
    """The client lacks the scope."""


class NotFound(ApiError):  # noqa: N818
    """Nothing of this holder has that name."""


class CursorExpired(ApiError):  # noqa: N818
    """The cursor is older than events are kept: begin again without one, and expect a gap."""


class RateLimited(ApiError):  # noqa: N818
    """Too much at once; ``retry_after_s`` says when there is more."""


class Unavailable(ApiError):  # noqa: N818
    """The service cannot do it now, or cannot say what became of it."""


class InvalidWebhook(PixConnectError):  # noqa: N818  it names what came
    """It is not from the service, or too old or too early; the message says why and holds nothing secret."""


class UnknownSigningKey(InvalidWebhook):
    """None of the given keys is the one that signed: read the key set again, at most once a minute, and try once more."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    410: CursorExpired,
    429: RateLimited,
}


def error_class(status: int, code: ErrorCode) -> type[ApiError]:
    if code == ErrorCode.EXTERNAL_ID_CONFLICT or status == 409:
        return Conflict
    return _BY_STATUS.get(status, Unavailable if status >= 500 else InvalidRequest)
