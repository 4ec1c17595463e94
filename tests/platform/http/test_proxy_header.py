"""The PROXY protocol in both versions, in pieces of any size, and invalid headers."""

import struct

import pytest

from pixconnect.platform.http.tls import ProxyHeader, ProxyHeaderError, read_proxy_header

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V4 = bytes([203, 0, 113, 7, 127, 0, 0, 1]) + struct.pack("!HH", 51000, 443)
V6 = bytes.fromhex("20010db8000000000000000000000007") + bytes(15) + b"\x01" + struct.pack("!HH", 51000, 443)
EXTRA = b"\x04\x00\x03abc"


def block(command: int, family: int, addresses: bytes) -> bytes:
    return SIGNATURE + struct.pack("!BBH", command, family, len(addresses)) + addresses


HEADERS = [
    (b"PROXY TCP4 203.0.113.7 127.0.0.1 51000 443\r\n", ("203.0.113.7", 51000)),
    (b"PROXY TCP6 2001:db8::7 ::1 51000 443\r\n", ("2001:db8::7", 51000)),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    (block(0x21, 0x11, V4), ("203.0.113.7", 51000)),
    (block(0x21, 0x11, V4 + EXTRA), ("203.0.113.7", 51000)),
    (block(0x21, 0x21, V6), ("2001:db8::7", 51000)),
    (block(0x20, 0x00, b""), None),
]


@pytest.mark.parametrize(("header", "source"), HEADERS)
def test_a_header_is_read_once_all_of_it_is_there(header: bytes, source: tuple[str, int] | None) -> None:
    for length in range(len(header)):
        assert read_proxy_header(header[:length]) is None
    read = ProxyHeader(source=source, length=len(header))
    assert read_proxy_header(header) == read_proxy_header(header + b"\x16\x03\x01") == read


@pytest.mark.parametrize(
    "octets",
    [
        b"\x16\x03\x01",
        b"GET / HTTP/1.1\r\n",
        b"PROXY TCP4 203.0.113.7\r\n",
        b"PROXY TCP4 2001:db8::7 ::1 51000 443\r\n",
        b"PROXY TCP4 203.0.113.7 127.0.0.1 99999 443\r\n",
        b"PROXY TCP4 203.0.113.7 127.0.0.1 -1 443\r\n",
        b"PROXY TCP4 nobody 127.0.0.1 1 443\r\n",
        b"PROXY " + b"x" * 120,
        block(0x21, 0x11, V4[:6]),
        block(0x21, 0x12, V4),
        block(0x11, 0x11, V4),
        SIGNATURE + b"\x21\x11\xff\xff",
    ],
)
def test_what_is_no_header_is_refused(octets: bytes) -> None:
    with pytest.raises(ProxyHeaderError):
        read_proxy_header(octets)
