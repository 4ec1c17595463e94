"""Holders' use cases for their webhook endpoints, deliveries and events, and operators' use cases for them.

No transaction is open while a URL is checked, because that resolves its name. A stored secret is never shown again. For an id
that the holder does not have, each function raises ``NotFound``.

A host gets key webhooks of one holder only, unless an operator permits more. Otherwise a holder who registers another's URL for
its own key would make us notify that receiver, truthfully and signed, of a payment that looks like the receiver's own. Only the
host's name counts: in live mode certificates are verified by it, so no other name or address leads to the same receiver unless
its certificate permits it.
"""

from datetime import datetime
from typing import Final, Literal

import msgspec
from msgspec import Struct, structs

from pixconnect.features.identity.service.secret_key import Resealing, SealedKind
from pixconnect.features.webhooks.rules import endpoint as endpoint_rules
from pixconnect.features.webhooks.rules.delivery import Delivery, DeliveryStatus, Receivers
from pixconnect.features.webhooks.rules.endpoint import (
    Endpoint,
    EndpointChange,
    EndpointRequest,
    EndpointStatus,
    KeyWebhookEvent,
    notifies_key,
)
from pixconnect.features.webhooks.tables import delivery_history as delivery_history_store
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.features.webhooks.tables import feed as feed_store
from pixconnect.features.webhooks.tables.delivery import KEY_WEBHOOK_EVENTS
from pixconnect.features.webhooks.tables.endpoint import delete_key_webhook
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.audit import Act
from pixconnect.kernel.flows.context import Context, Operator, Port, found_of_caller, of_caller, write_alone
from pixconnect.kernel.flows.holder import KeyRemoval
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.event import Event
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import origin as origin_store
from pixconnect.kernel.tables.clock import service_now_to_write
from pixconnect.kernel.tables.table import SUCCEEDED
from pixconnect.kernel.writing.unit_of_work import Follower, UnitOfWork
from pixconnect.platform.base import address_rules, errors
from pixconnect.platform.base.entropy import SealBroken
from pixconnect.platform.pool import Connection

RECEIVERS: Final = Port[Receivers]("receivers")


class HostIsAnothers(errors.InvalidWebhookUrl):
    """This host gets another holder's key webhooks already."""


async def refuse_anothers_host(context: Context, connection: Connection, caller: Caller, url: str) -> None:
    """Refuse a checked URL, in the transaction that registers it; raises ``HostIsAnothers``."""
    # In a sandbox one machine may get the webhooks of all of a team's holders.
    if context.policy.is_sandbox:
        return
    spellings = address_rules.spell_host(address_rules.host_of(url))
    await endpoint_store.lock_host(connection, spellings[0])
    if await endpoint_store.is_anothers(connection, spellings, caller.holder_id):
        raise HostIsAnothers(
            f"url: {spellings[0]} receives another holder's Pix keys; ask the operator to allow it (`pixconnect "
            "operator endpoint allow`)"
        )


async def allow_host(context: Operator, host: str) -> str:
    """Permit several holders to have webhooks at a host, permanently; return the host as stored."""
    try:
        kept = address_rules.spell_host(host)[0]
    except address_rules.TargetRefused as refused:
        raise errors.BadRequest(f"host: {refused}") from None
    async with write_alone(context.pool) as connection:
        if await endpoint_store.allow_host(connection, kept):
            await audit.record(context, connection, "operator endpoint allow", f"host {kept}")
    return kept


_BATCH_MAX = 5_000  # maximum of deliveries that one statement changes
_FIRST: Final = (0, 0, 0)
_LISTED_MAX = 1_000
_AUDITED_LENGTH_MAX: Final = 500  # maximum length of a URL in the audit, which can never be erased
_NO_ENDPOINT: Final = "id: there is no such webhook endpoint"
_RESUMED_MAX = 100  # maximum of resumed endpoints in one pass of housekeeping


class CallbackTerms(Struct, frozen=True, kw_only=True):
    """The format of an endpoint, and its owner's settings there."""

    profile: str
    name: str | None = None
    authorization: str | None = None
    is_only: bool = False  # whether an account can have only one


class EndpointConflict(Exception):  # noqa: N818 the caller changes that one
    """A concurrent request has just made the only permitted endpoint."""


