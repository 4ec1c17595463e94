"""Keys that sign callbacks as institutions sign them that publish theirs."""

from datetime import datetime

from msgspec import Struct


class CallbackKey(Struct, frozen=True, kw_only=True):
    key_identifier: str
    """The SHA-256 of the public key in DER, in hexadecimal digits."""
    profile: str
    public_pem: str
    private_sealed: bytes
    """About ``callback_key_seal``."""
    created_at: datetime


def callback_key_seal(key_identifier: str) -> str:
    return f"callback_key:{key_identifier}"
