"""Fetches and verifies what another institution serves behind its dynamic QR code.

::

    location ──GET──► compact JWS: header (alg kid jku x5t#S256) . payload . signature
                                             │
                jku, on the same host ──GET──► JWK set ──► the key of that kid and x5t#S256 ──► its chain leads to a CA
                                                                      └──► has signed ──► the payload is read

This is the port ``domain.standard.outside_location.Locations``. The QR code chooses the host, so all requests go through
``OutgoingHttp``, and a bound holds for each holder and for all together. ``InvalidQrCode`` says what the other side did
wrong; ``LocationUnreachable`` says that a later try may succeed.
"""

import asyncio
from typing import Final
from urllib.parse import urlsplit

import structlog

from pixconnect.adapters.certificate_chain import Trusted
from pixconnect.adapters.outgoing_http import ExchangeLimits, OutgoingHttp
from pixconnect.adapters.outside_location_payload import parse_payload
from pixconnect.adapters.outside_location_signature import (
    Jwk,
    PayloadHeader,
    parse_jws,
    refusal,
    select_key,
    verify_payload,
)
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import Clock
from pixconnect.domain.standard.outside_location import LocationUnreachable, OutsideCharge
from pixconnect.domain.webhooks.address_rules import Target, TargetRefused, parse_target
from pixconnect.flow.outgoing_limit import OutgoingLimit
from pixconnect.http.client import ConnectionFailed, ReceivedAnswer

BODY_LENGTH_MAX: Final = 64 * 1024
# One octet more than a body may have, so that we notice a longer one.
LIMITS: Final = ExchangeLimits(connect_s=5.0, exchange_s=10.0, body_kept_max=BODY_LENGTH_MAX + 1)
# How long an institution's keys are cached. An unknown ``kid`` asks again at once.
KEYS_CACHED_S: Final = 60.0
KEY_SETS_MAX: Final = 64
FETCHES_MAX: Final = 128
FETCHES_OF_HOLDER_MAX: Final = 32

_log = structlog.get_logger(__name__)


class LocationReader:
    """Reads the locations of outside institutions, and of the sandbox's merchants at this host and port."""

    def __init__(
        self,
        http: OutgoingHttp,
        clock: Clock,
        trusted: Trusted,
        *,
        allows_loopback: bool,
        sandbox_authority: str | None = None,
        exchange_s: float = LIMITS.exchange_s,
        key_sets_max: int = KEY_SETS_MAX,
    ) -> None:
        self._http = http
        self._exchange_s = exchange_s
        self._key_sets_max = key_sets_max
        self._clock = clock
        self._trusted = trusted
        self._allows_loopback = allows_loopback
        self._sandbox_authority = sandbox_authority
        self._limit = OutgoingLimit(FETCHES_MAX, holder_max=FETCHES_OF_HOLDER_MAX, what="readings of QR code locations")
        self._key_sets: dict[Target, tuple[float, bytes]] = {}

    async def read(self, location: str) -> OutsideCharge:
        target = self._parse_location(location)
        # One limit for both requests together and the wait for a permit: the caller waits for the answer.
        try:
            async with asyncio.timeout(self._exchange_s), self._limit.hold():
                signed = parse_jws(await self._fetch(target, "location"))
                key = await self._find_key(signed.header, target)
                trusted = await self._trusted()
                # Within the limit too: it is the holder's work, whatever came. Certificates do not follow the sandbox's clock.
                verify_payload(signed, key, target.host, trusted, self._clock.real_now())
        except TimeoutError:
            raise LocationUnreachable(f"not read within {self._exchange_s:g} s") from None
        except errors.ServiceUnavailable as error:
            raise LocationUnreachable(error.message) from error
        return parse_payload(signed.payload)

    async def close(self) -> None:
        await self._http.close()

    def _parse_location(self, location: str) -> Target:
        try:
            target = self._parse_target(f"https://{location}")
            # The sandbox's merchants have no TLS.
            if target.is_loopback_allowed:
                target = self._parse_target(f"http://{location}")
        except TargetRefused as refused:
            raise errors.InvalidQrCode(f"emv: its location {refused.reason}") from None
        return target

    def _parse_target(self, url: str) -> Target:
        is_ours = self._sandbox_authority is not None and urlsplit(url).netloc == self._sandbox_authority
        return parse_target(url, allows_loopback=self._allows_loopback or is_ours)

    def _parse_jku(self, jku: str, location: Target) -> Target:
        try:
            target = self._parse_target(jku)
        except TargetRefused as refused:
            raise refusal(f"signed with a key whose jku {refused.reason}") from None
        # The certificate must name this host, so keys from elsewhere would prove nothing about it.
        if target.host != location.host:
            raise refusal("signed with a key whose jku is on another host")
        return target

    async def _find_key(self, header: PayloadHeader, location: Target) -> Jwk:
        target = self._parse_jku(header.jku, location)
        fetched_s, kept = self._key_sets.get(target, (0.0, None))
        if kept is not None and self._clock.monotonic_s() - fetched_s < KEYS_CACHED_S:
            key = select_key(kept, header)
            if key is not None:
                return key
        fetched = await self._fetch(target, "jku")
        key = select_key(fetched, header)
        if key is None:
            raise refusal("signed with a key (kid, x5t#S256) that its jku does not have")
        self._keep(target, fetched)
        return key

    def _keep(self, target: Target, key_set: bytes) -> None:
        self._key_sets.pop(target, None)
        if len(self._key_sets) >= self._key_sets_max:
            del self._key_sets[next(iter(self._key_sets))]
        self._key_sets[target] = (self._clock.monotonic_s(), key_set)

    async def _fetch(self, target: Target, what: str) -> bytes:
        try:
            answer = await self._http.exchange(target, _request(target))
        except TargetRefused as refused:
            raise errors.InvalidQrCode(f"emv: its {what} {refused.reason}") from None
        except ConnectionFailed as failure:
            _log.info("QR code location not read", host=target.host, reason=failure.detail)
            raise LocationUnreachable(f"{what}: {failure.reason}") from failure
        if answer.status_code >= 500:
            raise LocationUnreachable(f"{what}: answered {answer.status_code}")
        if answer.status_code != 200:
            _log.info("QR code location not read", host=target.host, reason=f"answered {answer.status_code}")
            # We name the status only for loopback: nobody shall probe other hosts from our address.
            found = f"answered {answer.status_code} instead of 200" if target.is_loopback_allowed else "has no payload"
            raise errors.InvalidQrCode(f"emv: its {what} {found}")
        if _is_too_long(answer):
            raise errors.InvalidQrCode(f"emv: its {what} serves more than {BODY_LENGTH_MAX // 1024} KiB")
        if answer.error is not None:
            raise LocationUnreachable(f"{what}: {answer.error}")
        return answer.body


def _request(target: Target) -> bytes:
    lines = (
        f"GET {target.path} HTTP/1.1",
        f"Host: {target.authority}",
        "Accept: application/jose, application/jwk-set+json, application/json, */*",
        "Accept-Encoding: identity",
        "User-Agent: pixconnect",
        "\r\n",
    )
    return "\r\n".join(lines).encode("ascii")


def _is_too_long(answer: ReceivedAnswer) -> bool:
    # A connection cuts a body that is too long without an error.
    length = answer.headers.get("content-length", "")
    return len(answer.body) > BODY_LENGTH_MAX or (length.isdecimal() and int(length[:20]) > BODY_LENGTH_MAX)