async def create_endpoint(
    context: Context, caller: Caller, request: EndpointRequest, act: Act | None = None, terms: CallbackTerms | None = None
) -> Endpoint:
    """Register a webhook endpoint of a holder; ``act``, here and below, goes into the audit with the change.

    Raises:
        BadRequest: The event types or the secret are wrong.
        LimitExceeded: The holder has the maximum number of endpoints.
        EndpointConflict: ``terms`` permit one, which exists.
        InvalidWebhookUrl: The URL is wrong, or leads to a forbidden address.
    """
    event_types = endpoint_rules.parse_event_types(request.event_types)
    endpoint_rules.check_secret(request.secret)
    # Before the name is resolved, which may take seconds.
    _check_count(await endpoint_store.count(context.pool, caller.holder_id))
    await context.port(RECEIVERS).check_url(request.url)
    # The id comes first: the secret's seal is bound to it, so that it opens in no other row.
    endpoint_id = await endpoint_store.next_id(context.pool)
    sealed = _seal(context, endpoint_id, request.secret)
    async with write_alone(context.pool) as connection:
        await ledger_store.lock_balance(connection, caller.holder_id)
        await refuse_succeeded(connection, caller)
        await refuse_anothers_host(context, connection, caller, request.url)
        # Counted again under the lock: another request may have made one since.
        _check_count(await endpoint_store.count(connection, caller.holder_id))
        if (
            terms is not None
            and terms.is_only
            and await endpoint_store.list_of_account(connection, caller.holder_id, terms.profile)
        ):
            raise EndpointConflict
        now = await service_now_to_write(context.clock, connection)
        endpoint = Endpoint(
            id=endpoint_id,
            holder_id=caller.holder_id,
            url=request.url,
            event_types=event_types,
            secret_sealed=sealed,
            created_at=now,
            modified_at=now,
        )
        if terms is not None:
            word = terms.authorization
            authorization = None if word is None else _seal(context, endpoint_id, word)
            endpoint = structs.replace(endpoint, profile=terms.profile, name=terms.name, authorization_sealed=authorization)
        await endpoint_store.insert(connection, endpoint)
        await note_change(connection, caller, "endpoint add", now, endpoint.id, after=endpoint)
        await audit.record_act(connection, act and act.of(f"endpoint {endpoint_id}"))
    return endpoint


list_endpoints: Final = of_caller(endpoint_store.read_page)
"""The holder's endpoints, newest first."""


read_endpoint: Final = found_of_caller(endpoint_store.find, _NO_ENDPOINT)


async def change_endpoint(
    context: Context, caller: Caller, endpoint_id: int, change: EndpointChange, act: Act | None = None
) -> Endpoint:
    """Change an endpoint, from its next attempt on; unchanged values change and audit nothing.

    Raises:
        InvalidWebhookUrl: The URL is wrong, or leads to a forbidden address.
    """
    if change == EndpointChange():
        raise errors.BadRequest("body: name at least one of url, secret, event_types and status")
    if change.event_types is not None:
        endpoint_rules.parse_event_types(change.event_types)
    if change.secret is not None:
        endpoint_rules.check_secret(change.secret)
    await read_endpoint(context, caller, endpoint_id)
    if change.url is not None:
        await context.port(RECEIVERS).check_url(change.url)
    async with write_alone(context.pool) as connection:
        before = errors.found(await endpoint_store.lock(connection, caller.holder_id, endpoint_id), _NO_ENDPOINT)
        if change.url is not None and change.url != before.url:
            await refuse_anothers_host(context, connection, caller, change.url)
        now = await service_now_to_write(context.clock, connection)
        after = _changed(context, before, change, now)
        if after == before:
            return before
        after = structs.replace(after, modified_at=now)
        await endpoint_store.update(connection, after)
        verb = "endpoint set" if after.secret_sealed == before.secret_sealed else "endpoint rotate"
        await note_change(connection, caller, verb, now, endpoint_id, before=before, after=after)
        if after.status == "active" and before.status != "active":
            await resume_backlog(connection, endpoint_id, now, now)
        await audit.record_act(connection, act)
    context.wake_workers()
    return after


async def refuse_succeeded(connection: Connection, caller: Caller) -> None:
    """Refuse a change for a holder that was succeeded; call it while the holder's balance is locked."""
    holder = await holder_store.find(connection, caller.holder_id)
    if holder is not None and holder.successor_id is not None:
        raise errors.HolderBlocked(SUCCEEDED)


