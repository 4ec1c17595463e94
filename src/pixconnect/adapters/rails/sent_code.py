"""Whether a code is the one of its transfer, as far as it says itself: it is never paid otherwise."""

from __future__ import annotations

from pixconnect.domain.frame import errors
from pixconnect.domain.institutions.rail_memory import OutgoingPix
from pixconnect.domain.money.br_code import parse_br_code
from pixconnect.domain.money.pix_key import parse_pix_key


def is_code_of(text: str, pix: OutgoingPix) -> bool:
    """Of a static code its key and its amount; what a dynamic one asks for stands at its location."""
    try:
        code = parse_br_code(text)
        if code.key is None:
            return code.location is not None
        key = parse_pix_key(code.key).key
    except (errors.InvalidQrCode, errors.InvalidPixKey):
        # What cannot be read cannot be compared, so it is not paid.
        return False
    # A static code may leave its amount to the payer: then no amount speaks against it.
    return code.fixed_amount_cents in (None, pix.amount_cents) and key == pix.payee.key
