"""Webhooks that tell of all of an account's sends, as some institutions have them: an endpoint, told in their words."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec
from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.violation import Violated, Violation
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.profiles.profile import InstitutionProfile
from pixconnect.domain.webhooks.delivery import DueDelivery
from pixconnect.domain.webhooks.endpoint import Endpoint, EndpointChange, EndpointRequest
from pixconnect.domain.webhooks.signature import SECRET_LENGTH, make_standard_secret
from pixconnect.store.money import transfer as transfer_store
from pixconnect.store.webhooks import endpoint as endpoint_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.standard.send_record import show_ended, show_outcome
from pixconnect.usecases.webhooks import endpoint as endpoint_usecases
from pixconnect.usecases.webhooks.endpoint import CallbackTerms, EndpointConflict
from pixconnect.usecases.webhooks.event_callback import tell_event
from pixconnect.usecases.webhooks.host import HostIsAnothers

_TRIES_MAX: Final = 8
_EVENT_TYPES: Final = ("transfer.out.confirmed", "transfer.out.error")


async def set_account_webhook(context: Context, caller: Caller, url: str, profile: InstitutionProfile) -> None:
    """Let a URL be told of the caller's sends; if there is one already, change it from now on."""
    try:
        for _ in range(_TRIES_MAX - 1):
            # Whoever comes at the same instant changes what the other has made, or makes anew what the other has removed.
            with suppress(EndpointConflict, errors.NotFound):
                return await _set(context, caller, url, profile)
        return await _set(context, caller, url, profile)
    except (errors.InvalidWebhookUrl, HostIsAnothers):
        reason = "deve ser uma URL https que leva a um endereço público, na porta 443 ou de 1024 a 65535"
        raise Violated("webhook", [Violation(property="webhookUrl", reason=reason, value=url[:200])]) from None


async def _set(context: Context, caller: Caller, url: str, profile: InstitutionProfile) -> None:
    found = await endpoint_store.find_of_account(context.pool, caller.holder_id, profile.name)
    if found is not None:
        change = EndpointChange(url=url, status="active")
        await endpoint_usecases.change_endpoint(context, caller, found.id, change)
        return
    # Its owner names no secret, so one is made for the signatures by HMAC.
    secret = make_standard_secret(context.entropy.octets(SECRET_LENGTH))
    request = EndpointRequest(url=url, secret=secret, event_types=_EVENT_TYPES)
    terms = CallbackTerms(profile=profile.name, is_only=True)
    await endpoint_usecases.create_endpoint(context, caller, request, terms=terms)


async def read_account_webhook(context: Context, caller: Caller, profile: InstitutionProfile) -> Endpoint:
    found = await endpoint_store.find_of_account(context.pool, caller.holder_id, profile.name)
    if found is None:
        raise errors.NotFound("tipoWebhook: there is no such webhook")
    return found


async def delete_account_webhook(context: Context, caller: Caller, profile: InstitutionProfile) -> None:
    await read_account_webhook(context, caller, profile)
    for found in await endpoint_store.list_of_account(context.pool, caller.holder_id, profile.name):
        await endpoint_usecases.delete_endpoint(context, caller, found.id)


async def tell_as(context: Context, profile: InstitutionProfile, delivery: DueDelivery) -> DueDelivery:
    """The delivery with a body in the institution's words: the same each time, as the send has ended."""
    if profile.webhook.events:
        return await tell_event(context, profile, delivery)
    # Its owner may have asked at our own door for other events: those are told as there.
    if delivery.resource != "transfer":
        return delivery
    async with context.pool.acquire() as connection:
        transfers = await transfer_store.find_by_ids(connection, delivery.holder_id, [delivery.resource_id])
    ended = [each for each in transfers.values() if each.direction == "OUT" and each.status != "PROCESSING"]
    if not ended:
        return delivery
    if profile.webhook.sent_body == "payment":
        form = profile.choose(context.policy.face_answers, "notice")
        body: object = show_outcome(ended[0], profile.sent, form)
    else:
        body = [show_ended(transfer, profile.sent) for transfer in ended]
    return structs.replace(delivery, body=msgspec.json.encode(body).decode())
