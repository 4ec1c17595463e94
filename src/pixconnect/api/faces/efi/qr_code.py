"""What a code asks for, as Efi shows it before anybody pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from pixconnect.api.faces.frame import Face
from pixconnect.api.faces.refusals import NamedRefusal
from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import Members, Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.frame.money import format_reais
from pixconnect.domain.frame.violation import Violated, Violation
from pixconnect.domain.money import tax_id
from pixconnect.domain.money.br_code import BR_CODE_LENGTH_MAX
from pixconnect.usecases.standard import dynamic_code as dynamic_code_usecases

_ENTITY: Final = "qrcode"


class CodigoADetalhar(Struct, frozen=True, kw_only=True, rename="camel"):
    pix_copia_e_cola: Annotated[str, Meta(min_length=1, max_length=BR_CODE_LENGTH_MAX)]


class CalendarioDoCodigo(Struct, frozen=True, kw_only=True):
    criacao: str
    apresentacao: str
    expiracao: int


class PessoaDoCodigo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    nome: str
    cpf: str | None = None
    cnpj: str | None = None


class ValorDoCodigo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    original: str | None = None
    final: str | None = None


class LinhaDoCodigo(Struct, frozen=True, kw_only=True):
    nome: str
    valor: str


class CodigoDetalhado(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O que um código pede, e a quem paga."""

    tipo_cob: str
    txid: str
    revisao: int
    calendario: CalendarioDoCodigo
    status: str
    devedor: PessoaDoCodigo | None = None
    recebedor: PessoaDoCodigo
    valor: ValorDoCodigo
    chave: str
    solicitacao_pagador: str | None = None
    lines: Sequence[LinhaDoCodigo] | None = field(default=None, name="infoAdicionais")


async def detail_code(face: Face, services: Services, request: Asked) -> Reply:
    """Mostra a cobrança de um código dinâmico, sem a pagar."""
    if face.is_homologation:
        raise NamedRefusal("SWITCHED_OFF", "funcionalidade desabilitada em ambiente de homologação")
    violations = Violations(_ENTITY)
    text = Members(violations, CodigoADetalhar, request.body.require(_ENTITY)).text("pixCopiaECola")
    violations.raise_if_any()
    context = services.context
    try:
        code = await dynamic_code_usecases.read_dynamic_code(context, request.caller, text or "")
    except dynamic_code_usecases.CodeIsStatic:
        raise _refusal("é de uma cobrança estática") from None
    except dynamic_code_usecases.CodeHasDueDate:
        raise _refusal("é de uma cobrança com vencimento, que aqui não é detalhada") from None
    except (errors.PixKeyNotFound, errors.SameAccount):
        raise _refusal("tem uma chave de recebedor que não foi encontrada") from None
    except errors.InvalidQrCode:
        raise NamedRefusal("NO_CODE", "é inválido", [_row("é inválido")]) from None
    now = context.clock.now()
    record = CodigoDetalhado(
        tipo_cob="cob",
        txid=code.txid,
        revisao=code.revision,
        calendario=CalendarioDoCodigo(
            criacao=format_milliseconds(code.created_at),
            apresentacao=format_milliseconds(max(now, code.created_at)),
            expiracao=code.lifetime_s,
        ),
        status=code.status,
        devedor=None if code.payer is None else _show_person(code.payer.name, code.payer.tax_id),
        recebedor=_show_person(code.payee.name, code.payee.tax_id),
        valor=ValorDoCodigo(**{face.choose(services, "code_amount"): format_reais(code.amount_cents)}),
        chave=code.key,
        solicitacao_pagador=code.question,
        lines=[LinhaDoCodigo(nome=line.name, valor=line.value) for line in code.lines] or None,
    )
    return Reply(status=200, record=record)


def _show_person(name: str, number: str) -> PessoaDoCodigo:
    if tax_id.is_cpf(number):
        return PessoaDoCodigo(nome=name, cpf=tax_id.mask_cpf(number))
    return PessoaDoCodigo(nome=name, cnpj=number)


def _row(reason: str) -> Violation:
    return Violation(property="qrcode.pixCopiaECola", reason=reason)


def _refusal(reason: str) -> Violated:
    return Violated(_ENTITY, [_row(reason)])
