"""Requests to hosts that somebody else chose: bounded in time and size, and only to addresses that were judged.

::

    exchange ─► look the name up ─► judge all answers ─► a kept connection to one of them, or a new one ─► one exchange
                (at most one look-up of a name at a time)

The connection is made to the very address that was judged, never by name again; TLS and ``Host`` carry the name. Redirects are
an answer like any other. Nothing is read from the environment. Connections are kept for a while and used again.
"""

import asyncio
import socket
import ssl
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from msgspec import Struct

from pixconnect.adapters.http_connection import Answer, ConnectionFailed, HttpConnection
from pixconnect.domain.address_rules import Target, check_addresses

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Finds the addresses of a name, given with its port; raises ``OSError`` where there are none."""

_ADDRESSES_TRIED_MAX = 3
_LOOKUPS_MAX = 64
"""Names looked up at the same time at most: one that hangs holds one place, however often it is asked for."""
_IDLE_S = 20.0
_IDLE_PER_ADDRESS_MAX = 64
_Key = tuple[str, str, str, int]


class Limits(Struct, frozen=True, kw_only=True):
    """What an exchange may take.

    Attributes:
        connect_s: Looking up the name, connecting and TLS together.
        exchange_s: Everything.
        body_kept_max: Octets of the answer's body that are kept.
    """

    connect_s: float = 5.0
    exchange_s: float = 15.0
    body_kept_max: int = 1024


class SystemLookup:
    """Asks the system's resolver, on threads of its own: one that hangs delays nobody else, nor the end of the process."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_LOOKUPS_MAX)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Look a name up."""
        async with self._places:
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[Sequence[str]] = loop.create_future()
            threading.Thread(target=_ask, args=(loop, answer, host, port), name="lookup", daemon=True).start()
            return await answer


