r"""All parts that ``run`` keeps running: PostgreSQL, the preparation, the sandbox, the API processes, the worker.

::

    API processes   worker
          \         /   \
           \       /   sandbox     all are spawned at once; each imports its modules and waits for the start signal,
          PostgreSQL              which is sent when the tables and the demonstration exist

    console                       is started by the first connection to its socket, and not before

Starts a process at the first connection to its socket, and again at the next connection after the process has ended.

Until then it costs a socket: the supervisor waits for it beside everything else, and nothing wakes up. The first connection
waits in the socket until the process answers. A failure of the process does not affect the rest of the installation.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from socket import socket

import msgspec

from pixconnect.doors.cli.settings import reachable_host, read_listeners
from pixconnect.platform import environment
from pixconnect.platform.config import NAMES, PostgresVersion, Settings
from pixconnect.platform.http import listening
from pixconnect.platform.local import postgres_placement
from pixconnect.platform.local.child_process import ChildFailedError, ChildProcess
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from pixconnect.platform.local.fork_server import ForkServer
from pixconnect.platform.local.home import Home, Prepared
from pixconnect.platform.local.process_death import Launch, wait_until_readable
from pixconnect.platform.local.supervisor import SupervisedPart, Supervisor
from pixconnect.running import part

RETRY_PAUSE_S = 5.0  # after a failed start: the waiting connection would otherwise start it again at once
_ENDED_WELL = "exit status 0"


class ActivatedProcess:
    """Keeps a process for a socket, and reports its starts and unexpected ends."""

    def __init__(self, child: ChildProcess, listener: socket, report: Callable[[str], None]) -> None:
        self._child = child
        self._listener = listener
        self._report = report
        self._task: asyncio.Task[None] | None = None

    def watch(self) -> None:
        self._task = asyncio.create_task(self._keep(), name=self._child.name)

    async def stop(self, timeout_s: float) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._child.stop(timeout_s)

    async def _keep(self) -> None:
        while True:
            await wait_until_readable(self._listener)
            try:
                await self._child.start()
            except ChildFailedError as error:
                self._report(f"{self._child.name} cannot start: {error}")
                await asyncio.sleep(RETRY_PAUSE_S)
                continue
            self._report(f"{self._child.name} is ready")
            reason = await self._child.wait_for_end()
            # An idle process ends by itself, which is not logged.
            if reason != _ENDED_WELL:
                self._report(f"{self._child.name} ended ({reason})")


_OTHER_CONNECTIONS = 30  # for the operator's verbs, housekeeping and people with psql

_CONSOLE_ABOVE_API = 1000
"""The console's default port, counted from the API's: so far above that a second service beside the first has room."""
_SANDBOX_ABOVE_API = 2000
"""The sandbox's port, fixed because codes of outside merchants contain it, which must outlive a restart."""

# Together below the 5 s within which Ctrl-C must have stopped everything.
_API_STOP_TIMEOUT_S = 3.0
_BACK_STOP_TIMEOUT_S = 0.9
_POSTGRES_STOP_TIMEOUT_S = 0.8


