"""One PostgreSQL server per test run, and a copy of a migrated template database for each test that asks for one."""

import asyncio
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import urlsplit

import asyncpg
import msgspec
from msgspec import Struct

from pixconnect.features.sandbox.network import read_network_steps
from pixconnect.kernel.baseline import read_service_steps
from pixconnect.platform import migrations as schema_history
from pixconnect.platform import privileges
from pixconnect.platform.config import PostgresVersion
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from pixconnect.platform.local.postgres_placement import LOGIN_ROLE, Placement
from pixconnect.platform.migrations import read_steps
from support.kept_pools import NAME as KEPT_NAME
from support.kept_pools import kept_pools

Answer = TypeVar("Answer")

TEMPLATE = "pixconnect_template"
SECOND_LOGIN_ROLE = "pixconnect_second_login"
SCHEMAS = {
    "pixconnect": read_service_steps(),
    "sandbox": read_network_steps(),
    "verify": read_steps("pixconnect.features.proof.tables"),
}


class Addresses(Struct, frozen=True, kw_only=True):
    """The addresses of a database, as the superuser and as the service's login, which owns nothing."""

    owner_url: str
    service_url: str


class Server:
    """The server of the run: not durable, and removed with the run."""

    def __init__(self, version: PostgresVersion) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="pixconnect-tests-"))
        self._home.chmod(0o711)  # as root, the server's user must be able to enter
        self._postgres = EmbeddedPostgres(self._home, version=version, connections_max=400, durable=False)

    def start(self) -> Addresses:
        asyncio.run(self._start())
        return Addresses(owner_url=self._postgres.owner_url, service_url=self._postgres.login_url)

    def stop(self) -> None:
        asyncio.run(self._postgres.stop())
        shutil.rmtree(self._home, ignore_errors=True)

    async def _start(self) -> None:
        await self._postgres.start()
        for url in (self._postgres.owner_url, self._postgres.login_url):
            # With the usual iterations the password would be most of a connection's cost.
            login = urlsplit(url)
            await _execute(
                self._postgres.owner_url, f"set scram_iterations = 1; alter role {login.username} password '{login.password}'"
            )
        await make_template(self._postgres.owner_url)


async def make_template(owner_url: str) -> None:
    """Make the template of all test databases."""
    await _execute(owner_url, f"create database {TEMPLATE}")
    connection = await asyncpg.connect(_in_database(owner_url, TEMPLATE))
    try:
        await privileges.make_roles(connection, with_sandbox=True)
        for schema, steps in SCHEMAS.items():
            await schema_history.migrate(connection, schema, steps)
        # In tests one login has both roles; in production the service's may not.
        await connection.execute(f"grant pixconnect_operator to {LOGIN_ROLE}")
        # A second operator's, with the same password.
        hashed = await connection.fetchval("select rolpassword from pg_authid where rolname = $1", LOGIN_ROLE)
        await connection.execute(f"create role {SECOND_LOGIN_ROLE} login password '{hashed}'")
        await connection.execute(f"grant pixconnect_operator to {SECOND_LOGIN_ROLE} with inherit false")
        await connection.execute(f"grant {privileges.VERIFIER_ROLE} to {LOGIN_ROLE}")
        await privileges.grant_reading(connection, "pixconnect")
        await privileges.allow_play(connection, "pixconnect", LOGIN_ROLE)
        await privileges.narrow(connection, "pixconnect", LOGIN_ROLE, "pixconnect_service")
    finally:
        await connection.close()


def log_in_second(url: str) -> str:
    """A service's address, for the second operator's login."""
    return url.replace(LOGIN_ROLE, SECOND_LOGIN_ROLE, 1)


async def make_copy(server: Addresses, name: str) -> Addresses:
    # Copied file by file; the default copy through the write-ahead log takes three times as long.
    await _execute(server.owner_url, f"create database {name} template {TEMPLATE} strategy file_copy")
    await _execute(server.owner_url, f"revoke temporary on database {name} from public")  # that is not copied
    return in_database(server, name)


