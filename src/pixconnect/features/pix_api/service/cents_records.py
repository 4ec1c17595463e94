"""An institution's form of charges, Pix, refunds and sends: it counts in cents and uses the caller's names."""

import base64
from collections.abc import Mapping
from functools import cache
from typing import Final

from pixconnect.features.institutions.profiles.profile import SentTraits
from pixconnect.features.pix_api.rules import Order, Shown, without_none
from pixconnect.kernel.feature import gather_one
from pixconnect.kernel.rules import tax_id
from pixconnect.kernel.rules.charge import PAID, Charge, read_contents
from pixconnect.kernel.rules.holder import AccountType, Party
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.rail import date_settled
from pixconnect.kernel.rules.refund import Refund, RefundStatus
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base.clock import format_milliseconds
from pixconnect.platform.pool import Pool

ACCOUNT_WORDS: Final = dict[AccountType, str](
    [("CHECKING", "CACC"), ("SAVINGS", "SVGS"), ("SALARY", "SLRY"), ("TRANSACTIONAL", "TRAN")]
)
REFUND_WORDS: Final = dict[RefundStatus, str](
    [("PROCESSING", "IN_PROCESSING"), ("RETURNED", "REFUNDED"), ("ERROR", "NOT_ACCOMPLISHED")]
)
_KINDS: Final = dict(KEY="PIX_KEY", QRCODE="QR_CODE", MANUAL="MANUAL")
_KEY_WORDS: Final = dict(EVP="RANDOM")


def name_charge(charge: Charge) -> str:
    """Return its maker's name for it, in any API."""
    return read_contents(charge).maker_name or charge.external_id


def show_cents_charge(charge: Charge, base_url: str) -> Shown:
    """Show a charge; its page and its picture would be below ``base_url``."""
    contents, link = read_contents(charge), f"{charge.id:024x}"
    return without_none(
        {
            "value": charge.amount_cents,
            "customer": charge.payer and _show_person(charge.payer.name, charge.payer.tax_id),
            "type": "DYNAMIC",
            "comment": contents.question or "",
            "brCode": charge.br_code,
            "status": "COMPLETED" if charge.status in PAID else "ACTIVE" if charge.status == "PENDING" else "EXPIRED",
            "correlationID": name_charge(charge),
            "paymentLinkID": link,
            "paymentLinkUrl": f"{base_url}/pay/{link}",
            "globalID": _make_global_id("Charge", charge.id),
            "transactionID": charge.txid,
            "identifier": charge.txid,
            "qrCodeImage": f"{base_url}/openpix/charge/brcode/image/{link}.png",
            "additionalInfo": [{"key": line.name, "value": line.value} for line in contents.lines],
            "pixKey": charge.key,
            "createdAt": format_milliseconds(charge.created_at),
            "updatedAt": format_milliseconds(charge.modified_at),
            "expiresIn": contents.lifetime_s or round((charge.expires_at - charge.created_at).total_seconds()),
            "expiresDate": format_milliseconds(charge.expires_at),
            # After a payment's return, the date of change is the return's, and not that of the payment.
            "paidAt": format_milliseconds(charge.modified_at) if charge.status == "APPROVED" else None,
        }
    )


def _make_global_id(kind: str, number: int) -> str:
    # Like theirs: the kind and 24 hexadecimal digits, which some callers parse.
    return base64.b64encode(f"{kind}:{number:024x}".encode()).decode()


def _show_person(name: str, number: str) -> Shown:
    return {"name": name, "taxID": _show_tax_id(number)}


def _show_tax_id(number: str) -> Shown:
    return {"taxID": number, "type": "BR:CPF" if tax_id.is_cpf(number) else "BR:CNPJ"}


def _show_side(party: Party) -> Shown:
    kind = ACCOUNT_WORDS[party.account_type]
    return {
        "account": {"account": party.account_number, "branch": party.branch, "accountType": kind},
        "psp": {"id": party.ispb, "name": party.bank or ""},
        "holder": {"name": party.name, "nameFriendly": party.name, "taxID": _show_tax_id(party.tax_id)},
    }


