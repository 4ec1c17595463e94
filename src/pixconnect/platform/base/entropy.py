"""Randomness as an argument."""

from typing import Protocol
from uuid import UUID


class Entropy(Protocol):
    def token(self, length: int) -> str:
        """Unguessable text of ``[a-zA-Z0-9]``, each character equally likely."""
        ...

    def octets(self, length: int) -> bytes:
        """Unguessable bytes."""
        ...

    def uuid4(self) -> UUID: ...

    def uuid7(self) -> str:
        """The text of a UUID that sorts by the time at which it was made."""
        ...

    def fraction(self) -> float:
        """A number from 0 (included) to 1 (excluded), for jitter; not for secrets."""
        ...
