"""Webhooks of Pix keys: their owners' use cases, and the bodies of notices.

A body is stored before it is sent, so every later attempt sends the same bytes. The transaction is fenced: a worker that has
lost its slot makes nothing, and one that dies after the commit leaves a body that the next worker sends.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import asyncpg
import msgspec
from msgspec import structs

from pixconnect.features.institutions.profiles.profile import InstitutionProfile, read_profile, reshape
from pixconnect.features.pix_api.service import pix as standard_pix
from pixconnect.features.pix_api.service.send_record import show_sent_notice
from pixconnect.features.webhooks.rules import endpoint as endpoint_rules
from pixconnect.features.webhooks.rules.delivery import DeliveryStatus, DueDelivery, KeyDelivery
from pixconnect.features.webhooks.rules.endpoint import SECRET_LENGTH, Endpoint, KeyWebhook, make_standard_secret
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.service import redelivery
from pixconnect.features.webhooks.service.endpoint import RECEIVERS
from pixconnect.features.webhooks.tables import delivery_history as delivery_history_store
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.kernel.flows.context import Context, found_of_caller, of_caller, write_alone, writing
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.event import EventName
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.rules.transfer import Direction
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables import lease as lease_store
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.clock import service_now_to_write
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated, Violation
from pixconnect.platform.pool import Connection

ENTITY: Final = "webhook"
_VALUE_LENGTH_MAX: Final = 200
_WHERE: Final = "deve ser uma URL https que leva a um endereço público, na porta 443 ou de 1024 a 65535"

_NO_WEBHOOK: Final = "chave: there is no such webhook"
_ANOTHERS: Final = "é de um host avisado das chaves de outro titular; peça à instituição que o libere"


async def set_webhook(
    context: Context, caller: Caller, key: str, url: str, profile: InstitutionProfile | None = None
) -> KeyWebhook:
    """Set the webhook of one of the caller's keys; an existing one changes its URL from now on.

    Args:
        profile: The institution whose format it uses; ``None`` is the central bank's.
    """
    await judge_webhook(context, caller, key, url, profile)
    endpoint_id = await endpoint_store.next_id(context.pool)
    try:
        async with write_alone(context.pool) as connection:
            webhook = await _set(context, connection, caller, key, url, endpoint_id, profile)
    except asyncpg.ForeignKeyViolationError:
        # An operator has just removed the key.
        raise Violated(ENTITY, [_not_owned(key)]) from None
    except endpoint_usecases.HostIsAnothers:
        raise Violated(ENTITY, [_not_at(url, _ANOTHERS)]) from None
    context.wake_workers()
    return webhook


async def judge_webhook(
    context: Context, caller: Caller, key: str, url: str, profile: InstitutionProfile | None = None
) -> None:
    """Refuse a key that is not the caller's, and a URL that cannot be called; raises ``Violated``."""
    rows: list[Violation] = []
    if (await holder_store.find_key_owners(context.pool, [key])).get(key) != caller.holder_id:
        rows.append(_not_owned(key))
    try:
        await context.port(RECEIVERS).check_url(find_callback_url(url, profile))
    except errors.InvalidWebhookUrl:
        rows.append(_not_at(url, _WHERE))
    if rows:
        raise Violated(ENTITY, rows)