async def make_empty(server: Addresses, name: str) -> Addresses:
    await _execute(server.owner_url, f"create database {name} template template0")
    return in_database(server, name)


def in_database(server: Addresses, name: str) -> Addresses:
    return Addresses(owner_url=_in_database(server.owner_url, name), service_url=_in_database(server.service_url, name))


_FINGERPRINT = """
    select md5(string_agg(line, ',' order by line)) from (
        select format('%s %s %s %s', oid, relname, relnatts, relacl) as line from pg_class
        where relnamespace in (select oid from pg_namespace where nspname in ('pixconnect', 'sandbox', 'verify', 'public'))
        union all select format('%s %s %s', tgrelid, tgname, tgenabled) from pg_trigger where not tgisinternal
        union all select format('%s %s', conrelid, conname) from pg_constraint
        union all select format('%s %s', seqrelid, seqstart) from pg_sequence
        union all select format('%s %s', oid, prosrc) from pg_proc where pronamespace = 'pixconnect'::regnamespace
    ) as lines
"""
_OTHERS = f"""
    select count(*) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
        and not (application_name = '{KEPT_NAME}' and state = 'idle')
"""
_TABLES = """
    select format('%I.%I', schemaname, tablename) as name from pg_tables
    where schemaname in ('pixconnect', 'sandbox', 'verify')
"""
_OF_OWNER = {"search_path": "pixconnect", "plan_cache_mode": "force_generic_plan"}
_STATEMENTS_MAX = 500
_RESTART_SEQUENCES = "perform setval(seqrelid::regclass, seqstart, false) from pg_sequence"


class Copy:
    """A copy that is emptied again and again, which takes a tenth of the time of a new copy.

    Its owner's connection stays open on a separate loop, because a new connection with cold caches costs the server
    twice as much as the emptying.
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _open: ClassVar[set[asyncpg.Connection]] = set()
    _connections: ClassVar[dict[str, asyncpg.Connection]] = {}  # the kept databases by the owner's address

    def __init__(self, name: str, addresses: Addresses, connection: asyncpg.Connection) -> None:
        self.name = name
        self.addresses = addresses
        self._connection = connection
        self._fingerprint = ""
        self._fills: dict[str, str] = {}  # by table name, SQL that restores its initial rows
        self._look_at_fills = ""
        self._filled: dict[str, str] = {}  # the versions of those rows

    @classmethod
    async def make(cls, server: Addresses, name: str) -> Self:
        return await cls._elsewhere(cls._make(server, name))

    async def restore(self) -> bool:
        """Empty it; ``False`` if it is still in use or more than rows has changed."""
        return await self._elsewhere(self._restore())

    @classmethod
    async def ask(cls, addresses: Addresses, work: Callable[[asyncpg.Connection], Coroutine[Any, Any, Answer]]) -> Answer:
        """Query over the owner's connection, with statements prepared in earlier tests; no trigger fires there."""
        connection = cls._connections.get(addresses.owner_url)
        if connection is not None and not connection.is_closed():
            return await cls._elsewhere(work(connection))
        connection = await asyncpg.connect(addresses.owner_url, server_settings=_OF_OWNER)
        try:
            return await work(connection)
        finally:
            await connection.close()

    async def drop(self, server: Addresses) -> None:
        Copy._connections.pop(self.addresses.owner_url, None)
        for url in (self.addresses.owner_url, self.addresses.service_url, log_in_second(self.addresses.service_url)):
            await kept_pools.forget(url)
        await self._elsewhere(self._close(self._connection))
        await drop_copy(server, self.name)

    @classmethod
    def close_all(cls) -> None:
        if (loop := Copy._loop) is not None:
            for connection in list(cls._open):
                asyncio.run_coroutine_threadsafe(cls._close(connection), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    @classmethod
    async def _close(cls, connection: asyncpg.Connection) -> None:
        cls._open.discard(connection)
        await connection.close(timeout=10)

    @classmethod
    async def _make(cls, server: Addresses, name: str) -> Self:
        addresses = await make_copy(server, name)
        connection = await asyncpg.connect(addresses.owner_url, server_settings=_OF_OWNER, statement_cache_size=_STATEMENTS_MAX)
        copy = cls(name, addresses, connection)
        cls._open.add(connection)
        cls._connections[addresses.owner_url] = connection
        await copy._look()
        return copy

    async def _look(self) -> None:
        fetchval = self._connection.fetchval
        tables = [row["name"] for row in await self._connection.fetch(_TABLES)]
        rows = {table: await fetchval(f"select jsonb_agg(row)::text from {table} as row") for table in tables}
        self._fingerprint = await fetchval(_FINGERPRINT)
        self._fills = {
            table: f"delete from {table};"
            f"insert into {table} select * from jsonb_populate_recordset(null::{table}, $rows${found}$rows$)"
            for table, found in rows.items()
            if found
        }
        self._look_at_fills = " union all ".join(
            f"select '{table}' as name, string_agg(concat(xmin, ctid), ' ' order by ctid) as versions from {table}"
            for table in self._fills
        )
        self._filled = await self._look_at_filled()
        # A function of the session keeps its plans.
        deletes = ";".join(f"delete from {table}" for table in tables if table not in self._fills)
        await self._connection.execute(f"""
            create function pg_temp.empty() returns void language plpgsql as $body$
                begin {deletes}; {_RESTART_SEQUENCES}; end
            $body$;
            set session_replication_role = replica
        """)

    async def _look_at_filled(self) -> dict[str, str]:
        return {row["name"]: row["versions"] for row in await self._connection.fetch(self._look_at_fills)}

    async def _restore(self) -> bool:
        try:
            fetchval = self._connection.fetchval
            if await fetchval(_OTHERS) or await fetchval(_FINGERPRINT) != self._fingerprint:
                return False
            await self._connection.execute("select pg_temp.empty()")
            filled = await self._look_at_filled()
            if changed := [fill for table, fill in self._fills.items() if filled[table] != self._filled[table]]:
                await self._connection.execute(";".join(changed))
                self._filled = await self._look_at_filled()
        except (asyncpg.PostgresConnectionError, asyncpg.InterfaceError):
            return False  # a test has ended all connections
        return True

    @classmethod
    async def _elsewhere(cls, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run it on a loop that outlives the test's."""
        if Copy._loop is None:
            Copy._loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(Copy._loop,), name="copies", daemon=True).start()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, Copy._loop))


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


