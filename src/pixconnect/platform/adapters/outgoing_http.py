"""Sends requests and webhooks to hosts that callers chose: limited in time and size, and only to checked addresses.

::

    exchange ─► look the name up ─► judge all answers ─► a kept connection to one of them, or a new one ─► one exchange

We connect to exactly the address that was checked and never resolve the name again; TLS and ``Host`` use the name. We do not
follow redirects, and read no environment variables such as a proxy.

The holder who chose the host sees why a connection failed only for loopback, the developer's own machine. For any other host
the reason is always the same sentence, so that our address cannot be used to scan ports.
"""

import asyncio
import ssl
import time
from collections.abc import Sequence
from functools import cache, lru_cache, partial
from typing import Final

from msgspec import Struct

from pixconnect.platform.adapters.name_lookup import NameLookups
from pixconnect.platform.base import errors
from pixconnect.platform.base.address_rules import (
    NO_HOSTS,
    NamedHosts,
    Network,
    NotPublic,
    Target,
    TargetRefused,
    check_addresses,
    parse_target,
)
from pixconnect.platform.base.webhook_exchange import WebhookExchange
from pixconnect.platform.environment import read_named_file
from pixconnect.platform.http.client import ConnectionFailed, HttpConnection, ReceivedAnswer
from pixconnect.platform.shared_look import SharedTimeout

IDLE_S: Final = 20.0

Address = tuple[str, str, str, int]  # scheme, name, address and port: a connection serves only the name it was made for


class IdleConnections:
    """Idle connections, half of them to one address at most; the oldest is closed first."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        # With the loop's time since when each is idle, the oldest first.
        self._idle: dict[HttpConnection, tuple[Address, float]] = {}
        self._of_address: dict[Address, list[HttpConnection]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._idle)

    def keep(self, address: Address, connection: HttpConnection) -> None:
        loop = asyncio.get_running_loop()
        self._idle[connection] = (address, loop.time())
        same = self._of_address.setdefault(address, [])
        same.append(connection)
        if len(same) > self._count_max // 2:
            self._close(same[0])
        elif len(self._idle) > self._count_max:
            self._close(next(iter(self._idle)))
        if self._sweep is None:
            self._sweep = loop.call_later(IDLE_S, self._close_idle)

    def take(self, address: Address) -> HttpConnection | None:
        same = self._of_address.get(address)
        while same:
            # The last used one, which the server is least likely to have closed.
            connection = same.pop()
            del self._idle[connection]
            if not same:
                del self._of_address[address]
            if connection.is_reusable:
                return connection
        return None

    def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        self._of_address.clear()

    def _close(self, connection: HttpConnection) -> None:
        address, _ = self._idle.pop(connection)
        same = self._of_address[address]
        same.remove(connection)
        if not same:
            del self._of_address[address]
        connection.close()

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for connection, (_, idle_since_s) in list(self._idle.items()):
            if now_s - idle_since_s >= IDLE_S or not connection.is_reusable:
                self._close(connection)
        self._sweep = loop.call_later(IDLE_S, self._close_idle) if self._idle else None


NO_CONNECTION: Final = "no connection: it was refused, took too long, or has no TLS certificate that can be trusted"
_ADDRESSES_TRIED_MAX: Final = 3


class ExchangeLimits(Struct, frozen=True, kw_only=True):
    connect_s: float = 5.0  # for the look-up, the connection and TLS together
    exchange_s: float = 15.0  # for all of it
    body_kept_max: int = 1024  # octets of the answer's body that are kept
    # Connections that are kept for the next exchange: each holds a descriptor that a caller may need.
    idle_max: int = 128


class ClientCertificateError(Exception):
    """Our client certificate cannot be read."""


@cache
def trust_system() -> ssl.SSLContext:
    """Make TLS that trusts the system's authorities: they cost 1 MiB and 20 ms, so all users share one."""
    return ssl.create_default_context()


def make_tls(certificate_file: str = "", key_file: str = "") -> ssl.SSLContext:
    """Make TLS that trusts the system's authorities, with this client certificate (PEM, with its chain).

    Raises:
        ClientCertificateError: One of the files is missing or cannot be read, or they do not belong together.
    """
    if not certificate_file and not key_file:
        return trust_system()
    context = ssl.create_default_context()
    if bool(certificate_file) != bool(key_file):
        raise ClientCertificateError("a certificate and its key belong together, and one of the two is missing")
    try:
        for file in (certificate_file, key_file):
            read_named_file(file)  # OpenSSL would wait at a FIFO
        # With a password, however wrong: without one OpenSSL would ask for it on the terminal.
        context.load_cert_chain(certificate_file, key_file, password="")
    except ssl.SSLError:
        reason = "no certificate and its key in PEM, without a password"
        raise ClientCertificateError(f"{certificate_file} and {key_file}: {reason}") from None
    except OSError as error:
        raise ClientCertificateError(f"{certificate_file} and {key_file}: {error.strerror}") from None
    return context