async def _set(
    context: Context,
    connection: Connection,
    caller: Caller,
    key: str,
    url: str,
    endpoint_id: int,
    profile: InstitutionProfile | None,
) -> KeyWebhook:
    # Batches lock the same balance: every settlement after the answer is notified.
    await ledger_store.lock_balance(connection, caller.holder_id)
    await endpoint_usecases.refuse_succeeded(connection, caller)
    await endpoint_usecases.refuse_anothers_host(context, connection, caller, url)
    now = await service_now_to_write(context.clock, connection)
    found = await endpoint_store.find_key_webhook(connection, caller.holder_id, key)
    if found is None:
        webhook = KeyWebhook(pix_key=key, holder_id=caller.holder_id, endpoint_id=endpoint_id, url=url, created_at=now)
        # Its owner sets no secret, so one is made for the HMAC signatures.
        secret = make_standard_secret(context.entropy.octets(SECRET_LENGTH)).encode()
        endpoint = Endpoint(
            id=endpoint_id,
            holder_id=caller.holder_id,
            url=url,
            event_types=endpoint_rules.EVENT_TYPES,
            secret_sealed=context.secret_box.seal(secret, endpoint_rules.endpoint_seal(endpoint_id)),
            created_at=now,
            modified_at=now,
            pix_key=key,
        )
        made = _set_format(profile, endpoint)
        await endpoint_store.insert(connection, made)
        await endpoint_store.KEY_WEBHOOK.insert(connection, webhook)
        await endpoint_usecases.note_change(connection, caller, "endpoint add", now, endpoint_id, after=made)
        return webhook
    before = errors.require(
        await endpoint_store.lock_by_id(connection, found.endpoint_id), "the webhook of a key has its endpoint"
    )
    # Setting it again shows that its owner has repaired it.
    after = _set_format(profile, structs.replace(endpoint_rules.activate(before), url=url, modified_at=now))
    await endpoint_store.update(connection, after)
    await endpoint_store.set_created(connection, key, now)
    await endpoint_usecases.note_change(connection, caller, "endpoint set", now, before.id, before=before, after=after)
    if before.status != "active":
        await endpoint_usecases.resume_backlog(connection, before.id, now, now)
    return structs.replace(found, url=url, created_at=now)


def _set_format(profile: InstitutionProfile | None, endpoint: Endpoint) -> Endpoint:
    if profile is None:
        return structs.replace(endpoint, event_types=endpoint_rules.EVENT_TYPES, profile=None, only_with_txid=False)
    return structs.replace(
        endpoint,
        event_types=endpoint_rules.parse_event_types(profile.webhook.event_types),
        profile=profile.name,
        only_with_txid=profile.webhook.only_with_txid,
    )


def find_callback_url(url: str, profile: InstitutionProfile | None) -> str:
    return endpoint_rules.callback_url(url, is_appended=profile is not None and profile.webhook.url == "appended")


read_webhook: Final = found_of_caller(endpoint_store.find_key_webhook, _NO_WEBHOOK)

list_webhooks: Final = of_caller(endpoint_store.read_key_webhooks)
"""List the caller's webhooks of keys, last configured first."""


async def delete_webhook(context: Context, caller: Caller, key: str) -> None:
    """Remove the webhook, and give up pending deliveries. Raises ``NotFound``."""
    async with write_alone(context.pool) as connection:
        await ledger_store.lock_balance(connection, caller.holder_id)
        found = await endpoint_store.find_key_webhook(connection, caller.holder_id, key)
        endpoint = None if found is None else await endpoint_store.lock_by_id(connection, found.endpoint_id)
        if endpoint is None or not await endpoint_store.delete_key_webhook(connection, caller.holder_id, key):
            raise errors.NotFound(_NO_WEBHOOK)
        now = await service_now_to_write(context.clock, connection)
        await endpoint_usecases.note_change(connection, caller, "endpoint remove", now, endpoint.id, before=endpoint)
    # Pending deliveries find no endpoint, and the worker that has their slot gives them up.
    context.wake_workers()


async def list_deliveries(
    context: Context, caller: Caller, key: str, status: DeliveryStatus | None, span: Span
) -> Page[KeyDelivery]:
    webhook = await read_webhook(context, caller, key)
    return await delivery_history_store.read_notices(context.pool, webhook.endpoint_id, status, span)


async def redeliver(context: Context, caller: Caller, key: str, delivery_id: int) -> KeyDelivery:
    """Send a body again, now, on a new schedule: all its deliveries, in the same bytes; the count of attempts continues."""
    webhook = await read_webhook(context, caller, key)
    await _read_delivery(context, webhook, delivery_id)
    async with writing(context.pool) as write:
        await redelivery.redeliver_one(context, write, caller.holder_id, delivery_id)
        return await _read_delivery(context, webhook, delivery_id)