class Stack:
    """All parts of one installation.

    Args:
        fork_server: Starts the parts.

    Raises:
        ListeningError: A port cannot be listened on.
        PostgresUnavailableError: There is no embedded server for this system.
    """

    def __init__(self, settings: Settings, home: Home, report: Callable[[str], None], fork_server: ForkServer) -> None:
        self._report = report
        api_count = settings.api_processes_count or postgres_placement.cores_count()
        self._sockets = listening.open_listening(settings.host, settings.port, api_count, port_setting="PORT")
        self._tls_sockets = _listen_for_tls(settings, api_count)
        self._faces, face_sockets = _listen_for_faces(settings, api_count)
        self._tls_sockets += face_sockets
        self._sandbox_reservation = _reserve_sandbox(settings)
        self._console_socket = _open_console(settings)
        self.postgres = _embedded(settings, home, api_count, report)
        self.settings = _resolve(
            dataclasses.replace(settings, faces=self._faces),
            home,
            self._sockets[0],
            self._console_socket,
            self._sandbox_reservation,
            self.postgres,
        )
        # Only the preparation gets the owner's and the operator's addresses, and only the console its own.
        served = dataclasses.replace(self.settings, owner_database_url="", operator_database_url="")
        working = dataclasses.replace(served, console_database_url="")
        # Only the worker opens the key of credentials that send money over accounts: no process that callers reach.
        served = dataclasses.replace(served, sending_secret_key="", sending_secret_key_previous="")
        own = _environment(dataclasses.replace(served, console_database_url=""))
        if not self.settings.console_database_url:
            served = dataclasses.replace(served, operator_database_url=self.settings.operators_url)
        launch = fork_server.launch
        self._preparation = ChildProcess("preparation", part.command("prepare"), _environment(self.settings), launch=launch)
        self._sandbox = (
            [ChildProcess("sandbox", part.command("sandbox"), own, launch=launch)] if self._sandbox_reservation else []
        )
        self._api = [
            ChildProcess(
                f"API process {number}",
                part.command("serve"),
                # Each has its own port, above the worker's.
                own | {"PIXCONNECT_METRICS_PORT": str(self.settings.metrics_port and self.settings.metrics_port + number)},
                listening_sockets,
                launch,
            )
            for number, listening_sockets in enumerate(zip(self._sockets, *self._tls_sockets, strict=True), start=1)
        ]
        self._worker = ChildProcess("worker", part.command("work"), _environment(working), launch=launch)
        self._console = _make_console(served, self._console_socket, part.command("console"), report, launch)

    async def start(self) -> Prepared:
        """Start everything and return the preparation's report.

        Raises:
            ChildFailedError: A part cannot start.
            PostgresUnavailableError: The database cannot start.
        """
        children = [*self._sandbox, *self._api, self._worker]
        # They are forked while PostgreSQL starts: the preparation first, which works while the fork server imports the rest.
        preparing = asyncio.create_task(self._preparation.spawn())
        spawning = asyncio.create_task(_spawn(children))
        try:
            # PostgreSQL's start does much before it first waits, and the fork server looks for the preparation early.
            await asyncio.sleep(0)
            if self.postgres is not None:
                await self.postgres.start()
                self._report(f"PostgreSQL runs in {self.postgres.data_folder}")
            await preparing
            prepared = await self._prepare()
            await spawning
        finally:
            preparing.cancel()
            spawning.cancel()
        for child in children:
            child.signal_start()
        for child in children:
            await child.wait_until_ready()
            self._report(f"{child.name} is ready")
        # Its end takes a while, for which nothing waited until now.
        await self._preparation.wait_for_end()
        return prepared

    async def _prepare(self) -> Prepared:
        self._preparation.signal_start()
        prepared = msgspec.json.decode(await self._preparation.wait_until_ready(), type=Prepared)
        self._report(f"tables are up to date ({prepared.steps_count} steps applied)")
        if prepared.sandbox_file is not None:
            self._report("demonstration holder, client and Pix keys are ready")
        return prepared

    def watch(self, supervisor: Supervisor) -> None:
        base: list[SupervisedPart] = []
        if self.postgres is not None:
            supervisor.watch(self.postgres)
            base.append(self.postgres)
        for child in (*self._sandbox, *self._api, self._worker):
            supervisor.watch(child, depends_on=base)
        # An error here never ends the rest: no money depends on the console.
        if self._console is not None:
            self._console.watch()

    async def stop(self) -> None:
        # No new connections; then the API processes, whose running requests still need all the others; the database last.
        for one in (*self._sockets, *chain(*self._tls_sockets), self._sandbox_reservation):
            if one is not None:
                one.close()
        await asyncio.gather(_stop_together([self._preparation, *self._api], _API_STOP_TIMEOUT_S), self._stop_console())
        await _stop_together([self._worker, *self._sandbox], _BACK_STOP_TIMEOUT_S)
        if self.postgres is not None:
            await self.postgres.stop(_POSTGRES_STOP_TIMEOUT_S)

    async def _stop_console(self) -> None:
        if self._console is not None:
            await self._console.stop(_BACK_STOP_TIMEOUT_S)
        # Not earlier: until now another process listens on it.
        if self._console_socket is not None:
            self._console_socket.close()


async def _spawn(children: list[ChildProcess]) -> None:
    for child in children:
        await child.spawn()


async def _stop_together(children: list[ChildProcess], timeout_s: float) -> None:
    await asyncio.gather(*(child.stop(timeout_s) for child in children))


def _listen_for_tls(settings: Settings, count: int) -> list[list[socket]]:
    """Return one list of sockets, one for each API process; no list without a port for TLS."""
    if not settings.tls_port:
        return []
    host = settings.tls_host or settings.host
    return [listening.open_listening(host, settings.tls_port, count, port_setting="PIXCONNECT_TLS_PORT")]


