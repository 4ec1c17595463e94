"""Callbacks: the address that an institution calls about incoming money, and its other registered addresses.

The contents of a call are only a reason to read: the institution's list is the truth. The secret in the address prevents
strangers from triggering reads, and allows nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from pixconnect.features.institutions.rules.sweep import Pace

APART_S: Final = 2.0
"""At most one reading of an account in so long, however often it is called."""
PATH: Final = "/institutions/"
"""Followed by the account's name, the secret, and any suffix of the institution."""
SECRET_LENGTH: Final = 32
_RETURN_WORDS: Final = (b"devolucoes", b"REFUND")
"""A member of the central bank's notices, and a part of the names of Woovi's events."""

Whose = Literal["ours", "outdated", "another_installation", "other"]
"""``outdated`` is an address of this account's with another secret."""


class CallbackSecret(Struct, frozen=True, kw_only=True):
    institution_id: int
    digest: bytes
    secret_sealed: bytes
    made_at: datetime


class KeptWebhook(Struct, frozen=True, kw_only=True):
    """A key's registration that ours replaced."""

    institution_id: int
    key: str
    url: str
    kept_at: datetime


def callback_seal(account_id: int) -> str:
    """The binding of an account's sealed callback secret."""
    return f"institution_account:{account_id}:callback"


def digest_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def make_address(base_url: str, name: str, secret: str) -> str:
    return f"{base_url}{PATH}{name}/{secret}"


def judge_address(url: str, ours: str) -> Whose:
    """The owner of a registered address; ``ours`` is that of this account in this installation."""
    if url == ours:
        return "ours"
    if url.startswith(f"{ours.rpartition('/')[0]}/"):
        return "outdated"
    return "another_installation" if PATH in url else "other"


def choose_paces(body: bytes) -> Collection[Pace]:
    """What to read after a call: the newest, and after one about a return, all Pix with returns."""
    return ("near", "deep") if any(word in body for word in _RETURN_WORDS) else ("near",)