async def _read_delivery(context: Context, webhook: KeyWebhook, delivery_id: int) -> KeyDelivery:
    return errors.found(
        await delivery_history_store.find_notice(context.pool, webhook.endpoint_id, delivery_id),
        "id: there is no such delivery",
    )


async def redeliver_events(context: Context, caller: Caller, key: str, initial_at: datetime, final_at: datetime) -> int:
    """Send a key's webhook the notices of an interval again, except pending ones, and count them."""
    webhook = await read_webhook(context, caller, key)
    found = (await endpoint_store.find_many(context.pool, [webhook.endpoint_id])).get(webhook.endpoint_id)
    endpoint = errors.found(found, _NO_WEBHOOK)
    return await redelivery.redeliver_events_to(context, endpoint, initial_at, final_at, wake_workers=context.wake_workers)


async def redeliver_notices(
    context: Context,
    caller: Caller,
    end_to_end_ids: Sequence[str],
    direction: Direction,
    event_types: Sequence[EventName],
    since: datetime,
) -> int:
    """Send again, now, the bodies with such events of these Pix since an instant, and count them.

    Raises:
        OutcomeUnknown: The database was lost; finished parts stay, and repeating it does the rest.
    """
    named = await transfer_store.find_named(context.pool, end_to_end_ids, direction)
    family = await holder_store.list_family(context.pool, caller.holder_id)
    own = [transfer for transfer in named.values() if transfer.holder_id in family]
    if not own:
        return 0
    # A Pix had no events before it existed.
    since = max(since, min(transfer.created_at for transfer in own))
    transfer_ids = [transfer.id for transfer in own]
    bodies = await delivery_history_store.find_notices(context.pool, caller.holder_id, since, transfer_ids, event_types)
    async with writing(context.pool) as write:
        for delivery_id in bodies:
            await redelivery.redeliver_one(context, write, caller.holder_id, delivery_id)
    return len(bodies)


def _not_at(url: str, reason: str) -> Violation:
    return Violation(property="webhook.webhookUrl", reason=reason, value=url[:_VALUE_LENGTH_MAX])


def _not_owned(key: str) -> Violation:
    return Violation(property="chave", reason="não é uma chave sua", value=key)


_encoder = msgspec.json.Encoder()


async def make_notice(context: Context, delivery: DueDelivery, epoch: int, along_ids: Sequence[int]) -> DueDelivery | None:
    """Write the body of a delivery to the webhook of a key, as ``Format.make_notice``."""
    async with context.pool.acquire() as connection, connection.transaction():
        if not await lease_store.fence(connection, {delivery.slot: epoch}):
            return None
        held = await delivery_history_store.lock_uncovered(connection, delivery.holder_id, [delivery.id, *along_ids])
        if delivery.id not in held:
            return None
        # A body has a Pix once; its other due changes wait for the next body.
        delivery_ids = {delivery.resource_id: delivery.id}
        for delivery_id, transfer_id in held.items():
            delivery_ids.setdefault(transfer_id, delivery_id)
        transfers = await transfer_store.find_by_ids(connection, delivery.holder_id, list(delivery_ids))
        received = [transfer for transfer in transfers.values() if transfer.direction == "IN"]
        shown: dict[int, object] = {**await standard_pix.show_all(connection, received)}
        shown |= {each.id: show_sent_notice(each) for each in transfers.values() if each.direction == "OUT"}
        record: object = {"pix": [shown[transfer_id] for transfer_id in delivery_ids]}
        endpoint = (await endpoint_store.find_many(connection, [delivery.endpoint_id])).get(delivery.endpoint_id)
        if endpoint is not None and endpoint.profile is not None:
            record = reshape(record, read_profile(endpoint.profile).webhook.omits)
        body = _encoder.encode(record).decode()
        covers = tuple(delivery_id for delivery_id in delivery_ids.values() if delivery_id != delivery.id)
        await delivery_history_store.keep_notice(connection, delivery.holder_id, delivery.id, covers, body)
    return structs.replace(delivery, body=body, covers=covers)
