"""What operators do after an outage: many deliveries are sent again, of all holders, of one or of one endpoint."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from pixconnect.domain.frame import errors
from pixconnect.domain.webhooks.delivery import DeliveryStatus
from pixconnect.domain.webhooks.endpoint import Endpoint
from pixconnect.foundation.pool import Connection
from pixconnect.store.webhooks import delivery_history as delivery_history_store
from pixconnect.store.webhooks import endpoint as endpoint_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.lone_write import LoneWrite, writing
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.writing.service_time import service_now_to_write

_BATCH_MAX = 5_000
"""Deliveries that one transaction changes at most."""
_ENDPOINTS_MAX: Final = 1_000
"""That one look finds at most."""


class Redelivery(Struct, frozen=True, kw_only=True):
    status: DeliveryStatus
    since: datetime
    """Deliveries that were made from this instant on, included."""
    until: datetime | None = None
    """The last instant, included; ``None`` is now."""
    holder_id: int | None = None
    """Of this holder's endpoints only."""
    endpoint_id: int | None = None
    """Of this endpoint only."""


class RedeliveredCounts(Struct, frozen=True, kw_only=True):
    deliveries_count: int
    endpoints_count: int


async def redeliver_all(context: OperatorContext, wanted: Redelivery) -> RedeliveredCounts:
    """Start the schedules of deliveries anew, now, and count them.

    To an endpoint that is not active they wait. Workers see them when they look next.

    Raises:
        BadRequest: The time ends before it begins.
        NotFound: There is no such endpoint, or the holder has none.
        OutcomeUnknown: The database was lost; what was done stays done, and the same again does the rest.
    """
    async with writing(context.pool) as write:
        async with write.transaction() as connection:
            until = wanted.until or await service_now_to_write(context.clock, connection)
            if wanted.since > until:
                raise errors.BadRequest("since: must not be after the end")
            endpoints = await _find_endpoints(connection, wanted, 0)
            if not endpoints and (wanted.holder_id, wanted.endpoint_id) != (None, None):
                raise errors.NotFound("there is no such webhook endpoint")
            # Kept before the first batch: what is done in many transactions may be cut off in the middle.
            asked = {"status": wanted.status, "since": wanted.since, "until": until}
            await audit.record(context, connection, "operator endpoint redeliver", _subject(wanted), after=asked)
        counts: list[int] = []
        while endpoints:
            counts += [await _redeliver(context, write, endpoint.id, wanted, until) for endpoint in endpoints]
            async with context.pool.acquire() as connection:
                endpoints = await _find_endpoints(connection, wanted, endpoints[-1].id)
    return RedeliveredCounts(deliveries_count=sum(counts), endpoints_count=sum(count > 0 for count in counts))


async def _find_endpoints(connection: Connection, wanted: Redelivery, after_id: int) -> list[Endpoint]:
    return await endpoint_store.find_some(connection, wanted.holder_id, wanted.endpoint_id, after_id, _ENDPOINTS_MAX)


async def _redeliver(
    context: OperatorContext, write: LoneWrite, endpoint_id: int, wanted: Redelivery, until: datetime
) -> int:
    total_count, after = 0, (wanted.since, 0)
    while True:
        async with write.transaction() as connection:
            now = await service_now_to_write(context.clock, connection)
            found = await delivery_history_store.redeliver_some(
                connection, endpoint_id, wanted.status, after, until, now, _BATCH_MAX
            )
        if found is None:
            return total_count
        count, after = found
        total_count += count


def _subject(wanted: Redelivery) -> str:
    if wanted.endpoint_id is not None:
        return f"endpoint {wanted.endpoint_id}"
    return "all holders" if wanted.holder_id is None else f"holder {wanted.holder_id}"
