"""Webhooks of institutions where each is told of one event: an endpoint with a name, and a text that its receiver knows."""

from __future__ import annotations

from msgspec import Struct

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.secret_box import SealBroken
from pixconnect.domain.frame.violation import Violated, Violation
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.profiles.profile import InstitutionProfile
from pixconnect.domain.webhooks.endpoint import Endpoint, EndpointChange, EndpointRequest, endpoint_seal
from pixconnect.store.webhooks import endpoint as endpoint_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.webhooks import endpoint as endpoint_usecases
from pixconnect.usecases.webhooks.endpoint import CallbackTerms


class NewEventWebhook(Struct, frozen=True, kw_only=True):
    name: str | None
    event: str
    """In the institution's words."""
    url: str
    authorization: str | None
    is_active: bool
    secret: str


class EventWebhook(Struct, frozen=True, kw_only=True):
    endpoint: Endpoint
    event: str
    authorization: str | None
    """``None`` also where it cannot be read here any more."""


async def add_event_webhook(
    context: Context, caller: Caller, profile: InstitutionProfile, new: NewEventWebhook
) -> EventWebhook:
    try:
        endpoint = await endpoint_usecases.create_endpoint(
            context,
            caller,
            EndpointRequest(url=new.url, secret=new.secret, event_types=[profile.webhook.events[new.event]]),
            terms=CallbackTerms(profile=profile.name, name=new.name, authorization=new.authorization),
        )
    except errors.InvalidWebhookUrl as refusal:
        raise Violated("webhook", [Violation(property="url", reason=refusal.message, value=new.url[:200])]) from None
    if not new.is_active:
        change = EndpointChange(status="inactive")
        endpoint = await endpoint_usecases.change_endpoint(context, caller, endpoint.id, change)
    return _show(context, profile, endpoint)


async def list_event_webhooks(context: Context, caller: Caller, profile: InstitutionProfile) -> list[EventWebhook]:
    found = await endpoint_store.list_of_account(context.pool, caller.holder_id, profile.name)
    return [_show(context, profile, endpoint) for endpoint in found]


async def remove_event_webhook(context: Context, caller: Caller, profile: InstitutionProfile, endpoint_id: int) -> None:
    found = await endpoint_usecases.read_endpoint(context, caller, endpoint_id)
    if found.profile != profile.name:
        raise errors.NotFound("id: there is no such webhook")
    await endpoint_usecases.delete_endpoint(context, caller, endpoint_id)


def _show(context: Context, profile: InstitutionProfile, endpoint: Endpoint) -> EventWebhook:
    about = endpoint_seal(endpoint.id)
    events = profile.webhook.events
    # Its owner may have changed it at our own door since: then it has no event there.
    event = next((word for word, ours in events.items() if ours in endpoint.event_types), "")
    sealed = endpoint.authorization_sealed
    return EventWebhook(
        endpoint=endpoint, event=event, authorization=None if sealed is None else _open(context, sealed, about)
    )


def _open(context: Context, sealed: bytes, about: str) -> str | None:
    try:
        return context.secret_box.open(sealed, about).decode()
    except SealBroken:
        return None
