"""TLS between a socket and a ``Connection``, which reads plain octets from it and takes it for its transport.

::

    socket ─► slice ─► incoming ─► TLS ─► slice ─► Connection
       ▲                            │                  │
       └──────── outgoing ◄─────────┴──────────────────┘ write

The connection exists from the first moment, before the handshake. It counts, waits and is closed like any other, and
``FIRST_OCTET_TIMEOUT_S`` bounds the handshake and the first request together. asyncio's own TLS creates the connection
only after the handshake, and bounds nothing before that.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final, cast

from msgspec import Struct

from pixconnect.platform.base.address_rules import Network
from pixconnect.platform.environment import read_named_file
from pixconnect.platform.http.connection import Connection
from pixconnect.platform.http.exchange import ASGIApp
from pixconnect.platform.http.listening import SLICE_MAX, Connections
from pixconnect.platform.jose import certificate_thumbprint

# The longest line that version 1 can have, its end included.
_LINE_MAX: Final = 107
_SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_HEAD_LENGTH: Final = 16
_BLOCK_MAX: Final = 512  # of version 2 behind its head: addresses, and what proxies add that we do not read
_PACKED: Final = {0x11: (IPv4Address, 4), 0x21: (IPv6Address, 16)}


class ProxyHeaderError(Exception):
    """It is none, or exceeds the maximum length."""


class ProxyHeader(Struct, frozen=True, kw_only=True):
    # The connecting client's address and port; ``None`` if the proxy connected for itself, as for a health check.
    source: tuple[str, int] | None
    length: int  # in octets; what follows is the client's


def read_proxy_header(octets: bytes) -> ProxyHeader | None:
    """Read the header at the beginning; ``None`` while incomplete, ``ProxyHeaderError`` if no more octets could make it one."""
    # Octets may come one by one, so the beginning of a signature counts as one until more have come.
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
        # The proxy connects for itself here; any addresses are meaningless.
        return ProxyHeader(source=None, length=_HEAD_LENGTH + length)
    kind, size = _PACKED.get(family, (None, 0))
    # Access depends on the address, so a header without a readable one is refused.
    if kind is None or length < 2 * size + 4:
        raise ProxyHeaderError
    address = kind(octets[_HEAD_LENGTH : _HEAD_LENGTH + size])
    (port,) = struct.unpack_from("!H", octets, _HEAD_LENGTH + 2 * size)
    return ProxyHeader(source=(str(address), port), length=_HEAD_LENGTH + length)


class Tls(Struct, frozen=True, kw_only=True):
    """The TLS configuration of a server beside its plain sockets."""

    context: ssl.SSLContext
    sockets: Sequence[socket.socket]
    app: ASGIApp | None = None  # its application; ``None`` is the server's own
    # Networks of TCP proxies that first send their client's address; no other peer is trusted.
    proxies: Sequence[Network] = ()


def split(sockets: Sequence[socket.socket], port: int) -> tuple[Sequence[socket.socket], Sequence[socket.socket]]:
    """Separate plain sockets from those that listen on the TLS port; 0 means that there are none."""
    secure = [each for each in sockets if port and each.getsockname()[1] == port]
    return [each for each in sockets if each not in secure], secure


def make_context(certificate_file: str, key_file: str, authority_file: str, *, is_required: bool = False) -> ssl.SSLContext:
    """Make the TLS context of a server that asks each client for a certificate.

    Args:
        authority_file: The authorities that sign clients' certificates. A certificate of any other ends the handshake.
        is_required: Whether a client without a certificate is refused at the handshake, before it can send a request.

    Raises:
        OSError: A file cannot be read, or holds something else; ``SSLError`` is one.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Each connection shows its certificate itself, so we resume no session. We refuse renegotiation, which would cost
    # us a handshake each time.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    for file in (certificate_file, key_file, authority_file):
        read_named_file(file)  # OpenSSL would wait at a FIFO
    context.load_cert_chain(certificate_file, key_file)
    context.load_verify_locations(authority_file)
    context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context


