"""Ports that stay ours: one that was taken and let go of may be anybody's a moment later."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port of loopback on which nobody listens and that nobody else is given; a program that shares addresses may take it."""
    with socket.socket() as reserved:
        yield _reserve(reserved, 0)


@contextmanager
def reserved_pair() -> Iterator[int]:
    """The lower of two such ports that are neighbours."""
    with ExitStack() as kept:
        while True:
            lower = _reserve(kept.enter_context(socket.socket()), 0)
            # Where the upper one is somebody's, another two are tried.
            with suppress(OSError, OverflowError):
                _reserve(kept.enter_context(socket.socket()), lower + 1)
                break
        yield lower


def _reserve(reserved: socket.socket, port: int) -> int:
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", port))
    return int(reserved.getsockname()[1])
