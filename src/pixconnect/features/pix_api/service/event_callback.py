"""Events in the form of institutions whose webhooks have one event each: the body, and the signing headers.

The body is written for each attempt from its subject; that has ended, or only its date of change moves.

Also webhooks for all of an account's sends: an endpoint with the institution's format. Webhooks with one event each are
endpoints with a name, and a text agreed with the receiver.
"""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct, structs

from pixconnect.features.institutions.accounts import FACE_ANSWERS
from pixconnect.features.institutions.profiles.profile import FACES_PATH, NAMES, InstitutionProfile, read_profile
from pixconnect.features.pix_api.rules import Order
from pixconnect.features.pix_api.service import cents_records, key_webhook
from pixconnect.features.pix_api.service.send_record import show_ended, show_outcome
from pixconnect.features.webhooks.rules import endpoint as signature
from pixconnect.features.webhooks.rules.delivery import DueDelivery
from pixconnect.features.webhooks.rules.endpoint import Endpoint, EndpointChange, EndpointRequest, endpoint_seal
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.service.delivery import Format, Formats
from pixconnect.features.webhooks.service.endpoint import CallbackTerms, EndpointConflict, HostIsAnothers
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.kernel.flows.context import Context, write_alone
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.event import EventName
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import SealBroken
from pixconnect.platform.base.errors import Violated, Violation
from pixconnect.platform.jose import RsaSigner, make_rsa_key

_KEPT_MAX: Final = 8


async def list_callback_keys(context: Context, profile: str) -> list[signature.CallbackKey]:
    """List all keys that may sign callbacks; the first signs now."""
    found = await endpoint_store.list_callback_keys(context.pool, profile)
    if found and _open_key(context, found[0]) is not None:
        return found
    await open_callback_signer(context, profile)
    return await endpoint_store.list_callback_keys(context.pool, profile)


async def open_callback_signer(context: Context, profile: str) -> RsaSigner:
    """Open the newest key, or make a new one if that was sealed with a secret key that is gone.

    Two processes may each make one at first: both are published, so either is valid.
    """
    for key in (await endpoint_store.list_callback_keys(context.pool, profile))[:1]:
        if (private_der := _open_key(context, key)) is not None:
            return load_signer(private_der)
    made = await asyncio.to_thread(make_rsa_key)
    sealed = context.secret_box.seal(made.private_der, signature.callback_key_seal(made.identifier))
    async with write_alone(context.pool) as connection:
        key = signature.CallbackKey(
            key_identifier=made.identifier,
            profile=profile,
            public_pem=made.public_pem,
            private_sealed=sealed,
            created_at=context.clock.real_now(),
        )
        await endpoint_store.insert_callback_key(connection, key)
    return load_signer(made.private_der)


def _open_key(context: Context, key: signature.CallbackKey) -> bytes | None:
    """Open the private key; ``None`` if it was sealed with a secret key that is gone."""
    try:
        return context.secret_box.open(key.private_sealed, signature.callback_key_seal(key.key_identifier))
    except SealBroken:
        return None


# Loading one takes a millisecond, and each callback is signed.
load_signer = lru_cache(_KEPT_MAX)(RsaSigner)


class _Named(Struct):
    name: EventName


_read_name = msgspec.json.Decoder(_Named).decode


async def translate_event(context: Context, profile: InstitutionProfile, delivery: DueDelivery) -> DueDelivery:
    """Return the delivery with a body in the institution's form; an event without a name there keeps ours."""
    name = _read_name(delivery.body).name
    theirs = next((word for word, ours in profile.webhook.events.items() if ours == name), None)
    if theirs is None:
        return delivery
    describe = {"charge": _show_charge_event, "transfer": _show_transfer_event, "refund": _show_refund_event}[delivery.resource]
    body = {"event": theirs, **await describe(context, profile, delivery)}
    return structs.replace(delivery, body=msgspec.json.encode(body).decode())


async def _show_charge_event(context: Context, profile: InstitutionProfile, delivery: DueDelivery) -> Mapping[str, object]:
    charge = errors.require(
        await charge_store.find_by_id(context.pool, delivery.holder_id, delivery.resource_id), "charges are never deleted"
    )
    paying = await transfer_store.find_paying(context.pool, charge.holder_id, charge.id)
    base_url = _name_face(context, profile)
    shown = cents_records.show_cents_charge(charge, base_url)
    if paying is None:
        return {"charge": shown}
    own = await _read_own(context, paying)
    return {"charge": shown, "pix": cents_records.show_cents_pix(paying, own, charge, base_url), "pixQrCode": None}


def _name_face(context: Context, profile: InstitutionProfile) -> str:
    return f"{context.policy.base_url}{FACES_PATH}{profile.name}"


