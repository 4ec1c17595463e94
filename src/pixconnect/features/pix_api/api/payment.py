"""Received Pix in the standard API, and their refunds: ``devolucao``."""

import re
from collections.abc import Sequence
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from pixconnect.doors.api.operation import Reply, Services
from pixconnect.features.pix_api.api import frame
from pixconnect.features.pix_api.api.violations import Violations
from pixconnect.features.pix_api.rules import ReceivedSearch
from pixconnect.features.pix_api.service import pix as standard_pix_usecases
from pixconnect.features.pix_api.service.pix import NAME, Pix, find_received
from pixconnect.kernel.rules.refund import DESCRIPTION_LENGTH_MAX
from pixconnect.platform.base import errors

_END_TO_END_ID: Final = re.compile(r"[a-zA-Z0-9]{32}")


async def get_pix(services: Services, request: frame.Asked) -> Reply:
    """Consulta um Pix recebido.

    Há todo Pix recebido e já liquidado, com suas devoluções.
    """
    end_to_end_id = read_end_to_end_id(request.parameter[0])
    pix = await standard_pix_usecases.read_pix(services.context, request.caller, end_to_end_id)
    return Reply(status=200, record=pix)


class PixQuery(frame.PeriodQuery, frozen=True, kw_only=True):
    """Quais Pix."""

    txid: Annotated[str, Meta(pattern="^[a-zA-Z0-9]{1,35}$")] | None = None
    """Só os da cobrança, ou do código, com este txid."""
    has_txid: bool | None = field(default=None, name="txIdPresente")
    """Só os que têm txid, ou só os que não têm."""
    has_refunds: bool | None = field(default=None, name="devolucaoPresente")
    """Só os que têm alguma devolução, ou só os que não têm."""
    cpf: Annotated[str, Meta(pattern="^[0-9]{11}$")] | None = None
    """Só os pagos por esta pessoa; não com `cnpj`."""
    cnpj: Annotated[str, Meta(pattern="^[0-9A-Z]{14}$")] | None = None
    """Só os pagos por esta empresa; não com `cpf`."""
    contest_purpose: Annotated[str, Meta(pattern=r"^[\s\S]{0,200}$")] | None = field(default=None, name="finalidadeMED")
    """Da versão 2.10.0, cujos valores não conhecemos: é devolvido em `parametros` e não filtra nada."""


class ParametrosConsultaPix(frame.Parametros, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O que foi pedido, e a página."""

    txid: str | None = None
    has_txid: bool | None = field(default=None, name="txIdPresente")
    has_refunds: bool | None = field(default=None, name="devolucaoPresente")
    cpf: str | None = None
    cnpj: str | None = None
    contest_purpose: str | None = field(default=None, name="finalidadeMED")


class PixConsultados(Struct, frozen=True, kw_only=True):
    """Uma página de Pix recebidos."""

    parametros: ParametrosConsultaPix
    """O que foi pedido, e a página."""
    pix: Sequence[Pix]
    """Do mais novo ao mais antigo, pelo `horario`."""


async def list_pix(services: Services, request: frame.Asked) -> Reply:
    """Lista os Pix recebidos.

    Os liquidados entre `inicio` e `fim`, do mais novo ao mais antigo.
    """
    parameters = request.query.under(PixQuery, "pix")
    interval = frame.read_interval(parameters)
    txid = parameters.text("txid")
    has_txid, has_refunds = parameters.boolean("txIdPresente"), parameters.boolean("devolucaoPresente")
    cpf, cnpj = parameters.tax_id("cpf"), parameters.tax_id("cnpj")
    frame.refuse_both_tax_ids(parameters, cpf, cnpj)
    contest_purpose = parameters.text("finalidadeMED")
    page = frame.read_page(parameters)
    parameters.raise_if_any()
    search = ReceivedSearch(txid=txid, has_txid=has_txid, has_refunds=has_refunds, payer_tax_id=cpf or cnpj)
    found = await standard_pix_usecases.list_pix(services.context, request.caller, search, frame.make_span(interval, page))
    filters = dict(txid=txid, has_txid=has_txid, has_refunds=has_refunds, contest_purpose=contest_purpose)
    parametros = frame.describe(interval, page, found.total_count, ParametrosConsultaPix, cpf=cpf, cnpj=cnpj, **filters)
    return Reply(status=200, record=PixConsultados(parametros=parametros, pix=found.items))


def read_end_to_end_id(text: str) -> str:
    """Raise ``NotFound`` for any other form, which matches nothing."""
    if not _END_TO_END_ID.fullmatch(text):
        raise errors.NotFound("e2eid: there is no such Pix")
    return text


_REFUND: Final = standard_pix_usecases.ENTITY


class DevolucaoSolicitada(Struct, frozen=True, kw_only=True):
    """Uma devolução a fazer."""

    valor: Annotated[str, Meta(pattern=r"^[0-9]{1,10}\.[0-9]{2}$", examples=["7.89"])]
    """Em reais, com dois decimais: tudo o que resta do Pix, ou uma parte."""
    natureza: Literal["ORIGINAL"] | None = None
    """`ORIGINAL` se ausente. Não há Pix Saque nem Troco, então `RETIRADA` é recusada."""
    descricao: Annotated[str, Meta(max_length=DESCRIPTION_LENGTH_MAX)] | None = None
    """Para o pagador ler."""


async def put_refund(services: Services, request: frame.Asked, *, is_new: bool = False) -> Reply:
    """Pede a devolução de um Pix.

    Várias devoluções parciais são possíveis, até 90 dias depois da liquidação e nunca além do valor do Pix. A mesma
    requisição de novo responde com a mesma devolução, como ela está.
    """
    end_to_end_id, refund_id = request.parameter
    violations = Violations(_REFUND)
    if not NAME.fullmatch(refund_id):
        violations.add("id", "deve ter de 1 a 35 letras e dígitos", refund_id)
    violations.raise_if_any()
    original = await find_received(services.context, request.caller, read_end_to_end_id(end_to_end_id))
    body = request.body.under(DevolucaoSolicitada, violations)
    amount_cents = body.amount("valor")
    if amount_cents == 0:
        body.refuse("valor", "deve ser maior que zero")
    if body.choice("natureza", also=("RETIRADA",)) == "RETIRADA":
        body.refuse("natureza", "não há Pix Saque nem Troco nesta conta: só ORIGINAL")
    description = body.text("descricao")
    violations.raise_if_any()
    refund = await standard_pix_usecases.request_refund(
        services.context,
        request.caller,
        original,
        refund_id,
        amount_cents=amount_cents or 0,
        description=description or None,
        is_new=is_new,
    )
    return Reply(status=201, record=refund)


async def get_refund(services: Services, request: frame.Asked) -> Reply:
    """Consulta uma devolução."""
    end_to_end_id, refund_id = request.parameter
    if not NAME.fullmatch(refund_id):
        raise errors.NotFound("id: there is no such refund of this Pix")
    refund = await standard_pix_usecases.read_refund(
        services.context, request.caller, read_end_to_end_id(end_to_end_id), refund_id
    )
    return Reply(status=200, record=refund)
