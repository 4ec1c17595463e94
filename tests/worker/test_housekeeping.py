"""A worker that keeps house finishes what others began."""

import asyncio
from contextlib import suppress

import pytest

from pixconnect.domain.frame.listing import Span
from pixconnect.domain.webhooks.endpoint import EndpointChange
from pixconnect.store.webhooks import endpoint as endpoint_store
from pixconnect.usecases.webhooks import endpoint as endpoint_usecases
from pixconnect.worker import housekeeping
from support import identity, postgres
from support.webhooks import WebhookService, eventually, open_webhook_service


async def test_what_waited_for_a_resumed_endpoint_is_dated_anew_and_notes_are_added_up(
    database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_usecases, "_BATCH_MAX", 2)
    async with open_webhook_service(database) as service:
        endpoint = await service.add_endpoint("http://127.0.0.1:9/")
        await service.announce(list(range(1, 10)))
        await service.context.pool.execute("update delivery set due_at = due_at - interval '1 day'")
        for change in (EndpointChange(status="inactive"), EndpointChange(status="active")):
            resumed = await endpoint_usecases.change_endpoint(service.context, service.caller, endpoint.id, change)

        async def is_done() -> bool:
            notes = await service.fetch("select from webhook_tally_change")
            return not notes and await endpoint_store.find_resumed(service.context.pool, 1) == []

        assert not await is_done()
        keyring = identity.keyring_of(service.context)
        keeping = asyncio.create_task(housekeeping.run_housekeeping(service.context, keyring, 90))
        await eventually(is_done)
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
        assert await _waiting_since_before(service, resumed.modified_at) == 0
        page = await endpoint_usecases.list_deliveries(service.context, service.caller, endpoint.id, "pending", Span())
        assert page.total_count == 9


async def _waiting_since_before(service: WebhookService, instant: object) -> int:
    return len(await service.fetch("select from delivery where due_at < $1", instant))
