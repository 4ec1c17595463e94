"""Posts webhooks over HTTP: the port ``domain.webhooks.receivers.Receivers``."""

import time
from collections.abc import Sequence
from typing import Final

from pixconnect.adapters.outgoing_http import ExchangeLimits, OutgoingHttp
from pixconnect.domain.frame import errors
from pixconnect.domain.webhooks.address_rules import (
    NO_HOSTS,
    NamedHosts,
    NotPublic,
    Target,
    TargetRefused,
    parse_target,
)
from pixconnect.domain.webhooks.delivery import WebhookExchange
from pixconnect.http.client import ConnectionFailed

# Half of the kept connections is as much as one holder may have under way: several endpoints of one holder often share
# an address.
LIMITS: Final = ExchangeLimits(connect_s=5.0, exchange_s=15.0, body_kept_max=1024, idle_max=256)
_TARGETS_MAX = 4096


class WebhookSender:
    def __init__(
        self, http: OutgoingHttp, *, allows_loopback: bool, named: NamedHosts = NO_HOSTS, hint: str = ""
    ) -> None:
        """Post to public hosts, and to those that are named.

        Args:
            hint: Advice for an owner whose host is not public.
        """
        self._http = http
        self._allows_loopback = allows_loopback
        self._named = named
        self._hint = hint
        self._targets: dict[str, Target] = {}

    async def check_url(self, url: str) -> None:
        try:
            await self._http.check(parse_target(url, allows_loopback=self._allows_loopback, named=self._named))
        except NotPublic as refused:
            raise errors.InvalidWebhookUrl(f"url: {refused.reason}{self._hint}") from refused
        except (TargetRefused, ConnectionFailed) as refused:
            raise errors.InvalidWebhookUrl(f"url: {refused.reason}") from refused

    async def post(self, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> WebhookExchange:
        started_ns = time.monotonic_ns()
        try:
            target = self._target(url)
            answer = await self._http.exchange(target, _request(target, headers, body))
        except TargetRefused as refused:
            return _failed(f"the URL {refused.reason}", started_ns)
        except ConnectionFailed as failure:
            return _failed(failure.reason, started_ns, failure.detail)
        return WebhookExchange(
            status_code=answer.status_code,
            retry_after=answer.headers.get("retry-after"),
            response=answer.body,
            error=answer.error,
            duration_us=_since_us(started_ns),
        )

    def _target(self, url: str) -> Target:
        # Parsed URLs are cached: an endpoint gets many deliveries.
        target = self._targets.get(url)
        if target is None:
            target = parse_target(url, allows_loopback=self._allows_loopback, named=self._named)
            if len(self._targets) >= _TARGETS_MAX:
                self._targets.clear()
            self._targets[url] = target
        return target


def _request(target: Target, headers: Sequence[tuple[str, str]], body: bytes) -> bytes:
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"Host: {target.authority}",
        *(f"{name}: {value}" for name, value in headers),
        "Accept: */*",
        "Accept-Encoding: identity",
        f"Content-Length: {len(body)}",
        "\r\n",
    ]
    return "\r\n".join(lines).encode("ascii") + body


def _failed(reason: str, started_ns: int, detail: str | None = None) -> WebhookExchange:
    return WebhookExchange(
        status_code=None, retry_after=None, response=b"", error=reason, detail=detail, duration_us=_since_us(started_ns)
    )


def _since_us(started_ns: int) -> int:
    return (time.monotonic_ns() - started_ns) // 1000
