"""Efi's own traits in receiving: pictures of codes, webhooks that are probed, charges that its test environment pays."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from pixconnect.api.faces.efi.homologation import pay_soon
from pixconnect.api.faces.frame import Face, FaceOperation, FaceResponder
from pixconnect.api.faces.refusals import NamedRefusal
from pixconnect.api.frame.document import Document
from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard import charge_records, due_records, location, webhook
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import Members, Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.frame.event import EventName
from pixconnect.domain.money.transfer import Direction
from pixconnect.usecases.standard import charge as charge_usecases
from pixconnect.usecases.standard import location as location_usecases
from pixconnect.usecases.webhooks import key_webhook as key_webhook_usecases

EndToEndId = Annotated[str, Meta(pattern="^E[0-9]{20}[a-zA-Z0-9]{11}$")]


class QrCodeDaLocation(Struct, frozen=True, kw_only=True, rename="camel"):
    """O QR Code de uma location."""

    qrcode: str
    imagem_qrcode: str
    """Uma data URL."""
    link_visualizacao: str


class ReenvioDeAvisos(Struct, frozen=True, kw_only=True):
    tipo: Literal["PIX_RECEBIDO", "PIX_ENVIADO", "DEVOLUCAO_RECEBIDA", "DEVOLUCAO_ENVIADA"]
    e2eids: Annotated[Sequence[EndToEndId], Meta(min_length=1, max_length=1000)]


_RESENT_FOR: Final = timedelta(days=30)
_TOLD: Final[Mapping[str, tuple[Direction, Sequence[EventName]]]] = {
    "PIX_RECEBIDO": ("IN", ("transfer.in.confirmed",)),
    "PIX_ENVIADO": ("OUT", ("transfer.out.confirmed", "transfer.out.error")),
    "DEVOLUCAO_ENVIADA": ("IN", ("refund.out.returned", "refund.out.error")),
    # No webhook is told of these here.
    "DEVOLUCAO_RECEBIDA": ("OUT", ("refund.in.returned",)),
}


class _Probe(Struct, frozen=True, kw_only=True):
    evento: str = "teste_webhook"
    created_at: str = field(name="data_criacao")


async def draw_location(face: Face, services: Services, request: Asked) -> Reply:
    """O QR Code da cobrança de uma location, também como imagem."""
    context, caller = services.context, request.caller
    shown = await location_usecases.read_location(context, caller, location.read_id(request))
    if shown.txid is None:
        raise errors.NotFound("id: this location leads to no charge")
    read = await charge_usecases.read_charge(context, caller, shown.txid, kind=shown.location.kind)
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


async def resend_notices(face: Face, services: Services, request: Asked) -> Reply:
    """Manda de novo o que os webhooks das chaves foram avisados de alguns Pix."""
    violations = Violations("webhook")
    body = Members(violations, ReenvioDeAvisos, request.body.require("webhook"))
    kind, ids = body.choice("tipo"), body.texts("e2eids")
    violations.raise_if_any()
    direction, event_types = _TOLD[kind or ""]
    context = services.context
    since = context.clock.now() - _RESENT_FOR
    await key_webhook_usecases.redeliver_told(context, request.caller, ids or (), direction, event_types, since)
    return Reply(status=202)


def pay_small_charges(face: Face, rows: Sequence[FaceOperation]) -> list[FaceOperation]:
    """Let what makes a charge also pay it where the institution's test environment does so by itself."""
    paying = ("cob.criar", "cob.criar_com_txid", "cobv.criar_com_txid")
    return [msgspec.structs.replace(row, handler=_paying(row)) if row.id in paying else row for row in rows]


def _paying(row: FaceOperation) -> FaceResponder:
    async def make_and_pay(face: Face, services: Services, request: Asked) -> Reply | Document:
        reply = await row.handler(face, services, request)
        made = reply.record if isinstance(reply, Reply) else None
        if (
            isinstance(made, charge_records.CobCompleta | due_records.CobVCompleta)
            and made.pix_copia_e_cola is not None
        ):
            amount_cents = int(made.valor.original.replace(".", ""))
            if 0 < amount_cents <= face.profile.homologation.paid_cents_max:
                await pay_soon(services, request.caller, made.pix_copia_e_cola)
        return reply

    return make_and_pay
