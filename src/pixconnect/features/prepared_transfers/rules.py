"""Prepared and initiated transfers: requested and not yet sent; no money is moved or reserved for them.

Neither is ever changed. A transfer with its name shows that it was approved or confirmed, so a repetition makes one transfer.
"""

from datetime import datetime

from msgspec import Struct

from pixconnect.features.pix_api.rules import Order
from pixconnect.kernel.rules.holder import KeyType, Party
from pixconnect.kernel.rules.identifiers import was_made_by
from pixconnect.kernel.rules.transfer import (
    AccountTransferRequest,
    KeyTransferRequest,
    QrCodeTransferRequest,
    Transfer,
    TransferRequest,
)
from pixconnect.platform.base import errors


class PreparedTransfer(Order, frozen=True, kw_only=True):
    """An order whose name is the transfer's too, once it is approved."""

    holder_id: int
    created_at: datetime


def read_request(prepared: PreparedTransfer) -> TransferRequest:
    """Return the request made on approval: the same each time."""
    amount_cents, external_id = prepared.amount_cents, prepared.external_id
    if prepared.key is not None and prepared.key_type is not None:
        return KeyTransferRequest(
            amount_cents=amount_cents, key=prepared.key, key_type=prepared.key_type, external_id=external_id
        )
    if prepared.br_code is not None:
        return QrCodeTransferRequest(amount_cents=amount_cents, br_code=prepared.br_code, external_id=external_id)
    payee = errors.require(prepared.counterparty, "a prepared transfer names its payee")
    return AccountTransferRequest(amount_cents=amount_cents, credit_party=payee, external_id=external_id)


def is_approved_by(prepared: PreparedTransfer, transfer: Transfer) -> bool:
    """Whether the transfer of its name was made by approving it, and not by another request through another API."""
    return transfer.fingerprint is not None and was_made_by(transfer.fingerprint, read_request(prepared))


class InitiatedTransfer(Struct, frozen=True, kw_only=True):
    end_to_end_id: str  # the transfer's too, once it is confirmed
    holder_id: int
    key: str
    key_type: KeyType
    counterparty: Party  # the key's owner at that time
    created_at: datetime
