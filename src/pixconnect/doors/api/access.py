"""The caller of a request, and its address."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from pixconnect.doors.api.operation import Verifier
from pixconnect.kernel.rules.access import Caller, check_certificate
from pixconnect.platform.base.address_rules import Network, client_address, sender_address


async def authenticate(verifier: Verifier, headers: Mapping[bytes, bytes], certificate: str | None) -> Caller:
    """Return the caller of a request; raises the errors of its ``verify``.

    Args:
        certificate: The thumbprint of the connection's client certificate.
    """
    # Two Authorization headers come joined with a comma, which no token contains: they are always malformed.
    authorization = headers.get(b"authorization")
    # Most tokens were verified a moment ago, and are answered from memory.
    caller = verifier.recall(authorization) if authorization is not None else None
    if caller is None:
        caller = await verifier.verify(authorization)
    # Not part of the cached result: the same token may come by two connections.
    check_certificate(caller, certificate)
    return caller


_REMEMBERED_LENGTH_MAX: Final = 64
_remember_address = lru_cache(1024)(client_address)
_remember_sender = lru_cache(1024)(sender_address)


def read_address(headers: Mapping[bytes, bytes], peer: str, trusted_proxies: tuple[Network, ...]) -> str:
    """Return the address of a request's sender: behind a trusted proxy, the one that the proxy names."""
    forwarded_for = headers.get(b"x-forwarded-for", b"").decode("latin-1") if trusted_proxies else ""
    # Cached: reading an address takes as long as reading a small body, and the same ones come again and again.
    find = _remember_address if len(forwarded_for) <= _REMEMBERED_LENGTH_MAX else client_address
    return find(peer, forwarded_for, trusted_proxies)


def read_sender(headers: Mapping[bytes, bytes], peer: str, trusted_proxies: tuple[Network, ...]) -> str:
    """Return the caller's address for the record of requests: the whole IPv6 address."""
    if not trusted_proxies:
        return peer
    forwarded_for = headers.get(b"x-forwarded-for", b"").decode("latin-1")
    find = _remember_sender if len(forwarded_for) <= _REMEMBERED_LENGTH_MAX else sender_address
    return find(peer, forwarded_for, trusted_proxies)