class TlsConnection(asyncio.BufferedProtocol, asyncio.Transport):
    """Towards the socket the protocol, towards the connection its transport."""

    _socket: asyncio.Transport

    def __init__(
        self, connections: Connections, app: ASGIApp, context: ssl.SSLContext, proxies: Sequence[Network] = ()
    ) -> None:
        super().__init__()
        self._proxies = proxies
        # A proxy's partial header; None if none is expected.
        self._header: bytes | None = None
        self._source: tuple[str, int] | None = None
        self._connections = connections
        # None once the socket is gone: the two refer to each other.
        self._connection: Connection | None = Connection(connections, app)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._has_shaken_hands = False
        self._is_reading = True
        # Whether we have announced the end of our data.
        self._has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        peer = self._socket.get_extra_info("peername") if self._proxies else None
        if peer and any(ip_address(peer[0]) in network for network in self._proxies):
            self._header = b""
        if self._connection is not None:
            self._connection.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._connections.slice

    def buffer_updated(self, nbytes: int) -> None:
        if self._has_ended and self._connection is not None:
            # The connection drops and counts everything that arrives now.
            self._connection.buffer_updated(nbytes)
            return
        octets = memoryview(self._connections.slice)[:nbytes]
        if self._header is not None:
            octets = memoryview(self._read_header(bytes(octets)))
            if not octets:
                return
        self._incoming.write(octets)
        self._read_on()

    def _read_header(self, octets: bytes) -> bytes:
        """Return the octets after the proxy's header; empty while it is incomplete, or if it is none and we have closed."""
        so_far = (self._header or b"") + octets
        try:
            header = read_proxy_header(so_far)
        # Without its header a client would pass for the proxy, whose network may be permitted.
        except ProxyHeaderError:
            self._socket.abort()
            return b""
        if header is None:
            self._header = so_far
            return b""
        self._header, self._source = None, header.source
        if self._source is not None and self._connection is not None:
            # From here on it counts for the proxy's client.
            self._connections.remove(self._connection)
            self._connection.connection_made(self)
        return so_far[header.length :]

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.resume_writing()

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name == "peername" and self._source is not None:
            return self._source
        return self._socket.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._socket.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._is_reading = False
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        self._is_reading = True
        self._socket.resume_reading()
        # TLS holds octets that it has already read from the socket. Deliver them later: the connection is in the middle
        # of an event.
        asyncio.get_running_loop().call_soon(self._read_on)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._has_ended or self.is_closing():
            return
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        self._flush()

    def write_eof(self) -> None:
        self._end()
        self._socket.write_eof()

    def close(self) -> None:
        if not self.is_closing():
            self._end()
            self._socket.close()

    def abort(self) -> None:
        self._socket.abort()

    def _read_on(self) -> None:
        try:
            if not self._has_shaken_hands:
                self._tls.do_handshake()
                self._has_shaken_hands = True
                certificate = self._tls.getpeercert(binary_form=True)
                if certificate is not None and self._connection is not None:
                    self._connection.client_certificate = certificate_thumbprint(certificate)
                    self._connection.client_name = _read_name(self._tls.getpeercert())
                self._flush()
            self._pass_on()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError:
            # The certificate is not acceptable, or the client does not speak TLS. The buffer holds our alert for it.
            self._flush()
            self._socket.close()

    def _pass_on(self) -> None:
        while self._is_reading and self._connection is not None and not (self._has_ended or self.is_closing()):
            # With a buffer it returns a number, despite its stub.
            count = cast(int, self._tls.read(SLICE_MAX, self._connection.get_buffer(SLICE_MAX)))
            if not count:
                # The client has said that it sends no more, as when a plain socket ends.
                self.close()
                return
            self._connection.buffer_updated(count)

    def _flush(self) -> None:
        if octets := self._outgoing.read():
            self._socket.write(octets)

    def _end(self) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        if self._has_shaken_hands:
            # TLS would wait for the client's own close alert; we do not.
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()


def _read_name(certificate: Mapping[str, Any] | None) -> str | None:
    """The name in a certificate; ``None`` if it is not exactly one."""
    subject = (certificate or {}).get("subject", ())
    names = [value for part in subject for kind, value in part if kind == "commonName"]
    return names[0] if len(names) == 1 else None
