"""The protocol of the client without I/O: tokens, retries and errors.

Each request is a generator. It yields the next step (send, wait, get a token) and receives the result of the step. The
drivers, one for threads (``_threads.py``) and one for asyncio (``_tasks.py``), only send and sleep. ::

    Token ──► Send ──► response? ── yes ─────────────────────────► result
      ▲                  │ 401: another token, once
      │                  │ no response, 429, 503, OUTCOME_UNKNOWN
      └──── Wait ◄───────┘ if a retry is safe
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from pixconnect_client._call import Answer, Call, read_record
from pixconnect_client.enums import ErrorCode
from pixconnect_client.errors import ApiError, InvalidArgument, NoAnswer, PixConnectError, error_class
from pixconnect_client.version import __version__

AnswerT = TypeVar("AnswerT")

RENEWED_BEFORE_S = 30
"""Renew a token this long before it expires, or after half its lifetime if that is earlier."""
BACKOFF_S = 0.25
BACKOFF_MAX_S = 8.0
RETRY_AFTER_MAX_S = 60.0
"""If the service asks for a longer wait, raise the error at once."""

_TRANSIENT = {ErrorCode.OUTCOME_UNKNOWN, ErrorCode.RATE_LIMITED, ErrorCode.SERVICE_UNAVAILABLE}
_CODES = {
    401: ErrorCode.UNAUTHORIZED,
    403: ErrorCode.FORBIDDEN,
    404: ErrorCode.NOT_FOUND,
    405: ErrorCode.METHOD_NOT_ALLOWED,
    413: ErrorCode.PAYLOAD_TOO_LARGE,
    429: ErrorCode.RATE_LIMITED,
    500: ErrorCode.INTERNAL_ERROR,
    503: ErrorCode.SERVICE_UNAVAILABLE,
    504: ErrorCode.OUTCOME_UNKNOWN,
}
"""By status, of the operations whose errors have another form; any other is BAD_REQUEST."""
_LOGIN_PATH = "/v1/iam/users/login"


@dataclass(frozen=True, kw_only=True)
class Send:
    """Step: send this request. The driver returns an ``Answer`` or raises ``NoAnswer``."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes | None = field(repr=False)
    timeout_s: float
    is_streamed: bool = False


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Step: sleep."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class Token:
    """Step: get a token by ``Core.log_in``, one login at a time."""

    refused: str = field(default="", repr=False)
    """A token that the service has rejected."""


Step = Send | Wait | Token
Conversation = Generator[Step, Any, AnswerT]


class _IssuedToken(msgspec.Struct):
    access_token: str
    expires_in: int


