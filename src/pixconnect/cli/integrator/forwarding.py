"""Posts events to a program of the user's, signed as the service signs webhooks."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

import httpx2
import msgspec
from msgspec import Struct

from pixconnect.cli.failures import CommandError
from pixconnect.cli.integrator.event_search import FoundEvent
from pixconnect.domain.webhook_signature import message_id, request_headers

_ANSWERED_WITHIN_S: Final = 30.0
_FIELDS: Final = ("id", "name", "payload", "create_timestamp")


class Attempt(Struct, frozen=True, kw_only=True):
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
        return f"{self.status or self.error}  {self.duration_ms} ms"


class Forwarder:
    """One program that takes events.

    Args:
        address: Its URL, or less of it: 3000 is http://localhost:3000/.
    """

    def __init__(self, address: str, secret: str) -> None:
        self.url = _complete(address)
        self._secret = secret
        self._http = httpx2.AsyncClient(timeout=_ANSWERED_WITHIN_S, trust_env=False, follow_redirects=False)

    async def post(self, event: FoundEvent, number: int) -> Attempt:
        """Post an event once; `number` counts its attempts from 1."""
        body = msgspec.json.encode({name: event[name] for name in _FIELDS})
        # Whoever verifies compares the time with the machine's own; the key that signs a JWS is the service's alone.
        now = datetime.now(UTC)  # noqa: TID251
        headers = request_headers(
            [self._secret], message_id(event["id"]), body, jws="", attempt_number=number, real_now=now
        )
        began_s = time.monotonic()
        try:
            answer = await self._http.post(self.url, content=body, headers=[one for one in headers if one[1]])
        except httpx2.HTTPError as error:
            what = "no answer" if isinstance(error, httpx2.TimeoutException) else str(error) or type(error).__name__
            return Attempt(status=None, duration_ms=_passed_ms(began_s), error=what)
        return Attempt(status=answer.status_code, duration_ms=_passed_ms(began_s))

    async def close(self) -> None:
        await self._http.aclose()


def _complete(address: str) -> str:
    url = f"http://localhost:{address}/" if address.isdecimal() else address
    url = url if "://" in url else f"http://{url}"
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL:
        parts = httpx2.URL("")
    if parts.scheme not in {"http", "https"} or not parts.host:
        raise CommandError(f"--forward-to: must be an address such as http://localhost:3000/; it is {address!r}")
    return url


def _passed_ms(since_s: float) -> int:
    return round(1_000 * (time.monotonic() - since_s))
