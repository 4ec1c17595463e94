"""When the certificates end by which an account is reached: nothing works there without them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

CertificatePart = Literal["receiving", "sending", "authority"]
WARNED_AT: Final = (timedelta(days=1), timedelta(days=7), timedelta(days=30))


class AccountCertificate(Struct, frozen=True, kw_only=True):
    part: CertificatePart
    """Of the receiving or the sending credential, or of the authority of the institution's."""
    ends_at: datetime


def describe_end(ends_at: datetime, now: datetime) -> str | None:
    """How soon it ends, for people; ``None`` while that is far."""
    left = ends_at - now
    if left <= timedelta(0):
        return "has ended"
    step = next((step for step in WARNED_AT if left <= step), None)
    return None if step is None else f"ends within {step.days} {'day' if step.days == 1 else 'days'}"


class EndingCertificate(Struct, frozen=True, kw_only=True):
    institution: str
    """The account's name."""
    used: AccountCertificate
    said: str
    """How soon it ends."""


def find_ending(listed: Sequence[tuple[str, AccountCertificate]], now: datetime) -> list[EndingCertificate]:
    """Those that end soon, the first one first."""
    ending = [
        EndingCertificate(institution=name, used=used, said=said)
        for name, used in listed
        if (said := describe_end(used.ends_at, now)) is not None
    ]
    return sorted(ending, key=lambda one: one.used.ends_at)
