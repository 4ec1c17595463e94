"""Reads what a proxy that passes TCP through says first: who connected to it (PROXY protocol, versions 1 and 2)."""

from __future__ import annotations

import struct
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from msgspec import Struct

# The longest line that version 1 can have, its end included.
_LINE_MAX: Final = 107
_SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_HEAD_LENGTH: Final = 16
_BLOCK_MAX: Final = 512
"""Of version 2 behind its head: addresses, and what proxies add that we do not read."""
_PACKED: Final = {0x11: (IPv4Address, 4), 0x21: (IPv6Address, 16)}


class ProxyHeaderError(Exception):
    """It is none, or a longer one than there can be."""


class ProxyHeader(Struct, frozen=True, kw_only=True):
    source: tuple[str, int] | None
    """Address and port of who connected; ``None`` where the proxy itself did, as it does to see whether we are there."""
    length: int
    """In octets; what follows is the client's."""


def read_proxy_header(octets: bytes) -> ProxyHeader | None:
    """The header at the beginning; ``None`` where more of it is to come.

    Raises:
        ProxyHeaderError: There is none, and no more octets could make it one.
    """
    # Octets may come one by one, so the beginning of a signature counts as one until more is there.
    if octets[: len(_SIGNATURE)] == _SIGNATURE[: len(octets)]:
        return _read_block(octets)
    line, end, _ = octets[:_LINE_MAX].partition(b"\r\n")
    if not line.startswith(b"PROXY "[: len(line)]) or (not end and len(octets) >= _LINE_MAX):
        raise ProxyHeaderError
    return _read_line(line) if end else None


def _read_line(line: bytes) -> ProxyHeader:
    words = line.split(b" ")
    if words[1:2] == [b"UNKNOWN"]:
        return ProxyHeader(source=None, length=len(line) + 2)
    with suppress(ValueError):
        _, family, source, _, port, _ = words
        address = ip_address(source.decode("ascii"))
        if {4: b"TCP4", 6: b"TCP6"}[address.version] == family and port.isdigit() and int(port) <= 0xFFFF:
            return ProxyHeader(source=(str(address), int(port)), length=len(line) + 2)
    raise ProxyHeaderError


def _read_block(octets: bytes) -> ProxyHeader | None:
    if len(octets) < _HEAD_LENGTH:
        return None
    command, family, length = struct.unpack_from("!BBH", octets, len(_SIGNATURE))
    if command not in {0x20, 0x21} or length > _BLOCK_MAX:
        raise ProxyHeaderError
    if len(octets) < _HEAD_LENGTH + length:
        return None
    if command == 0x20:
        # The proxy speaks for itself here; addresses that it names all the same mean nothing.
        return ProxyHeader(source=None, length=_HEAD_LENGTH + length)
    kind, size = _PACKED.get(family, (None, 0))
    # Who may come in depends on the address, so a header without one that we can read is refused.
    if kind is None or length < 2 * size + 4:
        raise ProxyHeaderError
    address = kind(octets[_HEAD_LENGTH : _HEAD_LENGTH + size])
    (port,) = struct.unpack_from("!H", octets, _HEAD_LENGTH + 2 * size)
    return ProxyHeader(source=(str(address), port), length=_HEAD_LENGTH + length)
