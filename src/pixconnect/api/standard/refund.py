"""Refunds at the standard's door: ``devolucao``."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.payment import read_end_to_end_id
from pixconnect.api.standard.violations import Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.money.refund import DESCRIPTION_LENGTH_MAX
from pixconnect.usecases.standard import refund as standard_refund_usecases
from pixconnect.usecases.standard.pix import find_received

_ID: Final = re.compile(r"[a-zA-Z0-9]{1,35}")
_ENTITY: Final = standard_refund_usecases.ENTITY


class DevolucaoSolicitada(Struct, frozen=True, kw_only=True):
    """Uma devolução a fazer."""

    valor: Annotated[str, Meta(pattern=r"^[0-9]{1,10}\.[0-9]{2}$", examples=["7.89"])]
    """Em reais, com dois decimais: tudo o que resta do Pix, ou uma parte."""
    natureza: Literal["ORIGINAL"] | None = None
    """`ORIGINAL` se ausente. Não há Pix Saque nem Troco, então `RETIRADA` é recusada."""
    descricao: Annotated[str, Meta(max_length=DESCRIPTION_LENGTH_MAX)] | None = None
    """Para o pagador ler."""


async def put_refund(services: Services, request: Asked, *, is_new: bool = False) -> Reply:
    """Pede a devolução de um Pix.

    Várias devoluções parciais são possíveis, até 90 dias depois da liquidação e nunca além do valor do Pix. A mesma
    requisição de novo responde com a mesma devolução, como ela está.
    """
    end_to_end_id, refund_id = request.parameter
    violations = Violations(_ENTITY)
    if not _ID.fullmatch(refund_id):
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
    refund = await standard_refund_usecases.request_refund(
        services.context,
        request.caller,
        original,
        refund_id,
        amount_cents=amount_cents or 0,
        description=description or None,
        is_new=is_new,
    )
    return Reply(status=201, record=refund)


async def get_refund(services: Services, request: Asked) -> Reply:
    """Consulta uma devolução."""
    end_to_end_id, refund_id = request.parameter
    if not _ID.fullmatch(refund_id):
        raise errors.NotFound("id: there is no such refund of this Pix")
    refund = await standard_refund_usecases.read_refund(
        services.context, request.caller, read_end_to_end_id(end_to_end_id), refund_id
    )
    return Reply(status=200, record=refund)
