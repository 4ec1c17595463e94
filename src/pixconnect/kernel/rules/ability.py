"""The consequences of a rail's missing abilities (``rail.Abilities``), decided in one place.

If a rail does not permit refusing a payment, we accept it and return it (``flows.credit``). For any other
missing ability, we refuse the caller before anything is done.
"""

import msgspec

from pixconnect.kernel.rules.rail import Abilities, Acknowledgement
from pixconnect.kernel.rules.refund import AUTOMATIC_PREFIX, THEIRS_PREFIX
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors


def answer_report(abilities: Abilities, acknowledgement: Acknowledgement) -> Acknowledgement:
    """Drop a refusal if the rail does not permit it: its payment is refunded, or kept for an operator."""
    if abilities.refuses_credits or acknowledgement.refusal_code is None:
        return acknowledgement
    return msgspec.structs.replace(acknowledgement, refusal_code=None)


def check_external_id(abilities: Abilities, external_id: str | None) -> None:
    """Reserve the external ids of refunds made without a request of a caller."""
    for prefix in (AUTOMATIC_PREFIX, THEIRS_PREFIX):
        # On each rail that reports contests the institution returns by itself.
        is_ours = not abilities.refuses_credits or (prefix == THEIRS_PREFIX and abilities.contests == "theirs")
        if is_ours and external_id is not None and external_id.startswith(prefix):
            raise errors.ExternalIdConflict(f"external_id: the prefix {prefix!r} is reserved for the service")


def check_refund_amount(abilities: Abilities, amount_cents: int, original: Transfer) -> None:
    # A refund by book never reaches the rail.
    if abilities.refunds_partly or original.is_book or amount_cents == original.amount_cents:
        return
    raise errors.AmountMismatch(f"amount: the rail returns a Pix only as a whole: {original.amount_cents} cents")


def check_resolves_keys(abilities: Abilities) -> None:
    if not abilities.resolves_keys:
        raise errors.PixKeyNotFound("key: the rail resolves no Pix keys, and this one belongs to no holder of this service")


def check_issues_codes(abilities: Abilities) -> None:
    if not abilities.issues_codes:
        raise errors.InvalidQrCode("the rail cannot have QR codes of this service paid, so no charge can be made")
