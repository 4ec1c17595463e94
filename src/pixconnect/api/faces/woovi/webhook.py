"""Webhooks as Woovi has them: each is told of one event, and its URL is called once before it is kept."""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from pixconnect.api.faces.frame import Face, Shown, probe
from pixconnect.api.faces.refusals import NamedRefusal
from pixconnect.api.faces.woovi.paging import read_name
from pixconnect.api.frame.operation import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.webhooks.address_rules import URL_LENGTH_MAX
from pixconnect.domain.webhooks.signature import SECRET_LENGTH, make_standard_secret
from pixconnect.usecases.webhooks import event_callback
from pixconnect.usecases.webhooks import event_callback as callback_key_usecases
from pixconnect.usecases.webhooks.event_callback import EventWebhook, NewEventWebhook

_USUAL: Final = "OPENPIX:TRANSACTION_RECEIVED"
# Requests to receivers are ASCII.
_HEADER: Final = re.compile(r"[\x20-\x7e]{0,1000}")
_ID: Final = re.compile(r"[0-9a-f]{24}")


class WebhookPedido(Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, Meta(max_length=255)] | None = None
    event: Annotated[str, Meta(max_length=100)] | None = None
    url: Annotated[str, Meta(min_length=1, max_length=URL_LENGTH_MAX)]
    authorization: Annotated[str, Meta(max_length=1000)] | None = None
    is_active: bool | None = None


class NovoWebhook(Struct, frozen=True, kw_only=True):
    webhook: WebhookPedido


async def add_event_webhook(face: Face, services: Services, request: Asked) -> Shown:
    context, events = services.context, face.profile.webhook.events
    whole = request.body.under(NovoWebhook, "webhook", "")
    sent = whole.object("webhook")
    whole.raise_if_any()
    body = errors.require(sent, "what is missing is a violation")
    event, url, name = body.text("event") or _USUAL, body.text("url"), body.text("name")
    authorization = body.text("authorization", pattern=_HEADER, reason="deve poder ser um cabeçalho, em ASCII")
    is_active = body.boolean("isActive")
    if event not in events:
        body.refuse("event", f"aqui deve ser {' ou '.join(events)}")
    body.raise_if_any()
    try:
        await context.receivers.check_url(url or "")
    except errors.InvalidWebhookUrl:
        raise NamedRefusal("URL", "url: deve ser https e levar a um endereço público") from None
    new = NewEventWebhook(
        name=name,
        event=event,
        url=url or "",
        authorization=authorization or None,
        is_active=is_active is not False,
        secret=make_standard_secret(context.entropy.octets(SECRET_LENGTH)),
    )
    event_told = dict(data_criacao=format_milliseconds(context.clock.now()), evento="teste_webhook", event=event)
    headers = await event_callback.sign_as(
        context, face.profile, new.authorization, new.secret, msgspec.json.encode(event_told)
    )
    await probe(services, "url", new.url, headers, event_told)
    added = await event_callback.add_event_webhook(context, request.caller, face.profile, new)
    # Shown only where it is made; at the institution its dashboard shows it.
    return {"webhook": _show(added) | {"hmacSecret": new.secret}}


async def list_event_webhooks(face: Face, services: Services, request: Asked) -> Shown:
    url = request.query.read(("url",)).get("url")
    found = await event_callback.list_event_webhooks(services.context, request.caller, face.profile)
    return {"webhooks": [_show(each) for each in found if url in (None, each.endpoint.url)]}


async def remove_event_webhook(face: Face, services: Services, request: Asked) -> Shown:
    name = read_name(request)
    if not _ID.fullmatch(name) or (number := int(name, 16)) >= 2**63:
        raise errors.NotFound("id: there is no such webhook")
    await event_callback.remove_event_webhook(services.context, request.caller, face.profile, number)
    return {"status": "OK"}


async def list_public_keys(face: Face, services: Services, request: Asked) -> Shown:
    found = await callback_key_usecases.list_callback_keys(services.context, face.profile.name)
    keys = [
        dict(key_identifier=key.key_identifier, key=key.public_pem, is_current=number == 0)
        for number, key in enumerate(found)
    ]
    return {"public_keys": keys}


def _show(webhook: EventWebhook) -> dict[str, object]:
    endpoint = webhook.endpoint
    return {
        "id": f"{endpoint.id:024x}",
        "name": endpoint.name or "",
        "event": webhook.event,
        "url": endpoint.url,
        "authorization": webhook.authorization or "",
        "isActive": endpoint.status == "active",
        "createdAt": format_milliseconds(endpoint.created_at),
        "updatedAt": format_milliseconds(endpoint.modified_at),
    }
