"""Webhooks in the standard API, in both directions.

A key has one webhook; its notices are deliveries, which are sent again on request. At the addresses that institutions call, the
answer is always the same, and empty.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, Literal, get_args

from msgspec import Meta, Struct

from pixconnect.doors.api import rates
from pixconnect.doors.api.operation import Anything, Door, Nothing, Operation, Reader, Reply, Request, Services
from pixconnect.doors.api.routing import NONE, OPEN_END
from pixconnect.features.institutions.profiles.profile import InstitutionProfile
from pixconnect.features.institutions.rules.sweep import PATH
from pixconnect.features.institutions.service.webhook import CALLBACKS
from pixconnect.features.pix_api.api import frame
from pixconnect.features.pix_api.api.frame import READER
from pixconnect.features.pix_api.api.violations import NO_PIX_KEY, Parameters, Violations
from pixconnect.features.pix_api.service import key_webhook as key_webhook_usecases
from pixconnect.features.pix_api.service.pix import Instante
from pixconnect.features.webhooks.rules.delivery import DeliveryStatus, KeyDelivery
from pixconnect.features.webhooks.rules.endpoint import URL_LENGTH_MAX, KeyWebhook, notice_message_id
from pixconnect.kernel.rules import holder, tax_id
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_milliseconds

_ENTITY: Final = key_webhook_usecases.ENTITY
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s]+")

Url = Annotated[str, Meta(max_length=URL_LENGTH_MAX, examples=["https://loja.example.com/pix-recebidos"])]


class WebhookSolicitado(Struct, frozen=True, kw_only=True, rename="camel"):
    """Onde avisar."""

    webhook_url: Annotated[Url, Meta(extra_json_schema=dict(format="uri"))]
    """Os avisos vão para esta URL com `/pix` no fim do caminho. Em produção, https e um endereço público."""


class WebhookCompleto(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O webhook de uma chave."""

    webhook_url: Annotated[Url, Meta(extra_json_schema=dict(format="uri"))]
    """Como foi configurada, sem `/pix`."""
    chave: Annotated[str, Meta(max_length=holder.KEY_LENGTH_MAX)]
    """A chave Pix, em sua forma normal."""
    cnpj: Annotated[str, Meta(pattern="^[0-9A-Z]{14}$")] | None = None
    """O seu CNPJ; ausente se você é uma pessoa física."""
    criacao: Instante
    """Quando foi configurado pela última vez."""


class WebhookListQuery(frame.PageQuery, frozen=True, kw_only=True):
    """Quais webhooks."""

    inicio: Instante | None = None
    """O instante mais antigo, incluído; RFC 3339 com fuso. Ausente: desde sempre."""
    fim: Instante | None = None
    """O instante mais novo, incluído; RFC 3339 com fuso. Ausente: até agora."""


class WebhooksConsultados(Struct, frozen=True, kw_only=True):
    """Uma página dos seus webhooks."""

    parametros: frame.Parametros
    """O que foi pedido, e a página."""
    webhooks: list[WebhookCompleto]
    """Os configurados por último primeiro."""


async def put_webhook(services: Services, request: frame.Asked, profile: InstitutionProfile | None = None) -> Reply:
    """Configura o webhook de uma chave.

    Todo Pix liquidado a favor da chave é avisado, com ou sem txid, e toda devolução que termina. Configurar de novo troca a
    URL, também para o que ainda não foi entregue.
    """
    await set_up(services, request, profile)
    return Reply(status=200)


async def set_up(
    services: Services,
    request: frame.Asked,
    profile: InstitutionProfile | None = None,
    probe: Callable[[str], Awaitable[None]] | None = None,
) -> str:
    """Set the webhook of the key in the path; ``probe`` may refuse the URL before anything is changed."""
    violations = Violations(_ENTITY)
    key = _read_key(violations, request.parameter[0])
    body = request.body.under(WebhookSolicitado, violations)
    url = body.text("webhookUrl", pattern=_URL, reason="deve ser uma URL")
    violations.raise_if_any()
    key, url = key or "", url or ""
    if probe is not None:
        # Only the receiver of the caller's own key is called.
        await key_webhook_usecases.judge_webhook(services.context, request.caller, key, url, profile)
        await probe(url)
    await key_webhook_usecases.set_webhook(services.context, request.caller, key, url, profile)
    return url


