"""Finds the end of a request's head, and checks what httptools accepts or reads differently."""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

import httptools

from pixconnect.platform.http.exchange import HTTP, Scope
from pixconnect.platform.http.listening import CHUNKS_AT_ONCE, CUT_COSTS, FIELDS_MAX, TRAILERS_MAX

_BLANK: Final = 0x20
_END: Final = b"\r\n\r\n"
_VERSIONS: Final = ("1.1", "1.0")
_HOST: Final = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:%\[\]-]*")  # the characters of a host with a port (RFC 3986)


class Head:
    __slots__ = ("headers", "opening", "url")

    def __init__(self) -> None:
        # The octets as they were sent.
        self.opening: bytes | bytearray = b""
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []

    def find_refusal(self, version: str, method: bytes, fields: Mapping[bytes, bytes], host_before: bytes) -> HTTPStatus | None:
        """Why it is refused; ``fields`` has the last of repeated headers, ``host_before`` was checked with an earlier head."""
        is_each_once = len(fields) == len(self.headers)
        # On a kept connection the host is the same each time, so we check it once.
        is_as_before = version == "1.1" and is_each_once and fields.get(b"host") == host_before
        is_fit = is_as_before or _is_fit(version, self.headers, fields)
        # The end of this body is ambiguous, so it is not passed on: a proxy before us may see its end elsewhere.
        is_framed = b"transfer-encoding" not in fields or _is_chunked_alone(self.headers)
        if not (is_fit and is_framed and _is_opening_strict(self.opening, method, self.url)):
            return HTTPStatus.BAD_REQUEST
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if len(self.headers) > FIELDS_MAX else None

    def make_scope(
        self,
        version: str,
        method: bytes,
        fields: Mapping[bytes, bytes],
        client: tuple[str, int] | None,
        client_certificate: str | None,
    ) -> Scope:
        raw_path, query = _split_target(self.url)
        return {
            "type": HTTP,
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "client": client,
            "client_certificate": client_certificate,
            "method": method.decode("ascii"),
            "raw_path": raw_path,
            "query_string": query,
            "headers": self.headers,
            "headers_by_name": fields if len(fields) == len(self.headers) else None,
        }

    def repeat_framing(self) -> bytes:
        """Write the fields on the body's length again; empty if there is none."""
        framing = (b"content-length", b"transfer-encoding")
        return b"".join(b"%b: %b\r\n" % field for field in self.headers if field[0] in framing)


class MessageBody:
    """The rest of a request after its head."""

    __slots__ = ("left", "octets", "skipped_framing", "trailer_octets", "wire_octets")

    def __init__(self, left: int, skipped_framing: bytes) -> None:
        # Octets of a body with a content-length.
        self.left = left
        # The fields on the body's length, if the parser stops because of an offer to upgrade.
        self.skipped_framing = skipped_framing
        # Octets of a chunked body: its own, those on the wire, and those of complete trailers.
        self.octets = self.wire_octets = self.trailer_octets = 0

    def find_cut(self, octets: bytes | bytearray, position: int, end: int, tail: bytes) -> int:
        """Where to cut the octets in and around chunks: at a blank line, which counts as one of them, or after a little."""
        cut = find_end(octets, position, end, tail)
        if cut - position > CHUNKS_AT_ONCE:
            return position + CHUNKS_AT_ONCE
        if cut < end:
            self.wire_octets += CUT_COSTS
        return cut

    @property
    def is_overhead_too_large(self) -> bool:
        """Whether there are more octets around the chunks than chunks of 64 octets need."""
        return self.wire_octets - self.octets > TRAILERS_MAX + self.octets // 8


def find_end(octets: bytes | bytearray, position: int, end: int, tail: bytes) -> int:
    """Where a head or trailers end, or ``end`` if not here; ``tail`` are up to three octets before ``position``."""
    # The blank line may be split between two parts.
    if tail:
        seam = (tail + octets[position : position + 3]).find(_END)
        if seam >= 0:
            return position + seam + len(_END) - len(tail)
    found = octets.find(_END, position) if position else octets.find(_END)
    return end if found < 0 else found + len(_END)


def _is_opening_strict(opening: bytes | bytearray, method: bytes, target: bytes) -> bool:
    """Whether exactly one blank separates method, target and version."""
    start = len(method) + 1
    end = start + len(target)
    return opening[start] != _BLANK and opening[end] == _BLANK and opening[end + 1] != _BLANK


def _is_fit(version: str, headers: Sequence[tuple[bytes, bytes]], fields: Mapping[bytes, bytes]) -> bool:
    """Whether we speak the version, and the host is named once and well-formed."""
    if version not in _VERSIONS:
        return False
    host = fields.get(b"host")
    # Only HTTP/1.1 requires it (RFC 9112, 3.2).
    if host is None:
        return version == "1.0"
    # Of two hosts a proxy in front of us could use one and we the other.
    if len(fields) != len(headers) and sum(name == b"host" for name, _ in headers) > 1:
        return False
    return _HOST.fullmatch(host) is not None


def _is_chunked_alone(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    return [value.strip(b" \t").lower() for name, value in headers if name == b"transfer-encoding"] == [b"chunked"]


def _split_target(target: bytes) -> tuple[bytes, bytes]:
    # Clients send the absolute form to a proxy.
    if not target.startswith(b"/"):
        parsed = httptools.parse_url(target)
        return parsed.path or b"/", parsed.query or b""
    path, _, query = target.partition(b"#")[0].partition(b"?")
    return path, query
