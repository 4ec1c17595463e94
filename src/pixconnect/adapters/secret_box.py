"""Locks secrets with AES-256-GCM, under keys derived from one that stays outside the database.

A sealed value is one byte of version, 12 of nonce, then ciphertext and tag; what it is about is authenticated with it. The
key is ``PIXCONNECT_SECRET_KEY``, or a file in the home that only its owner can read. Whoever loses it cannot open what it
sealed: new signing keys, new client secrets and new webhook secrets are then needed.
"""

import base64
import binascii
import hashlib
import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pixconnect.domain.entropy import Entropy
from pixconnect.domain.secret_box import SealBroken

KEY_FILE = "secret.key"
_KEY_LENGTH = 32
_NONCE_LENGTH = 12
_VERSION = b"\x01"


class SecretKeyError(Exception):
    """The secret key is missing or has no right form; the message says what to do and never shows it."""


class AesSecretBox:
    """The one box of a process.

    Args:
        key: 32 bytes.
        entropy: Makes the nonces.
    """

    def __init__(self, key: bytes, entropy: Entropy) -> None:
        self._cipher = AESGCM(_derive(key, b"seal"))
        self._fingerprint_key = _derive(key, b"fingerprint")
        self._entropy = entropy

    def seal(self, plaintext: bytes, about: str) -> bytes:
        """Encrypt."""
        nonce = self._entropy.octets(_NONCE_LENGTH)
        return _VERSION + nonce + self._cipher.encrypt(nonce, plaintext, about.encode())

    def open(self, sealed: bytes, about: str) -> bytes:
        """Decrypt."""
        nonce, ciphertext = sealed[1 : 1 + _NONCE_LENGTH], sealed[1 + _NONCE_LENGTH :]
        if sealed[:1] != _VERSION:
            raise SealBroken(f"{about}: sealed in a way that this version does not know")
        try:
            return self._cipher.decrypt(nonce, ciphertext, about.encode())
        except (InvalidTag, ValueError):
            raise SealBroken(f"{about}: sealed with another secret key, or damaged") from None

    def fingerprint(self, secret: bytes, about: str) -> bytes:
        """A keyed hash of 32 bytes."""
        context = hashlib.blake2b(about.encode(), digest_size=32).digest()
        return hashlib.blake2b(context + secret, key=self._fingerprint_key, digest_size=32).digest()


def parse_secret_key(text: str) -> bytes:
    """Read ``PIXCONNECT_SECRET_KEY``.

    Raises:
        SecretKeyError: It is not 32 bytes in base64url.
    """
    text = text.strip()
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_LENGTH:
        raise SecretKeyError("PIXCONNECT_SECRET_KEY: must be 32 bytes in base64url")
    return key


def read_or_make_secret_key(configured: str, home: Path, entropy: Entropy) -> bytes:
    """The key of this installation; the file in the home is made if there is neither setting nor file.

    Args:
        configured: ``PIXCONNECT_SECRET_KEY``, or empty.
        home: An existing folder.
        entropy: Makes the key.

    Raises:
        SecretKeyError: The setting or the file holds no key.
        OSError: The file can be neither read nor made.
    """
    path = home / KEY_FILE
    if not configured and not path.exists():
        _make_key_file(path, entropy)
    return read_secret_key(configured, home)


def read_secret_key(configured: str, home: Path) -> bytes:
    """The key of an installation that exists: what a second key would seal, nobody else could open.

    Args:
        configured: ``PIXCONNECT_SECRET_KEY``, or empty.
        home: Where the key file is.

    Raises:
        SecretKeyError: There is neither setting nor file, or it holds no key.
        OSError: The file cannot be read.
    """
    if configured:
        return parse_secret_key(configured)
    path = home / KEY_FILE
    try:
        return parse_secret_key(path.read_text(encoding="ascii"))
    except (FileNotFoundError, NotADirectoryError):
        raise SecretKeyError(
            f"there is no secret key: set PIXCONNECT_SECRET_KEY, or PIXCONNECT_HOME to the folder of {KEY_FILE}"
        ) from None
    except (SecretKeyError, UnicodeDecodeError):
        raise SecretKeyError(f"{path}: holds no secret key; restore it from a backup") from None


def _make_key_file(path: Path, entropy: Entropy) -> None:
    """Write a new key beside the file's place and link it there: never half a file, never over one that came first."""
    draft = path.with_name(f"{KEY_FILE}.{entropy.token(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.urlsafe_b64encode(entropy.octets(_KEY_LENGTH)).rstrip(b"=") + b"\n")
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(draft)
    except FileExistsError:
        return
    finally:
        draft.unlink()


def _derive(key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(purpose, key=key, digest_size=32, person=b"pixconnect").digest()
