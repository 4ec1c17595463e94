"""HTTP/1.1 keep-alive connections to one account's institution, over TLS with the account's own certificate; and their pace.

::

    exchange ─► a kept connection to this very host, or a new one ─► one exchange ─► the whole answer

It follows no redirects, reads no environment variables, and never resends a request by itself. After ``NoConnection`` no octet
of the request was sent; after ``AnswerLost`` the outcome is unknown.

Calls have rate limits: a budget per route, and pauses after errors or on the institution's request. A call that would wait
longer than its caller can is not sent at all.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from pixconnect.features.institutions.profiles.account_traits import AccountTraits, Pace, Route
from pixconnect.features.institutions.rules.institution import InstitutionUnavailable
from pixconnect.features.institutions.rules.recording import TakenExchange
from pixconnect.platform.adapters.outgoing_http import ClientCertificateError, IdleConnections, trust_system
from pixconnect.platform.base.clock import Clock, RatePolicy, TokenBucket
from pixconnect.platform.base.entropy import Entropy
from pixconnect.platform.http.client import HEAD_MAX, ConnectionFailed, HttpConnection, ReceivedAnswer

CONNECTIONS_MAX: Final = 16  # maximum per account: a request that waits longer than an exchange may take was never sent
_PEM_MAX: Final = 256 * 1024


class CallBounds(Struct, frozen=True, kw_only=True):
    connect_s: float = 5.0  # for DNS, the connection and TLS together
    exchange_s: float = 15.0  # for a request and its whole answer
    tried_max: int = 3  # maximum of tries of a reading call whose answers fail quickly


class Unsent(InstitutionUnavailable):
    """Nothing was sent."""


class NoConnection(Unsent): ...


class AnswerLost(Exception):  # noqa: N818  the institution was away, which is not our error
    """The request was sent, wholly or in part, and no whole answer came."""


class InstitutionHost(Struct, frozen=True):
    name: str
    port: int
    is_tls: bool
    prefix: str  # precedes each path; empty except for counterparts

    @property
    def authority(self) -> str:
        """The value of the ``Host`` header."""
        host = f"[{self.name}]" if ":" in self.name else self.name
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"


def parse_institution_host(url: str) -> InstitutionHost:
    """Parse an address that ``find_address_fault`` has accepted."""
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    return InstitutionHost(
        (parts.hostname or "").lower(), parts.port or (443 if is_tls else 80), is_tls, parts.path.rstrip("/")
    )


def make_account_tls(certificate: str, private_key: str, authorities: str) -> ssl.SSLContext:
    """Make a TLS context with this certificate and these authorities, all PEM; without authorities, the system's.

    Raises:
        ClientCertificateError: They cannot be read, or do not match. The message has no details, as one of them is secret.
    """
    if bool(certificate) != bool(private_key):
        raise ClientCertificateError("a certificate and its key belong together, and one of the two is missing")
    if not certificate and not authorities:
        return trust_system()
    try:
        context = ssl.create_default_context(cadata=authorities or None)
    except ssl.SSLError:
        raise ClientCertificateError("the authorities are no certificates in PEM") from None
    if certificate:
        with _as_file(f"{certificate}\n{private_key}") as path:
            try:
                # With any password: without one OpenSSL would ask for it on the terminal.
                context.load_cert_chain(path, password="")
            except (ssl.SSLError, ValueError):
                raise ClientCertificateError(
                    "no certificate and its key in PEM, without a password, that belong together"
                ) from None
    return context


@contextmanager
def _as_file(text: str) -> Generator[str]:
    """Write a file, since OpenSSL reads keys from files only.

    It is in memory where the system supports that, and deleted at once.
    """
    octets = text.encode()[:_PEM_MAX]
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, octets)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp()
    try:
        os.write(descriptor, octets)
        os.close(descriptor)
        yield path
    finally:
        with suppress(OSError):
            os.unlink(path)


class InstitutionConnection:
    """Keep-alive connections of one account, for one event loop, up to a maximum."""

    def __init__(self, tls: ssl.SSLContext, bounds: CallBounds) -> None:
        self._tls = tls
        self._connect_s = bounds.connect_s
        self._exchange_s = bounds.exchange_s
        self._free = asyncio.Semaphore(CONNECTIONS_MAX)
        # Half of them to one address, as the library's limit is meant for many.
        self._idle = IdleConnections(2 * CONNECTIONS_MAX)
        self._is_closed = False

    def close(self) -> None:
        """Close idle connections now, and used ones after their exchange."""
        self._is_closed = True
        self._idle.close()

    async def exchange(
        self, host: InstitutionHost, request: bytes, body_max: int, *, is_new: bool = False, exchange_s: float | None = None
    ) -> ReceivedAnswer:
        """Send a request once and read its whole answer, of at most ``body_max`` octets.

        Args:
            is_new: Use no kept connection, which the server may be closing.
            exchange_s: For a long answer.
        """
        bound_s = exchange_s or self._exchange_s
        connection: HttpConnection | None = None
        try:
            async with asyncio.timeout(bound_s + self._connect_s), self._free:
                connection = await self._connect(host, body_max, is_new=is_new)
                async with asyncio.timeout(bound_s):
                    answer = await connection.exchange(request)
        except ConnectionFailed as failure:
            raise AnswerLost(failure.reason) from None
        except TimeoutError:
            if connection is None:
                raise NoConnection("no connection within the time it may take") from None
            raise AnswerLost(f"no whole answer within {bound_s:g} s") from None
        if self._is_closed:
            connection.close()
        self._check_whole(answer, body_max)
        if connection.is_reusable and not self._is_closed:
            self._idle.keep(_address(host, body_max), connection)
        return answer

    async def _connect(self, host: InstitutionHost, body_max: int, *, is_new: bool) -> HttpConnection:
        kept = None if is_new else self._idle.take(_address(host, body_max))
        if kept is not None:
            return kept
        try:
            async with asyncio.timeout(self._connect_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    # One octet more than permitted, to detect a longer body.
                    lambda: HttpConnection(body_max + 1, host.name, 2 * body_max + HEAD_MAX),
                    host.name,
                    host.port,
                    ssl=self._tls if host.is_tls else None,
                    server_hostname=host.name if host.is_tls else None,
                )
        except TimeoutError:
            raise NoConnection(f"no connection within {self._connect_s:g} s") from None
        except OSError as error:
            raise NoConnection(_describe(error)) from None
        return connection

    def _check_whole(self, answer: ReceivedAnswer, body_max: int) -> None:
        if answer.error is not None:
            raise AnswerLost(answer.error)
        if answer.is_cut or len(answer.body) > body_max:
            raise AnswerLost(f"the answer is longer than {body_max // 1024} KiB")
        length = answer.headers.get("content-length")
        if length is not None and answer.status_code not in (204, 304) and length != str(len(answer.body)):
            raise AnswerLost("the answer is not as long as it says")


def _address(host: InstitutionHost, body_max: int) -> tuple[str, str, str, int]:
    # Each connection has a fixed limit of its answers.
    return str(body_max), host.name, host.prefix, host.port


def _describe(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the institution's certificate cannot be trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {getattr(error, 'reason', None) or 'the handshake failed'}"  # one made by asyncio has none
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    return f"no connection: {error.strerror or type(error).__name__}"


class RecordedConnection(InstitutionConnection):
    def __init__(self, tls: ssl.SSLContext, bounds: CallBounds, *, note: Callable[[TakenExchange], None]) -> None:
        super().__init__(tls, bounds)
        self._note = note

    async def exchange(
        self, host: InstitutionHost, request: bytes, body_max: int, *, is_new: bool = False, exchange_s: float | None = None
    ) -> ReceivedAnswer:
        head, _, sent = request.partition(b"\r\n\r\n")
        first, *lines = head.decode("ascii").split("\r\n")
        method, target, _ = first.split(" ")
        headers = dict(line.split(": ", 1) for line in lines)
        asked = partial(
            TakenExchange,
            method=method,
            target=target.removeprefix(host.prefix),
            authorization=headers.get("Authorization", ""),
            sent=sent,
        )
        try:
            answer = await super().exchange(host, request, body_max, is_new=is_new, exchange_s=exchange_s)
        except (NoConnection, AnswerLost) as error:
            self._note(asked(failure=f"{type(error).__name__}: {error}"))
            raise
        media_type = answer.headers.get("content-type", "")
        self._note(asked(status=answer.status_code, media_type=media_type, content=answer.body))
        return answer


PAUSE_MAX_S: Final = 600.0  # maximum pause, even if the institution requests more
_PAUSE_FIRST_S: Final = 1.0
_PAUSE_GROWN_MAX_S: Final = 60.0


class BudgetSpent(Unsent):
    """The budget is spent, or the institution requested a pause."""

    def __init__(self, reason: str, wait_s: float) -> None:
        super().__init__(reason, timedelta(seconds=wait_s))


class _Budget:
    def __init__(self, pace: Pace, now_s: float) -> None:
        policy = RatePolicy(
            name="calls",
            tokens_max=pace.burst,
            refill_per_s=pace.per_minute / 60,
            # Waiting calls have spent already; the maximum wait bounds their number.
            overdraft_max=1_000_000,
        )
        self.refill_per_s = policy.refill_per_s
        self.bucket = TokenBucket(policy, now_s)
        self.paused_until_s = 0.0
        self.failures_count = 0


class CallPaces:
    def __init__(self, traits: AccountTraits, clock: Clock, entropy: Entropy, *, is_homologation: bool) -> None:
        self._traits = traits
        self._clock = clock
        self._entropy = entropy
        self._is_homologation = is_homologation
        self._budgets: dict[tuple[Route, ...], _Budget] = {}

    async def take(self, route: Route, patience_s: float) -> None:
        """Wait until a call may be made, and count it; raises ``BudgetSpent`` after ``patience_s``, or in a pause."""
        spent = list[_Budget]()
        try:
            # Its own share first, so that waiting for that takes nothing of the common budget.
            for budget in self._find(route):
                patience_s -= await self._spend(budget, patience_s)
                spent.append(budget)
        except (BudgetSpent, asyncio.CancelledError):
            for budget in spent:
                budget.bucket.add(1)
            raise

    async def wait(self, route: Route, patience_s: float) -> None:
        """Wait, at most this long, until a call could be made; counts nothing."""
        now_s = self._clock.monotonic_s()
        wait_s = max(_find_wait(budget, now_s) for budget in self._find(route))
        if 0 < wait_s <= patience_s:
            await asyncio.sleep(wait_s)

    async def _spend(self, budget: _Budget, patience_s: float) -> float:
        now_s = self._clock.monotonic_s()
        if budget.paused_until_s > now_s:
            raise BudgetSpent("the institution asked us to wait, or gave no answer", budget.paused_until_s - now_s)
        wait_s = _find_wait(budget, now_s)
        if wait_s > patience_s:
            raise BudgetSpent("the budget of calls is spent", wait_s)
        budget.bucket.spend(1)
        if wait_s <= 0:
            return 0
        try:
            await asyncio.sleep(wait_s)
        except asyncio.CancelledError:
            budget.bucket.add(1)
            raise
        return wait_s

    def pause(self, route: Route, asked_s: float | None) -> float:
        """Pause this route as long as requested, or longer each time; return how long."""
        now_s = self._clock.monotonic_s()
        budgets = self._find(route)
        failures_count = max(budget.failures_count for budget in budgets)
        grown_s = min(_PAUSE_FIRST_S * 2**failures_count, _PAUSE_GROWN_MAX_S)
        # Jittered, so that accounts that failed together do not come back together; never earlier than requested.
        jitter = 0.5 + self._entropy.fraction() / 2
        pause_s = grown_s * jitter if asked_s is None else min(asked_s + jitter, PAUSE_MAX_S)
        for budget in budgets:
            budget.failures_count = min(failures_count + 1, 16)
            budget.paused_until_s = max(budget.paused_until_s, now_s + pause_s)
        return pause_s

    def note_success(self, route: Route) -> None:
        for budget in self._find(route):
            budget.failures_count = 0

    def _find(self, route: Route) -> list[_Budget]:
        found = list[_Budget]()
        for pace in self._traits.find_paces(route, is_homologation=self._is_homologation):
            key = tuple(pace.routes)
            if key not in self._budgets:
                self._budgets[key] = _Budget(pace, self._clock.monotonic_s())
            found.append(self._budgets[key])
        return found


def _find_wait(budget: _Budget, now_s: float) -> float:
    return (1 - budget.bucket.read(now_s)) / budget.refill_per_s
