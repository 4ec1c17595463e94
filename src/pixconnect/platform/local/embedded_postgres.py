"""Runs an embedded PostgreSQL in the foreground, as a child process that dies with us.

It listens only on a socket in a private folder, with separate passwords. Processes that the last run left behind (a server
still shutting down, a backend busy after kill -9) are killed first: only those whose working folder is our data folder, and
only under that folder's lock, so that two supervisors never share the data.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from pixconnect.platform.base import errors
from pixconnect.platform.config import POSTGRES_NEWEST, POSTGRES_VERSIONS, PostgresVersion
from pixconnect.platform.local import cluster_template, postgres_placement, process_death
from pixconnect.platform.local import home as home_files
from pixconnect.platform.local.postgres_placement import (
    CONSOLE_LOGIN_ROLE,
    DATABASE,
    FEW_ITERATIONS,
    INITDB_OPTIONS,
    LOGIN_ROLE,
    OWNER_ROLE,
    PostgresUnavailableError,
)

# Recovery reads at most max_wal_size.
READY_TIMEOUT_S = 120
LEFTOVERS_TIMEOUT_S = 30
_LEFTOVERS = ("pre-existing shared memory block", '" already exists')
_POLL_S = 0.01
_READY_POLL_S = 0.002
_NEW_DATA_SIZE = 64 * 1024 * 1024
_LOG_READ_SIZE = 65_536
_LOG_SIZE_MAX = 4 * 1024 * 1024


class EmbeddedPostgres:
    """One server and its data.

    Args:
        home: An existing folder that holds all our state.
        version: For a new home; an old one keeps its version.
        makes_roles: Whether a start makes the database and the roles that it lacks (``embedded_roles``).
        find_template: Called for a new home: the cluster that it copies, if there is one.
        report: Called with a line about each unusual step.
    """

    name = "PostgreSQL"
    lacked_database = False

    def __init__(
        self,
        home: Path,
        *,
        version: PostgresVersion = POSTGRES_NEWEST,
        connections_max: int = 100,
        durable: bool = True,
        makes_roles: bool = True,
        find_template: Callable[[PostgresVersion], Path | None] = lambda _version: None,
        report: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._home = home
        self._version: PostgresVersion = version
        self._connections_max = connections_max
        self._durable = durable
        self._makes_roles = makes_roles
        self._find_template = find_template
        self._report = report
        self._user = postgres_placement.find_unprivileged_user() if os.geteuid() == 0 else None
        self._placement = postgres_placement.find_placement(home, self._user, report)
        self._folder = home / self._placement.folder
        if not self._folder.exists():
            self._folder.mkdir()
            self._folder.chmod(0o711)
        self._socket_folder = postgres_placement.find_socket_folder(self._folder)
        self._lock: BinaryIO | None = None
        self._log_start = 0  # the beginning of this start's log: everything before is an earlier one's
        self._watcher: subprocess.Popen[bytes] | None = None
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def owner_url(self) -> str:
        """The superuser's address; valid before the server is started."""
        return postgres_placement.address(OWNER_ROLE, self._placement.owner_password, self._socket_folder, DATABASE)

    @property
    def login_url(self) -> str:
        """The address of the service's login, which owns nothing and may take the group roles."""
        return postgres_placement.address(LOGIN_ROLE, self._placement.login_password, self._socket_folder, DATABASE)

    @property
    def console_url(self) -> str:
        """The address of the console's login, which may sign people in."""
        password = self._placement.console_password
        return postgres_placement.address(CONSOLE_LOGIN_ROLE, password, self._socket_folder, DATABASE)

    @property
    def data_folder(self) -> Path:
        return self._folder / "data"

    @property
    def programs(self) -> Path:
        """The wheel's programs for this data's version, tools such as ``pgbench`` included."""
        return postgres_placement.find_programs(self._data_version() or self._version)

    async def start(self) -> None:
        """Start the server, again if it has died, until it answers; ``PostgresUnavailableError`` states why and the remedy."""
        try:
            await self._start()
        # Also when the start is cancelled.
        except BaseException:
            await self.stop(timeout_s=0.5)
            raise

    async def _start(self) -> None:
        self._take_lock()
        # If we are root, the server runs as another user, inside the home.
        is_closed = self._user is not None and not self._home.stat().st_mode & 0o001
        if is_closed and self._folder.is_relative_to(self._home):
            raise PostgresUnavailableError(
                f"PostgreSQL runs as another user, who must be able to enter {self._home}: chmod 711 {self._home}"
            )
        self._refuse_hot_copy()
        if self._log_size() > _LOG_SIZE_MAX:
            self._log.replace(self._log.with_suffix(".log.old"))
        self._log_start = self._log_size()
        postgres_placement.make_private(self._socket_folder, self._user)
        await self._end_leftovers()
        programs = self.programs
        if self._user is not None:
            programs = postgres_placement.make_runnable(programs, self._user, self._folder)
        if self._data_version() is None:
            await self._create_data(programs)
        deadline = time.monotonic() + LEFTOVERS_TIMEOUT_S
        while not await self._try_to_start(programs):
            if time.monotonic() > deadline:
                raise PostgresUnavailableError(f"PostgreSQL does not start: {self._last_log_line()}")
            await self._end_leftovers()
            await asyncio.sleep(0.2)
        if self._makes_roles:
            # The supervisor has another process make them, and so needs no driver.
            from pixconnect.platform.local import embedded_roles  # noqa: PLC0415

            await embedded_roles.make(self.owner_url, self._placement)

    async def wait_for_end(self) -> str:
        """Wait until the server has ended and describe why."""
        return process_death.describe_exit(await process_death.exit_status(errors.require(self.process, "not started")))

    async def stop(self, timeout_s: float = 4.0) -> None:
        """Shut down; after ``timeout_s`` without a clean end, so that the next start recovers."""
        # SIGINT ends the sessions and writes everything. After SIGQUIT and SIGKILL the next start has to recover.
        for stop_signal, wait_s in ((signal.SIGINT, timeout_s), (signal.SIGQUIT, 2.0), (signal.SIGKILL, 2.0)):
            if self.process is None or self.process.poll() is not None:
                break
            self.process.send_signal(stop_signal)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await process_death.exit_status(self.process)
        self._cancel_watcher()
        # After a kill the folder is not empty; the next start uses it again.
        with contextlib.suppress(OSError):
            self._socket_folder.rmdir()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        lock = (self._folder / "lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise PostgresUnavailableError(f"another instance uses the tables in {self._folder}: stop it") from None
        self._lock = lock

    def _refuse_hot_copy(self) -> None:
        """Refuse data copied under a running server: its files may not fit together."""
        try:
            pid, original, *_ = (self.data_folder / "postmaster.pid").read_text().splitlines()
            says, *_ = (Path(original) / "postmaster.pid").read_text().splitlines()
            if Path(original) == self.data_folder or says != pid:
                return
            os.kill(int(pid), 0)
        except (OSError, ValueError):
            # No such file, or no such process: a home that was moved or copied while nothing ran.
            return
        raise PostgresUnavailableError(
            f"{self.data_folder} was copied from {original} while its server ran: stop that service, remove this home, and "
            "copy it again"
        )

    def _data_version(self) -> PostgresVersion | None:
        """The version that made the data; ``None`` if there is no data yet."""
        try:
            found = (self.data_folder / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            return None
        except PermissionError:
            raise PostgresUnavailableError(f"{self.data_folder} belongs to another user: start as that user") from None
        if found in POSTGRES_VERSIONS:
            return found
        raise PostgresUnavailableError(
            f"the tables in {self.data_folder} are of PostgreSQL {found}: run the newer pixconnect that made them, "
            "or set PIXCONNECT_HOME to another folder"
        )

    async def _create_data(self, programs: Path) -> None:
        # Made beside its final path and moved there when complete: a start that is killed leaves no half data folder.
        unfinished = self._folder / "unfinished"
        template = self._find_template(self._version)
        if template is None or not await self._copy_template(programs, template, unfinished):
            await self._run_initdb(programs, unfinished)
        (unfinished / "data").rename(self.data_folder)
        # Otherwise a power cut could undo the move, and with it everything that was written since.
        home_files.sync_folder(self._folder)
        shutil.rmtree(unfinished)

    async def _run_initdb(self, programs: Path, unfinished: Path) -> None:
        postgres_placement.make_empty(unfinished)
        password_file = unfinished / "password"
        home_files.write_private(password_file, self._placement.owner_password.encode())
        if self._user is not None:
            os.chown(password_file, self._user.uid, self._user.gid)
        postgres_placement.make_private(unfinished, self._user)
        command = [
            programs / "bin" / "initdb",
            f"--pgdata={unfinished / 'data'}",
            f"--pwfile={password_file}",
            *INITDB_OPTIONS,
            *([] if self._durable else ["--no-sync"]),
        ]
        if await process_death.exit_status(self._launch(command)) != 0:
            raise PostgresUnavailableError(f"PostgreSQL cannot make its tables: {self._last_log_line()}")

    async def _copy_template(self, programs: Path, template: Path, unfinished: Path) -> bool:
        """Copy it and give it our passwords; false if it cannot be used."""
        data = unfinished / "data"
        found = self._placement
        logins = {OWNER_ROLE: found.owner_password, LOGIN_ROLE: found.login_password}
        logins[CONSOLE_LOGIN_ROLE] = found.console_password
        lines = [f"alter role {role} password '{password}'\n" for role, password in logins.items()]
        try:
            postgres_placement.make_empty(unfinished)
            commands = unfinished / "commands"
            home_files.write_private(commands, (FEW_ITERATIONS + "".join(lines)).encode())
            with commands.open("rb") as file:
                cluster_template.copy(template, data, self._user)
                postgres_placement.make_private(unfinished, self._user)
                words = ["--single", "-D", data, "-c", "exit_on_error=on", *([] if self._durable else ["-F"]), DATABASE]
                await self._set_passwords([programs / "bin" / "postgres", *words], file, unfinished)
        except (OSError, cluster_template.DamagedTemplateError) as error:
            self._report(f"the finished tables in {template} cannot be used ({error}): making new ones")
            return False
        return True

    async def _set_passwords(self, command: Sequence[str | Path], commands: BinaryIO, unfinished: Path) -> None:
        # Without connections, so that the copy never runs with the passwords of the template.
        setting = self._launch(command, commands, subprocess.DEVNULL)
        try:
            if self._durable:
                # The copied files; meanwhile the server itself syncs those that it changes.
                cluster_template.sync(unfinished)
        finally:
            status = await process_death.exit_status(setting)
        if status != 0:
            raise cluster_template.DamagedTemplateError(self._last_log_line())

    async def _try_to_start(self, programs: Path) -> bool:
        """Return whether the server is ready; false if processes of an earlier one still block it."""
        machine = postgres_placement.look_at_machine(self._folder)
        settings = postgres_placement.server_settings(machine, connections_max=self._connections_max, durable=self._durable) | {
            "unix_socket_directories": str(self._socket_folder),
            "unix_socket_permissions": "0700",
        }
        if self._data_version() != "16":
            # Otherwise three more processes read for it. A reader has few pages under way, and shared memory for 64 of each
            # possible session would be 1.5 MiB.
            settings |= {"io_method": "sync", "io_max_concurrency": "16"}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        log_start = self._log_size()
        self._cancel_watcher()
        self.process = self._launch([programs / "bin" / "postgres", "-D", self.data_folder, *words])
        if sys.platform != "linux":
            self._watcher = process_death.watch_from_outside(self.process.pid, signal.SIGINT)
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self._is_ready(self.process.pid):
            if self.process.poll() is not None:
                log = self._log_since(log_start)
                if any(message in log for message in _LEFTOVERS):
                    return False
                raise PostgresUnavailableError(f"PostgreSQL does not start: {self._last_log_line()}")
            if time.monotonic() > deadline:
                raise PostgresUnavailableError(f"PostgreSQL is not ready after {READY_TIMEOUT_S} s: see {self._log}")
            await asyncio.sleep(_READY_POLL_S)
        return True

    def _launch(
        self, command: Sequence[str | Path], stdin: BinaryIO | None = None, stdout: int | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program as the server's user, so that it dies with us."""
        with os.fdopen(os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own words only
                process_death.bind_to_parent(command, signal.SIGINT, self._user),
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=log if stdout is None else stdout,
                stderr=log,
                cwd="/",
                env=dict(LC_ALL="C", PATH="/usr/bin:/bin", TZ="UTC"),
                # Ctrl-C reaches only the supervisor, which stops PostgreSQL last.
                start_new_session=True,
            )

    def _is_ready(self, pid: int) -> bool:
        # The pid file's eighth line is the server's status, so we need not connect to find out.
        try:
            lines = (self.data_folder / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"

    async def _end_leftovers(self) -> None:
        # We hold the lock of the data, so the remains of an earlier run are unused.
        deadline = time.monotonic() + LEFTOVERS_TIMEOUT_S
        while leftovers := process_death.find_servers(self.data_folder):
            if time.monotonic() > deadline:
                raise PostgresUnavailableError(
                    f"an earlier PostgreSQL on {self.data_folder} does not end: end process {leftovers[0]}"
                )
            for pid in leftovers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(_POLL_S)

    def _cancel_watcher(self) -> None:
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
            self._watcher = None

    @property
    def _log(self) -> Path:
        return self._home / "postgres.log"

    def _log_size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def _log_since(self, start: int) -> str:
        with self._log.open("rb") as log:
            log.seek(start)
            return log.read(_LOG_READ_SIZE).decode(errors="replace")

    def _last_log_line(self) -> str:
        log = self._log_since(max(self._log_start, self._log_size() - _LOG_READ_SIZE))
        # The log may be on the full disk, so nothing is written there, and a failing initdb removes its files.
        no_room = postgres_placement.look_at_machine(self._folder).disk_free_bytes < _NEW_DATA_SIZE
        if "No space left on device" in log or (no_room and self._data_version() is None):
            return f"the disk of {self._folder} is full: make room and start again"
        lines = [line for line in log.splitlines() if line.strip()]
        complaints = [line for line in lines if "FATAL" in line or "PANIC" in line or "error" in line]
        return f"{(complaints or lines or ['it said nothing'])[-1].strip()} (see {self._log})"
