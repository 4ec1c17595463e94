"""The machine's own clock, randomness and names."""

import os
import pwd
import random
import socket
import string
import time
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from pixconnect.domain.clock import Reading

_ALPHABET = (string.ascii_letters + string.digits).encode()
_FOLD = bytes(_ALPHABET[byte % 62] for byte in range(256))
_UNEVEN = bytes(range(248, 256))
"""The last 8 of the 256 bytes would make 8 letters likelier than the others: they are thrown away."""


class SystemClock:
    """The machine's time, and the service's time beside it."""

    def __init__(self) -> None:
        self._offset = timedelta(0)
        self._revision = 0
        self._skew = timedelta(0)

    @property
    def offset(self) -> timedelta:
        """How far the sandbox moved the service's time."""
        return self._offset

    @property
    def revision(self) -> int:
        """How often it was moved until then."""
        return self._revision

    @property
    def skew(self) -> timedelta:
        """How far the machine was ahead of the database at the last reading."""
        return self._skew

    def set_offset(self, offset: timedelta, revision: int = 0) -> None:
        """Take over the offset that the database holds, unless a later one is known."""
        if revision >= self._revision:
            self._offset, self._revision = offset, revision

    def take(self, reading: Reading) -> datetime:
        """Take over what was read of the database's clock."""
        self.set_offset(reading.offset, reading.revision)
        self._skew = reading.skew
        return reading.database_now + reading.offset

    def now(self) -> datetime:
        """The service's time."""
        return datetime.now(UTC) + self._offset

    def real_now(self) -> datetime:
        """The machine's time."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()


class SystemEntropy:
    """The operating system's randomness."""

    def token(self, length: int) -> str:
        """Unguessable text of ``[a-zA-Z0-9]``."""
        letters = os.urandom(length + 16).translate(_FOLD, _UNEVEN)
        while len(letters) < length:
            letters += os.urandom(length + 16).translate(_FOLD, _UNEVEN)
        return letters[:length].decode()

    def octets(self, length: int) -> bytes:
        """Unguessable bytes."""
        return os.urandom(length)

    def uuid4(self) -> UUID:
        """A random UUID."""
        return uuid4()

    def uuid7(self) -> UUID:
        """A UUID of version 7: 48 bits of milliseconds, then chance (RFC 9562, 5.7)."""
        milliseconds = time.time_ns() // 1_000_000
        chance = int.from_bytes(os.urandom(10))
        value = milliseconds << 80 | 0x7 << 76 | (chance >> 68 & 0xFFF) << 64 | 0b10 << 62 | chance & (1 << 62) - 1
        return UUID(int=value)

    def fraction(self) -> float:
        """A number from 0 (included) to 1 (excluded), for jitter."""
        return random.random()  # noqa: S311  jitter guards no secret


def name_system_user() -> str:
    """Who runs this process, and where: ``maria@host``."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's made-up number
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"[:255]
