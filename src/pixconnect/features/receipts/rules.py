"""The receipt of a settled Pix, or of a return of one (comprovante): its facts, and its lines in Portuguese.

Strangers read it. So a CPF is masked as banks mask it, also as a key, and it never has an id that only we know: no other
institution could find the Pix by that.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from pixconnect.kernel.rules.holder import Party, judge_member
from pixconnect.kernel.rules.money import show_reais
from pixconnect.kernel.rules.tax_id import mask_cpf
from pixconnect.kernel.rules.transfer import Direction, Transfer
from pixconnect.platform.base.clock import SAO_PAULO

ReceiptKind = Literal["transfer", "refund"]
CodeKind = Literal["dynamic_code", "static_code", "key", "account"]  # how a payer found the account

_CPF_LENGTH: Final = 11
_CNPJ_LENGTH: Final = 14
_STATIC_TXID_LENGTH_MAX: Final = 25
"""Maximum of a static code; a dynamic one's txid has at least one more. Source: Pix API 2.9.0, ``txid``."""

_TITLES: Final = dict[str, str](transfer="Comprovante de Pix", refund="Comprovante de devolução de Pix")
_TYPES: Final = dict(
    transfer=dict(IN="Pix recebido", OUT="Pix enviado"), refund=dict(IN="Devolução recebida", OUT="Devolução enviada")
)
_CODES: Final = dict[str, str](
    dynamic_code="QR Code dinâmico", static_code="QR Code estático", key="Chave Pix", account="Agência e conta"
)


class ReceiptParty(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One side, as far as it is known."""

    name: Annotated[str, Meta(examples=["Maria Silva"])] | None = None
    """The account's owner."""
    # An institution's mask is kept.
    tax_id: Annotated[str, Meta(examples=["***.982.247-**"])] | None = None
    """The owner's CPF without its first three and last two digits, or CNPJ."""
    institution: str | None = None
    """The institution's name."""
    ispb: Annotated[str, Meta(examples=["99999004"])] | None = None
    """The institution's identifier, with which its CNPJ begins."""
    key: str | None = None
    """The payee's Pix key; a CPF is masked here too."""


class Receipt(Struct, frozen=True, kw_only=True):
    kind: ReceiptKind
    id: int
    holder_id: int
    direction: Direction
    amount_cents: int
    settled_at: datetime  # by the network's clock, if known
    payer: ReceiptParty  # for a refund, the returning party
    payee: ReceiptParty
    # The network's id of the Pix, for a refund that of the original; ``None`` if only we know it.
    end_to_end_id: str | None
    return_id: str | None  # the network's id of a refund
    txid: str | None
    code_kind: CodeKind
    returned_cents: int  # how much of a transfer has been returned since
    message: str | None
    is_book: bool  # settled within this institution, without the network
    is_test: bool  # no money has moved: a sandbox, or an installation that uses test environments


class ReceiptSection(Struct, frozen=True, kw_only=True):
    heading: str
    lines: Sequence[tuple[str, str]]  # a line's label, and its text


class ReceiptSheet(Struct, frozen=True, kw_only=True):
    title: str
    notice: str  # empty, or a notice to be shown first
    sections: Sequence[ReceiptSection]


def find_code_kind(transfer: Transfer) -> CodeKind:
    """Return the kind of code of a transfer, from its txid: no institution's list contradicts it."""
    if transfer.txid is not None:
        return "static_code" if len(transfer.txid) <= _STATIC_TXID_LENGTH_MAX else "dynamic_code"
    # A dynamic code always has one.
    if transfer.initiation_type == "QRCODE":
        return "static_code"
    return "key" if transfer.initiation_type == "KEY" else "account"


def show_receipt_party(party: Party, *, is_payee: bool) -> ReceiptParty:
    # Some keys have no reported type; eleven digits are a CPF's, since a phone number begins with "+".
    is_cpf = party.key is not None and len(party.key) == _CPF_LENGTH and party.key.isdecimal()
    key = mask_tax_id(party.key) if is_cpf else party.key
    return ReceiptParty(
        name=_known(party, "name"),
        tax_id=mask_tax_id(_known(party, "tax_id")),
        institution=_known(party, "bank"),
        ispb=_known(party, "ispb"),
        key=key if is_payee else None,
    )


def _known(party: Party, member: str) -> str | None:
    return None if judge_member(party, member) == "unknown" else getattr(party, member)


def mask_tax_id(text: str | None) -> str | None:
    """Mask a CPF's first three and last two digits, punctuate a CNPJ; other texts stay.

    Example:
        >>> mask_tax_id("52998224725"), mask_tax_id("12345678000195")
        ('***.982.247-**', '12.345.678/0001-95')
    """
    # By length alone, without check digits: a wrong one from an institution is masked too.
    if text is not None and text.isalnum():
        if len(text) == _CPF_LENGTH:
            return mask_cpf(text)
        if len(text) == _CNPJ_LENGTH:
            return f"{text[:2]}.{text[2:5]}.{text[5:8]}/{text[8:12]}-{text[12:]}"
    return text


def lay_out_receipt(receipt: Receipt) -> ReceiptSheet:
    """Return a receipt's lines, in the words of Brazilian banks; unknown facts have no line."""
    what = [
        ("Valor", show_reais(receipt.amount_cents)),
        ("Data e hora", f"{receipt.settled_at.astimezone(SAO_PAULO):%d/%m/%Y às %H:%M:%S} (Brasília)"),
        ("Tipo", _TYPES[receipt.kind][receipt.direction]),
        # A return is never initiated by a code.
        ("Forma de iniciação", _CODES[receipt.code_kind] if receipt.kind == "transfer" else None),
        # Or it would prove a payment that was returned.
        ("Já devolvido", show_reais(receipt.returned_cents) if receipt.returned_cents else None),
        ("Mensagem", receipt.message),
        ("Liquidação", "Entre contas desta instituição" if receipt.is_book else None),
    ]
    is_refund = receipt.kind == "refund"
    names = [
        ("ID da devolução", receipt.return_id),
        ("ID da transação original" if is_refund else "ID da transação", receipt.end_to_end_id),
        ("Identificador (txid)", receipt.txid),
        # Transfers and refunds have separate numbers, distinguished by the letter.
        ("Número do comprovante", f"{'D' if is_refund else 'T'}{receipt.id}"),
    ]
    return ReceiptSheet(
        title=_TITLES[receipt.kind],
        notice="Ambiente de testes: sem valor" if receipt.is_test else "",
        sections=[
            _section("", what),
            _section("Quem devolveu" if is_refund else "Pagador", _list_lines(receipt.payer)),
            _section("Recebedor", _list_lines(receipt.payee)),
            _section("Identificação", names),
        ],
    )


def _list_lines(party: ReceiptParty) -> list[tuple[str, str | None]]:
    # Often only the payer's number is reported.
    institution = party.institution or ("" if party.ispb is None else f"ISPB {party.ispb}")
    if party.institution and party.ispb:
        institution += f" (ISPB {party.ispb})"
    return [
        ("Nome", party.name or "Não informado"),
        ("CPF/CNPJ", party.tax_id),
        ("Instituição", institution or None),
        ("Chave Pix", party.key),
    ]


def _section(heading: str, lines: Sequence[tuple[str, str | None]]) -> ReceiptSection:
    return ReceiptSection(heading=heading, lines=[(label, text) for label, text in lines if text])


def name_file(receipt: Receipt) -> str:
    # A person with many of them searches for the id that the payer names.
    return f"comprovante_{receipt.end_to_end_id or f'{receipt.kind}_{receipt.id}'}.pdf"
