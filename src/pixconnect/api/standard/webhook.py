"""Webhooks at the standard's door: one for a key."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from msgspec import Meta, Struct

from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.listing import PageQuery, Parametros, describe, make_span, read_interval, read_page
from pixconnect.api.standard.violations import NO_PIX_KEY, Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money import pix_key, tax_id
from pixconnect.domain.profiles.profile import InstitutionProfile
from pixconnect.domain.webhooks.key_webhook import URL_LENGTH_MAX, KeyWebhook
from pixconnect.usecases.standard.pix import Instante
from pixconnect.usecases.webhooks import key_webhook as key_webhook_usecases

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
    chave: Annotated[str, Meta(max_length=pix_key.KEY_LENGTH_MAX)]
    """A chave Pix, em sua forma normal."""
    cnpj: Annotated[str, Meta(pattern="^[0-9A-Z]{14}$")] | None = None
    """O seu CNPJ; ausente se você é uma pessoa física."""
    criacao: Instante
    """Quando foi configurado pela última vez."""


class WebhookListQuery(PageQuery, frozen=True, kw_only=True):
    """Quais webhooks."""

    inicio: Instante | None = None
    """O instante mais antigo, incluído; RFC 3339 com fuso. Ausente: desde sempre."""
    fim: Instante | None = None
    """O instante mais novo, incluído; RFC 3339 com fuso. Ausente: até agora."""


class WebhooksConsultados(Struct, frozen=True, kw_only=True):
    """Uma página dos seus webhooks."""

    parametros: Parametros
    """O que foi pedido, e a página."""
    webhooks: list[WebhookCompleto]
    """Os configurados por último primeiro."""


async def put_webhook(services: Services, request: Asked, profile: InstitutionProfile | None = None) -> Reply:
    """Configura o webhook de uma chave.

    Todo Pix liquidado a favor da chave é avisado, com ou sem txid, e toda devolução que termina. Configurar de novo troca a
    URL, também para o que ainda não foi entregue.
    """
    await set_up(services, request, profile)
    return Reply(status=200)


async def set_up(
    services: Services,
    request: Asked,
    profile: InstitutionProfile | None = None,
    probe: Callable[[str], Awaitable[None]] | None = None,
) -> str:
    """Set the webhook of the key in the path; the URL, which ``probe`` may refuse before anything is changed."""
    violations = Violations(_ENTITY)
    key = _read_key(violations, request.parameter[0])
    body = request.body.under(WebhookSolicitado, violations)
    url = body.text("webhookUrl", pattern=_URL, reason="deve ser uma URL")
    violations.raise_if_any()
    key, url = key or "", url or ""
    if probe is not None:
        # Nobody else's receiver is called for a key that is not the caller's.
        await key_webhook_usecases.judge_webhook(services.context, request.caller, key, url, profile)
        await probe(url)
    await key_webhook_usecases.set_webhook(services.context, request.caller, key, url, profile)
    return url


async def get_webhook(services: Services, request: Asked) -> Reply:
    """Consulta o webhook de uma chave."""
    webhook = await key_webhook_usecases.read_webhook(services.context, request.caller, read_key(request))
    return Reply(status=200, record=_show(webhook, await _read_cnpj(services, request.caller)))


async def delete_webhook(services: Services, request: Asked) -> Reply:
    """Remove o webhook de uma chave.

    O que ainda não foi entregue não é mais enviado.
    """
    await key_webhook_usecases.delete_webhook(services.context, request.caller, read_key(request))
    return Reply(status=204)


async def list_webhooks(services: Services, request: Asked) -> Reply:
    """Lista os seus webhooks."""
    parameters = request.query.under(WebhookListQuery, _ENTITY)
    interval, asked = read_interval(parameters), read_page(parameters)
    parameters.raise_if_any()
    page = await key_webhook_usecases.list_webhooks(services.context, request.caller, make_span(interval, asked))
    cnpj = await _read_cnpj(services, request.caller)
    parametros = describe(interval, asked, page.total_count, Parametros)
    webhooks = [_show(webhook, cnpj) for webhook in page.items]
    return Reply(status=200, record=WebhooksConsultados(parametros=parametros, webhooks=webhooks))


def read_key(request: Asked) -> str:
    """The key in the path; raises ``Violated`` where it has no form."""
    violations = Violations(_ENTITY)
    key = _read_key(violations, request.parameter[0])
    violations.raise_if_any()
    return key or ""


def _read_key(violations: Violations, text: str) -> str | None:
    try:
        return pix_key.parse_pix_key(text).key
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
