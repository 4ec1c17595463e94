"""What the webhook of a key is told: deliveries, and how they are sent again. The standard has no words for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, get_args

from msgspec import Struct

from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.listing import PageQuery, Paginacao, describe, make_span, read_interval, read_page
from pixconnect.api.standard.violations import Parameters
from pixconnect.api.standard.webhook import read_key
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.webhooks.delivery import Attempt, DeliveryStatus, KeyDelivery
from pixconnect.domain.webhooks.signature import notice_message_id
from pixconnect.usecases.standard.pix import Instante
from pixconnect.usecases.webhooks import key_webhook as key_webhook_usecases

_ENTITY: Final = key_webhook_usecases.ENTITY
_ID: Final = re.compile(r"[1-9][0-9]{0,15}")

Situacao = Literal["PENDENTE", "ENTREGUE", "FALHOU"]
_SITUATIONS: Final = dict[DeliveryStatus, Situacao](
    (("pending", "PENDENTE"), ("delivered", "ENTREGUE"), ("failed", "FALHOU"))
)
_CHOICES: Final[tuple[Situacao, ...]] = get_args(Situacao)
_STATUSES: Final[Mapping[Situacao, DeliveryStatus]] = {situation: status for status, situation in _SITUATIONS.items()}


class Tentativa(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Um envio e o que houve."""

    numero: int
    """A partir de 1; um reenvio continua a contagem."""
    horario: Instante
    """Quando começou."""
    status_http: int | None = None
    """O status da resposta; ausente se não houve resposta."""
    duracao_ms: int
    """Em milissegundos."""
    resposta: str
    """O começo do corpo da resposta."""
    erro: str | None = None
    """Por que falhou."""


class Entrega(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Um Pix, ou o fim de uma devolução dele, a caminho do webhook da sua chave."""

    id: int
    """O identificador desta entrega."""
    mensagem: str | None = None
    """O cabeçalho `webhook-id` do corpo em que foi enviada, igual para todos os Pix desse corpo; ausente antes do envio."""
    end_to_end_id: str
    """O Pix."""
    situacao: Situacao
    """`PENDENTE` até um envio ter sucesso (`ENTREGUE`) ou o último falhar (`FALHOU`)."""
    proximo_envio: Instante | None = None
    """Quando será o próximo envio; ausente se não há."""
    tentativas: list[Tentativa]
    """Os envios do corpo, do primeiro ao último."""
    criacao: Instante
    """Quando ficou devida."""


class EntregaListQuery(PageQuery, frozen=True, kw_only=True):
    """Quais entregas."""

    inicio: Instante | None = None
    """O instante mais antigo, incluído; RFC 3339 com fuso."""
    fim: Instante | None = None
    """O instante mais novo, incluído; RFC 3339 com fuso."""
    situacao: Situacao | None = None
    """Só as desta situação."""


class ParametrosEntregas(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """O que foi pedido, e a página."""

    inicio: Instante | None = None
    """Como foi pedido, em UTC."""
    fim: Instante | None = None
    """Como foi pedido, em UTC."""
    situacao: Situacao | None = None
    """Como foi pedida."""
    paginacao: Paginacao
    """A página."""


class EntregasConsultadas(Struct, frozen=True, kw_only=True):
    """Uma página das entregas de um webhook."""

    parametros: ParametrosEntregas
    """O que foi pedido, e a página."""
    entregas: list[Entrega]
    """As mais novas primeiro."""


class ReenvioSolicitado(Struct, frozen=True, kw_only=True):
    """Um intervalo cujos avisos são enviados de novo."""

    inicio: Instante
    """O instante mais antigo, incluído; RFC 3339 com fuso."""
    fim: Instante
    """O instante mais novo, incluído; RFC 3339 com fuso."""


class Reenvio(Struct, frozen=True, kw_only=True):
    """O que será enviado de novo."""

    reenviados: int
    """Quantos avisos."""


async def list_deliveries(services: Services, request: Asked) -> Reply:
    """Lista as entregas de um webhook, com seus envios.

    O padrão não tem esta operação: ela é desta casa.
    """
    key = read_key(request)
    # The webhook is looked for before the query is judged.
    await key_webhook_usecases.read_webhook(services.context, request.caller, key)
    parameters = request.query.under(EntregaListQuery, _ENTITY)
    interval = read_interval(parameters)
    situation = parameters.choice("situacao", _CHOICES)
    asked = read_page(parameters)
    parameters.raise_if_any()
    page = await key_webhook_usecases.list_deliveries(
        services.context,
        request.caller,
        key,
        None if situation is None else _STATUSES[situation],
        make_span(interval, asked),
    )
    parametros = describe(interval, asked, page.total_count, ParametrosEntregas, situacao=situation)
    entregas = [_show(delivery) for delivery in page.items]
    return Reply(status=200, record=EntregasConsultadas(parametros=parametros, entregas=entregas))


async def redeliver(services: Services, request: Asked) -> Reply:
    """Envia de novo o corpo de uma entrega, já.

    Vão os mesmos bytes, com todos os Pix desse corpo, e os prazos recomeçam. O padrão não tem esta operação: ela é desta casa.
    """
    key, text = read_key(request), request.parameter[1]
    if not _ID.fullmatch(text):
        raise errors.NotFound("id: there is no such delivery")
    delivery = await key_webhook_usecases.redeliver(services.context, request.caller, key, int(text))
    return Reply(status=200, record=_show(delivery))


async def replay(services: Services, request: Asked) -> Reply:
    """Avisa de novo tudo o que houve em um intervalo.

    Cada Pix vai como está agora; o que já espera para ser enviado não vai duas vezes. O padrão não tem esta operação: ela é
    desta casa.
    """
    key = read_key(request)
    await key_webhook_usecases.read_webhook(services.context, request.caller, key)
    body = request.body.under(ReenvioSolicitado, _ENTITY)
    texts = {name: body.text(name, length_max=64) for name in ("inicio", "fim")}
    body.raise_if_any()
    interval = read_interval(Parameters(body.violations, {name: text or "" for name, text in texts.items()}))
    body.raise_if_any()
    first, last = (errors.require(each, "what is missing is a violation") for each in (interval.inicio, interval.fim))
    count = await key_webhook_usecases.redeliver_events(services.context, request.caller, key, first, last)
    return Reply(status=200, record=Reenvio(reenviados=count))


def _show(delivery: KeyDelivery) -> Entrega:
    return Entrega(
        id=delivery.id,
        mensagem=notice_message_id(delivery.notice_id) if delivery.attempts else None,
        end_to_end_id=delivery.end_to_end_id,
        situacao=_SITUATIONS[delivery.status],
        proximo_envio=None if delivery.due_at is None else format_milliseconds(delivery.due_at),
        tentativas=[_show_attempt(attempt) for attempt in delivery.attempts],
        criacao=format_milliseconds(delivery.created_at),
    )


def _show_attempt(attempt: Attempt) -> Tentativa:
    return Tentativa(
        numero=attempt.number,
        horario=format_milliseconds(attempt.started_at),
        status_http=attempt.status_code,
        duracao_ms=attempt.duration_us // 1000,
        resposta=attempt.response,
        erro=attempt.error,
    )
