"""Listening sockets, which outlive their processes: connections that arrive while a process is restarted wait in its socket.

Only Linux spreads connections over several sockets; on other systems all processes share one.
"""

import errno
import resource
import socket
import sys
from contextlib import ExitStack

from pixconnect.platform.http.open_connections import CONNECTIONS_MAX

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
