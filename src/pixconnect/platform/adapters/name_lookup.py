"""Resolves host names that holders chose; a slow name delays only its holder.

::

    find ─► failed lately? ─► joins the same look-up of this holder ─► waits for a permit ─► asks the name servers, 2 s

A look-up is cancelled when no caller waits for it any more. Found addresses are not cached, because the caller checks them each
time.

Names are resolved as this machine is configured: from ``/etc/hosts``, then by the servers of ``resolv.conf``, A and AAAA
concurrently. There is no thread and no cache, so a cancelled look-up leaves nothing behind. Search lists are not used, because
callers give whole names.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from pixconnect.platform.bounded_cache import BoundedCache
from pixconnect.platform.flow.shares import OutgoingLimit, current_party
from pixconnect.platform.shared_look import retrieve

if TYPE_CHECKING:
    from pixconnect.platform.adapters.name_server import Resolver

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Finds the addresses of a name and port; raises ``OSError`` if there are none."""

LOOKUP_S: Final = 2.0
LOOKUPS_MAX: Final = 64
LOOKUPS_OF_HOLDER_MAX: Final = 4
# How long a failure is cached: short enough for a holder who has just corrected the name, long enough to seldom wait for a
# hanging name.
FAILED_FOR_S: Final = 5.0
FAILURES_MAX: Final = 1024


class _Asked:
    __slots__ = ("answer", "waiting_count")

    def __init__(self, answer: asyncio.Task[Sequence[str]]) -> None:
        self.answer = answer
        self.waiting_count = 0


class NameLookups:
    def __init__(self, lookup: Lookup, *, lookup_s: float = LOOKUP_S, failed_for_s: float = FAILED_FOR_S) -> None:
        self._lookup = lookup
        self._lookup_s = lookup_s
        self._failed_for_s = failed_for_s
        self._limit = OutgoingLimit(LOOKUPS_MAX, holder_max=LOOKUPS_OF_HOLDER_MAX, what="look-ups of names")
        # By holder, so that no caller joins a look-up that waits for another holder's permit.
        self._asked: dict[tuple[Hashable, str, int], _Asked] = {}
        self._failed = BoundedCache[str, tuple[float, str]](FAILURES_MAX)

    async def find(self, host: str, port: int) -> Sequence[str]:
        """All addresses of a name; ``ServiceUnavailable`` if too many look-ups wait already."""
        self._check_failed(host)
        key = (current_party.get(), host, port)
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = _Asked(asyncio.ensure_future(self._ask(host, port)))
            asked.answer.add_done_callback(retrieve)
        asked.waiting_count += 1
        # Shielded, because others may wait for the same answer; the last one who leaves cancels it.
        try:
            return await asyncio.shield(asked.answer)
        finally:
            asked.waiting_count -= 1
            if not asked.waiting_count:
                asked.answer.cancel()
                del self._asked[key]

    async def _ask(self, host: str, port: int) -> Sequence[str]:
        async with self._limit.hold():
            # Another look-up of this name may have failed while this one waited for its permit.
            self._check_failed(host)
            try:
                async with asyncio.timeout(self._lookup_s):
                    return await self._lookup(host, port)
            except TimeoutError:
                raise self._failure(host, f"no answer within {self._lookup_s:g} s") from None
            except (OSError, UnicodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else None
                raise self._failure(host, reason or type(error).__name__) from error

    def _failure(self, host: str, reason: str) -> OSError:
        self._failed.keep(host, (asyncio.get_running_loop().time() + self._failed_for_s, reason))
        return OSError(0, reason)

    def _check_failed(self, host: str) -> None:
        failed = self._failed.get(host)
        if failed is None:
            return
        until_s, reason = failed
        if asyncio.get_running_loop().time() < until_s:
            raise OSError(0, reason)
        del self._failed[host]


Read = TypeVar("Read")

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
        def make_resolver(path: str) -> "Resolver":
            # Importing it takes a tenth of a process's start, and most processes never look a name up.
            from pixconnect.platform.adapters.name_server import Resolver  # noqa: PLC0415

            return Resolver(path, servers, port)

        self._hosts = _FollowedFile(hosts_path, read_hosts)
        self._resolver = _FollowedFile(resolv_conf_path, make_resolver)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """All addresses of a name; ``OSError`` states why it has none."""
        if (written := self._hosts.read().get(host, _LOCALHOST if host == "localhost" else None)) is not None:
            return written
        return await self._resolver.read().find(host)


def read_hosts(path: str) -> dict[str, list[str]]:
    """Read the addresses by name in a file such as ``/etc/hosts``; unreadable lines are skipped."""
    found: dict[str, list[str]] = {}
    with suppress(FileNotFoundError), open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            address, *names = line.partition("#")[0].split() or [""]
            with suppress(ValueError):
                ip_address(address)
                for name in names:
                    found.setdefault(name.lower().removesuffix("."), []).append(address)
    return found


class _FollowedFile(Generic[Read]):
    """Caches a parsed file until the file changes."""

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
