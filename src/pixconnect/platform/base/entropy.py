"""Randomness as an argument; and the port to encryption at rest."""

from collections.abc import Sequence
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


# Encryption at rest. Secrets that are used again (signing keys, webhook secrets) are sealed, and compared ones (client secrets)
# fingerprinted; both are bound to their owner, so that a value copied into another row does not open. While the secret key is
# being replaced a box has two: it seals with the new one and still opens values of the old one.


class SealBroken(Exception):  # noqa: N818  named as the field names it
    """The box did not seal this, or sealed it under another ``about``."""


class SecretBox(Protocol):
    """Encrypts with a key that the database does not hold."""

    @property
    def key_id(self) -> bytes:
        """Eight bytes that identify the key in use and reveal nothing of it."""
        ...

    @property
    def seal_head(self) -> bytes:
        """The first bytes of every newly sealed value; a value that begins otherwise must be sealed again."""
        ...

    def seal(self, plaintext: bytes, about: str) -> bytes:
        """Encrypt for one use, such as ``signing_key:<kid>``; the result differs each time."""
        ...

    def open(self, sealed: bytes, about: str) -> bytes:
        """Decrypt; ``SealBroken`` for another key, another ``about`` or changed bytes."""
        ...

    def fingerprints(self, secret: bytes, about: str) -> Sequence[bytes]:
        """Hash with each key (32 bytes), the one in use first: for long random secrets, not for passwords."""
        ...
