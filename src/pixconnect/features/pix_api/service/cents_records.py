"""Records of an institution that counts in cents and uses the caller's names: charges, Pix, refunds and sends."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct, field

from pixconnect.features.institutions.profiles.profile import SentTraits
from pixconnect.features.prepared_transfers.rules import PreparedTransfer
from pixconnect.kernel.rules import tax_id
from pixconnect.kernel.rules.charge import PAID, Charge, read_contents
from pixconnect.kernel.rules.charge_contents import Payer
from pixconnect.kernel.rules.holder import AccountType, Party
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.rail import date_settled
from pixconnect.kernel.rules.refund import Refund, RefundStatus
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base.clock import format_milliseconds

ACCOUNT_WORDS: Final = dict[AccountType, str](
    [("CHECKING", "CACC"), ("SAVINGS", "SVGS"), ("SALARY", "SLRY"), ("TRANSACTIONAL", "TRAN")]
)
REFUND_WORDS: Final = dict[RefundStatus, str](
    [("PROCESSING", "IN_PROCESSING"), ("RETURNED", "REFUNDED"), ("ERROR", "NOT_ACCOMPLISHED")]
)
_KINDS: Final = dict(KEY="PIX_KEY", QRCODE="QR_CODE", MANUAL="MANUAL")
_KEY_WORDS: Final = dict(EVP="RANDOM")


class Documento(Struct, frozen=True, kw_only=True):
    number: str = field(name="taxID")
    kind: str = field(name="type")


class PessoaEmCentavos(Struct, frozen=True, kw_only=True):
    name: str
    tax_id: Documento = field(name="taxID")


class ParteDaConta(Struct, frozen=True, kw_only=True, rename="camel"):
    account: str
    branch: str
    account_type: str


class InstituicaoDaParte(Struct, frozen=True, kw_only=True):
    ispb: str = field(name="id")
    name: str


class TitularDaParte(Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    name_friendly: str
    tax_id: Documento = field(name="taxID")


class ParteEmCentavos(Struct, frozen=True, kw_only=True):
    account: ParteDaConta
    psp: InstituicaoDaParte
    holder: TitularDaParte


class LinhaDaCobranca(Struct, frozen=True, kw_only=True):
    key: str
    value: str


class CobrancaEmCentavos(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    value: int
    debtor: PessoaEmCentavos | None = field(default=None, name="customer")
    kind: str = field(name="type")
    comment: str
    br_code: str
    status: str
    correlation_id: str = field(name="correlationID")
    link_id: str = field(name="paymentLinkID")
    link_url: str = field(name="paymentLinkUrl")
    global_id: str = field(name="globalID")
    txid: str = field(name="transactionID")
    identifier: str
    qr_code_image: str
    lines: Sequence[LinhaDaCobranca] = field(name="additionalInfo")
    pix_key: str
    created_at: str
    updated_at: str
    expires_in: int
    expires_date: str
    paid_at: str | None = None


class PixBruto(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O Pix como a API do Banco Central o escreve."""

    end_to_end_id: str
    txid: str | None = None
    valor: str
    horario: str
    payer_message: str | None = field(default=None, name="infoPagador")


