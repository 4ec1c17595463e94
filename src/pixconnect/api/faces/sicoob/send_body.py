"""What Sicoob's sends are asked with: reais with a decimal comma, or with a point where a code is paid."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from pixconnect.api.standard.violations import Members
from pixconnect.domain.frame import errors
from pixconnect.domain.money.account import ACCOUNT_DIGITS, BRANCH, ISPB
from pixconnect.domain.money.br_code import BR_CODE_LENGTH_MAX
from pixconnect.domain.money.holder import AccountType, Party
from pixconnect.domain.money.pix_key import SENT_LENGTH_MAX
from pixconnect.domain.money.transfer import MESSAGE_LENGTH_MAX

END_TO_END_ID: Final = re.compile(r"[a-zA-Z0-9]{32}")
ACCOUNT_WORDS: Final = dict[str, AccountType](
    CORRENTE="CHECKING", POUPANCA="SAVINGS", SALARIO="SALARY", CONTAPAGAMENTO="TRANSACTIONAL"
)
_WITH_COMMA: Final = re.compile(r"([0-9]{1,18})(?:,([0-9]{1,2}))?")
_WITH_POINT: Final = re.compile(r"([0-9]{1,16})\.([0-9]{2})")
_DIGITS_MAX: Final = 15
"""Of cents; no amount is as long."""

Day = Annotated[str, Meta(max_length=10)]


class ContaDoPedido(Struct, frozen=True, kw_only=True, rename="camel"):
    """De quem, ou a quem."""

    ispb: Annotated[str, Meta(max_length=8)]
    cpf_cnpj: Annotated[str, Meta(max_length=14)]
    nome: Annotated[str, Meta(min_length=1, max_length=150)]
    conta: Annotated[str, Meta(max_length=20)]
    agencia: Annotated[str, Meta(max_length=4)]
    tipo: Literal["CORRENTE", "POUPANCA", "SALARIO", "CONTAPAGAMENTO"]


class IniciacaoSolicitada(Struct, frozen=True, kw_only=True):
    """O primeiro passo."""

    chave: Annotated[str, Meta(max_length=SENT_LENGTH_MAX)]
    scheduled_day: Day | None = field(default=None, name="dataAgendamento")


class ConfirmacaoSolicitada(Struct, frozen=True, kw_only=True, rename="camel"):
    """O segundo passo."""

    meio_iniciacao: Literal["CHAVE", "MANUAL", "QRCODE"]
    valor: Annotated[str, Meta(max_length=21)]
    end_to_end_id: Annotated[str, Meta(max_length=32)] | None = None
    descricao: Annotated[str, Meta(max_length=MESSAGE_LENGTH_MAX)] | None = None
    repeticao: bool | None = None
    scheduled_day: Day | None = field(default=None, name="dataAgendamento")
    origem: ContaDoPedido | None = None
    destino: ContaDoPedido | None = None


class FavorecidoDoCodigo(Struct, frozen=True, kw_only=True, rename="camel"):
    cpf_cnpj: Annotated[str, Meta(max_length=14)]


class PagamentoDeCodigo(Struct, frozen=True, kw_only=True, rename="camel"):
    """O pagamento de um código, em um passo."""

    br_code: Annotated[str, Meta(min_length=1, max_length=BR_CODE_LENGTH_MAX)] = field(name="qrcode")
    valor: Annotated[str, Meta(max_length=19)]
    repeticao: bool
    pays_charges: bool = field(name="pagarComJurosMulta")
    scheduled_day: Day | None = field(default=None, name="dataAgendamento")
    origem: ContaDoPedido
    destino: FavorecidoDoCodigo


def read_amount(body: Members, *, has_comma: bool) -> int | None:
    """Cents of ``valor``; ``199`` is 199 reais where a comma may be left out."""
    text = body.text("valor")
    if text is None:
        return None
    found = (_WITH_COMMA if has_comma else _WITH_POINT).fullmatch(text)
    if found is None:
        form = "vírgula, como 1,99" if has_comma else "ponto e 2 decimais, como 1.99"
        return body.refuse("valor", f"deve ser um texto com reais e {form}")
    digits = found[1] + (found[2] or "").ljust(2, "0")
    if len(digits) > _DIGITS_MAX or int(digits) == 0:
        return body.refuse("valor", "deve ser maior que zero e menor que dez trilhões de reais")
    return int(digits)


def read_payee_account(body: Members) -> Party | None:
    """The account in ``destino``, all of which must be there."""
    payee = body.object("destino")
    if payee is None:
        if not body.has("destino"):
            body.refuse("destino", "é obrigatório quando meioIniciacao é MANUAL")
        return None
    name, owner = payee.text("nome"), payee.cpf_or_cnpj("cpfCnpj")
    ispb = payee.text("ispb", pattern=ISPB)
    branch = payee.text("agencia", pattern=BRANCH)
    number = payee.text("conta", pattern=ACCOUNT_DIGITS)
    kind = payee.choice("tipo")
    if name is None or owner is None or ispb is None or branch is None or number is None or kind is None:
        return None
    return Party(
        account_number=number, account_type=ACCOUNT_WORDS[kind], branch=branch, ispb=ispb, name=name, tax_id=owner
    )


def check_given(body: Members, member: str, known: Party) -> None:
    """Refuse what ``origem`` or ``destino`` says otherwise than it is; what is left out is not compared."""
    given = body.object(member) if body.has(member) else None
    if given is None:
        return
    held = {"cpfCnpj": known.tax_id, "conta": known.account_number, "agencia": known.branch}
    for name, expected in held.items():
        sent = given.text(name) if given.has(name) else None
        # Some write an account with leading zeros.
        if sent is not None and sent.lstrip("0") != expected.lstrip("0"):
            given.refuse(name, "não é o da conta")


def read_owner(body: Members) -> str | None:
    """Whose a code must be."""
    payee = body.object("destino")
    return payee and payee.cpf_or_cnpj("cpfCnpj")


def unreachable() -> errors.InvariantBroken:
    return errors.InvariantBroken("what is missing is a violation")