class OutgoingHttp:
    """Exchanges with hosts that callers chose; by default it trusts the system's authorities."""

    def __init__(
        self, limits: ExchangeLimits, lookups: NameLookups, tls: ssl.SSLContext | None = None, forbidden: Sequence[Network] = ()
    ) -> None:
        self._limits = limits
        self._lookups = lookups
        self._tls = tls or trust_system()
        self._forbidden = forbidden
        self._idle = IdleConnections(limits.idle_max)
        self._exchange_timeout = SharedTimeout(limits.exchange_s)

    async def check(self, target: Target) -> None:
        """Check that a name's present addresses may be reached; ``TargetRefused`` without one, or with a forbidden one."""
        try:
            async with asyncio.timeout(self._limits.connect_s):
                await self._resolve(target)
        except TimeoutError:
            raise ConnectionFailed(f"the host's name was not resolved within {self._limits.connect_s:g} s") from None

    async def exchange(self, target: Target, request: bytes) -> ReceivedAnswer:
        """Send one request and read its answer; ``TargetRefused`` if an address behind the name is forbidden."""
        connection: HttpConnection | None = None
        try:
            with self._exchange_timeout.begin():
                connection = await self._connection(target)
                try:
                    answer = await connection.exchange(request)
                except ConnectionFailed as failure:
                    if not failure.is_untouched or connection.exchanges_count == 1:
                        raise
                    # The receiver had closed a kept connection meanwhile, which is no failure: try a new one.
                    connection = await self._connection(target, is_new=True)
                    answer = await connection.exchange(request)
        except TimeoutError:
            answer = connection.read_so_far() if connection is not None else None
            if answer is None:
                raise ConnectionFailed(f"no answer within {self._limits.exchange_s:g} s") from None
        if connection is not None and connection.is_reusable:
            # A receiver that refuses our requests must not hold our descriptors.
            if 200 <= answer.status_code <= 299:
                self._idle.keep(_key(target, connection.address), connection)
            else:
                connection.close()
        return answer

    async def close(self) -> None:
        self._idle.close()

    async def _resolve(self, target: Target) -> list[str]:
        if target.address is not None:
            found: Sequence[str] = [str(target.address)]
        else:
            try:
                found = await self._lookups.find(target.host, target.port)
            except OSError as error:
                raise ConnectionFailed(f"the host's name cannot be resolved: {error.strerror}") from error
            except errors.ServiceUnavailable as error:
                raise ConnectionFailed(f"the host's name was not looked up: {error.message}") from error
        return check_addresses(target, found, self._forbidden)

    async def _connection(self, target: Target, *, is_new: bool = False) -> HttpConnection:
        # An address needs no look-up, so there is nothing to time if a connection to it is kept.
        if target.address is not None and not is_new:
            kept = self._take(target, await self._resolve(target))
            if kept is not None:
                return kept
        try:
            async with asyncio.timeout(self._limits.connect_s):
                addresses = await self._resolve(target)
                kept = None if is_new else self._take(target, addresses)
                return kept or await self._connect(target, addresses[:_ADDRESSES_TRIED_MAX])
        except TimeoutError:
            raise _failure(target, f"no connection within {self._limits.connect_s:g} s") from None

    async def _connect(self, target: Target, addresses: Sequence[str]) -> HttpConnection:
        # Each address gets its part of the time, so that one that hangs leaves some for the next.
        share_s = self._limits.connect_s / len(addresses)
        reason = "no address"
        for address in addresses:
            try:
                async with asyncio.timeout(share_s):
                    return await self._connect_to(target, address)
            except TimeoutError:
                reason = f"no connection within {self._limits.connect_s:g} s"
            except (OSError, ssl.SSLError) as error:
                reason = _describe(error)
        raise _failure(target, reason)

    async def _connect_to(self, target: Target, address: str) -> HttpConnection:
        is_tls = target.scheme == "https"
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: HttpConnection(self._limits.body_kept_max, address),
            address,
            target.port,
            ssl=self._tls if is_tls else None,
            server_hostname=target.host if is_tls else None,
        )
        return connection

    def _take(self, target: Target, addresses: Sequence[str]) -> HttpConnection | None:
        for address in addresses:
            if (connection := self._idle.take(_key(target, address))) is not None:
                return connection
        return None


def _key(target: Target, address: str) -> Address:
    return target.scheme, target.host, address, target.port


def _failure(target: Target, reason: str) -> ConnectionFailed:
    return ConnectionFailed(reason if target.is_loopback_allowed or target.is_named else NO_CONNECTION, detail=reason)


def _describe(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the certificate cannot be trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {getattr(error, 'reason', None) or 'the handshake failed'}"  # one made by asyncio has none
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    if isinstance(error, ConnectionResetError):
        return "the connection was reset before an answer"
    return f"no connection: {error.strerror or type(error).__name__}"


# Half of the kept connections is the maximum of one holder: several endpoints of one holder often share an address.
LIMITS: Final = ExchangeLimits(connect_s=5.0, exchange_s=15.0, body_kept_max=1024, idle_max=256)
_TARGETS_MAX = 4096


class WebhookSender:
    def __init__(self, http: OutgoingHttp, *, allows_loopback: bool, named: NamedHosts = NO_HOSTS, hint: str = "") -> None:
        """Post to public hosts, and to named ones; ``hint`` advises an owner whose host is not public."""
        self._http = http
        self._hint = hint
        # Parsed URLs are cached: an endpoint gets many deliveries.
        self._parse = lru_cache(_TARGETS_MAX)(partial(parse_target, allows_loopback=allows_loopback, named=named))

    async def check_url(self, url: str) -> None:
        try:
            await self._http.check(self._parse(url))
        except NotPublic as refused:
            raise errors.InvalidWebhookUrl(f"url: {refused.reason}{self._hint}") from refused
        except (TargetRefused, ConnectionFailed) as refused:
            raise errors.InvalidWebhookUrl(f"url: {refused.reason}") from refused

    async def post(self, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> WebhookExchange:
        started_ns = time.monotonic_ns()
        try:
            target = self._parse(url)
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
