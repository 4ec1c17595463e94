"""Pending calls to an institution: openings and changes of charges, sending in two steps; and callbacks.

A call is recorded before it is made, and open until its outcome is known. An unknown outcome is queried, never guessed. The
txid is ours and the repeated request is the same, so calling twice is harmless.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final, Literal, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from pixconnect.features.institutions.rules.institution import (
    CertainRefusal,
    ChargeTerms,
    InstitutionTraits,
    NotSent,
    OpenedCharge,
)
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix
from pixconnect.features.institutions.rules.sweep import Pace
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Removal
from pixconnect.kernel.rules.charge_contents import ChargeContents
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY, Party

CALL_TIMEOUT_S: Final = 3.0
"""How long a caller waits for the institution; then a worker goes on."""
WORKER_AFTER: Final = timedelta(seconds=5)
"""Since the beginning: no worker calls while the caller's process may still."""
TAKEN_FOR: Final = timedelta(seconds=10)
"""How long a row that a worker queries is hidden from all others; it stays hidden if that worker is killed.

The lease of its slot keeps a second worker away from an account. This covers the last call of a dead worker: it arrives before
the next query, as after a caller's timeout. A call that took longer is made twice, which is harmless.
"""
ABSENT_FOR: Final = timedelta(minutes=10)
"""How long after its beginning an opening may still arrive; if absent afterwards, it was never opened."""
_WAITS: Final = (timedelta(seconds=2), timedelta(seconds=5), timedelta(seconds=15), timedelta(minutes=1))


class PendingCall(Struct, frozen=True, kw_only=True):
    charge_id: int
    holder_id: int
    institution_id: int
    txid: str
    state: str
    asked_by: Caller | None = None
    """``None`` for an operator's call."""
    calls_count: int
    """Number of processes that have begun to call the institution: an earlier one no longer ends anything."""
    due_at: datetime
    """When a worker asks next, in real time."""
    created_at: datetime


def find_wait(calls_count: int) -> timedelta:
    """Return a worker's wait before its next call."""
    return _WAITS[min(calls_count, len(_WAITS)) - 1] if calls_count else _WAITS[0]


# A change of a charge that is open at an institution; one at a time.
#
#     asked ──it is so there──► done         (only now the charge changes here)
#       │  ▲────unknown: query again
#       ├──certainly refused──► refused
#       ├──nothing was sent───► given_up
#       └──it is paid there───► overtaken    (the payment wins)

ChangeKind = Literal["revise", "remove", "withdraw"]
"""``withdraw`` removes a possibly opened charge that was answered with a static code."""
ChangeState = Literal["asked", "done", "refused", "given_up", "overtaken"]


class ChargeChange(PendingCall, frozen=True, kw_only=True):
    id: int
    kind: ChangeKind
    contents: ChargeContents | None = None
    """The wanted contents of a revised charge."""
    removal: Removal | None = None
    """The wanted status of a removed charge."""
    state: ChangeState = "asked"
    reason: str | None = None
    """In the institution's words: the refusal, or its last answer."""
    revision_there: int | None = None
    """The institution's revision of the charge before the call."""

    def wants_the_same(self, other: ChargeChange) -> bool:
        return (self.kind, self.contents, self.removal) == (other.kind, other.contents, other.removal)


def is_done_at_institution(change: ChargeChange, there: OpenedCharge) -> bool:
    """Whether the charge is as wanted at the institution; a revision counts only if it is later than at the request."""
    if change.contents is None:
        return there.status in ("removed_by_us", "removed_by_institution")
    # Without the earlier revision, our change could not be distinguished from the charge's former contents.
    if there.status != "active" or change.revision_there is None or there.revision <= change.revision_there:
        return False
    return (
        there.is_as_asked(write_terms(change.txid, change.contents)) and there.lifetime_s == change.contents.lifetime_s
    )


def write_terms(txid: str, contents: ChargeContents) -> ChargeTerms:
    """Write the wanted terms of the charge at the institution."""
    payer = contents.payer
    return ChargeTerms(
        txid=txid,
        key=contents.key,
        amount_cents=contents.amount_cents,
        lifetime_s=contents.lifetime_s,
        due=contents.due,
        payer_address=contents.address,
        payer_name=None if payer is None else payer.name,
        payer_tax_id=None if payer is None else payer.tax_id,
        text_for_payer=contents.question,
        additional=[(line.name, line.value) for line in contents.lines],
    )


