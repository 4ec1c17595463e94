"""A charge that is being opened at an institution: durable before it is asked for, and nobody's to see before it has its code.

::

    opening ──the institution has it──► opened      (the charge is there, PENDING)
       │  ▲──────nobody knows: ask────┘
       ├──certainly refused──► refused
       └──nothing was sent──► given_up

Where the account allows it, a charge that nobody knows of within the time gets a static code: it is opened too, with the
``reference`` by which payments name it, and what may be there is withdrawn (``charge_change``), never completed.

What is not known is asked about, never guessed: the txid is ours, and the institution opens one charge under it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec
from msgspec import Struct

from pixconnect.domain.due.terms import DueTerms
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.institutions.charge_change import write_terms
from pixconnect.domain.institutions.institution import ChargeTerms
from pixconnect.domain.money.charge_contents import ChargeContents, Line, Payer, PayerAddress

OPENING_TIMEOUT_S: Final = 3.0
"""So long a caller waits for the institution; then a worker goes on."""
WORKER_AFTER: Final = timedelta(seconds=5)
"""From the beginning: nobody else asks while the caller's process may still."""
TAKEN_FOR: Final = timedelta(seconds=10)
"""For so long what a worker asks about is put off for everybody else; who is killed at it leaves it so.

No clock keeps a second worker away from an account, but the lease of its slot. This is for what a dead one has sent: it arrives
before somebody asks again, as after a caller that waits no more. What took longer was asked for twice, which does no harm.
"""
_WAITS: Final = (timedelta(seconds=2), timedelta(seconds=5), timedelta(seconds=15), timedelta(minutes=1))

REFERENCE_LENGTH: Final = 25
"""What a static code has room for."""

OpeningState = Literal["opening", "opened", "refused", "given_up"]


class WantedCharge(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that is needed to open a charge, and to write it once it is open."""

    amount_cents: int
    key: str
    lifetime_s: int
    payer: Payer | None = None

    question: str | None = None
    lines: tuple[Line, ...] = ()
    address: PayerAddress | None = None
    due: DueTerms | None = None
    asked_by: Caller | None = None

    def contents(self) -> ChargeContents:
        return ChargeContents(
            lifetime_s=self.lifetime_s,
            amount_cents=self.amount_cents,
            key=self.key,
            payer=self.payer,
            question=self.question,
            lines=self.lines,
            address=self.address,
            due=self.due,
        )

    def terms(self, txid: str) -> ChargeTerms:
        return write_terms(txid, self.contents())


class ChargeOpening(Struct, frozen=True, kw_only=True):
    charge_id: int
    holder_id: int
    institution_id: int
    external_id: str
    txid: str
    state: OpeningState
    wanted: WantedCharge
    fingerprint: bytes
    refusal_code: str | None
    refusal_reason: str | None
    reference: str | None = None
    """In the static code that it was answered with."""
    network_txid: str | None = None
    """The institution's own, where it takes none of ours."""
    calls_count: int
    """How often the institution was asked to open it."""
    due_at: datetime
    """When a worker asks next, in real time."""
    created_at: datetime


def wait_for(calls_count: int) -> timedelta:
    """How long a worker waits before it asks again."""
    return _WAITS[min(calls_count, len(_WAITS)) - 1] if calls_count else _WAITS[0]


encode_wanted = msgspec.json.Encoder().encode
decode_wanted = msgspec.json.Decoder(WantedCharge).decode