def show_cents_pix(transfer: Transfer, own: Party, charge: Charge | None, base_url: str) -> Shown:
    """Show the present state of an incoming or outgoing Pix."""
    is_in, other = transfer.direction == "IN", transfer.counterparty
    at = format_milliseconds(date_settled(transfer.settled_at, transfer.network_settled_at) or transfer.created_at)
    shown = None if charge is None else show_cents_charge(charge, base_url)
    # As the central bank's API writes it.
    raw = {
        "endToEndId": transfer.shown_id,
        "txid": transfer.txid,
        "valor": format_reais(transfer.amount_cents),
        "horario": at,
        "infoPagador": transfer.payer_message,
    }
    status = dict(PROCESSING="IN_PROCESSING", CONFIRMED="CONFIRMED", RETURNED="REFUNDED").get(transfer.status, "REJECTED")
    return without_none(
        {
            "customer": shown and shown.get("customer"),
            "payer": _show_person(other.name, other.tax_id) if is_in else None,
            "charge": shown,
            "value": transfer.amount_cents,
            "time": at,
            "endToEndId": transfer.shown_id,
            "transactionID": transfer.txid,
            "infoPagador": transfer.payer_message,
            "type": "PAYMENT" if is_in else "WITHDRAW",
            "status": "PARTIAL_REFUND" if status == "CONFIRMED" and transfer.returned_cents else status,
            "globalID": _make_global_id("PixTransaction", transfer.id),
            "createdAt": format_milliseconds(transfer.created_at),
            "debitParty": _show_side(other if is_in else own),
            "creditParty": _show_side(own if is_in else other),
            "raw": without_none(raw) if is_in else None,
        }
    )


def show_cents_refund(refund: Refund, words: Mapping[RefundStatus, str] = REFUND_WORDS) -> Shown:
    return {
        "value": refund.amount_cents,
        "status": words[refund.status],
        # Without a name here it has the network's name.
        "correlationID": refund.external_id or refund.return_id,
        "refundId": f"{refund.id:032x}",
        "returnIdentification": refund.shown_id,
        "endToEndId": refund.original_end_to_end_id,
        "time": format_milliseconds(date_settled(refund.settled_at, refund.network_settled_at) or refund.created_at),
        "comment": refund.description or "",
    }


class Orders:
    async def find(self, pool: Pool, transfer: Transfer) -> Order | None:
        """Find the order that was stored before its transfer; without a feature that stores them, none."""
        del pool, transfer
        return None


@cache
def find_orders() -> Orders:
    return gather_one("stored_orders", Orders)


def show_order(order: Order, status: str) -> Shown:
    is_by_key = order.key is not None and order.counterparty is None
    return without_none(
        {
            "type": _KINDS[order.initiation_type],
            "value": order.amount_cents,
            "status": status,
            "correlationID": order.external_id,
            "destinationAlias": order.key if is_by_key else None,
            "destinationAliasType": _KEY_WORDS.get(order.key_type or "", order.key_type) if is_by_key else None,
            "qrCode": order.br_code,
            "comment": order.payer_message,
        }
    )


def show_movement(transfer: Transfer, own: Party | None = None) -> Shown:
    is_failed = transfer.status in ("ERROR", "CANCELLED")
    at = date_settled(transfer.settled_at, transfer.network_settled_at) or transfer.modified_at
    return without_none(
        {
            "value": transfer.amount_cents,
            "endToEndId": transfer.shown_id,
            "time": format_milliseconds(at),
            "providerRejectedReason": f"{transfer.outcome_code} - {transfer.outcome_reason}" if is_failed else None,
            "debitParty": own and _show_side(own),
            "creditParty": own and _show_side(transfer.counterparty),
        }
    )


def show_destination(payee: Party) -> Shown:
    return without_none(
        {
            "name": payee.name,
            "taxID": payee.tax_id,
            "pixKey": payee.key,
            "bank": payee.bank or payee.ispb,
            "branch": payee.branch,
            "account": payee.account_number,
        }
    )


def show_failure(transfer: Transfer, order: Order | None, words: SentTraits) -> Shown:
    named = None if order is None else order.rejected_as
    code = named or words.error_codes.get(transfer.outcome_code or "") or words.error_codes["other"]
    return {"code": code, "description": transfer.outcome_reason or code}
