"""Exceptions of this package.

::

    PixConnectError
     ├── ApiError            an error response: status, code, message, request_id
     │    ├── InvalidRequest  400, 405, 413, 422: will fail again without a change
     │    │    └── Conflict    the external_id belongs to another request
     │    ├── Unauthorized    401
     │    ├── Forbidden       403: the client lacks the scope
     │    ├── NotFound        404
     │    ├── CursorExpired   410: events before the cursor are no longer kept
     │    ├── RateLimited     429: retry_after_s
     │    └── Unavailable     5xx
     ├── NoAnswer            no response, or one that cannot be read
     ├── InvalidArgument     nothing was sent; also a ValueError
     └── InvalidWebhook      a webhook with a wrong signature
          └── UnknownSigningKey

``may_have_happened`` is the one question after an error: only where it is true can what was asked for be done all the same.
Then ask by ``external_id``, or send the same again under the same one, until there is an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pixconnect_client.enums import ErrorCode


class PixConnectError(Exception):
    """Base class of all exceptions of this package."""

    may_have_happened: bool = False
    """Whether the request may have taken effect despite the error, by this attempt or an earlier one."""
    external_id: str | None = None
    """The idempotency key of the request, also if the client generated it; None if a retry is not safe."""
    is_of_login: bool = False
    """Whether the login failed, so that the request was not sent."""


class NoAnswer(PixConnectError):  # noqa: N818  it is what happened
    """No response, or one that cannot be read."""

    def __init__(self, message: str, *, may_have_happened: bool = False, is_transient: bool = True) -> None:
        super().__init__(message)
        self.may_have_happened = may_have_happened
        self.is_transient = is_transient


class InvalidArgument(PixConnectError, ValueError):  # noqa: N818
    """An argument that cannot be sent: the id ``..``, an instant without a time zone. Nothing was sent."""


class ApiError(PixConnectError):
    """An error response of the service.

    Attributes:
        code: The error code; see the reference of errors.
        message: Text for people, with the field and the rule.
        details: Other members of the response.
        request_id: Quote this id in support requests.
        retry_after_s: Seconds to wait before a retry, if the service gave them.
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
        # With this code the service itself cannot determine the outcome.
        self.may_have_happened = code in {ErrorCode.OUTCOME_UNKNOWN, ErrorCode.INTERNAL_ERROR}

    def __str__(self) -> str:
        return f"{self.code}: {self.message} (request {self.request_id})"


class InvalidRequest(ApiError):  # noqa: N818  as all below
    """The request will fail again unless it, or something else such as the balance or a limit, changes."""


class Conflict(InvalidRequest):
    """The ``external_id`` belongs to another request."""


class Unauthorized(ApiError):  # noqa: N818
    """The client id or secret is wrong, or the client is disabled."""


class Forbidden(ApiError):  # noqa: N818
    """The client lacks the scope."""


class NotFound(ApiError):  # noqa: N818
    """The holder has no resource with this id."""


class CursorExpired(ApiError):  # noqa: N818
    """The cursor is older than the retention of events. Start again without a cursor and expect a gap."""


class RateLimited(ApiError):  # noqa: N818
    """Rate limit exceeded; retry after ``retry_after_s``."""


class Unavailable(ApiError):  # noqa: N818
    """The service is unavailable, or cannot determine the outcome."""


class InvalidWebhook(PixConnectError):  # noqa: N818  it names what came
    """The webhook has a wrong signature or timestamp. The message gives the reason and contains no secret."""


class UnknownSigningKey(InvalidWebhook):
    """The key set lacks the signing key. Fetch it again, at most once a minute, and retry the check."""


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
