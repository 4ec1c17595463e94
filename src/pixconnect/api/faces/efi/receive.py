"""Efi's own traits in receiving: pictures of codes, webhooks that are probed, charges that its test environment pays."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec import Struct, field

from pixconnect.api.faces.efi.homologation import pay_soon
from pixconnect.api.faces.frame import Face, FaceOperation, FaceResponder
from pixconnect.api.faces.refusals import NamedRefusal
from pixconnect.api.frame.operation import Document, Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard import charge_records, location, webhook
from pixconnect.api.standard.frame import Asked
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.usecases.standard import charge as charge_usecases
from pixconnect.usecases.standard import location as location_usecases


class QrCodeDaLocation(Struct, frozen=True, kw_only=True, rename="camel"):
    """O QR Code de uma location."""

    qrcode: str
    imagem_qrcode: str
    """Uma data URL."""
    link_visualizacao: str


class _Probe(Struct, frozen=True, kw_only=True):
    evento: str = "teste_webhook"
    created_at: str = field(name="data_criacao")


async def draw_location(face: Face, services: Services, request: Asked) -> Reply:
    """O QR Code da cobrança de uma location, também como imagem."""
    context, caller = services.context, request.caller
    shown = await location_usecases.read_location(context, caller, location.read_id(request))
    if shown.txid is None:
        raise errors.NotFound("id: this location leads to no charge")
    read = await charge_usecases.read_charge(context, caller, shown.txid)
    code = read.charge.br_code
    picture = base64.b64encode(await services.draw_qr_png(code)).decode()
    record = QrCodeDaLocation(
        qrcode=code,
        imagem_qrcode=f"data:image/png;base64,{picture}",
        link_visualizacao=f"https://{context.policy.location_prefix}{shown.location.path}",
    )
    return Reply(status=200, record=record)


async def put_probed_webhook(face: Face, services: Services, request: Asked) -> Reply:
    """Configura o webhook de uma chave, depois de uma requisição de teste à URL."""
    url = await webhook.set_up(services, request, face.profile, partial(_probe, services))
    return Reply(status=201, record=webhook.WebhookSolicitado(webhook_url=url))


async def _probe(services: Services, url: str) -> None:
    body = msgspec.json.encode(_Probe(created_at=format_milliseconds(services.context.clock.now())))
    exchange = await services.context.receivers.post(url, [("content-type", "application/json")], body)
    if exchange.error is not None:
        raise NamedRefusal("PROBE", f"webhookUrl: a URL não deu uma resposta inteira ({exchange.error})")
    if exchange.status_code is None or not 200 <= exchange.status_code <= 299:
        raise NamedRefusal("PROBE", f"webhookUrl: a URL respondeu {exchange.status_code}")


def pay_small_charges(face: Face, rows: Sequence[FaceOperation]) -> list[FaceOperation]:
    """Let what makes a charge also pay it where the institution's test environment does so by itself."""
    paying = ("cob.criar", "cob.criar_com_txid")
    return [msgspec.structs.replace(row, handler=_paying(row)) if row.id in paying else row for row in rows]


def _paying(row: FaceOperation) -> FaceResponder:
    async def make_and_pay(face: Face, services: Services, request: Asked) -> Reply | Document:
        reply = await row.handler(face, services, request)
        made = reply.record if isinstance(reply, Reply) else None
        if isinstance(made, charge_records.CobCompleta) and made.pix_copia_e_cola is not None:
            amount_cents = int(made.valor.original.replace(".", ""))
            if 0 < amount_cents <= face.profile.homologation.paid_cents_max:
                await pay_soon(services, request.caller, made.pix_copia_e_cola)
        return reply

    return make_and_pay
