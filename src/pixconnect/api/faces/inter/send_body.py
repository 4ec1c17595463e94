"""What Inter's sends are asked with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from pixconnect.api.standard.violations import Members
from pixconnect.domain.money import tax_id
from pixconnect.domain.money.account import ACCOUNT_DIGITS, BRANCH, ISPB
from pixconnect.domain.money.br_code import BR_CODE_LENGTH_MAX
from pixconnect.domain.money.holder import Party
from pixconnect.domain.money.pix_key import KEY_LENGTH_MAX
from pixconnect.domain.money.transfer import (
    MESSAGE_LENGTH_MAX,
    AccountTransferRequest,
    KeyTransferRequest,
    QrCodeTransferRequest,
    TransferRequest,
)
from pixconnect.usecases.standard.send_record import ACCOUNT_KINDS


class InstituicaoFinanceira(Struct, frozen=True, kw_only=True):
    ispb: Annotated[str, Meta(max_length=8)]


class DestinatarioDoPedido(Struct, frozen=True, kw_only=True, rename="camel"):
    """Por ``tipo``: a chave, o código, ou a conta com o dono."""

    tipo: Literal["CHAVE", "DADOS_BANCARIOS", "PIX_COPIA_E_COLA"]
    chave: Annotated[str, Meta(max_length=KEY_LENGTH_MAX)]
    br_code: Annotated[str, Meta(min_length=1, max_length=BR_CODE_LENGTH_MAX)] = field(name="pixCopiaECola")
    nome: Annotated[str, Meta(min_length=1, max_length=200)]
    cpf_cnpj: Annotated[str, Meta(max_length=14)]
    agencia: Annotated[str, Meta(max_length=4)]
    conta_corrente: Annotated[str, Meta(max_length=20)]
    tipo_conta: Literal["CONTA_CORRENTE", "CONTA_POUPANCA", "CONTA_SALARIO", "CONTA_PAGAMENTO"]
    instituicao_financeira: InstituicaoFinanceira


class PixSolicitado(Struct, frozen=True, kw_only=True):
    valor: float
    paid_on: Annotated[str, Meta(max_length=10)] | None = field(default=None, name="dataPagamento")
    descricao: Annotated[str, Meta(max_length=MESSAGE_LENGTH_MAX)] | None = None
    destinatario: DestinatarioDoPedido


def read_payee(body: Members, amount_cents: int) -> Callable[..., TransferRequest] | None:
    """Whom to pay: what makes the request, once its name is known."""
    payee = body.object("destinatario")
    kind = payee and payee.choice("tipo")
    if payee is None or kind is None:
        return None
    if kind == "DADOS_BANCARIOS":
        account = _read_account(payee)
        return account and partial(AccountTransferRequest, amount_cents=amount_cents, credit_party=account)
    if kind == "PIX_COPIA_E_COLA":
        code = payee.text("pixCopiaECola")
        return None if code is None else partial(QrCodeTransferRequest, amount_cents=amount_cents, br_code=code)
    key = payee.pix_key("chave")
    return key and partial(KeyTransferRequest, amount_cents=amount_cents, key=key.key, key_type=key.key_type)


def _read_account(payee: Members) -> Party | None:
    name = payee.text("nome")
    owner = payee.text("cpfCnpj")
    if owner is not None and not tax_id.is_cpf(owner) and not tax_id.is_cnpj(owner):
        payee.refuse("cpfCnpj", "deve ser um CPF ou CNPJ sem máscara, com dígitos verificadores corretos")
    branch = payee.text("agencia", pattern=BRANCH)
    number = payee.text("contaCorrente", pattern=ACCOUNT_DIGITS)
    kind = payee.choice("tipoConta")
    institution = payee.object("instituicaoFinanceira")
    ispb = None if institution is None else institution.text("ispb", pattern=ISPB)
    if name is None or owner is None or branch is None or number is None or kind is None or ispb is None:
        return None
    return Party(
        account_number=number, account_type=ACCOUNT_KINDS[kind], branch=branch, ispb=ispb, name=name, tax_id=owner
    )