def _ask(loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[Sequence[str]]", host: str, port: int) -> None:
    """Look a name up and tell whoever still waits; runs on a thread of its own."""
    found: list[str] = []
    failure: Exception | None = None
    try:
        found = [str(place[0]) for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        failure = error

    def tell() -> None:
        if answer.done():
            return
        if failure is not None:
            answer.set_exception(failure)
        else:
            answer.set_result(found)

    with suppress(RuntimeError):  # the loop has ended meanwhile
        loop.call_soon_threadsafe(tell)


class OutgoingHttp:
    """Exchanges with hosts that somebody else chose.

    Args:
        limits: Of every exchange.
        lookup: Finds addresses.
        tls: Who is trusted; by default the system's authorities.
    """

    def __init__(self, limits: Limits, lookup: Lookup | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._limits = limits
        self._lookup = lookup or SystemLookup()
        self._tls = tls or ssl.create_default_context()
        self._lookups: dict[tuple[str, int], asyncio.Task[Sequence[str]]] = {}
        self._idle: dict[_Key, deque[tuple[float, HttpConnection]]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    async def resolve(self, target: Target) -> list[str]:
        """The addresses that a target may be reached at now.

        Raises:
            TargetRefused: One of them is forbidden, or there is none.
            ConnectionFailed: The name cannot be looked up.
        """
        if target.address is not None:
            found: Sequence[str] = [str(target.address)]
        else:
            try:
                found = await self._look_up(target.host, target.port)
            except (OSError, UnicodeError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
                raise ConnectionFailed(f"the host's name cannot be resolved: {reason}") from error
        return [str(address) for address in check_addresses(target, found)]

    async def exchange(self, target: Target, request: bytes) -> Answer:
        """Send one request and read its answer.

        Args:
            target: Judged by its form.
            request: The whole of it, as octets.

        Raises:
            TargetRefused: An address behind the name is forbidden.
            ConnectionFailed: There is no answer; the reason is for the receiver's owner.
        """
        connection: HttpConnection | None = None
        try:
            async with asyncio.timeout(self._limits.exchange_s):
                connection = await self._connection(target)
                try:
                    answer = await connection.exchange(request)
                except ConnectionFailed as failure:
                    if not failure.is_untouched or connection.exchanges_count == 1:
                        raise
                    # A kept connection had been closed by the other side meanwhile: that says nothing about the receiver.
                    connection = await self._connection(target, is_new=True)
                    answer = await connection.exchange(request)
        except TimeoutError:
            answer = connection.read_so_far() if connection is not None else None
            if answer is None:
                raise ConnectionFailed(f"no answer within {self._limits.exchange_s:g} s") from None
        if connection is not None and connection.is_reusable:
            self._keep(_key(target, connection.address), connection)
        return answer

    async def close(self) -> None:
        """Close what is kept."""
        if self._sweep is not None:
            self._sweep.cancel()
        for kept in self._idle.values():
            for _, connection in kept:
                connection.close()
        self._idle.clear()
        for lookup in self._lookups.values():
            lookup.cancel()

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        """Look a name up, together with whoever is doing so already."""
        key = (host, port)
        task = self._lookups.get(key)
        if task is None:
            task = self._lookups[key] = asyncio.ensure_future(self._lookup_alone(key))
            # Nobody may be left to hear of a failure.
            task.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        return await asyncio.shield(task)

    async def _lookup_alone(self, key: tuple[str, int]) -> Sequence[str]:
        try:
            return await self._lookup(*key)
        finally:
            del self._lookups[key]

    async def _connection(self, target: Target, *, is_new: bool = False) -> HttpConnection:
        if target.address is not None and not is_new:
            kept = self._take(target, await self.resolve(target))
            if kept is not None:
                return kept
        try:
            async with asyncio.timeout(self._limits.connect_s):
                addresses = await self.resolve(target)
                kept = None if is_new else self._take(target, addresses)
                return kept or await self._connect(target, addresses[:_ADDRESSES_TRIED_MAX])
        except TimeoutError:
            raise ConnectionFailed(f"no connection within {self._limits.connect_s:g} s") from None

    async def _connect(self, target: Target, addresses: Sequence[str]) -> HttpConnection:
        """Connect to the first address that takes the connection; each has its part of the time."""
        share_s = self._limits.connect_s / len(addresses)
        failure = ConnectionFailed("no address")
        for address in addresses:
            try:
                async with asyncio.timeout(share_s):
                    return await self._connect_to(target, address)
            except TimeoutError:
                failure = ConnectionFailed(f"no connection within {self._limits.connect_s:g} s")
            except (OSError, ssl.SSLError) as error:
                failure = ConnectionFailed(_describe(error))
        raise failure

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
        """The latest used of the kept connections to one of these addresses."""
        for address in addresses:
            kept = self._idle.get(_key(target, address))
            while kept:
                _, connection = kept.pop()
                if connection.is_reusable:
                    return connection
        return None

    def _keep(self, key: _Key, connection: HttpConnection) -> None:
        loop = asyncio.get_running_loop()
        kept = self._idle.setdefault(key, deque())
        kept.append((loop.time(), connection))
        if len(kept) > _IDLE_PER_ADDRESS_MAX:
            kept.popleft()[1].close()
        if self._sweep is None:
            self._sweep = loop.call_later(_IDLE_S, self._close_idle)

    def _close_idle(self) -> None:
        """Close what nobody has used for a while; comes back as long as anything is kept."""
        loop = asyncio.get_running_loop()
        for key, kept in list(self._idle.items()):
            while kept and (loop.time() - kept[0][0] >= _IDLE_S or not kept[0][1].is_reusable):
                kept.popleft()[1].close()
            if not kept:
                del self._idle[key]
        self._sweep = loop.call_later(_IDLE_S, self._close_idle) if self._idle else None


def _key(target: Target, address: str) -> _Key:
    return target.scheme, target.host, address, target.port


def _describe(error: OSError) -> str:
    """Why there is no connection, in words that a receiver's owner can act on."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the certificate cannot be trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or 'the handshake failed'}"
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    if isinstance(error, ConnectionResetError):
        return "the connection was reset before an answer"
    return f"no connection: {error.strerror or type(error).__name__}"
