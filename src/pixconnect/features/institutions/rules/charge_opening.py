"""A charge that is being opened at an institution; no caller sees it before it has its code.

::

    opening ──the institution has it──► opened      (the charge is there, PENDING)
       │  ▲──────unknown: ask────┘
       ├──certainly refused──► refused
       └──nothing was sent──► given_up

If the account permits it, a charge with an unknown outcome at its caller's timeout gets a static code: it is opened too, with
the ``reference`` by which payments name it. A possible charge at the institution is withdrawn (``charge_change``), never
completed.
"""

from __future__ import annotations

from typing import Final, Literal

from pixconnect.features.institutions.rules.pending_call import PendingCall
from pixconnect.kernel.rules.charge_contents import ChargeContents

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
    """In the static code that it was answered with."""
    network_txid: str | None = None
    """The institution's own txid, if it does not accept ours."""
