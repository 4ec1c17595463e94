"""Where a request's head ends, and what we check in it because httptools accepts more or reads it in another way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import httptools

_BLANK: Final = 0x20
_END: Final = b"\r\n\r\n"
_VERSIONS: Final = ("1.1", "1.0")
# The characters of a host with a port (RFC 3986).
_HOST: Final = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:%\[\]-]*")


def find_end(octets: bytes | bytearray, position: int, end: int, tail: bytes) -> int:
    """Where a head or trailers end, or ``end`` if not here; ``tail`` are up to three octets before ``position``."""
    # The blank line may be split between two parts.
    if tail:
        seam = (tail + octets[position : position + 3]).find(_END)
        if seam >= 0:
            return position + seam + len(_END) - len(tail)
    found = octets.find(_END, position) if position else octets.find(_END)
    return end if found < 0 else found + len(_END)


def is_opening_strict(opening: bytes | bytearray, method: bytes, target: bytes) -> bool:
    """Whether exactly one blank separates method, target and version."""
    start = len(method) + 1
    end = start + len(target)
    return opening[start] != _BLANK and opening[end] == _BLANK and opening[end + 1] != _BLANK


def is_fit(version: str, headers: Sequence[tuple[bytes, bytes]], fields: Mapping[bytes, bytes]) -> bool:
    """Whether we speak the version, and the host is named once and well-formed; ``fields`` has the last of repeated headers."""
    if version not in _VERSIONS:
        return False
    host = fields.get(b"host")
    # Only HTTP/1.1 requires it (RFC 9112, 3.2).
    if host is None:
        return version == "1.0"
    # Of two hosts a proxy in front of us could take one and we the other.
    if len(fields) != len(headers) and sum(name == b"host" for name, _ in headers) > 1:
        return False
    return _HOST.fullmatch(host) is not None


def is_chunked_alone(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether ``chunked`` is the one coding of a body that names its codings."""
    return [value.strip(b" \t").lower() for name, value in headers if name == b"transfer-encoding"] == [b"chunked"]


def repeat_framing(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Write again the fields that say how long the body is; empty if there is none."""
    framing = (b"content-length", b"transfer-encoding")
    return b"".join(b"%b: %b\r\n" % field for field in headers if field[0] in framing)


def split_target(target: bytes) -> tuple[bytes, bytes]:
    # Clients send the absolute form to a proxy.
    if not target.startswith(b"/"):
        parsed = httptools.parse_url(target)
        return parsed.path or b"/", parsed.query or b""
    path, _, query = target.partition(b"#")[0].partition(b"?")
    return path, query