def find_known_refusal(traits: InstitutionTraits, contents: ChargeContents) -> CertainRefusal | None:
    """Find why an institution would refuse such a charge, known without a call."""
    if contents.due is not None:
        if traits.opens_due:
            return None
        reason = "the institution opens no charge with a due date by these terms"
        return CertainRefusal(code="due", reason=reason, member="calendario.dataDeVencimento")
    if traits.lifetime_min_s <= contents.lifetime_s <= traits.lifetime_max_s:
        return None
    reason = f"the institution takes charges that run from {traits.lifetime_min_s} to {traits.lifetime_max_s} s"
    return CertainRefusal(code="lifetime", reason=reason, member="calendario.expiracao")


def strip_rights(caller: Caller) -> Caller:
    """Return the caller's identity without its rights."""
    return msgspec.structs.replace(caller, scopes=frozenset[str](), certificate=None)


encode_caller = msgspec.json.Encoder().encode
decode_caller = msgspec.json.Decoder(Caller).decode


# A charge that is being opened at an institution; callers see it once it has its code.
#
#     opening ──the institution has it──► opened      (the charge is there, PENDING)
#        │  ▲──────unknown: query──┘
#        ├──certainly refused──► refused
#        └──nothing was sent──► given_up
#
# If the account permits it, a charge with an unknown outcome at its caller's timeout is opened with a static code, whose
# ``reference`` payments name. A possible charge at the institution is then withdrawn, never completed.

REFERENCE_LENGTH: Final = 25
"""The capacity of a static code."""

OpeningState = Literal["opening", "opened", "refused", "given_up"]


class ChargeOpening(PendingCall, frozen=True, kw_only=True):
    contents: ChargeContents
    state: OpeningState
    external_id: str
    fingerprint: bytes
    refusal_code: str | None
    refusal_reason: str | None
    reference: str | None = None
    """In the static code that the caller got."""
    network_txid: str | None = None
    """The institution's own txid, if it does not accept ours."""


# Callbacks: the address that an institution calls about incoming money. A call only triggers a reading: the institution's list
# is the truth. The secret in the address prevents strangers from triggering reads, and permits nothing else.

APART_S: Final = 2.0
"""Minimum interval between readings of an account, however often it is called."""
PATH: Final = "/institutions/"
"""Followed by the account's name, the secret, and any suffix of the institution."""
SECRET_LENGTH: Final = 32
_RETURN_WORDS: Final = (b"devolucoes", b"REFUND")
"""A member of the central bank's notices, and a part of the names of Woovi's events."""

Whose = Literal["ours", "outdated", "another_installation", "other"]
"""``outdated`` is an address of this account with another secret."""


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
    """Return the owner of a registered address; ``ours`` is that of this account in this installation."""
    if url == ours:
        return "ours"
    if url.startswith(f"{ours.rpartition('/')[0]}/"):
        return "outdated"
    return "another_installation" if PATH in url else "other"


def choose_paces(body: bytes) -> Collection[Pace]:
    """Choose what to read after a call: the newest, and after one about a return, all Pix with returns."""
    return ("near", "deep") if any(word in body for word in _RETURN_WORDS) else ("near",)


# Sending in two steps: the first names a Pix, returns the key's owner and moves nothing; the second pays. The first result is
# recorded before the second call, which is made once: a second first step would be another Pix.


class NamedPix(Struct, frozen=True, kw_only=True):
    """The result of a first step."""

    code: str
    """Its name in the second step and in each query."""
    owner_tax_id: str | None
    """The tax id of the key's owner, as reported: it may be masked."""
    owner_name: str | None


MintAnswer = NamedPix | CertainRefusal | NotSent


@runtime_checkable
class FirstStep(Protocol):
    """Sends in two steps; the second is its ``send``."""

    async def mint(self, pix: OutgoingPix) -> MintAnswer:
        """Take the first step. A repetition names another Pix; an unknown result is ``NotSent``."""
        ...


def is_another_owner(payee: Party, owner_tax_id: str | None) -> bool:
    """Whether the key may belong to another owner than the caller named, or than the key itself names.

    Example:
        >>> from msgspec import structs
        >>> named = structs.replace(UNKNOWN_PARTY, tax_id="12345678909")
        >>> [is_another_owner(payee, "98765432100") for payee in (named, UNKNOWN_PARTY)], is_another_owner(named, None)
        ([True, False], True)
    """
    # A CPF or CNPJ used as key identifies its owner; another owner is compared only if reported.
    known = payee.key if owner_tax_id is None else owner_tax_id
    return payee.tax_id not in (UNKNOWN_PARTY.tax_id, known)
