"""Where the embedded PostgreSQL keeps its files, and its passwords.

::

    <home>/postgres.json      the placement, readable by us only
    <home>/postgres.log       the server's log
    <home>/postgres/          unless the server's user cannot get there; then /var/tmp/pixconnect-<uid>-<hash of home>/
        data/                 the server's own, mode 0700
        socket/               unless its path is too long for a socket; then /tmp/pixconnect-<uid>-<hash of data>/
        lock                  held while a supervisor uses the data
        programs-<hash>/      a copy, if the server's user cannot reach the wheel's

Folders above the home belong to other users: we change nothing there.
"""

import hmac
import os
import re
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct

from pixconnect.local import home as home_files
from pixconnect.local.postgres_programs import PostgresUnavailableError, can_enter
from pixconnect.local.process_death import SystemUser

# The limit of macOS; Linux has 107.
SOCKET_PATH_LENGTH_MAX = 103
_SOCKET_NAME = ".s.PGSQL.5432"
# asyncpg and libpq read this as one folder in an address; a comma would make it two hosts.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9_./-]*")
_HOME_MARK = "home"

PLACEMENT_FILE = "postgres.json"
"""In a home that has an embedded server."""


class Placement(Struct, frozen=True, kw_only=True):
    folder: str
    """Absolute, or relative to the home so that a home can be moved."""
    owner_password: str
    login_password: str

    @property
    def console_password(self) -> str:
        """Made of the owner's, which no process has that serves: homes from before the console need none more."""
        return hmac.digest(self.owner_password.encode(), b"console", "sha256").hex()


def find_placement(home: Path, user: SystemUser | None, tell: Callable[[str], None]) -> Placement:
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
    if user is not None and not can_enter(home, user):
        elsewhere = Path("/var/tmp") / f"pixconnect-{os.geteuid()}-{_short_hash(home)}"  # noqa: S108 - checked below
        _claim(elsewhere, str(home), tell)
        tell(f"the user {user.name}, as whom PostgreSQL runs, cannot enter {home}: its files go to {elsewhere}")
        folder = str(elsewhere)
    placement = Placement(
        folder=folder, owner_password=secrets.token_urlsafe(24), login_password=secrets.token_urlsafe(24)
    )
    home_files.write_private(record, msgspec.json.encode(placement))
    return placement


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


def address(role: str, password: str, socket_folder: Path, database: str) -> str:
    return f"postgresql://{role}:{quote(password, safe='')}@/{database}?host={socket_folder}"


def _claim(elsewhere: Path, home: str, tell: Callable[[str], None]) -> None:
    """Take a folder outside the home for a new home, and remove what an earlier home of the same path left there."""
    mark = elsewhere / _HOME_MARK
    if elsewhere.exists() or elsewhere.is_symlink():
        if elsewhere.is_symlink() or elsewhere.stat().st_uid != os.geteuid() or mark.read_text() != home:
            raise PostgresUnavailableError(f"{elsewhere} belongs to another user: remove it")
        tell(f"{home} is new: removing the tables that an earlier home of the same path left in {elsewhere}")
        shutil.rmtree(elsewhere)
    elsewhere.mkdir(mode=0o711)
    elsewhere.chmod(0o711)
    mark.write_text(home)


def _short_hash(path: Path) -> str:
    return sha256(os.fsencode(path)).hexdigest()[:12]