async def get_webhook(services: Services, request: frame.Asked) -> Reply:
    """Consulta o webhook de uma chave."""
    webhook = await key_webhook_usecases.read_webhook(services.context, request.caller, read_key(request))
    return Reply(status=200, record=_show(webhook, await _read_cnpj(services, request.caller)))


async def delete_webhook(services: Services, request: frame.Asked) -> Reply:
    """Remove o webhook de uma chave.

    O que ainda não foi entregue não é mais enviado.
    """
    await key_webhook_usecases.delete_webhook(services.context, request.caller, read_key(request))
    return Reply(status=204)


async def list_webhooks(services: Services, request: frame.Asked) -> Reply:
    """Lista os seus webhooks."""
    parameters = request.query.under(WebhookListQuery, _ENTITY)
    interval, asked = frame.read_interval(parameters), frame.read_page(parameters)
    parameters.raise_if_any()
    page = await key_webhook_usecases.list_webhooks(services.context, request.caller, frame.make_span(interval, asked))
    cnpj = await _read_cnpj(services, request.caller)
    parametros = frame.describe(interval, asked, page.total_count, frame.Parametros)
    webhooks = [_show(webhook, cnpj) for webhook in page.items]
    return Reply(status=200, record=WebhooksConsultados(parametros=parametros, webhooks=webhooks))


def read_key(request: frame.Asked) -> str:
    """Read the key in the path; raises ``Violated`` for an invalid form."""
    violations = Violations(_ENTITY)
    key = _read_key(violations, request.parameter[0])
    violations.raise_if_any()
    return key or ""


def _read_key(violations: Violations, text: str) -> str | None:
    try:
        return holder.parse_pix_key(text).key
    except errors.InvalidPixKey:
        violations.add("chave", NO_PIX_KEY, text)
        return None


async def _read_cnpj(services: Services, caller: Caller) -> str | None:
    account = await services.context.directory.read_account(caller.holder_id)
    return account.party.tax_id if tax_id.is_cnpj(account.party.tax_id) else None


def _show(webhook: KeyWebhook, cnpj: str | None) -> WebhookCompleto:
    return WebhookCompleto(
        webhook_url=webhook.url, chave=webhook.pix_key, cnpj=cnpj, criacao=format_milliseconds(webhook.created_at)
    )


_ID: Final = re.compile(r"[1-9][0-9]{0,15}")

Situacao = Literal["PENDENTE", "ENTREGUE", "FALHOU"]
_SITUATIONS: Final = dict[DeliveryStatus, Situacao]((("pending", "PENDENTE"), ("delivered", "ENTREGUE"), ("failed", "FALHOU")))
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


class EntregaListQuery(WebhookListQuery, frozen=True, kw_only=True):
    """Quais entregas."""

    situacao: Situacao | None = None
    """Só as desta situação."""


