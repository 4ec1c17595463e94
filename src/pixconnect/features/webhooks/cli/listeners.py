"""The files of a ``pixconnect listen`` on this machine: its secret, its place in the feed, and its address for resends.

::

    <state folder of the user>/pixconnect/listen/<name>/
        secret     signs what is posted; the same at each start
        cursors    a line for each event that was taken: the last whole line is the place
        lock       held while it runs
        door.json  while it runs, a port on 127.0.0.1 and the token that opens it
"""

import fcntl
import json
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Struct

from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.integrator.credentials import Credentials
from pixconnect.features.webhooks.rules.endpoint import SECRET_LENGTH, make_standard_secret
from pixconnect.platform import environment
from pixconnect.platform.local.home import write_private

_COMPACTED_AT_OCTETS: Final = 1 << 20
_ANSWERED_WITHIN_S: Final = 60.0


class Door(Struct, frozen=True, kw_only=True):
    """The address of a listener for other processes."""

    port: int
    token: str
    api_url: str
    client_id: str
    forward_to: str


class ListenerState:
    """One listener's own folder, which it alone uses.

    Raises:
        CommandError: Another one runs there, or it cannot be written.
    """

    def __init__(self, name: str) -> None:
        self.folder = _folder() / name
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _lock(self.folder / "lock")
            secret = self.folder / "secret"
            if not secret.exists():
                write_private(secret, make_standard_secret(secrets.token_bytes(SECRET_LENGTH)).encode())
            self.secret = secret.read_text(encoding="utf-8")
            self.cursor = self._read_cursor()
            self._cursors = self._begin_cursors()
        except BlockingIOError:
            raise CommandError(
                "another `pixconnect listen` already does this: end it, or give this one its own place with --name"
            ) from None
        except OSError as error:
            raise CommandError(f"{self.folder} cannot be written ({error.strerror})") from None

    def keep(self, cursor: str) -> None:
        """Store the place after a processed event: nothing before it comes again, even if we die now."""
        if cursor == self.cursor:
            return
        self._cursors.write(f"{cursor}\n".encode())
        self._cursors.flush()
        os.fdatasync(self._cursors.fileno())
        self.cursor = cursor
        if self._cursors.tell() > _COMPACTED_AT_OCTETS:
            self._cursors.close()
            self._cursors = self._begin_cursors()

    def open_door(self, door: Door) -> None:
        write_private(self.folder / "door.json", msgspec.json.encode(door))

    def close(self) -> None:
        (self.folder / "door.json").unlink(missing_ok=True)
        self._cursors.close()
        self._lock.close()

    def _read_cursor(self) -> str | None:
        try:
            lines = (self.folder / "cursors").read_bytes().split(b"\n")
        except FileNotFoundError:
            return None
        # An interrupted write leaves octets behind the last line end; these are dropped.
        whole = [line for line in lines[:-1] if line]
        return whole[-1].decode() if whole else None

    def _begin_cursors(self) -> BinaryIO:
        path = self.folder / "cursors"
        write_private(path, f"{self.cursor}\n".encode() if self.cursor else b"")
        return path.open("ab")


def _lock(path: Path) -> BinaryIO:
    lock = path.open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise
    return lock


def resend(credentials: Credentials, event: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Send an event again to each listener of this user that has these credentials; yield its name and answer."""
    for path in sorted(_folder().glob("*/door.json")):
        try:
            door = msgspec.json.decode(path.read_bytes(), type=Door)
        except (OSError, msgspec.DecodeError):
            continue
        if (door.api_url, door.client_id) != (credentials.api_url, credentials.client_id):
            continue
        asked = {"token": door.token, "event": event}
        try:
            with socket.create_connection(("127.0.0.1", door.port), timeout=_ANSWERED_WITHIN_S) as connection:
                connection.sendall(json.dumps(asked).encode() + b"\n")
                answer = connection.makefile("rb").readline().decode().strip()
        except OSError:
            # A killed listener leaves its door behind.
            continue
        if answer:
            yield door.forward_to or path.parent.name, answer


def _folder() -> Path:
    return environment.own_folder("XDG_STATE_HOME", ".local/state") / "listen"
