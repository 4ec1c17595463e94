"""Resolves names as this machine is set up: from ``/etc/hosts``, then by the servers of ``resolv.conf``, A and AAAA at once.

It uses no thread and caches no answers, so a look-up that is cancelled leaves nothing behind. Search lists are not used,
because callers give whole names.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import Any, Final, Generic, TypeVar, cast

import dns.asyncresolver
import dns.exception
import dns.rdatatype
import dns.resolver
from dns._asyncio_backend import Backend as _AsyncioBackend
from dns.rdata import Rdata

Read = TypeVar("Read")

# All tries of one question together stay below the 2 s of a look-up (``name_lookup.LOOKUP_S``). Each try asks the next
# server, or the same one again if there is only one.
ANSWERED_WITHIN_S: Final = 1.8
_TRY_S: Final = 0.6
_LOCALHOST: Final[Sequence[str]] = ["127.0.0.1", "::1"]


class DnsLookup:
    """Finds all addresses of a name; asks ``servers`` if given, otherwise the machine's own."""

    def __init__(
        self,
        servers: Sequence[str] = (),
        port: int = 53,
        *,
        hosts_path: str = "/etc/hosts",
        resolv_conf_path: str = "/etc/resolv.conf",
    ) -> None:
        self._hosts = _FollowedFile(hosts_path, read_hosts)
        self._resolver = _FollowedFile(resolv_conf_path, lambda path: _make_resolver(path, servers, port))

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """All addresses of a name; ``OSError`` says why it has none."""
        written = self._hosts.read().get(host, _LOCALHOST if host == "localhost" else None)
        if written is not None:
            return written
        try:
            resolver = self._resolver.read()
        except dns.exception.DNSException as error:
            raise OSError(0, "this machine has no name server configured") from error
        answers = await asyncio.gather(
            *(_ask(resolver, host, kind) for kind in (dns.rdatatype.A, dns.rdatatype.AAAA)), return_exceptions=True
        )
        # Some servers know only IPv4: addresses that one kind of question found count even if the other kind failed.
        found = [address for answer in answers if not isinstance(answer, BaseException) for address in answer]
        failure = next((answer for answer in answers if isinstance(answer, BaseException)), None)
        if failure is not None and not found:
            raise OSError(0, _describe(failure)) from failure
        return found


def read_hosts(path: str) -> dict[str, list[str]]:
    """The addresses by name in a file such as ``/etc/hosts``; lines that cannot be read are skipped."""
    found: dict[str, list[str]] = {}
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                address, *names = line.partition("#")[0].split() or [""]
                if _is_address(address):
                    for name in names:
                        found.setdefault(name.lower().removesuffix("."), []).append(address)
    except FileNotFoundError:
        pass
    return found


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _make_resolver(path: str, servers: Sequence[str], port: int) -> dns.asyncresolver.Resolver:
    resolver = dns.asyncresolver.Resolver(path, configure=not servers)
    if servers:
        resolver.nameservers = list(servers)
        resolver.port = port
    resolver.timeout, resolver.lifetime = _TRY_S, ANSWERED_WITHIN_S
    return resolver


async def _ask(resolver: dns.asyncresolver.Resolver, host: str, kind: dns.rdatatype.RdataType) -> list[str]:
    # The dot at the end marks a whole name, to which no search list applies.
    answer = await resolver.resolve(f"{host}.", kind, raise_on_no_answer=False, search=False, backend=_BACKEND)
    records = cast("Iterable[Rdata]", answer.rrset or ())
    return [record.to_text() for record in records]


class _Backend(_AsyncioBackend):
    """Leaves no socket behind where a look-up is cancelled while its socket is being made: uvloop never closes such a one."""

    async def make_socket(self, *args: Any, **options: Any):  # noqa: ANN202, ANN401  dnspython's types of them are private
        making = asyncio.ensure_future(super().make_socket(*args, **options))  # pyright: ignore[reportUnknownMemberType]  untyped
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(_close_made)
            raise


def _close_made(making: asyncio.Task[Any]) -> None:
    if not making.cancelled() and making.exception() is None:
        # It only looks asynchronous: its first step closes the socket, and the loop keeps it until then.
        asyncio.ensure_future(making.result().close())  # noqa: RUF006  as said above


_BACKEND: Final = _Backend()


def _describe(failure: BaseException) -> str:
    if isinstance(failure, dns.resolver.NXDOMAIN):
        return "there is no such name"
    if isinstance(failure, dns.exception.Timeout):
        return "no name server answered in time"
    if isinstance(failure, dns.resolver.NoNameservers):
        return "no name server could answer"
    return type(failure).__name__


class _FollowedFile(Generic[Read]):
    """Caches what was read of a file until the file changes."""

    def __init__(self, path: str, read: Callable[[str], Read]) -> None:
        self._path = path
        self._read = read
        self._version: tuple[int, int] | None = None
        self._cached: Read | None = None

    def read(self) -> Read:
        try:
            found = os.stat(self._path)
            # The inode too: a file that is replaced may be as old as the one before.
            version = (found.st_mtime_ns, found.st_ino)
        except OSError:
            version = (0, 0)
        if self._cached is None or version != self._version:
            self._cached, self._version = self._read(self._path), version
        return self._cached
