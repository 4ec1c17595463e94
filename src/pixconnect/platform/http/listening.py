"""Listening sockets, and all connections of one server: their number and memory, and the choice of those to close.

Listening sockets outlive their processes: connections that arrive while a process is restarted wait in its socket. Only Linux
spreads connections over several sockets; on other systems all processes share one.

A full server does not refuse the newest connection; otherwise the first clients could keep out all others. It closes one that
keeps us waiting: it takes the peer with the most connections, and of those the one that has waited longest. A single peer, such
as a proxy, may hold all of them.
"""

from __future__ import annotations

import asyncio
import errno
import heapq
import resource
import socket
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final

from pixconnect.platform.flow.overload import RefusalPace

if TYPE_CHECKING:
    from pixconnect.platform.http.connection import Connection

# Files other than callers' connections: 128 concurrent requests by us, 64 of which look up names over two sockets, 128 kept
# connections, 32 handles for each of three listening sockets (``server.ACCEPTED_AT_ONCE``), logs, the event loop, libraries.
OTHERS = 512


def raise_limit() -> int:
    """Raise the limit as far as the system allows and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS accepts 10,240 at most, even if it reports a higher hard limit.
    for wanted in (hard, 10_240):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            continue
        return _count(wanted)
    return _count(soft)


def share_out(files_max: int, database_connections_max: int) -> int:
    # Where files are few, callers still get half: requests that need no other file can be answered.
    return min(CONNECTIONS_MAX, max(files_max - database_connections_max - OTHERS, files_max // 2))


def _count(limit: int) -> int:
    return 2**31 if limit == resource.RLIM_INFINITY else limit


BACKLOG = 2048


class ListeningError(Exception):
    """We cannot listen there; the message states the reason and the remedy."""


def open_listening(host: str, port: int, count: int, *, port_setting: str) -> list[socket.socket]:
    """Open ``count`` sockets on one port, or on a free one if it is 0; ``ListeningError`` if it is taken or forbidden."""
    try:
        family, _, _, _, (ip_address, *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # Sockets that share a port could share it with another program's as well, so first check that it is free.
        with _bind(family, str(ip_address), port, shared=False) as probe:
            free_port = int(probe.getsockname()[1])
        if sys.platform != "linux":
            one = _listen(family, str(ip_address), free_port)
            return [one] * count
        with ExitStack() as opened:
            sockets = [opened.enter_context(_listen(family, str(ip_address), free_port)) for _ in range(count)]
            opened.pop_all()
            return sockets
    except OSError as error:
        raise ListeningError(_explain(error, host, port, port_setting)) from error


def reserve_port(host: str, port: int, *, port_setting: str) -> socket.socket:
    """Bind a port, or a free one if it is 0, and reserve it while a child that listens on it is restarted.

    The socket does not listen: callers are refused meanwhile, so they know that their request was not received. The child must
    set ``SO_REUSEADDR``.
    """
    try:
        return _bind(socket.AF_INET, host, port, shared=False)
    except OSError as error:
        raise ListeningError(_explain(error, host, port, port_setting)) from error


def _listen(family: int, ip_address: str, port: int) -> socket.socket:
    listening = _bind(family, ip_address, port, shared=True)
    listening.listen(BACKLOG)
    listening.settimeout(0)
    return listening


def _bind(family: int, ip_address: str, port: int, *, shared: bool) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((ip_address, port))
    except BaseException:
        bound.close()
        raise
    return bound


def _explain(error: OSError, host: str, port: int, port_setting: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is taken: stop the program that listens there, or set {port_setting} to another"
    if error.errno == errno.EACCES:
        return f"this user may not listen on port {port}: set {port_setting} to 1024 or more"
    return f"cannot listen on {host} port {port} ({error.strerror}): set {port_setting} or PIXCONNECT_HOST"


_ROOM = 64  # at the maximum one in 64 is closed at once, so that not every new connection scans all others


class Connections:
    def __init__(self, count_max: int, on_first: Callable[[], object] = lambda: None) -> None:
        """``on_first`` is called when there is a connection after none, and a client that stalls after none."""
        self.all: set[Connection] = set()
        # Requests under way, some of them of clients that have gone.
        self.tasks: set[asyncio.Task[None]] = set()
        # Headers of every answer, as they are sent.
        self.common_head = b""
        # The octets read last. One buffer for all connections, because each copies its octets before the next one reads.
        self.slice = bytearray(SLICE_MAX)
        self.held_octets = 0
        self.unsent_octets = 0
        # Of bare refusals, of which each address gets few at once.
        self.refusal_pace = RefusalPace()
        self._count_max = count_max
        self._on_first = on_first
        self._counts: Counter[str] = Counter()
        self._stalled: dict[Connection, _Stall] = {}

    def add(self, connection: Connection) -> None:
        """Add a connection, for which another one may be closed."""
        if not self.all:
            self._on_first()
        self.all.add(connection)
        self._counts[connection.address] += 1
        if len(self.all) <= self._count_max:
            return
        address, _ = max(self._counts.items(), key=itemgetter(1))
        idle = [each for each in self.all if each.keeps_us_waiting]
        idle = [each for each in idle if each.address == address] or idle
        for each in heapq.nsmallest(len(idle) // _ROOM + 1, idle, key=_since):
            each.hang_up()

    def remove(self, connection: Connection) -> None:
        if connection not in self.all:
            return
        self.all.remove(connection)
        self.held_octets -= connection.held_octets
        connection.held_octets = 0
        self._counts[connection.address] -= 1
        if not self._counts[connection.address]:
            del self._counts[connection.address]
        self.flows_again(connection)

    def hold(self, connection: Connection, octets: int) -> None:
        """Count octets that we hold until their request is answered."""
        connection.held_octets += octets
        self.held_octets += octets
        if self.held_octets <= HELD_IN_ALL_MAX:
            return
        senders = [one for one in self.all if one.keeps_us_waiting and one.held_octets]
        for sender in heapq.nsmallest(len(senders), senders, key=_since):
            if self.held_octets <= HELD_IN_ALL_MAX - HELD_IN_ALL_MAX // _ROOM:
                break
            sender.hang_up()

    def release(self, connection: Connection, octets_kept: int) -> None:
        """Count only ``octets_kept`` of the next request, because the ones before are answered."""
        self.held_octets += octets_kept - connection.held_octets
        connection.held_octets = octets_kept

    def stalls(self, connection: Connection, now_s: float) -> None:
        """Record that the client does not read its answer as fast as we write."""
        if not self._stalled:
            self._on_first()
        stall = self._stalled[connection] = _Stall(now_s, connection.transport.get_write_buffer_size())
        self.unsent_octets += stall.octets

    def flows_again(self, connection: Connection) -> None:
        if (stall := self._stalled.pop(connection, None)) is not None:
            self.unsent_octets -= stall.octets

    @property
    def has_stalled(self) -> bool:
        """Whether a client does not read as fast as we write."""
        return bool(self._stalled)

    def bound_unsent(self, now_s: float) -> None:
        """Hang up on the slowest readers while too much is unsent."""
        # Called ten times a second while a client stalls, and not at each write, so that every client that reads at all
        # has had time to.
        if self.unsent_octets <= UNSENT_OF_ONE_MAX:
            return
        self.unsent_octets = 0
        paces: list[tuple[float, float, Connection]] = []
        for connection, stall in self._stalled.items():
            unsent = connection.transport.get_write_buffer_size()
            stalled_s = max(now_s - stall.since_s, 0.1)
            paces.append(((stall.octets_first - unsent) / stalled_s, stall.since_s, connection))
            stall.octets = unsent
            self.unsent_octets += unsent
        # The slowest clients go first; among those that read nothing, the one that has stalled longest.
        paces.sort(key=itemgetter(0, 1))
        for _, since_s, connection in paces:
            is_too_much = self._stalled[connection].octets > UNSENT_OF_ONE_MAX and now_s - since_s > 1
            if self.unsent_octets > UNSENT_IN_ALL_MAX or is_too_much:
                connection.hang_up()


_since = attrgetter("waits_since_s")


class _Stall:
    """How many octets a client had not read when it began to stall, and when we last checked."""

    __slots__ = ("octets", "octets_first", "since_s")

    def __init__(self, since_s: float, octets: int) -> None:
        self.since_s = since_s
        self.octets_first = octets
        self.octets = octets


# Maximum octets, headers, descriptors and time of one connection, and of all together.

# Octets read from a socket at once. Anything a client sends beyond one slice before it has its answer stays in the kernel.
SLICE_MAX: Final = 16 * 1024
HEAD_MAX: Final = 16 * 1024  # octets of a request line with its headers
FIELDS_MAX: Final = 128  # headers of a request
# Octets around and after the chunks of a body, and one more for each eight octets of body. They are read and dropped.
TRAILERS_MAX: Final = 1024
CUT_COSTS: Final = 32  # each blank line in a chunk, at which the input is cut, counts as this many of those octets
CHUNKS_AT_ONCE: Final = 2 * 1024  # octets in and around chunks that are parsed between checks of the overhead
# Octets of a body that the application has not read yet; more stays in the socket.
BODY_HELD_MAX: Final = 128 * 1024
UNREAD_MAX: Final = 1024 * 1024  # octets read and dropped after octets that are not HTTP/1.1
# Likewise for a body that the application no longer wants: twice the largest of any operation. Most clients send a whole body
# before they read the answer, and would never see why one was refused.
UNREAD_BODY_MAX: Final = 8 * 1024 * 1024

# From a connection to its first request.
FIRST_OCTET_TIMEOUT_S: Final = 10
HEAD_TIMEOUT_S: Final = 10
BODY_TIMEOUT_S: Final = 30
STALLED_MAX_S: Final = 30  # how long a client may leave our answer unread
LINGER_S: Final = 2  # how long a client that was refused may go on sending
KEEP_ALIVE_S: Final = 75  # from an answer to the next request
GRACE_S: Final = 2.5  # how long running requests may go on after the stop signal

CONNECTIONS_MAX: Final = 10_000  # if the process may open that many files; see ``platform/http/server.py``
HELD_IN_ALL_MAX: Final = 64 * 1024 * 1024  # octets of unanswered requests, of all connections together
# A request that arrives in one piece and is no larger does not count: the number of connections limits those.
SMALL_MAX: Final = 2 * 1024
# Octets of answers that clients have not read, of all connections together...
UNSENT_IN_ALL_MAX: Final = 64 * 1024 * 1024
UNSENT_OF_ONE_MAX: Final = 16 * 1024 * 1024  # ...and of one, after it had a second to read