class ParametrosEntregas(frame.Parametros, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O que foi pedido, e a página."""

    situacao: Situacao | None = None
    """Como foi pedida."""


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


async def list_deliveries(services: Services, request: frame.Asked) -> Reply:
    """Lista as entregas de um webhook, com seus envios.

    O padrão não tem esta operação: ela é desta casa.
    """
    key = read_key(request)
    # The webhook is looked up before the query is checked.
    await key_webhook_usecases.read_webhook(services.context, request.caller, key)
    parameters = request.query.under(EntregaListQuery, _ENTITY)
    interval = frame.read_interval(parameters)
    situation = parameters.choice("situacao", _CHOICES)
    asked = frame.read_page(parameters)
    parameters.raise_if_any()
    page = await key_webhook_usecases.list_deliveries(
        services.context,
        request.caller,
        key,
        None if situation is None else _STATUSES[situation],
        frame.make_span(interval, asked),
    )
    parametros = frame.describe(interval, asked, page.total_count, ParametrosEntregas, situacao=situation)
    entregas = [_show_notice(delivery) for delivery in page.items]
    return Reply(status=200, record=EntregasConsultadas(parametros=parametros, entregas=entregas))


async def redeliver(services: Services, request: frame.Asked) -> Reply:
    """Envia de novo o corpo de uma entrega, já.

    Vão os mesmos bytes, com todos os Pix desse corpo, e os prazos recomeçam. O padrão não tem esta operação: ela é desta casa.
    """
    key, text = read_key(request), request.parameter[1]
    if not _ID.fullmatch(text):
        raise errors.NotFound("id: there is no such delivery")
    delivery = await key_webhook_usecases.redeliver(services.context, request.caller, key, int(text))
    return Reply(status=200, record=_show_notice(delivery))


async def replay(services: Services, request: frame.Asked) -> Reply:
    """Avisa de novo tudo o que houve em um intervalo.

    Cada Pix vai como está agora; o que já espera para ser enviado não vai duas vezes. O padrão não tem esta operação: ela é
    desta casa.
    """
    key = read_key(request)
    await key_webhook_usecases.read_webhook(services.context, request.caller, key)
    body = request.body.under(ReenvioSolicitado, _ENTITY)
    texts = {name: body.text(name, length_max=64) for name in ("inicio", "fim")}
    body.raise_if_any()
    interval = frame.read_interval(Parameters(body.violations, {name: text or "" for name, text in texts.items()}))
    body.raise_if_any()
    first, last = (errors.require(each, "a missing value is a violation") for each in (interval.inicio, interval.fim))
    count = await key_webhook_usecases.redeliver_events(services.context, request.caller, key, first, last)
    return Reply(status=200, record=Reenvio(reenviados=count))


def _show_notice(delivery: KeyDelivery) -> Entrega:
    return Entrega(
        id=delivery.id,
        mensagem=notice_message_id(delivery.notice_id) if delivery.attempts else None,
        end_to_end_id=delivery.end_to_end_id,
        situacao=_SITUATIONS[delivery.status],
        proximo_envio=None if delivery.due_at is None else format_milliseconds(delivery.due_at),
        tentativas=[
            Tentativa(
                numero=attempt.number,
                horario=format_milliseconds(attempt.started_at),
                status_http=attempt.status_code,
                duracao_ms=attempt.duration_us // 1000,
                resposta=attempt.response,
                erro=attempt.error,
            )
            for attempt in delivery.attempts
        ],
        criacao=format_milliseconds(delivery.created_at),
    )


_CALLBACK_PATH: Final = f"{PATH}{{name}}/{{secret}}{OPEN_END}"
_RUNG: Final = Reply(status=200)
_READER: Final = Reader(path=READER.path, query=lambda _: Anything(), body=lambda body, _: body)


async def take_callback(services: Services, request: Request[Any, Anything, Any]) -> Reply:
    """Read an account now, because its institution reports incoming money."""
    name, secret, *_ = request.parameter
    is_certified = request.certificate is not None
    await services.context.port(CALLBACKS).take(name, secret, request.body, has_certificate=is_certified)
    return _RUNG


async def try_callback(services: Services, request: Request[Any, Anything, Nothing]) -> Reply:
    """Answer an institution that tries the address."""
    return _RUNG


# For institutions, which have the address: undocumented.
# fmt: off
CALLBACK_ROWS: Final = (
    Operation("take_callback", "POST", _CALLBACK_PATH, None,
        NONE, Anything, Anything, Reply, take_callback, reader=_READER, pace=rates.CALLBACKS),
    Operation("try_callback", "GET", _CALLBACK_PATH, None,
        NONE, Anything, Nothing, Reply, try_callback, reader=_READER, pace=rates.CALLBACKS),
    Operation("try_callback_by_options", "OPTIONS", _CALLBACK_PATH, None,
        NONE, Anything, Nothing, Reply, try_callback, reader=_READER, pace=rates.CALLBACKS),
)
# fmt: on
DOORS: Final = (Door(list_routes=lambda: CALLBACK_ROWS, only_in="live"),)
