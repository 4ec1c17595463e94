"""What Efi's sends are asked with: who pays, by which key, and whom."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from pixconnect.api.standard.charge_records import Cnpj, Cpf, Reais
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import Members
from pixconnect.domain.frame import errors
from pixconnect.domain.money.account import ACCOUNT_DIGITS, BRANCH, ISPB
from pixconnect.domain.money.br_code import BR_CODE_LENGTH_MAX
from pixconnect.domain.money.holder import AccountType, Party
from pixconnect.domain.money.pix_key import KEY_LENGTH_MAX, PixKey
from pixconnect.domain.money.transfer import MESSAGE_LENGTH_MAX

ACCOUNT_TYPES: Final = dict[str, AccountType](cacc="CHECKING", svgs="SAVINGS")
_ID: Final = re.compile(r"[a-zA-Z0-9]{1,35}")
_Chave = Annotated[str, Meta(max_length=KEY_LENGTH_MAX)]


class Pagador(Struct, frozen=True, kw_only=True, rename="camel"):
    chave: _Chave
    payer_message: Annotated[str, Meta(max_length=MESSAGE_LENGTH_MAX)] | None = field(default=None, name="infoPagador")


class ContaDoFavorecido(Struct, frozen=True, kw_only=True, rename="camel"):
    nome: Annotated[str, Meta(min_length=1, max_length=200)]
    cpf: Cpf | None = None
    cnpj: Cnpj | None = None
    codigo_banco: Annotated[str, Meta(max_length=8)]
    agencia: Annotated[str, Meta(max_length=4)]
    conta: Annotated[str, Meta(max_length=20)]
    tipo_conta: Literal["cacc", "svgs"]


class FavorecidoDoPedido(Struct, frozen=True, kw_only=True, rename="camel"):
    chave: _Chave
    """Ou ``conta_banco``."""
    cpf: Cpf | None = None
    cnpj: Cnpj | None = None
    conta_banco: ContaDoFavorecido | None = None


class EnvioSolicitado(Struct, frozen=True, kw_only=True):
    valor: Reais
    pagador: Pagador
    favorecido: FavorecidoDoPedido


class EnvioDeCodigo(Struct, frozen=True, kw_only=True, rename="camel"):
    pagador: Pagador
    pix_copia_e_cola: Annotated[str, Meta(min_length=1, max_length=BR_CODE_LENGTH_MAX)]


class OrderPayee(Struct, frozen=True):
    key: PixKey | None
    tax_id: str | None
    account: Party | None


class OrderPayer(Struct, frozen=True):
    id_envio: str
    key: str
    message: str | None


def read_order(request: Asked) -> tuple[OrderPayer, int, OrderPayee]:
    """Who pays, how many cents, and whom."""
    body = request.body.under(EnvioSolicitado, "pix", "")
    amount_cents = body.amount("valor")
    if amount_cents == 0:
        body.refuse("valor", "deve ser maior que zero")
    payer, payee = _read_payer(body, request), _read_payee(body)
    body.raise_if_any()
    if amount_cents is None or payee is None:
        raise errors.InvariantBroken("what is missing is a violation")
    return payer, amount_cents, payee


def read_code(request: Asked) -> tuple[OrderPayer, str]:
    """Who pays, and which code."""
    body = request.body.under(EnvioDeCodigo, "qrcode")
    payer = _read_payer(body, request)
    code = body.text("pixCopiaECola")
    body.raise_if_any()
    return payer, code or ""


def _read_payer(body: Members, request: Asked) -> OrderPayer:
    (id_envio,) = request.parameter
    if not _ID.fullmatch(id_envio):
        body.violations.add("idEnvio", "deve ter de 1 a 35 letras e dígitos", id_envio)
    payer = body.object("pagador")
    key = None if payer is None else payer.text("chave")
    message = None if payer is None else payer.text("infoPagador")
    return OrderPayer(id_envio, key or "", message)


def _read_payee(body: Members) -> OrderPayee | None:
    payee = body.object("favorecido")
    if payee is None:
        return None
    account = payee.object("contaBanco")
    owner = payee.tax_id("cpf") or payee.tax_id("cnpj")
    if account is not None:
        return OrderPayee(None, None, _read_account(account))
    key = payee.pix_key("chave")
    return None if key is None else OrderPayee(key, owner, None)


def _read_account(account: Members) -> Party | None:
    name = account.text("nome")
    cpf, cnpj = account.tax_id("cpf"), account.tax_id("cnpj")
    if not account.has("cpf") and not account.has("cnpj"):
        account.refuse("cpf", "ou cnpj é obrigatório")
    ispb = account.text("codigoBanco", pattern=ISPB)
    branch = account.text("agencia", pattern=BRANCH)
    number = account.text("conta", pattern=ACCOUNT_DIGITS)
    kind = account.choice("tipoConta")
    owner = cpf or cnpj
    if name is None or owner is None or ispb is None or branch is None or number is None or kind is None:
        return None
    return Party(
        account_number=number, account_type=ACCOUNT_TYPES[kind], branch=branch, ispb=ispb, name=name, tax_id=owner
    )