class PixEmCentavos(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    debtor: PessoaEmCentavos | None = field(default=None, name="customer")
    payer: PessoaEmCentavos | None = None
    charge: CobrancaEmCentavos | None = None
    value: int
    time: str
    end_to_end_id: str
    txid: str | None = field(default=None, name="transactionID")
    payer_message: str | None = field(default=None, name="infoPagador")
    kind: str = field(name="type")
    status: str
    global_id: str = field(name="globalID")
    created_at: str
    debit_party: ParteEmCentavos
    credit_party: ParteEmCentavos
    raw: PixBruto | None = None


class EstornoEmCentavos(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    value: int
    status: str
    correlation_id: str = field(name="correlationID")
    refund_id: str
    return_identification: str
    end_to_end_id: str
    time: str
    comment: str


class PagamentoEmCentavos(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    kind: str = field(name="type")
    value: int
    status: str
    correlation_id: str = field(name="correlationID")
    destination_alias: str | None = None
    destination_alias_type: str | None = None
    qr_code: str | None = None
    comment: str | None = None


class MovimentoEmCentavos(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    value: int
    end_to_end_id: str
    time: str
    rejected_reason: str | None = field(default=None, name="providerRejectedReason")
    debit_party: ParteEmCentavos | None = None
    credit_party: ParteEmCentavos | None = None


class DestinoEmCentavos(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    name: str
    tax_id: str = field(name="taxID")
    pix_key: str | None = None
    bank: str
    branch: str
    account: str


class ErroDoMovimento(Struct, frozen=True, kw_only=True):
    code: str
    description: str


def make_global_id(kind: str, number: int) -> str:
    # Like theirs: the kind and 24 hexadecimal digits, which some callers parse.
    return base64.b64encode(f"{kind}:{number:024x}".encode()).decode()


def show_tax_id(number: str) -> Documento:
    return Documento(number=number, kind="BR:CPF" if tax_id.is_cpf(number) else "BR:CNPJ")


def name_charge(charge: Charge) -> str:
    """Return its maker's name for it, in any API."""
    return read_contents(charge).maker_name or charge.external_id


def show_cents_charge(charge: Charge, base_url: str) -> CobrancaEmCentavos:
    """Show a charge; its page and its picture would be below ``base_url``."""
    contents = read_contents(charge)
    link = f"{charge.id:024x}"
    return CobrancaEmCentavos(
        value=charge.amount_cents,
        debtor=None if charge.payer is None else _show_debtor(charge.payer),
        kind="DYNAMIC",
        comment=contents.question or "",
        br_code=charge.br_code,
        status="COMPLETED" if charge.status in PAID else "ACTIVE" if charge.status == "PENDING" else "EXPIRED",
        correlation_id=name_charge(charge),
        link_id=link,
        link_url=f"{base_url}/pay/{link}",
        global_id=make_global_id("Charge", charge.id),
        txid=charge.txid,
        identifier=charge.txid,
        qr_code_image=f"{base_url}/openpix/charge/brcode/image/{link}.png",
        lines=[LinhaDaCobranca(key=line.name, value=line.value) for line in contents.lines],
        pix_key=charge.key,
        created_at=format_milliseconds(charge.created_at),
        updated_at=format_milliseconds(charge.modified_at),
        expires_in=contents.lifetime_s or round((charge.expires_at - charge.created_at).total_seconds()),
        expires_date=format_milliseconds(charge.expires_at),
        # After a payment's return, the date of change is the return's, and not that of the payment.
        paid_at=format_milliseconds(charge.modified_at) if charge.status == "APPROVED" else None,
    )


def _show_debtor(payer: Payer) -> PessoaEmCentavos:
    return PessoaEmCentavos(name=payer.name, tax_id=show_tax_id(payer.tax_id))


def show_side(party: Party) -> ParteEmCentavos:
    return ParteEmCentavos(
        account=ParteDaConta(
            account=party.account_number, branch=party.branch, account_type=ACCOUNT_WORDS[party.account_type]
        ),
        psp=InstituicaoDaParte(ispb=party.ispb, name=party.bank or ""),
        holder=TitularDaParte(name=party.name, name_friendly=party.name, tax_id=show_tax_id(party.tax_id)),
    )


def show_cents_pix(transfer: Transfer, own: Party, charge: Charge | None, base_url: str) -> PixEmCentavos:
    """Show the present state of an incoming or outgoing Pix."""
    is_in = transfer.direction == "IN"
    other = transfer.counterparty
    at = date_settled(transfer.settled_at, transfer.network_settled_at) or transfer.created_at
    shown = None if charge is None else show_cents_charge(charge, base_url)
    return PixEmCentavos(
        debtor=None if shown is None else shown.debtor,
        payer=PessoaEmCentavos(name=other.name, tax_id=show_tax_id(other.tax_id)) if is_in else None,
        charge=shown,
        value=transfer.amount_cents,
        time=format_milliseconds(at),
        end_to_end_id=transfer.shown_id,
        txid=transfer.txid,
        payer_message=transfer.payer_message,
        kind="PAYMENT" if is_in else "WITHDRAW",
        status=_name_status(transfer),
        global_id=make_global_id("PixTransaction", transfer.id),
        created_at=format_milliseconds(transfer.created_at),
        debit_party=show_side(other if is_in else own),
        credit_party=show_side(own if is_in else other),
        raw=_show_raw(transfer, at) if is_in else None,
    )


def _name_status(transfer: Transfer) -> str:
    if transfer.status == "CONFIRMED":
        return "PARTIAL_REFUND" if transfer.returned_cents else "CONFIRMED"
    words = dict(PROCESSING="IN_PROCESSING", RETURNED="REFUNDED")
    return words.get(transfer.status, "REJECTED")


def _show_raw(transfer: Transfer, at: datetime) -> PixBruto:
    return PixBruto(
        end_to_end_id=transfer.shown_id,
        txid=transfer.txid,
        valor=format_reais(transfer.amount_cents),
        horario=format_milliseconds(at),
        payer_message=transfer.payer_message,
    )


def show_cents_refund(refund: Refund, words: Mapping[RefundStatus, str] = REFUND_WORDS) -> EstornoEmCentavos:
    return EstornoEmCentavos(
        value=refund.amount_cents,
        status=words[refund.status],
        # Without a name here it has the network's name.
        correlation_id=refund.external_id or refund.return_id,
        refund_id=f"{refund.id:032x}",
        return_identification=refund.shown_id,
        end_to_end_id=refund.original_end_to_end_id,
        time=format_milliseconds(date_settled(refund.settled_at, refund.network_settled_at) or refund.created_at),
        comment=refund.description or "",
    )


def show_order(prepared: PreparedTransfer, status: str) -> PagamentoEmCentavos:
    asked_key = prepared.key if prepared.counterparty is None else None
    return PagamentoEmCentavos(
        kind=_KINDS[prepared.initiation_type],
        value=prepared.amount_cents,
        status=status,
        correlation_id=prepared.external_id,
        destination_alias=asked_key,
        destination_alias_type=None
        if asked_key is None
        else _KEY_WORDS.get(prepared.key_type or "", prepared.key_type),
        qr_code=prepared.br_code,
        comment=prepared.payer_message,
    )


def show_movement(transfer: Transfer, own: Party | None = None) -> MovimentoEmCentavos:
    is_failed = transfer.status in ("ERROR", "CANCELLED")
    return MovimentoEmCentavos(
        value=transfer.amount_cents,
        end_to_end_id=transfer.shown_id,
        time=format_milliseconds(
            date_settled(transfer.settled_at, transfer.network_settled_at) or transfer.modified_at
        ),
        rejected_reason=f"{transfer.outcome_code} - {transfer.outcome_reason}" if is_failed else None,
        debit_party=None if own is None else show_side(own),
        credit_party=None if own is None else show_side(transfer.counterparty),
    )


def show_destination(payee: Party) -> DestinoEmCentavos:
    return DestinoEmCentavos(
        name=payee.name,
        tax_id=payee.tax_id,
        pix_key=payee.key,
        bank=payee.bank or payee.ispb,
        branch=payee.branch,
        account=payee.account_number,
    )


def show_failure(transfer: Transfer, prepared: PreparedTransfer | None, words: SentTraits) -> ErroDoMovimento:
    named = None if prepared is None else prepared.rejected_as
    code = named or words.error_codes.get(transfer.outcome_code or "") or words.error_codes["other"]
    return ErroDoMovimento(code=code, description=transfer.outcome_reason or code)
