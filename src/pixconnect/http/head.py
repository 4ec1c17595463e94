"""What of a request's head the parser accepts and we refuse, or would read in another way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import httptools

_BLANK: Final = 0x20
_VERSIONS: Final = ("1.1", "1.0")
_HOST: Final = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:%\[\]-]*")
"""RFC 3986's host with a port, as to its characters."""


def is_opening_strict(opening: bytes | bytearray, method: bytes, target: bytes) -> bool:
    """Whether there is one blank between method, target and version: the parser would take more."""
    start = len(method) + 1
    end = start + len(target)
    return opening[start] != _BLANK and opening[end] == _BLANK and opening[end + 1] != _BLANK


def is_fit(version: str, headers: Sequence[tuple[bytes, bytes]], fields: Mapping[bytes, bytes]) -> bool:
    """Whether a head is one of a version that we speak, and says once and in good form for which host it is.

    Args:
        headers: As they came, names in lower case.
        fields: The same by name, of a repeated one the last.
    """
    if version not in _VERSIONS:
        return False
    host = fields.get(b"host")
    if host is None:
        return version == "1.0"  # which has virtual hosts only by custom (RFC 9112, 3.2)
    # Two hosts could be read as one by us and as the other by a proxy before us.
    if len(fields) != len(headers) and sum(name == b"host" for name, _ in headers) > 1:
        return False
    return _HOST.fullmatch(host) is not None


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request's target."""
    if not target.startswith(b"/"):  # the absolute form, as proxies send it
        parsed = httptools.parse_url(target)
        return parsed.path or b"/", parsed.query or b""
    path, _, query = target.partition(b"#")[0].partition(b"?")
    return path, query
