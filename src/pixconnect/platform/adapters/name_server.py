"""Asks this machine's name servers for the addresses of a name, A and AAAA concurrently."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import dns.asyncresolver
import dns.exception
import dns.rdatatype
import dns.resolver
from dns._asyncio_backend import Backend as _AsyncioBackend
from dns.rdata import Rdata

# All tries of one question together stay below the 2 s of a look-up (``name_lookup.LOOKUP_S``). Each try asks the next
# server, or the same one again if there is only one.
ANSWERED_WITHIN_S: Final = 1.8
_TRY_S: Final = 0.6


class Resolver:
    """Asks ``servers`` if given, otherwise those of a file such as ``/etc/resolv.conf``; ``OSError`` if it names none."""

    def __init__(self, path: str, servers: Sequence[str], port: int) -> None:
        try:
            self._resolver = dns.asyncresolver.Resolver(path, configure=not servers)
        except dns.exception.DNSException as error:
            raise OSError(0, "this machine has no name server configured") from error
        if servers:
            self._resolver.nameservers = list(servers)
            self._resolver.port = port
        self._resolver.timeout, self._resolver.lifetime = _TRY_S, ANSWERED_WITHIN_S

    async def find(self, host: str) -> list[str]:
        """All addresses of a whole name; ``OSError`` states why it has none."""
        answers = await asyncio.gather(
            *(self._ask(host, kind) for kind in (dns.rdatatype.A, dns.rdatatype.AAAA)), return_exceptions=True
        )
        # Some servers only support IPv4: the addresses of one query count even if the other failed.
        found = [address for answer in answers if not isinstance(answer, BaseException) for address in answer]
        failure = next((answer for answer in answers if isinstance(answer, BaseException)), None)
        if failure is not None and not found:
            raise OSError(0, _describe(failure)) from failure
        return found

    async def _ask(self, host: str, kind: dns.rdatatype.RdataType) -> list[str]:
        # The dot at the end marks a whole name, to which no search list applies.
        answer = await self._resolver.resolve(f"{host}.", kind, raise_on_no_answer=False, search=False, backend=_BACKEND)
        records = cast("Iterable[Rdata]", answer.rrset or ())
        return [record.to_text() for record in records]


class _Backend(_AsyncioBackend):
    """Closes a socket whose look-up is cancelled while it is being made, which uvloop never does."""

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