async def _show_transfer_event(context: Context, profile: InstitutionProfile, delivery: DueDelivery) -> Mapping[str, object]:
    transfer = await _find_transfer(context, delivery.holder_id, delivery.resource_id)
    own = await _read_own(context, transfer)
    if transfer.direction == "IN":
        charge = None
        if transfer.charge_id is not None:
            charge = await charge_store.find_by_id(context.pool, transfer.holder_id, transfer.charge_id)
        shown = cents_records.show_cents_pix(transfer, own, charge, _name_face(context, profile))
        return {"charge": shown.get("charge"), "pix": shown, "pixQrCode": None}
    order = await cents_records.find_orders().find(context.pool, transfer)
    status = profile.sent.choose_word(transfer.status, transfer.outcome_code)
    body: dict[str, object] = {
        "payment": cents_records.show_order(order or _as_order(transfer), status),
        "transaction": cents_records.show_movement(transfer),
    }
    if transfer.status in ("ERROR", "CANCELLED"):
        body["error"] = cents_records.show_failure(transfer, order, profile.sent)
    return body


async def _show_refund_event(context: Context, profile: InstitutionProfile, delivery: DueDelivery) -> Mapping[str, object]:
    refund = errors.require(
        await refund_store.find_by_id(context.pool, delivery.holder_id, delivery.resource_id), "refunds are never deleted"
    )
    original = await _find_transfer(context, refund.holder_id, refund.transfer_id)
    own = await _read_own(context, original)
    # Their notices name the return, while their answers name the payment.
    named = {"endToEndId": refund.shown_id, "partial": refund.amount_cents < original.amount_cents}
    return {
        "refundTransaction": {**cents_records.show_cents_refund(refund), **named},
        "originalTransaction": cents_records.show_cents_pix(original, own, None, ""),
    }


async def _find_transfer(context: Context, holder_id: int, transfer_id: int) -> Transfer:
    return errors.require(await transfer_store.find_by_id(context.pool, holder_id, transfer_id), "transfers are never deleted")


async def _read_own(context: Context, transfer: Transfer) -> Party:
    return (await context.directory.read_account(transfer.holder_id)).party


def _as_order(transfer: Transfer) -> Order:
    """Return the order of a transfer sent through another API."""
    payee = transfer.counterparty
    return Order(
        external_id=transfer.external_id or "",
        initiation_type=transfer.initiation_type,
        amount_cents=transfer.amount_cents,
        key=payee.key,
        key_type=payee.key_type,
        payer_message=transfer.payer_message,
    )


async def sign_as(
    context: Context, profile: InstitutionProfile, authorization: str | None, secret: str, body: bytes
) -> list[tuple[str, str]]:
    headers = [("Content-Type", "application/json"), ("User-Agent", signature.USER_AGENT)]
    if authorization is not None:
        headers.append(("Authorization", authorization))
    for kind, name in profile.webhook.signatures.items():
        if kind == "hmac_sha1":
            # Chosen by the receiver, which compares it: as an HMAC it still proves the sender.
            digest = hmac.digest(secret.encode(), body, hashlib.sha1)
            headers.append((name, base64.b64encode(digest).decode()))
        else:
            headers.append((name, (await open_callback_signer(context, profile.name)).sign(body)))
    return headers


class EventWebhook(Struct, frozen=True, kw_only=True):
    endpoint: Endpoint
    event: str
    authorization: str | None  # ``None`` too if it cannot be read here any more


async def add_event_webhook(
    context: Context,
    caller: Caller,
    profile: InstitutionProfile,
    request: EndpointRequest,
    terms: CallbackTerms,
    *,
    is_active: bool,
) -> EventWebhook:
    try:
        endpoint = await endpoint_usecases.create_endpoint(context, caller, request, terms=terms)
    except errors.InvalidWebhookUrl as refusal:
        raise Violated("webhook", [Violation(property="url", reason=refusal.message, value=request.url[:200])]) from None
    if not is_active:
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
    # Its owner may have changed it through our own API since: then it has no event there.
    event = next((word for word, ours in profile.webhook.events.items() if ours in endpoint.event_types), "")
    authorization = None
    with suppress(SealBroken):
        authorization = _open_authorization(context, endpoint)
    return EventWebhook(endpoint=endpoint, event=event, authorization=authorization)


def _open_authorization(context: Context, endpoint: Endpoint) -> str | None:
    sealed = endpoint.authorization_sealed
    return None if sealed is None else context.secret_box.open(sealed, endpoint_seal(endpoint.id)).decode()


_TRIES_MAX: Final = 8
_EVENT_TYPES: Final = ("transfer.out.confirmed", "transfer.out.error")