async def note_change(
    connection: Connection,
    caller: Caller,
    verb: str,
    now: datetime,
    endpoint_id: int,
    *,
    before: Endpoint | None = None,
    after: Endpoint | None = None,
) -> None:
    """Record the origin of a change of an endpoint, in its transaction; a client's change is audited here."""
    await origin_store.note(connection, origin_store.Asked("endpoint", endpoint_id, now, caller))
    # The console audits its acts itself, in the name of the signed-in person.
    if caller.token_id is not None:
        shown = [None if each is None else msgspec.json.encode(show_in_audit(each)).decode() for each in (before, after)]
        subject, (was, now_is) = f"endpoint {endpoint_id}", shown
        await origin_store.audit_client(connection, caller.client_id, caller.request_id, verb, subject, was, now_is)


def show_in_audit(endpoint: Endpoint) -> dict[str, object]:
    """Return an endpoint's fields for the audit: no secret."""
    shown: dict[str, object] = {
        "holder_id": endpoint.holder_id,
        "url": endpoint.url[:_AUDITED_LENGTH_MAX],
        "event_types": endpoint.event_types,
        "status": endpoint.status,
    }
    return shown if endpoint.pix_key is None else shown | {"pix_key": endpoint.pix_key}


async def resume_backlog(connection: Connection, endpoint_id: int, resumed_at: datetime, now: datetime) -> None:
    """Make an endpoint's pending deliveries due, except those made or attempted since an instant."""
    # One batch at once, so that a small backlog is sent without delay; housekeeping does the rest, also after a crash.
    await endpoint_store.set_resumed(connection, endpoint_id, resumed_at)
    if await delivery_history_store.resume(connection, endpoint_id, resumed_at, now, _FIRST, _BATCH_MAX) is None:
        await endpoint_store.forget_resumed(connection, endpoint_id, resumed_at)


async def list_all_endpoints(
    context: Operator, holder_id: int | None, status: EndpointStatus | Literal["failing"] | None
) -> list[tuple[Endpoint, str | None]]:
    """List endpoints by id, those that fail with their last error."""
    found = await endpoint_store.list_all(context.pool, holder_id, status, _LISTED_MAX)
    failing_ids = [endpoint.id for endpoint in found if endpoint.first_failure_at is not None]
    last_errors = await endpoint_store.find_last_errors(context.pool, failing_ids)
    return [(endpoint, last_errors.get(endpoint.id)) for endpoint in found]


async def resume_endpoint(context: Operator, endpoint_id: int) -> tuple[Endpoint, bool]:
    """Reactivate a disabled endpoint and make its pending deliveries due; workers see it at their next poll.

    Returns:
        The endpoint, and whether it was active already.
    """
    async with write_alone(context.pool) as connection:
        before = errors.found(
            await endpoint_store.lock_by_id(connection, endpoint_id), f"endpoint_id: there is no endpoint {endpoint_id}"
        )
        if before.status == "inactive":
            raise errors.BadRequest("endpoint_id: its owner has made it inactive, and may make it active again")
        now, after = await service_now_to_write(context.clock, connection), before
        if before.status == "disabled":
            after = structs.replace(endpoint_rules.activate(before), modified_at=now)
            await endpoint_store.update(connection, after)
        await resume_backlog(connection, endpoint_id, now, now)
        await audit.record(
            context,
            connection,
            "operator endpoint resume",
            f"endpoint {endpoint_id}",
            before={"status": before.status, "status_reason": before.status_reason},
            after={"status": after.status},
        )
    return after, before.status == "active"


async def finish_resuming(context: Context) -> int:
    """Make the backlogs of resumed endpoints due now, in batches, and count them; several processes may run this."""
    batches_count = 0
    for endpoint_id, resumed_at in await endpoint_store.find_resumed(context.pool, _RESUMED_MAX):
        place: delivery_history_store.BacklogCursor | None = _FIRST
        while place is not None:
            async with context.pool.acquire() as connection:
                now = await service_now_to_write(context.clock, connection)
                place = await delivery_history_store.resume(connection, endpoint_id, resumed_at, now, place, _BATCH_MAX)
            batches_count += 1
            context.wake_workers()
        # By its instant: an endpoint that was resumed once more meanwhile keeps that mark.
        await endpoint_store.forget_resumed(context.pool, endpoint_id, resumed_at)
    return batches_count


