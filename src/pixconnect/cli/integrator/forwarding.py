"""Posts events to a program of the user's, signed as the service signs webhooks."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Final

import httpx2
import msgspec
from msgspec import Struct

from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.integrator.event_search import FoundEvent
from pixconnect.domain.webhooks.signature import message_id, request_headers

_ANSWERED_WITHIN_S: Final = 30.0
_PORT_MAX: Final = 65_535
_FIELDS: Final = ("id", "name", "payload", "create_timestamp")


class ForwardingAttempt(Struct, frozen=True, kw_only=True):
    """One POST and what came of it."""

    status: int | None
    """``None`` where no answer came."""
    duration_ms: int
    error: str | None = None

    @property
    def is_taken(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def said(self) -> str:
        return f"{self.status}  {self.duration_ms} ms" if self.status else f"{self.error} after {self.duration_ms} ms"


class Forwarder:
    """One program that takes events.

    Args:
        address: Its URL, or less of it: 3000 is http://localhost:3000/.
    """

    def __init__(self, address: str, secret: str) -> None:
        self.url = complete(address)
        self._secret = secret
        self._http = httpx2.AsyncClient(timeout=_ANSWERED_WITHIN_S, trust_env=False, follow_redirects=False)

    async def post(self, event: FoundEvent, number: int) -> ForwardingAttempt:
        """Post an event once; `number` counts its attempts from 1."""
        body = msgspec.json.encode({name: event[name] for name in _FIELDS})
        # The receiver compares the time with the machine's own clock; only the service has the key that signs a JWS.
        now = datetime.now(UTC)  # noqa: TID251
        headers = request_headers(
            [self._secret], message_id(event["id"]), body, jws="", attempt_number=number, real_now=now
        )
        began_s = time.monotonic()
        try:
            answer = await self._http.post(self.url, content=body, headers=[one for one in headers if one[1]])
        except httpx2.HTTPError as error:
            return ForwardingAttempt(status=None, duration_ms=_passed_ms(began_s), error=self._explain(error))
        return ForwardingAttempt(status=answer.status_code, duration_ms=_passed_ms(began_s))

    async def close(self) -> None:
        await self._http.aclose()

    def _explain(self, error: httpx2.HTTPError) -> str:
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
            address = httpx2.URL(self.url)
            return f"nothing answers at {address.host}:{address.port or (443 if address.scheme == 'https' else 80)}"
        return "no answer" if isinstance(error, httpx2.TimeoutException) else str(error) or type(error).__name__


def complete(address: str) -> str:
    """The URL to post to."""
    is_whole = "://" in address
    port = re.fullmatch(r":?([0-9]+)(?:/(.*))?", address)
    url = f"http://localhost:{port[1]}/{port[2] or ''}" if port else address if is_whole else f"http://{address}"
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL:
        parts = httpx2.URL("")
    # One bare word is rather a slip than the name of a machine.
    is_word = not (is_whole or parts.port or parts.host == "localhost" or "." in parts.host)
    if parts.scheme not in {"http", "https"} or not parts.host or is_word or not 0 < (parts.port or 1) <= _PORT_MAX:
        raise CommandError(
            f"--forward-to: must be an address such as http://localhost:3000/, or a port; it is {address!r}"
        )
    return url


def _passed_ms(since_s: float) -> int:
    return round(1_000 * (time.monotonic() - since_s))
