"""A provider's managed server: TLS only, no superuser for the customer, and a host name that outlives the machine.

The wheel's PostgreSQL has no TLS, so a proxy at the host name speaks PostgreSQL's TLS.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg

from pixconnect.platform.config import PostgresVersion
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from pixconnect.platform.local.embedded_roles import GROUP_ROLES
from pixconnect.platform.local.postgres_placement import CONSOLE_LOGIN_ROLE, LOGIN_ROLE
from pixconnect.platform.privileges import OPERATOR_ROLE
from support.loop_thread import LoopThread

HOST = "localhost"
ADMINISTRATOR = "administrator:provider"
_SSL_REQUEST = (8).to_bytes(4) + (80877103).to_bytes(4)
_GSS_REQUEST = (8).to_bytes(4) + (80877104).to_bytes(4)
_PART = 1 << 16


class Name:
    """An address in front of servers, which a test can lead to another one."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._leads_to = ""
        self._wires = set[asyncio.Task[None]]()
        self._thread = LoopThread("name")
        self._server = self._thread.ask(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def lead_to(self, socket_folder: str) -> None:
        self._thread.ask(self._lead_to(socket_folder))

    def prove_by(self, context: ssl.SSLContext) -> None:
        self._context = context

    def close(self) -> None:
        self.lead_to("")
        self._thread.loop.call_soon_threadsafe(self._server.close)
        self._thread.end()

    async def _lead_to(self, socket_folder: str) -> None:
        self._leads_to = socket_folder
        for wire in self._wires:
            wire.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._wires.add(task)
        task.add_done_callback(self._wires.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError, asyncio.CancelledError):
            request = await reader.readexactly(8)
            while request == _GSS_REQUEST:
                writer.write(b"N")
                request = await reader.readexactly(8)
            if request == _SSL_REQUEST:
                writer.write(b"S")
                await writer.start_tls(self._context)
                far_reader, far_writer = await asyncio.open_unix_connection(f"{self._leads_to}/.s.PGSQL.5432")
                try:
                    await _pass_both_ways(reader, writer, far_reader, far_writer)
                finally:
                    far_writer.close()
        writer.close()


async def _pass_both_ways(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    ways = [asyncio.ensure_future(_pass_on(reader, far_writer)), asyncio.ensure_future(_pass_on(far_reader, writer))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while octets := await reader.read(_PART):
        writer.write(octets)
        await writer.drain()


@contextmanager
def open_name(context: ssl.SSLContext) -> Iterator[Name]:
    name = Name(context)
    try:
        yield name
    finally:
        name.close()


def url_of(login: str, port: int, authority: Path, database: str = "pixconnect", host: str = HOST) -> str:
    """An address whose server must present a valid certificate."""
    return f"postgresql://{login}@{host}:{port}/{database}?sslmode=verify-full&sslrootcert={authority}"


@asynccontextmanager
async def open_managed_server(home: Path, version: PostgresVersion) -> AsyncIterator[tuple[str, Path]]:
    """The folder of its socket, and its programs. The customer may create roles and databases."""
    server = EmbeddedPostgres(home, version=version)
    await server.start()
    try:
        await _be_the_provider(server.owner_url)
        yield parse_qs(urlsplit(server.owner_url).query)["host"][0], server.programs / "bin"
    finally:
        await server.stop()


async def _be_the_provider(superuser_url: str) -> None:
    connection = await asyncpg.connect(superuser_url.replace("/pixconnect?", "/postgres?"))
    try:
        await connection.execute("drop database pixconnect")
        roles = (LOGIN_ROLE, CONSOLE_LOGIN_ROLE, OPERATOR_ROLE, *GROUP_ROLES)
        await connection.execute(f"drop role {', '.join(roles)}")
        name, _, password = ADMINISTRATOR.partition(":")
        await connection.execute(f"create role {name} login createrole createdb password '{password}'")
    finally:
        await connection.close()
