"""Passwords that people type, and the codes of their second factor."""

import hmac
from datetime import datetime
from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.profiles import RFC_9106_LOW_MEMORY
from pyotp.totp import TOTP

_STEP_S: Final = 30
_STEPS_EITHER_WAY: Final = 1  # a phone's clock may be half a minute off

# 64 MiB for each check of a password: a thief of the table pays that for each guess.
_hasher = PasswordHasher.from_parameters(RFC_9106_LOW_MEMORY)


def hash_password(password: str) -> str:
    """By argon2id; takes about a tenth of a second."""
    return _hasher.hash(password)


def is_password(password_hash: str | None, password: str) -> bool:
    """Takes as long as ``hash_password``, also without a hash, which is never right."""
    try:
        is_right = _hasher.verify(password_hash or _dummy_hash(), password)
    # A lone surrogate, which no form can send honestly, has no octets.
    except (VerificationError, InvalidHashError, UnicodeEncodeError):
        return False
    return is_right and password_hash is not None


@cache
def _dummy_hash() -> str:
    return _hasher.hash("of nobody")


def totp_url(secret: str, name: str, issuer: str) -> str:
    return TOTP(secret).provisioning_uri(name=name, issuer_name=issuer)


def find_totp_step(secret: str, code: str, now: datetime, after_step: int) -> int | None:
    """Find the 30 s step of a code, if it is a present one; never a used or earlier one."""
    totp, step = TOTP(secret), int(now.timestamp()) // _STEP_S
    for candidate in range(max(after_step + 1, step - _STEPS_EITHER_WAY), step + _STEPS_EITHER_WAY + 1):
        if hmac.compare_digest(code.encode("utf-8", "surrogatepass"), totp.at(candidate * _STEP_S).encode()):
            return candidate
    return None