async def delete_endpoint(context: Context, caller: Caller, endpoint_id: int, act: Act | None = None) -> Endpoint:
    """Delete an endpoint; the service gives up its pending deliveries."""
    async with write_alone(context.pool) as connection:
        endpoint = errors.found(await endpoint_store.lock(connection, caller.holder_id, endpoint_id), _NO_ENDPOINT)
        await endpoint_store.delete(connection, caller.holder_id, endpoint_id)
        now = await service_now_to_write(context.clock, connection)
        await note_change(connection, caller, "endpoint remove", now, endpoint_id, before=endpoint)
        await audit.record_act(connection, act)
    return endpoint


async def list_deliveries(
    context: Context, caller: Caller, endpoint_id: int, status: DeliveryStatus | None, span: Span
) -> Page[Delivery]:
    """List an endpoint's deliveries with their attempts, newest first; of one status, or of all."""
    await read_endpoint(context, caller, endpoint_id)
    return await delivery_history_store.read_page(context.pool, endpoint_id, status, span)


read_delivery: Final = found_of_caller(delivery_history_store.find, "id: there is no such delivery")

list_events: Final = of_caller(feed_store.list_events)
"""List the holder's events, newest first, whether or not they were sent to any endpoint."""


def _changed(context: Context, before: Endpoint, change: EndpointChange, now: datetime) -> Endpoint:
    after = before
    if change.url is not None:
        after = structs.replace(after, url=change.url)
    if change.event_types is not None:
        after = structs.replace(after, event_types=endpoint_rules.parse_event_types(change.event_types))
    # An unchanged secret starts no overlap of two.
    current = None if change.secret is None else _open_secret(context, before)
    if change.secret is not None and change.secret != current:
        sealed = _seal(context, before.id, change.secret)
        after = endpoint_rules.replace_secret(after, sealed, now, keeps_previous=current is not None)
    if change.status is not None and change.status != before.status:
        after = endpoint_rules.activate(after) if change.status == "active" else endpoint_rules.deactivate(after)
    return after


def _seal(context: Context, endpoint_id: int, secret: str) -> bytes:
    return context.secret_box.seal(secret.encode(), endpoint_rules.endpoint_seal(endpoint_id))


def _open_secret(context: Context, endpoint: Endpoint) -> str | None:
    """The current secret; ``None`` if it was sealed with a key that is gone."""
    try:
        return context.secret_box.open(endpoint.secret_sealed, endpoint_rules.endpoint_seal(endpoint.id)).decode()
    except SealBroken:
        return None


def _check_count(count: int) -> None:
    if count >= endpoint_rules.ENDPOINTS_MAX:
        raise errors.LimitExceeded(f"a holder can have {endpoint_rules.ENDPOINTS_MAX} webhook endpoints")


def notify_key(work: UnitOfWork, event: Event, happened: Transfer | Refund) -> None:
    if event.holder_id in work.key_webhook_holders and notifies_key(happened):
        transfer = None if isinstance(happened, Refund) else happened
        key_event = KeyWebhookEvent(
            event_id=event.id,
            holder_id=event.holder_id,
            transfer_id=happened.transfer_id if isinstance(happened, Refund) else happened.id,
            pix_key=transfer and transfer.own_key,
            has_txid=transfer is not None and transfer.txid is not None,
            is_sent=transfer is not None and transfer.direction == "OUT",
            announced_at=event.created_at,
        )
        work.put(KEY_WEBHOOK_EVENTS, key_event)


FOLLOWERS: Final = (Follower(notify_key),)
KEY_REMOVALS: Final = (KeyRemoval(delete_key_webhook),)


async def _reseal(run: Resealing) -> int:
    count, after_id = 0, 0
    while True:
        async with run.context.pool.acquire() as connection, connection.transaction():
            seal_head = run.context.secret_box.seal_head
            batch = await endpoint_store.lock_sealed_otherwise(connection, seal_head, after_id, run.batch_max)
            for before in batch:
                about = endpoint_rules.endpoint_seal(before.id)
                after = structs.replace(
                    before,
                    secret_sealed=run.again(before.secret_sealed, about) or before.secret_sealed,
                    previous_secret_sealed=run.again(before.previous_secret_sealed, about) or before.previous_secret_sealed,
                    authorization_sealed=run.again(before.authorization_sealed, about) or before.authorization_sealed,
                )
                if after != before:
                    await endpoint_store.reseal(connection, after)
                    count += 1
        if len(batch) < run.batch_max:
            return count
        # Onwards by the id, not by the remaining rows: one that no key opens remains each time.
        after_id = batch[-1].id


SEALED_KINDS: Final = (SealedKind("webhook_endpoints", _reseal),)