class Core:
    """One client of the service: its addresses and credentials, and the access token that all requests share."""

    def __init__(
        self,
        base_url: str,
        client_id: str,
        client_secret: str,
        *,
        auth_url: str | None,
        timeout_s: float,
        retries: int,
        monotonic_s: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.base_url = _check_url("base_url", base_url)
        self.auth_url = _check_url("auth_url", auth_url or base_url)
        self._grant = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": client_secret}
        self._timeout_s = timeout_s
        self._retries = retries
        self._monotonic_s = monotonic_s
        self._jitter = jitter
        self._token = ""
        self._renew_at_s = float("-inf")
        self._agent = f"pixconnect-client/{__version__} python/{sys.version_info[0]}.{sys.version_info[1]}"

    @property
    def is_encrypted(self) -> bool:
        """Whether any address uses https."""
        return any(url.lower().startswith("https:") for url in (self.base_url, self.auth_url))

    @property
    def is_local(self) -> bool:
        """Whether all addresses are on this machine."""
        return all(_is_loopback(urlsplit(url).hostname or "") for url in (self.base_url, self.auth_url))

    def converse(self, call: Call[AnswerT]) -> Conversation[AnswerT]:
        """Send a request and retry it while that is safe, until there is a response."""
        is_unsure = False
        for attempt in itertools.count():
            try:
                return (yield from self._try(call))
            except UnicodeEncodeError as error:
                raise InvalidArgument(f"{error.object!r}: cannot be sent, since it has half a surrogate pair") from None
            except PixConnectError as error:
                # Once an attempt may have taken effect, a later error response does not rule that out: it may still be running.
                is_unsure = is_unsure or (error.may_have_happened and not call.is_read)
                error.may_have_happened = is_unsure
                error.external_id = call.external_id
                delay_s = self._find_delay(call, error, attempt)
                if delay_s is None:
                    raise
            yield Wait(seconds=delay_s)
        raise AssertionError("retries end")

    def log_in(self, refused: str = "") -> Conversation[str]:
        """Return the current token, or a new one if it is missing, expiring or rejected."""
        if self._token != refused and self._monotonic_s() < self._renew_at_s:
            return self._token
        # Count its lifetime from before the request, since the response may be slow.
        asked_s = self._monotonic_s()
        try:
            answer = yield self._write_login()
            issued = _read(Call(method="POST", path=_LOGIN_PATH, read=read_record(_IssuedToken)), answer)
        except PixConnectError as error:
            error.is_of_login = True
            error.may_have_happened = False
            raise
        self._token = issued.access_token
        self._renew_at_s = asked_s + issued.expires_in - min(RENEWED_BEFORE_S, issued.expires_in / 2)
        return self._token

    def _try(self, call: Call[AnswerT]) -> Conversation[AnswerT]:
        token: str = (yield Token()) if call.is_authorized else ""
        answer: Answer = yield self._write(call, token)
        if answer.status == 401 and call.is_authorized:
            # Nothing was done: the service checks the token before anything else.
            token = yield Token(refused=token)
            answer = yield self._write(call, token)
        return _read(call, answer)

    def _write(self, call: Call[Any], token: str) -> Send:
        headers = {"Accept": "*/*", "User-Agent": self._agent}
        if call.is_authorized:
            headers["Authorization"] = f"Bearer {token}"
        content = None
        if call.body is not None:
            headers["Content-Type"] = "application/json"
            content = msgspec.json.encode(call.body)
        query = f"?{urlencode(call.query)}" if call.query else ""
        return Send(
            method=call.method,
            url=f"{self.auth_url if call.is_identity else self.base_url}{call.address}{query}",
            headers=headers,
            content=content,
            timeout_s=self._timeout_s + call.extra_timeout_s,
            is_streamed=call.is_streamed,
        )

    def _write_login(self) -> Send:
        return Send(
            method="POST",
            url=f"{self.auth_url}{_LOGIN_PATH}",
            headers={"Content-Type": "application/x-www-form-urlencoded", "User-Agent": self._agent},
            content=urlencode(self._grant).encode(),
            timeout_s=self._timeout_s,
        )

    def _find_delay(self, call: Call[Any], error: PixConnectError, attempt: int) -> float | None:
        """Return the seconds until the next attempt, or None if there is none."""
        # A failed login has no effect, so any request may be retried after it.
        is_safe = call.is_repeatable or error.is_of_login
        if attempt >= self._retries or not is_safe or not _is_transient(error):
            return None
        asked_s = (error.retry_after_s or 0) if isinstance(error, ApiError) else 0
        if asked_s > RETRY_AFTER_MAX_S:
            return None
        backoff_s = min(BACKOFF_MAX_S, BACKOFF_S * 2 ** min(attempt, 16))
        # Add jitter, also to Retry-After: clients that were rejected together would otherwise return together.
        return asked_s + backoff_s * (1 + self._jitter()) / 2


def _is_transient(error: PixConnectError) -> bool:
    match error:
        case NoAnswer():
            return error.is_transient
        case ApiError():
            return error.code in _TRANSIENT
        case _:
            return False


def _read(call: Call[AnswerT], answer: Answer) -> AnswerT:
    if not (200 <= answer.status < 300 or answer.status in call.also_reads):
        raise _read_failure(call, answer)
    try:
        return call.read(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        message = f"{call.method} {call.path}: the response is not from this service: {error}"
        raise NoAnswer(message, may_have_happened=True, is_transient=False) from None


def _read_failure(call: Call[Any], answer: Answer) -> PixConnectError:
    request_id, code = answer.headers.get("x-request-id", ""), _CODES.get(answer.status, ErrorCode.BAD_REQUEST)
    try:
        found = msgspec.json.decode(answer.content, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found = dict[str, Any]()
    details: dict[str, Any]
    match found:
        case {"error": {"code": str(name), "message": str(message), **details}}:
            code = ErrorCode(name)
            meta: dict[str, Any] = found.get("meta") or {}
            request_id = str(meta.get("request_id") or request_id)
        # The central bank's API and OAuth have forms of their own.
        case {"type": str(), "detail": str(message), "correlationId": str(request_id), **details}:
            details |= {"type": found["type"]}
            rules: list[dict[str, str]] = found.get("violacoes") or []
            message = "; ".join([message, *(f"{rule.get('propriedade')}: {rule.get('razao')}" for rule in rules)])
        case {"error": str(), "error_description": str(message)}:
            details = found
        case _:
            # A proxy responded in place of the service. Redirects are not followed: the token must not reach another host.
            return NoAnswer(
                f"{call.method} {call.path}: the response, with status {answer.status}, is not from this service",
                may_have_happened=True,
                is_transient=answer.status >= 500,
            )
    retry_after = answer.headers.get("retry-after", "")
    return error_class(answer.status, code)(
        answer.status,
        code,
        message,
        request_id=request_id,
        details=details,
        retry_after_s=float(retry_after) if retry_after.isdecimal() and len(retry_after) < 10 else None,
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _check_url(name: str, url: str) -> str:
    with suppress(ValueError):  # of a port, or of an address in brackets
        parts = urlsplit(url)
        is_clean = url.isprintable() and not set(url) & {" ", "?", "#"}
        if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 and is_clean:
            return url.rstrip("/")
    raise InvalidArgument(f"{name}: must be a URL such as https://pix.example, not {url!r}")
