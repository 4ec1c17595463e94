"""Ports that stay reserved: a port that is released may be taken by another process."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress


@contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a port of loopback without listening; a program that shares addresses may use it."""
    with socket.socket() as reserved:
        yield _reserve(reserved, 0)


@contextmanager
def reserved_pair() -> Iterator[int]:
    """The lower of two neighbouring reserved ports."""
    with ExitStack() as kept:
        while True:
            lower = _reserve(kept.enter_context(socket.socket()), 0)
            # If the upper one is taken, another two are tried.
            with suppress(OSError, OverflowError):
                _reserve(kept.enter_context(socket.socket()), lower + 1)
                break
        yield lower


def _reserve(reserved: socket.socket, port: int) -> int:
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", port))
    return int(reserved.getsockname()[1])
