"""The machine's own clock, randomness and names; and a file with the database's last known position."""

import os
import pwd
import random
import socket
import string
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import msgspec
import structlog

from pixconnect.platform.base.clock import Reading
from pixconnect.platform.base.database_server import DatabaseServer

_ALPHABET = (string.ascii_letters + string.digits).encode()
_FOLD = bytes(_ALPHABET[byte % 62] for byte in range(256))
# The last 8 of the 256 byte values would make 8 letters likelier than the others, so they are dropped.
_UNEVEN = bytes(range(248, 256))
# Makes any hex digit one whose first two bits are 10.
_VARIANTS = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
_UUIDS_OF_ONE_READ = 256


class SystemClock:
    """The machine's clock, with the offset of the service's time in sandbox mode."""

    def __init__(self) -> None:
        self.offset = timedelta(0)  # how far the service's time is ahead of the machine's
        self.revision = 0
        self.skew = timedelta(0)  # how far the machine's clock was ahead of the database's at the last reading

    def set_offset(self, offset: timedelta, revision: int = 0) -> None:
        # A reading that was under way when the offset changed must not undo the change.
        if revision >= self.revision:
            self.offset, self.revision = offset, revision

    def take(self, reading: Reading) -> datetime:
        self.set_offset(reading.offset, reading.revision)
        self.skew = reading.skew
        return reading.database_now + reading.offset

    def now(self) -> datetime:
        return datetime.now(UTC) + self.offset

    def real_now(self) -> datetime:
        return datetime.now(UTC)

    # Called six times per request: the machine's own function, without a wrapper.
    monotonic_s = staticmethod(time.monotonic)


class SystemEntropy:
    def __init__(self) -> None:
        self._uuid7_digits: list[str] = []

    def token(self, length: int) -> str:
        # 8 of 256 bytes are dropped, so 16 more than needed are nearly always enough.
        letters = os.urandom(length + 16).translate(_FOLD, _UNEVEN)
        while len(letters) < length:
            letters += os.urandom(length + 16).translate(_FOLD, _UNEVEN)
        return letters[:length].decode()

    def octets(self, length: int) -> bytes:
        return os.urandom(length)

    def uuid4(self) -> UUID:
        return uuid4()

    def uuid7(self) -> str:
        """Milliseconds (RFC 9562, 5.7), version 7, 12 random bits, variant 0b10, 62 random bits."""
        # Every request has one or two: randomness is read for many, and no intermediate object is made.
        if not self._uuid7_digits:
            read = os.urandom(10 * _UUIDS_OF_ONE_READ).hex()
            self._uuid7_digits = [read[at : at + 20] for at in range(0, len(read), 20)]
        milliseconds, digits = f"{time.time_ns() // 1_000_000:012x}", self._uuid7_digits.pop()
        return f"{milliseconds[:8]}-{milliseconds[8:]}-7{digits[:3]}-{_VARIANTS[digits[3]]}{digits[4:7]}-{digits[7:19]}"

    def fraction(self) -> float:
        return random.random()  # noqa: S311  jitter guards no secret


def name_system_user() -> str:
    """The user and host of this process: ``maria@host``."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    # Containers often run under a number that has no name.
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"[:255]


FILE_NAME: Final = "database.json"

_log = structlog.get_logger(__name__)


class ServerFile:
    """In the home folder of this machine's user, shared by all our processes on it."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE_NAME
        self._warn = _log.warning

    def read(self) -> DatabaseServer | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=DatabaseServer)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, server: DatabaseServer) -> None:
        # Not synced: after a power cut an older one, or none, is as good as what a process that has just begun knows.
        unfinished = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            unfinished.write_bytes(msgspec.json.encode(server))
            unfinished.rename(self._path)
        except OSError as error:
            self._warn("the database's position is not kept, and a loss may go unseen", path=str(self._path), reason=str(error))
            self._warn = _log.debug
