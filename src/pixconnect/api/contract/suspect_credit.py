"""How the sandbox, as the holder's institution, decides by hand on a payment that it holds as suspect."""

from __future__ import annotations

from msgspec import Struct

from pixconnect.api.contract.sandbox import Payment, show_arrival
from pixconnect.api.frame.operation import Nothing, Request
from pixconnect.api.frame.services import Services
from pixconnect.domain.simulation.sandbox_control import Verdict
from pixconnect.usecases.simulation import sandbox as sandbox_usecases


class VerdictRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the institution decides by hand of a payment that it holds."""

    decision: Verdict
    """Release it, so that it is yours and pays its charge; or return it to its payer."""


async def judge_credit(services: Services, request: Request[str, Nothing, VerdictRequest]) -> Payment:
    """Release or return by hand what is held as suspect.

    The events are `transfer.in.confirmed`, and of a charge `qrcode.approved`; or `transfer.in.error`.
    """
    arrival = await sandbox_usecases.judge_credit(
        services.context, request.caller, request.parameter, request.body.decision
    )
    return show_arrival(arrival)
