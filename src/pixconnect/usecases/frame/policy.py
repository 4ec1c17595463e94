"""The rules that use cases are given: limits, periods, addresses, and the institution's names."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.money.rail import Abilities
from pixconnect.domain.rules.register import ARRANGEMENT


class Policy(Struct, frozen=True, kw_only=True):
    """Periods have one value in every installation, and tests give others."""

    ispb: str
    institution_name: str
    location_prefix: str
    """Where QR code payloads are served: host and path up to the txid, without a scheme."""
    location_key_set_url: str
    auth_url: str
    faces_url: str = ""
    """Faces are below it, each under its name."""
    callback_base_url: str = ""
    """Where institutions reach the API."""
    is_sandbox: bool
    has_rail: bool = True
    """Without one, no order is ever marked as handed over."""
    abilities: Abilities = Abilities()
    """The rail's."""
    account: InstitutionAccount | None = None
    """The account at an institution whose rail it is; ``None`` is the rail of the whole installation."""
    charge_lifetime_s: int = ARRANGEMENT.find_constant("charge_lifetime").read_value()
    """How long a charge can be paid that names no lifetime."""
    handover_timeout_s: int = 60
    """The worker gives up a transfer or refund that was not handed to the rail by then: its money is available again."""
    token_lifetime_s: int = 300
    webhook_pending_max: int = 100_000
    """Deliveries that may wait for one endpoint when events are replayed to it: a day of an event a second."""
    face_answers: Mapping[str, str] = {}
    """What was chosen where no source says what an institution answers, by the face's name and the choice's."""