def _listen_for_faces(settings: Settings, count: int) -> tuple[str, list[list[socket]]]:
    """Return the faces with their ports, and their sockets as of ``_listen_for_tls``."""
    if not settings.faces:
        return "", []
    opened: list[list[socket]] = []
    faces: list[str] = []
    for listener in read_listeners(settings):
        sockets = listening.open_listening(settings.host, listener.port, count, port_setting="PIXCONNECT_FACES")
        opened.append(sockets)
        faces.append(f"{listener.face}:{sockets[0].getsockname()[1]}")
    return ",".join(faces), opened


def _open_console(settings: Settings) -> socket | None:
    """Listen for the console's visitors; in live mode only if browsers reach it by https."""
    if settings.mode == "live" and not settings.console_base_url.startswith("https://"):
        return None
    ports = [settings.console_port]
    if not settings.console_port and settings.port:
        ports = [settings.port + _CONSOLE_ABOVE_API, 0]
    listen = partial(listening.open_listening, settings.console_host, count=1, port_setting="PIXCONNECT_CONSOLE_PORT")
    return _open_first(ports, lambda port: listen(port)[0])


def _open_first(ports: Sequence[int], open_at: Callable[[int], socket]) -> socket:
    """Open a socket at the first of these ports that is free; the last one's error is raised."""
    for port in ports[:-1]:
        with suppress(listening.ListeningError, OverflowError):
            return open_at(port)
    return open_at(ports[-1])


def _make_console(
    settings: Settings, listener: socket | None, command: list[str], report: Callable[[str], None], launch: Launch
) -> ActivatedProcess | None:
    if listener is None:
        return None
    child = ChildProcess("console", command, _environment(settings), [listener], launch)
    return ActivatedProcess(child, listener, report)


def _reserve_sandbox(settings: Settings) -> socket | None:
    if settings.mode != "sandbox" or settings.rail_url:
        return None
    ports = [settings.port + _SANDBOX_ABOVE_API, 0] if settings.port else [0]
    return _open_first(ports, partial(listening.reserve_port, "127.0.0.1", port_setting="PIXCONNECT_RAIL_URL"))


def _embedded(settings: Settings, home: Home, api_count: int, report: Callable[[str], None]) -> EmbeddedPostgres | None:
    if settings.database_url:
        return None

    def find_template(version: PostgresVersion) -> Path | None:
        from pixconnect.running import template  # noqa: PLC0415 - only a new home needs it

        # It has the tables of a sandbox.
        return template.find(version) if settings.mode == "sandbox" else None

    return EmbeddedPostgres(
        home.path,
        version=settings.postgres_version,
        # Of all parts together: beside the API, the worker, the console, the sandbox and the preparation.
        connections_max=(api_count + 4) * settings.database_connections_max + _OTHER_CONNECTIONS,
        # The preparation does.
        makes_roles=False,
        find_template=find_template,
        report=report,
    )


def _resolve(
    settings: Settings,
    home: Home,
    api_socket: socket,
    console_socket: socket | None,
    sandbox_reservation: socket | None,
    postgres: EmbeddedPostgres | None,
) -> Settings:
    port = int(api_socket.getsockname()[1])
    found = dataclasses.replace(
        settings, home=str(home.path), port=port, base_url=settings.base_url or f"http://{reachable_host(settings.host)}:{port}"
    )
    if console_socket is not None:
        console_port = int(console_socket.getsockname()[1])
        found = dataclasses.replace(
            found,
            console_port=console_port,
            console_base_url=settings.console_base_url or f"http://{reachable_host(settings.console_host)}:{console_port}",
        )
    if sandbox_reservation is not None:
        found = dataclasses.replace(found, rail_url=f"http://127.0.0.1:{sandbox_reservation.getsockname()[1]}")
    if postgres is not None:
        found = dataclasses.replace(
            found,
            database_url=postgres.login_url,
            owner_database_url=postgres.owner_url,
            console_database_url=postgres.console_url,
        )
    return found


def _environment(settings: Settings) -> dict[str, str]:
    # Secrets from files stay in files, so that no environment contains them.
    files = {name: path for name, path in environment.secret_files().items() if getattr(settings, name)}
    plain = [name for name in NAMES if name not in files]
    return (
        part.inherited_environment()
        | {f"PIXCONNECT_{name.upper()}": str(getattr(settings, name)) for name in plain}
        | {f"PIXCONNECT_{name.upper()}_FILE": str(path) for name, path in files.items()}
    )
