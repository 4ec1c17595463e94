"""Errors: all of them with their meanings, and the rules that an operation may violate."""

from collections.abc import Iterator, Mapping
from typing import Final

from pixconnect.doors.api import envelope
from pixconnect.platform.base import errors

_NEW: Final = ("EXTERNAL_ID_CONFLICT", "AMOUNT_OUT_OF_RANGE")
_OUT: Final = ("LIMIT_EXCEEDED", "SAME_ACCOUNT", "HOLDER_BLOCKED", "INSUFFICIENT_FUNDS")

RULES: Final[Mapping[str, tuple[str, ...]]] = dict(
    create_charge=(*_NEW, "INVALID_PIX_KEY", "PIX_KEY_NOT_OWNED", "INVALID_TAX_ID", "INVALID_QR_CODE"),
    create_due_charge=(*_NEW, "INVALID_PIX_KEY", "PIX_KEY_NOT_OWNED", "INVALID_TAX_ID", "INVALID_QR_CODE"),
    initiate_pix_with_key=(*_NEW, *_OUT, "INVALID_PIX_KEY", "PIX_KEY_NOT_FOUND"),
    initiate_pix_with_account_details=(*_NEW, *_OUT, "INVALID_TAX_ID", "INVALID_ACCOUNT"),
    initiate_pix_with_qrcode=(
        *(*_NEW, *_OUT, "INVALID_PIX_KEY", "PIX_KEY_NOT_FOUND", "INVALID_QR_CODE"),
        *("QR_CODE_EXPIRED", "QR_CODE_ALREADY_PAID", "AMOUNT_MISMATCH"),
    ),
    create_refund=(
        *(*_NEW, "LIMIT_EXCEEDED", "AMOUNT_MISMATCH", "HOLDER_BLOCKED", "ORIGINAL_NOT_REFUNDABLE"),
        *("REFUND_INFRACTION_OPEN", "REFUND_EXCEEDS_ORIGINAL", "REFUND_WINDOW_CLOSED", "INSUFFICIENT_FUNDS"),
    ),
    defend_infraction=("INFRACTION_ANSWERED", "INFRACTION_CLOSED"),
    create_webhook_endpoint=("LIMIT_EXCEEDED", "INVALID_WEBHOOK_URL"),
    change_webhook_endpoint=("INVALID_WEBHOOK_URL",),
    replay_events=("LIMIT_EXCEEDED",),
    sandbox_pay=("AMOUNT_OUT_OF_RANGE", "INVALID_PIX_KEY", "PIX_KEY_NOT_OWNED", "INVALID_TAX_ID", "INVALID_QR_CODE"),
    sandbox_give_back=("AMOUNT_OUT_OF_RANGE", "ORIGINAL_NOT_REFUNDABLE"),
    sandbox_deposit=("AMOUNT_OUT_OF_RANGE", "HOLDER_BLOCKED"),
    sandbox_move=("AMOUNT_OUT_OF_RANGE", "HOLDER_BLOCKED", "INSUFFICIENT_FUNDS"),
    sandbox_add_key=("INVALID_PIX_KEY", "INVALID_TAX_ID"),
    sandbox_make_qr_code=("AMOUNT_OUT_OF_RANGE",),
)
"""The codes of status 422 of each operation with its own rules, for which the OpenAPI document has no place."""


def list_errors() -> list[tuple[int, str, str]]:
    """List status, code and meaning of every error, in the order of ``envelope.STATUSES``."""
    meanings = {kind.code: (kind.__doc__ or "").partition("\n")[0] for kind in _kinds(errors.PixConnectError)}
    return [(status, code, meanings[code]) for code, status in envelope.STATUSES.items()]


def _kinds(kind: type[errors.PixConnectError]) -> Iterator[type[errors.PixConnectError]]:
    # Classes without a code of their own only group others.
    if "code" in vars(kind):
        yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)
