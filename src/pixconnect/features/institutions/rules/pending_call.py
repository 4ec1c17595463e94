"""Pending calls to an institution: openings and changes of charges, and sending in two steps.

A call is recorded before it is made, and open until its outcome is known. An unknown outcome is queried, never guessed. The
txid is ours and the repeated request is the same, so calling twice is harmless.

::

    opening ──the institution has it──► opened       (the charge is there, PENDING: only now callers see it, with its code)
       │  ▲──────unknown: query──┘
       ├──certainly refused──► refused
       └──nothing was sent──► given_up

    asked ──it is so there──► done         (a change: only now the charge changes here; one at a time)
      │  ▲────unknown: query again
      ├──certainly refused──► refused
      ├──nothing was sent───► given_up
      └──it is paid there───► overtaken    (the payment wins)

If the account permits it, a charge with an unknown outcome at its caller's timeout is opened with a static code, whose
``reference`` payments name. A possible charge at the institution is then withdrawn, never completed.

Where an institution sends in two steps, the first names a Pix, returns the key's owner and moves nothing; the second pays. The
first result is recorded before the second call, which is made once: a second first step would be another Pix.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal, Protocol, runtime_checkable

import msgspec
from msgspec import Struct, structs

from pixconnect.features.institutions.rules import institution as port
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Removal
from pixconnect.kernel.rules.charge_contents import ChargeContents
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY, Party

CALL_TIMEOUT_S: Final = 3.0  # how long a caller waits for the institution; then a worker goes on
WORKER_AFTER: Final = timedelta(seconds=5)  # since the beginning: no worker calls while the caller's process may still
TAKEN_FOR: Final = timedelta(seconds=10)
"""How long a row that a worker queries is hidden from all others; it stays hidden if that worker is killed.

The lease of its slot keeps a second worker away from an account. This covers the last call of a dead worker: it arrives before
the next query, as after a caller's timeout. A call that took longer is made twice, which is harmless.
"""
ABSENT_FOR: Final = timedelta(minutes=10)
"""How long after its beginning an opening may still arrive; if absent afterwards, it was never opened."""
_WAITS: Final = (timedelta(seconds=2), timedelta(seconds=5), timedelta(seconds=15), timedelta(minutes=1))
REFERENCE_LENGTH: Final = 25  # the capacity of a static code

ChangeKind = Literal["revise", "remove", "withdraw"]
"""``withdraw`` removes a possibly opened charge that was answered with a static code."""
ChangeState = Literal["asked", "done", "refused", "given_up", "overtaken"]
OpeningState = Literal["opening", "opened", "refused", "given_up"]


class PendingCall(Struct, frozen=True, kw_only=True):
    charge_id: int
    holder_id: int
    institution_id: int
    txid: str
    state: str
    asked_by: Caller | None = None  # ``None`` for an operator's call
    calls_count: int
    """Number of processes that have begun to call the institution: an earlier one no longer ends anything."""
    due_at: datetime  # when a worker asks next, in real time
    created_at: datetime


class ChargeChange(PendingCall, frozen=True, kw_only=True):
    id: int
    kind: ChangeKind
    contents: ChargeContents | None = None  # the wanted contents of a revised charge
    removal: Removal | None = None  # the wanted status of a removed charge
    state: ChangeState = "asked"
    reason: str | None = None  # in the institution's words: the refusal, or its last answer
    revision_there: int | None = None  # the institution's revision of the charge before the call

    def wants_the_same(self, other: ChargeChange) -> bool:
        return (self.kind, self.contents, self.removal) == (other.kind, other.contents, other.removal)


class ChargeOpening(PendingCall, frozen=True, kw_only=True):
    contents: ChargeContents
    state: OpeningState
    external_id: str
    fingerprint: bytes
    refusal_code: str | None
    refusal_reason: str | None
    reference: str | None = None  # in the static code that the caller got
    network_txid: str | None = None  # the institution's own txid, if it does not accept ours


class NamedPix(Struct, frozen=True, kw_only=True):
    """The result of a first step."""

    code: str  # its name in the second step and in each query
    owner_tax_id: str | None  # the tax id of the key's owner, as reported: it may be masked
    owner_name: str | None


MintAnswer = NamedPix | port.CertainRefusal | port.NotSent


@runtime_checkable
class FirstStep(Protocol):
    """Sends in two steps; the second is its ``send``."""

    async def mint(self, pix: OutgoingPix) -> MintAnswer:
        """Take the first step. A repetition names another Pix; an unknown result is ``NotSent``."""
        ...


def find_wait(calls_count: int) -> timedelta:
    return _WAITS[min(calls_count, len(_WAITS)) - 1] if calls_count else _WAITS[0]


def is_done_at_institution(change: ChargeChange, there: port.OpenedCharge) -> bool:
    """Whether the charge is as wanted at the institution; a revision counts only if it is later than at the request."""
    if change.contents is None:
        return there.status in ("removed_by_us", "removed_by_institution")
    # Without the earlier revision, our change could not be distinguished from the charge's former contents.
    if there.status != "active" or change.revision_there is None or there.revision <= change.revision_there:
        return False
    return there.is_as_asked(write_terms(change.txid, change.contents)) and there.lifetime_s == change.contents.lifetime_s


def write_terms(txid: str, contents: ChargeContents) -> port.ChargeTerms:
    return port.ChargeTerms(txid=txid, **structs.asdict(contents))


def find_known_refusal(traits: port.InstitutionTraits, contents: ChargeContents) -> port.CertainRefusal | None:
    """Find why an institution would refuse such a charge, known without a call."""
    if contents.due is not None:
        if traits.opens_due:
            return None
        reason = "the institution opens no charge with a due date by these terms"
        return port.CertainRefusal(code="due", reason=reason, member="calendario.dataDeVencimento")
    if traits.lifetime_min_s <= contents.lifetime_s <= traits.lifetime_max_s:
        return None
    reason = f"the institution takes charges that run from {traits.lifetime_min_s} to {traits.lifetime_max_s} s"
    return port.CertainRefusal(code="lifetime", reason=reason, member="calendario.expiracao")


def strip_rights(caller: Caller) -> Caller:
    return structs.replace(caller, scopes=frozenset[str](), certificate=None)


encode_caller = msgspec.json.Encoder().encode
decode_caller = msgspec.json.Decoder(Caller).decode


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
