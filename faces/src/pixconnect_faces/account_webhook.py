"""The webhook of an account's sends, as Inter and Sicoob configure it."""

from __future__ import annotations

from pixconnect.doors.api.operation import Reply, Services
from pixconnect.features.pix_api.api.frame import Asked
from pixconnect.features.pix_api.api.webhook import WebhookSolicitado
from pixconnect.features.pix_api.rules import Shown
from pixconnect.features.pix_api.service import event_callback
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_milliseconds
from pixconnect_faces.frame import Face


async def put(status: int, face: Face, services: Services, request: Asked) -> Reply:
    _check_kind(request)
    body = request.body.under(WebhookSolicitado, "webhook", "")
    url = body.text("webhookUrl")
    body.raise_if_any()
    await event_callback.set_account_webhook(services.context, request.caller, url or "", face.profile)
    return Reply(status=status)


async def get(face: Face, services: Services, request: Asked) -> Shown:
    _check_kind(request)
    found = await event_callback.read_account_webhook(services.context, request.caller, face.profile)
    return {"webhookUrl": found.url, "criacao": format_milliseconds(found.created_at)}


async def delete(face: Face, services: Services, request: Asked) -> Reply:
    _check_kind(request)
    await event_callback.delete_account_webhook(services.context, request.caller, face.profile)
    return Reply(status=204)


def _check_kind(request: Asked) -> None:
    # Inter's paths name a kind, of which there is one; Sicoob's name none.
    if request.parameter and request.parameter != ("pix-pagamento",):
        raise errors.NotFound("tipoWebhook: there are only webhooks of pix-pagamento")
