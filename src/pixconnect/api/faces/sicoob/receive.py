"""Sicoob's own traits in receiving and in being told: pictures of codes, and the webhook of the account's sends."""

from __future__ import annotations

from msgspec import Struct

from pixconnect.api.faces.frame import Face
from pixconnect.api.frame.operation import Document, Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard import location, webhook
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import TXID, Members, Parameters, Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.usecases.standard import charge as charge_usecases
from pixconnect.usecases.standard import location as location_usecases
from pixconnect.usecases.webhooks import account_webhook


class WebhookDosPagamentos(Struct, frozen=True, kw_only=True, rename="camel"):
    webhook_url: str
    criacao: str


async def draw_charge(face: Face, services: Services, request: Asked) -> Document:
    """A imagem do código de uma cobrança."""
    (txid,) = request.parameter
    violations = Violations("cob")
    parameters = Parameters(violations, request.query.read(("revisao", "largura")))
    revision = parameters.integer("revisao", least=0)
    _read_width(parameters)
    violations.raise_if_any()
    if not TXID.fullmatch(txid):
        raise errors.NotFound("txid: there is no such charge")
    return await _draw(services, request, txid, revision)


async def draw_location(face: Face, services: Services, request: Asked) -> Document:
    """A imagem do código da cobrança de uma location."""
    violations = Violations("loc")
    _read_width(Parameters(violations, request.query.read(("largura",))))
    violations.raise_if_any()
    shown = await location_usecases.read_location(services.context, request.caller, location.read_id(request))
    if shown.txid is None:
        raise errors.NotFound("id: this location leads to no charge")
    return await _draw(services, request, shown.txid, None)


def _read_width(parameters: Parameters) -> None:
    parameters.integer("largura", least=50, most=1500)


async def _draw(services: Services, request: Asked, txid: str, revision: int | None) -> Document:
    read = await charge_usecases.read_charge(services.context, request.caller, txid, revision)
    return Document(content=await services.draw_qr_png(read.charge.br_code), media_type="image/png")


async def put_payment_webhook(face: Face, services: Services, request: Asked) -> Reply:
    """Configura o webhook dos pagamentos da conta."""
    violations = Violations("webhook")
    body = Members(violations, webhook.WebhookSolicitado, request.body.require("webhook"), "")
    url = body.text("webhookUrl")
    violations.raise_if_any()
    await account_webhook.set_account_webhook(services.context, request.caller, url or "", face.profile)
    return Reply(status=200)


async def get_payment_webhook(face: Face, services: Services, request: Asked) -> Reply:
    """Consulta o webhook dos pagamentos da conta."""
    found = await account_webhook.read_account_webhook(services.context, request.caller, face.profile)
    record = WebhookDosPagamentos(webhook_url=found.url, criacao=format_milliseconds(found.created_at))
    return Reply(status=200, record=record)


async def remove_payment_webhook(face: Face, services: Services, request: Asked) -> Reply:
    """Remove o webhook dos pagamentos da conta."""
    await account_webhook.delete_account_webhook(services.context, request.caller, face.profile)
    return Reply(status=204)
