"""Who had a Pix key at an instant, and when a key that one holder lost may lead to another.

An account's list may tell of a payment long after it settled, so a removed key is in quarantine until a whole reading has ended
that began 72 hours after the removal. Without one, two operators may release it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.domain.frame import errors

QUARANTINE: Final = timedelta(hours=72)
"""What the widest reading of new payments covers (``domain/institutions/sweep.py``)."""


class KeyHolding(Struct, frozen=True, kw_only=True):
    """For how long a holder had a key."""

    member_id: int | None
    """The holder, or the one of its family that lies on the account; ``None`` if none does."""
    given_at: datetime
    removed_at: datetime | None
    """``None`` while the holder has it."""


class Quarantine(Struct, frozen=True, kw_only=True):
    """What keeps a key from another holder since its last removal."""

    former_id: int
    removed_at: datetime
    left_s: float
    """The seconds until no request that looked it up before the removal is still under way."""
    has_open: bool
    """Payments that the rail accepted for the former holder have not settled."""
    unread: list[str]
    """The accounts of the former holder without a reading that began late enough, nor a release by two operators."""


def find_holder_at(holdings: Sequence[KeyHolding], at: datetime) -> tuple[int | None, bool]:
    """The holder on an account to whom a key led when a payment to it settled, and whether it could be several's.

    Args:
        holdings: All of the key, in their order.
        at: When the payment settled.
    """
    for held in holdings:
        if held.given_at <= at and (held.removed_at is None or at <= held.removed_at):
            return held.member_id, False
    if not holdings or holdings[-1].removed_at is not None:
        return None, False
    present = holdings[-1].member_id
    # It settled before the present holder had the key, and another one had it once.
    is_doubtful = any(held.member_id != present for held in holdings)
    return (None if is_doubtful else present), is_doubtful


def check_quarantine(quarantine: Quarantine | None) -> None:
    """Refuse to give a key to a holder while payments to its former one may still come in."""
    if quarantine is None:
        return
    if quarantine.left_s > 0:
        raise errors.InvalidPixKey(
            f"key: led to another holder until a moment ago; it can be given to this one in {quarantine.left_s:.0f} s"
        )
    if quarantine.has_open:
        raise errors.InvalidPixKey(
            "key: led to another holder, and the rail has not settled all payments to that one yet; look at "
            "`find --unresolved`"
        )
    if quarantine.unread:
        raise errors.InvalidPixKey(
            f"key: led to holder {quarantine.former_id} on the account {', '.join(quarantine.unread)}, and is free once a "
            f"whole reading has ended there that began after {(quarantine.removed_at + QUARANTINE).isoformat()}; if the "
            "account can no longer be read, two operators release it: `pixconnect institution release`"
        )