async def drop_copy(server: Addresses, name: str) -> None:
    await _execute(server.owner_url, f"drop database {name} with (force)")


def remove_home(folder: Path) -> None:
    """Remove a home, and the files that its server keeps elsewhere."""
    for record in folder.rglob("postgres.json"):
        placed = record.parent / msgspec.json.decode(record.read_bytes(), type=Placement).folder
        shutil.rmtree(placed, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def execute(url: str, statement: str) -> None:
    """Run one statement in a test without a loop."""
    asyncio.run(_execute(url, statement))


@asynccontextmanager
async def as_owner(database: Addresses) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    connection = await asyncpg.connect(database.owner_url, server_settings={"search_path": "pixconnect"})
    try:
        yield connection
    finally:
        await connection.close()


async def execute_as_owner(database: Addresses, statement: str) -> None:
    """Run a statement that the service has no permission for; its settings only apply to itself."""
    async with kept_pools.take(database.owner_url, role=None, connections_max=1, name="test owner") as pool:
        await pool.execute(statement)
        await pool.execute("reset all")


async def make_live(database: Addresses) -> None:
    """Make the empty database live for good."""
    await execute_as_owner(
        database, "insert into installation (mode, location_prefixes) values ('live', '{127.0.0.1:8080/qr/}')"
    )


async def ask(url: str, question: str) -> Any:
    """The value that a statement returns on a connection of its own."""
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


async def _execute(url: str, statement: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.execute(statement)
    finally:
        await connection.close()


def _in_database(url: str, name: str) -> str:
    return url.replace("@/pixconnect?", f"@/{name}?")
