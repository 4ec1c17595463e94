"""Encrypts secrets with AES-256-GCM, under keys derived from one that is kept outside of the database.

A sealed value is one byte of version (2), eight of the key's id, 12 of nonce, then ciphertext and tag; its binding is
authenticated with it. Version 1 had no key id, so each key is tried. Stored values must stay readable for ever: a change of the
form needs a new version.

The key is ``PIXCONNECT_SECRET_KEY``, or a file in the home that only its owner can read. Without it an installation needs new
signing keys, client secrets and webhook secrets. After a change of key, values sealed with the previous one still open, until
``pixconnect secrets reseal`` has sealed everything again.
"""

import base64
import binascii
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pixconnect.platform.base.entropy import Entropy, SealBroken
from pixconnect.platform.config import KEY_FILE, PREVIOUS_KEY_FILE

_KEY_LENGTH = 32
_KEY_ID_LENGTH = 8
_NONCE_LENGTH = 12
_VERSION_WITHOUT_KEY_ID = b"\x01"
_VERSION = b"\x02"
_HEAD_LENGTH = len(_VERSION) + _KEY_ID_LENGTH


class SecretKeyError(Exception):
    """The secret key is missing or malformed; the message states the remedy and never shows the key."""


class _Key:
    def __init__(self, key: bytes) -> None:
        self.cipher = AESGCM(_derive(key, b"seal"))
        self.fingerprint_key = _derive(key, b"fingerprint")
        self.id = _derive(key, b"id")[:_KEY_ID_LENGTH]


class AesSecretBox:
    """Seals with ``key`` (32 bytes) and opens what that or the previous key has sealed."""

    def __init__(self, key: bytes, entropy: Entropy, *, previous_key: bytes | None = None) -> None:
        self._key = _Key(key)
        self._keys = [self._key, *([_Key(previous_key)] if previous_key is not None else [])]
        self._entropy = entropy

    @property
    def key_id(self) -> bytes:
        return self._key.id

    @property
    def seal_head(self) -> bytes:
        """Return version and key id, with which every newly sealed value begins."""
        return _VERSION + self._key.id

    def seal(self, plaintext: bytes, about: str) -> bytes:
        nonce = self._entropy.octets(_NONCE_LENGTH)
        return self.seal_head + nonce + self._key.cipher.encrypt(nonce, plaintext, about.encode())

    def open(self, sealed: bytes, about: str) -> bytes:
        if sealed[:1] == _VERSION:
            keys = [key for key in self._keys if key.id == sealed[1:_HEAD_LENGTH]]
            body = sealed[_HEAD_LENGTH:]
        elif sealed[:1] == _VERSION_WITHOUT_KEY_ID:
            keys, body = self._keys, sealed[1:]
        else:
            raise SealBroken(f"{about}: sealed in a way that this version does not know")
        for key in keys:
            try:
                return key.cipher.decrypt(body[:_NONCE_LENGTH], body[_NONCE_LENGTH:], about.encode())
            # A value of version 1 does not identify its key: the next one is tried.
            except (InvalidTag, ValueError):
                continue
        raise SealBroken(f"{about}: sealed with another secret key, or damaged")

    def fingerprints(self, secret: bytes, about: str) -> Sequence[bytes]:
        """A keyed hash of 32 bytes under each key."""
        content = hashlib.blake2b(about.encode(), digest_size=32).digest() + secret
        return [hashlib.blake2b(content, key=key.fingerprint_key, digest_size=32).digest() for key in self._keys]


def open_secret_box(configured: str, configured_previous: str, home: Path, entropy: Entropy) -> AesSecretBox:
    """Open the box of an existing installation; the settings of both keys may be empty, errors as ``read_secret_key``."""
    key = read_secret_key(configured, home)
    if configured_previous:
        previous = parse_secret_key(configured_previous, "PIXCONNECT_SECRET_KEY_PREVIOUS")
    else:
        previous = _read_key_file(home / PREVIOUS_KEY_FILE)
    return AesSecretBox(key, entropy, previous_key=previous)


def open_sending_box(configured: str, configured_previous: str, entropy: Entropy) -> AesSecretBox | None:
    """Open the box of sending credentials; ``None`` if this process lacks its key."""
    if not configured:
        return None
    previous = configured_previous and parse_secret_key(configured_previous, "PIXCONNECT_SENDING_SECRET_KEY_PREVIOUS")
    key = parse_secret_key(configured, "PIXCONNECT_SENDING_SECRET_KEY")
    return AesSecretBox(key, entropy, previous_key=previous or None)


def parse_secret_key(text: str, setting: str = "PIXCONNECT_SECRET_KEY") -> bytes:
    """Read a key of 32 bytes in base64url; ``SecretKeyError`` names the setting if it is none."""
    text = text.strip()
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_LENGTH:
        raise SecretKeyError(f"{setting}: must be 32 bytes in base64url")
    return key


def read_or_make_secret_key(configured: str, home: Path, entropy: Entropy) -> bytes:
    """Read the key of this installation; make the file if there is neither setting nor file. Errors as ``read_secret_key``."""
    path = home / KEY_FILE
    if not configured and not path.exists():
        _make_key_file(path, entropy)
    return read_secret_key(configured, home)


def read_secret_key(configured: str, home: Path) -> bytes:
    """Read the key of an existing installation.

    Raises:
        SecretKeyError: There is none, or it has another form than a key has.
        OSError: The file cannot be read.
    """
    if configured:
        return parse_secret_key(configured)
    key = _read_key_file(home / KEY_FILE)
    # A key made now would lock out the processes that have the right one.
    if key is None:
        raise SecretKeyError(
            "there is no secret key: set PIXCONNECT_SECRET_KEY_FILE to its file, PIXCONNECT_SECRET_KEY to the key, "
            f"or PIXCONNECT_HOME to the folder of {KEY_FILE}"
        )
    return key


def _read_key_file(path: Path) -> bytes | None:
    try:
        return parse_secret_key(path.read_text(encoding="ascii"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (SecretKeyError, UnicodeDecodeError):
        raise SecretKeyError(f"{path}: holds no secret key; restore it from a backup") from None


def _make_key_file(path: Path, entropy: Entropy) -> None:
    # Written elsewhere and then linked: no key file is ever incomplete, and one that another process made first stays.
    draft = path.with_name(f"{KEY_FILE}.{entropy.token(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.urlsafe_b64encode(entropy.octets(_KEY_LENGTH)).rstrip(b"=") + b"\n")
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(draft)
    # Another process was first: its key is the installation's, and ours has sealed nothing.
    except FileExistsError:
        return
    finally:
        draft.unlink()


def _derive(key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(purpose, key=key, digest_size=32, person=b"pixconnect").digest()
