"""What payers contest (MED), as Efi lists it, and how it is answered there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from pixconnect.api.faces.frame import Face, Shown, without_none
from pixconnect.api.faces.refusals import NamedRefusal
from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard import listing
from pixconnect.api.standard.frame import Asked
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.frame.listing import Span
from pixconnect.domain.frame.money import format_reais
from pixconnect.domain.money.block_report import InfractionState
from pixconnect.domain.money.infraction import Infraction
from pixconnect.usecases.institutions import defence as defence_usecases
from pixconnect.usecases.standard import pix as pix_usecases

TEXT_LENGTH_MAX: Final = 1000
_WORDS: Final = dict[InfractionState, str](
    (("open", "ABERTA"), ("answered", "EM_DEFESA"), ("taken", "ACEITA"), ("released", "REJEITADA"))
)
_READ_MAX: Final = 1000
"""Nobody has more in a sandbox."""
_REASONS: Final = dict(fraud="FRAUDE", operational_flaw="FALHA_OPERACIONAL")


class Defesa(Struct, frozen=True, kw_only=True):
    analise: Literal["rejeitado"]
    justificativa: Annotated[str, Meta(min_length=1, max_length=TEXT_LENGTH_MAX)]


class _Listed(Struct, frozen=True):
    infraction: Infraction
    paid_at: datetime


async def list_contests(face: Face, services: Services, request: Asked) -> Shown:
    """As infrações de um intervalo, da mais nova à mais antiga."""
    _check_switched_on(face)
    parameters = request.query.under(listing.PeriodQuery, "consulta")
    interval, page = listing.read_interval(parameters), listing.read_page(parameters)
    parameters.raise_if_any()
    is_by_paid = face.choose(services, "contest_interval") == "paid"
    listed = [
        one
        for one in await _read_all(services, request)
        if _is_within(one.paid_at if is_by_paid else one.infraction.opened_at, interval)
    ]
    shown = listed[page.number * page.size : (page.number + 1) * page.size]
    parametros = listing.describe(interval, page, len(listed), listing.Parametros)
    return {"parametros": parametros, "infracoes": [_show(one) for one in shown]}


async def defend_contest(face: Face, services: Services, request: Asked) -> Reply:
    """Responde a uma infração, uma vez."""
    _check_switched_on(face)
    body = request.body.under(Defesa, "infracao")
    body.choice("analise")
    text = body.text("justificativa")
    body.raise_if_any()
    (name,) = request.parameter
    found = next((one for one in await _read_all(services, request) if one.infraction.name == name), None)
    if found is None:
        raise errors.NotFound("id: there is no such infraction")
    # Here a second answer is refused whatever it says.
    if found.infraction.defence is not None:
        raise errors.InfractionAnswered("justificativa: it was answered before")
    context, caller = services.context, request.caller
    shown = await defence_usecases.defend(context, caller, found.infraction.id, text or "")
    return Reply(status=201, record=_show(_Listed(shown.infraction, found.paid_at)))


def _check_switched_on(face: Face) -> None:
    if face.is_homologation:
        raise NamedRefusal("SWITCHED_OFF", "funcionalidade desabilitada em ambiente de homologação")


async def _read_all(services: Services, request: Asked) -> Sequence[_Listed]:
    context, caller = services.context, request.caller
    found = await defence_usecases.list_infractions(context, caller, None, Span(page_size=_READ_MAX))
    listed = list[_Listed]()
    for shown in found.items:
        paid = await pix_usecases.read_pix(context, caller, shown.infraction.end_to_end_id)
        listed.append(_Listed(shown.infraction, datetime.fromisoformat(paid.horario)))
    return listed


def _is_within(instant: datetime, interval: listing.Interval) -> bool:
    begin, end = interval.inicio, interval.fim
    return (begin is None or instant >= begin) and (end is None or instant <= end)


def _show(listed: _Listed) -> Shown:
    told = listed.infraction
    return without_none(
        {
            "idInfracao": told.name,
            "endToEndId": told.end_to_end_id,
            "protocolo": str(told.id),
            "dataTransacao": format_milliseconds(listed.paid_at),
            "valor": format_reais(told.amount_cents),
            "status": _WORDS[told.state],
            "razao": _REASONS[told.reason],
            "tipoSituacao": told.situation.upper(),
            "comentario": told.words,
            "defesa": told.defence,
            "dadosAnalise": _show_analysis(told),
            "criadoEm": format_milliseconds(told.opened_at),
            "atualizadoEm": format_milliseconds(told.modified_at),
        }
    )


def _show_analysis(told: Infraction) -> Shown:
    return without_none(
        {
            "abertura": format_milliseconds(told.opened_at),
            "prazoFinalizacao": format_milliseconds(told.respond_by),
            "recebimentoDefesa": told.defended_at and format_milliseconds(told.defended_at),
            "finalizacao": None if told.is_open else format_milliseconds(told.modified_at),
        }
    )
