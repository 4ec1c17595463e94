"""Secrets at rest, as an argument.

What we must be able to use again (signing keys, webhook secrets) is sealed; what we only compare (client secrets) is
fingerprinted. Both are bound to what they are about, so that a sealed value copied into another row opens nothing.

While the secret key is being replaced a box has two: it seals with the new one, and still opens what the old one sealed.
"""

from collections.abc import Sequence
from typing import Protocol


class SealBroken(Exception):  # noqa: N818  named as the field names it
    """The box did not seal this, or it was sealed about something else."""


class SecretBox(Protocol):
    """Locks secrets with a key that the database does not hold."""

    @property
    def key_id(self) -> bytes:
        """Eight bytes that name the key in use and say nothing of it."""
        ...

    @property
    def seal_head(self) -> bytes:
        """What everything that is sealed now begins with; what begins otherwise is to be sealed again."""
        ...

    def seal(self, plaintext: bytes, about: str) -> bytes:
        """Encrypt.

        Args:
            plaintext: The secret.
            about: What it belongs to, such as ``signing_key:<kid>``; the same is needed to open it.

        Returns:
            The sealed secret, different each time.
        """
        ...

    def open(self, sealed: bytes, about: str) -> bytes:
        """Decrypt.

        Raises:
            SealBroken: Another key, another ``about``, or changed bytes.
        """
        ...

    def fingerprints(self, secret: bytes, about: str) -> Sequence[bytes]:
        """A keyed hash of 32 bytes under each key, the one in use first: fit for long random secrets, not for passwords."""
        ...
