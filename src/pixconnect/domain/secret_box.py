"""Secrets at rest, as an argument.

What we must be able to use again (signing keys, webhook secrets) is sealed; what we only compare (client secrets) is
fingerprinted. Both are bound to what they are about, so that a sealed value copied into another row opens nothing.
"""

from typing import Protocol


class SealBroken(Exception):  # noqa: N818  named as the field names it
    """The box did not seal this, or it was sealed about something else."""


class SecretBox(Protocol):
    """Locks secrets with a key that the database does not hold."""

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

    def fingerprint(self, secret: bytes, about: str) -> bytes:
        """A keyed hash of 32 bytes, the same each time: fit for long random secrets, not for passwords."""
        ...
