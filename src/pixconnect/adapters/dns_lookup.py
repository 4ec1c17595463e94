"""Asks name servers as this machine is set up: first ``/etc/hosts``, then those of ``resolv.conf``, for A and AAAA at once.

Without a thread and without a memory: each look-up is asked anew, and one that is cancelled leaves nothing behind. Both files
are read again when they have changed. Search lists are not used: whoever is looked up here has written a whole name.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import Final, Generic, TypeVar, cast

import dns.asyncresolver
import dns.exception
import dns.rdatatype
import dns.resolver
from dns.rdata import Rdata

Read = TypeVar("Read")

ANSWERED_WITHIN_S: Final = 1.8
"""What all tries of one question have together..."""
_TRY_S: Final = 0.6
"""...and each of them, before the next server is asked, or the same again."""
_LOCALHOST: Final[Sequence[str]] = ["127.0.0.1", "::1"]


class DnsLookup:
    """Finds all addresses of names.

    Args:
        servers: Name servers to ask instead of the machine's own...
        port: ...and where they answer.
        hosts_path: Names that are answered from here...
        resolv_conf_path: ...and who knows the others.
    """

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
        """All addresses of a name; raises ``OSError`` where there are none."""
        written = self._hosts.read().get(host, _LOCALHOST if host == "localhost" else None)
        if written is not None:
            return written
        try:
            resolver = self._resolver.read()
        except dns.exception.DNSException as error:
            raise OSError(0, "this machine names no name server") from error
        answers = await asyncio.gather(
            *(_ask(resolver, host, kind) for kind in (dns.rdatatype.A, dns.rdatatype.AAAA)), return_exceptions=True
        )
        # Servers that know only IPv4 exist: what one kind of question has found counts where the other has failed.
        found = [address for answer in answers if not isinstance(answer, BaseException) for address in answer]
        failure = next((answer for answer in answers if isinstance(answer, BaseException)), None)
        if failure is not None and not found:
            raise OSError(0, _describe(failure)) from failure
        return found


def read_hosts(path: str) -> dict[str, list[str]]:
    """The addresses of names in a file such as ``/etc/hosts``; what cannot be read in it is passed over."""
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
    answer = await resolver.resolve(f"{host}.", kind, raise_on_no_answer=False, search=False)
    records = cast("Iterable[Rdata]", answer.rrset or ())
    return [record.to_text() for record in records]


def _describe(failure: BaseException) -> str:
    """Why a name has no address."""
    if isinstance(failure, dns.resolver.NXDOMAIN):
        return "there is no such name"
    if isinstance(failure, dns.exception.Timeout):
        return "no name server has answered in time"
    if isinstance(failure, dns.resolver.NoNameservers):
        return "no name server could tell"
    return type(failure).__name__


class _FollowedFile(Generic[Read]):
    """What is read of a file, until it changes."""

    def __init__(self, path: str, read: Callable[[str], Read]) -> None:
        self._path = path
        self._read = read
        self._of: tuple[int, int] | None = None
        self._kept: Read | None = None

    def read(self) -> Read:
        """Read it, if it is not as it was."""
        try:
            found = os.stat(self._path)
            now_of = (found.st_mtime_ns, found.st_ino)
        except OSError:
            now_of = (0, 0)
        if self._kept is None or now_of != self._of:
            self._kept, self._of = self._read(self._path), now_of
        return self._kept