async def set_account_webhook(context: Context, caller: Caller, url: str, profile: InstitutionProfile) -> None:
    """Register a URL for the caller's sends; an existing one is changed from now on."""
    try:
        for _ in range(_TRIES_MAX - 1):
            # A concurrent request may have made it, or removed it again.
            with suppress(EndpointConflict, errors.NotFound):
                return await _set(context, caller, url, profile)
        return await _set(context, caller, url, profile)
    except (errors.InvalidWebhookUrl, HostIsAnothers):
        reason = "deve ser uma URL https que leva a um endereço público, na porta 443 ou de 1024 a 65535"
        raise Violated("webhook", [Violation(property="webhookUrl", reason=reason, value=url[:200])]) from None


async def _set(context: Context, caller: Caller, url: str, profile: InstitutionProfile) -> None:
    if found := await endpoint_store.list_of_account(context.pool, caller.holder_id, profile.name):
        change = EndpointChange(url=url, status="active")
        await endpoint_usecases.change_endpoint(context, caller, found[0].id, change)
        return
    # Its owner sets no secret, so one is made for the HMAC signatures.
    secret = signature.make_standard_secret(context.entropy.octets(signature.SECRET_LENGTH))
    request = EndpointRequest(url=url, secret=secret, event_types=_EVENT_TYPES)
    terms = CallbackTerms(profile=profile.name, is_only=True)
    await endpoint_usecases.create_endpoint(context, caller, request, terms=terms)


async def read_account_webhook(context: Context, caller: Caller, profile: InstitutionProfile) -> Endpoint:
    found = await endpoint_store.list_of_account(context.pool, caller.holder_id, profile.name)
    if not found:
        raise errors.NotFound("tipoWebhook: there is no such webhook")
    return found[0]


async def delete_account_webhook(context: Context, caller: Caller, profile: InstitutionProfile) -> None:
    await read_account_webhook(context, caller, profile)
    for found in await endpoint_store.list_of_account(context.pool, caller.holder_id, profile.name):
        await endpoint_usecases.delete_endpoint(context, caller, found.id)


async def translate_delivery(context: Context, profile: InstitutionProfile, delivery: DueDelivery) -> DueDelivery:
    """Return the delivery with a body in the institution's form: the same each time, as the send has ended."""
    if profile.webhook.events:
        return await translate_event(context, profile, delivery)
    # Its owner may have chosen other events through our own API: those keep its format.
    if delivery.resource != "transfer":
        return delivery
    transfer = await transfer_store.find_by_id(context.pool, delivery.holder_id, delivery.resource_id)
    if transfer is None or transfer.direction != "OUT" or transfer.status == "PROCESSING":
        return delivery
    if profile.webhook.sent_body == "payment":
        form = profile.choose(context.port(FACE_ANSWERS), "notice")
        body: object = show_outcome(transfer, profile.sent, form)
    else:
        body = [show_ended(transfer, profile.sent)]
    return structs.replace(delivery, body=msgspec.json.encode(body).decode())


class _CallbackFormat:
    """The central bank's for a key's webhook, an institution's for the others."""

    retry_waits: Sequence[timedelta] | None = None

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._profile: InstitutionProfile | None = None
        profile = None if endpoint.profile is None else read_profile(endpoint.profile)
        if endpoint.pix_key is not None or profile is None:
            self.url = key_webhook.find_callback_url(endpoint.url, profile)
            return
        self._profile = profile
        path = profile.webhook.sent_path
        self.url = signature.callback_url(endpoint.url, name=path) if path else endpoint.url
        self.retry_waits = [timedelta(seconds=wait_s) for wait_s in profile.webhook.retry_waits_s] or None

    async def translate(self, context: Context, delivery: DueDelivery) -> DueDelivery:
        return delivery if self._profile is None else await translate_delivery(context, self._profile, delivery)

    async def sign(self, context: Context, secret: str, body: bytes) -> list[tuple[str, str]] | None:
        if self._profile is None or not self._profile.webhook.signatures:
            return None
        return await sign_as(context, self._profile, _open_authorization(context, self._endpoint), secret, body)

    async def make_notice(
        self, context: Context, delivery: DueDelivery, epoch: int, along_ids: Sequence[int]
    ) -> DueDelivery | None:
        return await key_webhook.make_notice(context, delivery, epoch, along_ids)


def _find_format(endpoint: Endpoint) -> Format | None:
    # Another feature's format has a name that no institution has.
    is_found = endpoint.pix_key is not None if endpoint.profile is None else endpoint.profile in NAMES
    return _CallbackFormat(endpoint) if is_found else None


DELIVERY_FORMATS: Final = (Formats(_find_format),)
