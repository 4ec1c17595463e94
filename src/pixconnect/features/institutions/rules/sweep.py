"""Sweeps: an account's lists are read repeatedly, at three paces, so that nothing stays unread; also after callbacks.

::

    near   since the last one, less ten minutes     every ``poll_s``
    wide   the last 72 hours                        every hour
    deep   100 days, of which something returned    every day

A list may lag, shift while it is paged, and list facts older than those listed before. Each payment is recorded once, however
often it is read.

An institution may call an address about incoming money. A call only triggers a reading: the institution's list is the truth.
The secret in the address prevents strangers from triggering reads, and permits nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol

from msgspec import Struct

from pixconnect.kernel.rules.block_report import Defence, DefenceAnswer, InfractionReason, Situation

Pace = Literal["near", "wide", "deep", "statement", "contests", "sent"]

OVERLAP: Final = timedelta(minutes=10)
CONTESTS_SPAN: Final = timedelta(days=190)
"""80 days for opening a contest after its Pix, 11 in a block, 90 for following the rest: any date that a list uses."""
REPEATED_FOR: Final = timedelta(days=35)
"""After a loss of the database callers may still repeat requests made before it."""
_SPANS: Final = dict(wide=timedelta(hours=72), deep=timedelta(days=100))
_EVERY: Final = dict(wide=timedelta(hours=1), deep=timedelta(days=1))
APART_S: Final = 2.0  # minimum interval between readings of an account, however often it is called
PATH: Final = "/institutions/"  # followed by the account's name, the secret, and any suffix of the institution
SECRET_LENGTH: Final = 32
_RETURN_WORDS: Final = (b"devolucoes", b"REFUND")
"""A member of the central bank's notices, and a part of the names of Woovi's events."""

Whose = Literal["ours", "outdated", "another_installation", "other"]
"""``outdated`` is an address of this account with another secret."""


class Sweep(Struct, frozen=True, kw_only=True):
    """The last whole sweep of an account at one pace."""

    institution_id: int
    pace: Pace
    began_at: datetime  # earlier facts are recorded too, within the institution's lag
    ended_at: datetime
    items_count: int
    failed_at: datetime | None = None  # the last failure since
    failure: str | None = None


class MalformedItem(Struct, frozen=True, kw_only=True):
    """An item of a list in a wrong form or with an unknown word: it is never guessed, and blocks none of the others."""

    reason: str
    end_to_end_id: str | None  # if at least that is readable
    content: str
    """As sent, cut if long. It may contain personal data: it is for an operator, not for logs."""


ContestWord = Literal["open", "answered", "accepted", "rejected"]


class ListedContest(Struct, frozen=True, kw_only=True):
    """A contest of a received Pix, in its present state."""

    name: str  # the institution's name, unique on the account
    end_to_end_id: str
    amount_cents: int
    status: ContestWord  # ``accepted``: it returns, or has returned, the available money
    reason: InfractionReason
    situation: Situation
    words: str | None
    defence: str | None  # the answer, sent by us or by a person at the institution
    opened_at: datetime
    respond_by: datetime
    reported_at: datetime  # when the institution last changed it


class Contests(Protocol):
    """Contests of an account's received Pix, if the institution reports them: it decides and returns."""

    @property
    def text_length_max(self) -> int: ...

    def list_contests(self, since: datetime, until: datetime) -> AsyncIterator[Sequence[ListedContest | MalformedItem]]:
        """Yield pages of contests of an interval; shifting pages may repeat one."""
        ...

    async def defend(self, defence: Defence) -> DefenceAnswer:
        """Answer a contest; repetitions are idempotent."""
        ...


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


def begin_sweep(pace: Pace, last: Sweep | None, opened_at: datetime, now: datetime) -> datetime:
    """Return the instant from which a sweep reads: nothing before the account's books begin."""
    span = _SPANS.get(pace)
    # A beginning in the future was written by hand or by another clock: the sweep has read nothing of that.
    since = now - span if span is not None else opened_at if last is None else min(last.began_at, now) - OVERLAP
    return max(since, opened_at)


def is_due(pace: Pace, last: Sweep | None, poll: timedelta, now: datetime, lost_at: datetime | None = None) -> bool:
    """Whether a pace is due; ``lost_at`` is when a loss of the database was detected."""
    if last is None or last.began_at > now:
        return True
    return not is_read_since(last, lost_at) or now - last.began_at >= _EVERY.get(pace, poll)


def is_read_since(last: Sweep, lost_at: datetime | None) -> bool:
    return lost_at is None or last.began_at >= lost_at


def callback_seal(account_id: int) -> str:
    return f"institution_account:{account_id}:callback"


def digest_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def judge_address(url: str, ours: str) -> Whose:
    """Return the owner of a registered address; ``ours`` is that of this account in this installation."""
    if url == ours:
        return "ours"
    if url.startswith(f"{ours.rpartition('/')[0]}/"):
        return "outdated"
    return "another_installation" if PATH in url else "other"


def choose_paces(body: bytes) -> Collection[Pace]:
    """Choose what to read after a call: the newest, and after one about a return, all Pix with returns."""
    return ("near", "deep") if any(word in body for word in _RETURN_WORDS) else ("near",)
