"""A worker that keeps house finishes the work of others."""

from collections.abc import Awaitable, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from pixconnect.assembly import worker
from pixconnect.assembly.base import running_beside
from pixconnect.features.proof.rules import HEADS_TOLD
from pixconnect.features.webhooks.rules.endpoint import EndpointChange
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.service.feed import give_positions
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.features.webhooks.worker.feed import MEMBERS as RESUMPTIONS
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.listing import Span
from support import postgres
from support.webhooks import WebhookService, eventually, open_webhook_service


async def test_a_resumed_endpoint_is_kept(database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
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
        parts: Any = SimpleNamespace(context=service.context)
        leases: Any = SimpleNamespace(add=lambda _: None, held={0: 1})
        (resumption,) = RESUMPTIONS
        async with running_beside(keep_house(service.context), resumption.make(parts, leases).run):
            await eventually(is_done)
        assert await _waiting_since_before(service, resumed.modified_at) == 0
        page = await endpoint_usecases.list_deliveries(service.context, service.caller, endpoint.id, "pending", Span())
        assert page.total_count == 9


async def test_what_is_visible_for_good_is_going_to_be_chained_and_heads_are_told(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service:
        await service.announce([1])
        await give_positions(service.context)

        async def is_done() -> bool:
            chained = "select bound_id > 0 and exists (select from audit_chain) from entry_chain_state"
            has_told = any(line["event"] == HEADS_TOLD for line in logs)
            return has_told and await service.context.pool.fetchval(chained)

        with capture_logs() as logs:
            assert not await is_done()
            async with running_beside(keep_house(_live(service.context))):
                await eventually(is_done)


async def test_what_comes_once_a_day_and_cannot_be_done_is_tried_again_soon(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service:
        await postgres.execute_as_owner(database, "alter table entry_chain rename to away")
        with capture_logs() as logs:

            async def has_failed() -> bool:
                return any(line.get("chore") == "heads" for line in logs)

            async def is_done() -> bool:
                return any(line["event"] == HEADS_TOLD for line in logs)

            async with running_beside(keep_house(_live(service.context))):
                await eventually(has_failed)
                assert not await is_done()
                await postgres.execute_as_owner(database, "alter table away rename to entry_chain")
                await eventually(is_done)


def keep_house(context: Context) -> Callable[[], Awaitable[None]]:
    return partial(worker.run_housekeeping, context, 90)


async def _waiting_since_before(service: WebhookService, instant: object) -> int:
    return len(await service.fetch("select from delivery where due_at < $1", instant))


def _live(context: Context) -> Context:
    return structs.replace(context, policy=structs.replace(context.policy, is_sandbox=False))
