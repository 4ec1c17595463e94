"""Orders and payments that the rail has not ended, for the operator; only the rail ends them. Notes those awaiting a person."""

from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.kernel.flows.context import Context, Operator, read_ordered
from pixconnect.kernel.rules.order import OpenOrder
from pixconnect.kernel.rules.rail import WaitsFor
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer, announce_update
from pixconnect.kernel.tables import order as order_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.clock import service_now
from pixconnect.kernel.tables.order import WaitingOrder
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import begin_money_work
from pixconnect.platform.base import errors

LISTED_MAX: Final = 1000
SILENT_MAX: Final = timedelta(seconds=60)
"""The scheme gives up an order that has not settled 40 s after acceptance, and we have queried by then."""


PERSON_WAITS_MAX: Final = timedelta(days=1)
"""A transfer may wait for days for a person's approval; the operator should check that the person knows."""


class NewWaiting(Struct, frozen=True, kw_only=True):
    """A transfer whose institution reports that it waits for a person."""

    order: OpenOrder
    waits_for: WaitsFor

    @property
    def holder_id(self) -> int:
        return self.order.holder_id


async def _note_waiting(batch: Batch[NewWaiting]) -> list[None]:
    # The balance of its holder guards an order, though no money moves.
    work = await begin_money_work(batch)
    names = sorted({seen.order.name for seen in batch})
    known = set(await order_store.find_waiting(work.connection, names))
    locked = await order_store.lock(work.connection, [name for name in names if name not in known])
    ordered = await read_ordered(work.connection, sorted(locked))
    for seen in batch:
        order, transfer = locked.pop(seen.order.name, None), ordered.get(seen.order.name)
        # It may have ended meanwhile; and repeating the request gives no new facts.
        if order is None or order.institution_id is None or not isinstance(transfer, Transfer):
            continue
        waiting = WaitingOrder(
            order_name=order.name,
            transfer_id=order.resource_id,
            holder_id=order.holder_id,
            institution_id=order.institution_id,
            waits_for=seen.waits_for,
            since=work.now,
        )
        await order_store.WAITING.insert(work.connection, waiting)
        work.announce(announce_update, transfer, "transfer.out.waiting", work.now)
    await work.write()
    return [None] * len(batch)


NOTE_WAITING: Final = WriteOperation("note_waiting", _note_waiting)


async def count_silent(context: Context) -> int:
    """Count orders that were handed over and got no answer for longer than the scheme allows."""
    return await order_store.count_unresolved(context.pool, context.clock.now() - SILENT_MAX, LISTED_MAX)


async def count_accepted(context: Context) -> int:
    """Count payments that the rail accepted, and neither settled nor cancelled for as long."""
    return await transfer_store.count_accepted(context.pool, context.clock.now() - SILENT_MAX, LISTED_MAX)


async def list_unresolved(
    context: Operator, silent_for: timedelta, holder_id: int | None, name: str | None
) -> list[tuple[OpenOrder, Transfer | Refund | None]]:
    """List orders handed over without an answer since, longest first, each with its transfer or refund."""
    handed_before = await service_now(context.clock, context.pool) - silent_for
    orders = await order_store.find_unresolved(context.pool, handed_before, holder_id, name, LISTED_MAX)
    ordered = await read_ordered(context.pool, [order.name for order in orders])
    # One whose transfer or refund is missing is listed too, since the health check counts it.
    return [(order, ordered.get(order.name)) for order in orders]


async def check_known(context: Operator, name: str) -> None:
    """Raise ``NotFound`` for an unknown id: a misspelt one must not look like a resolved one."""
    # An order whose transfer is missing counts as known: we search for exactly that.
    if await read_ordered(context.pool, [name]) or await transfer_store.find_named(context.pool, [name], "IN"):
        return
    if not await order_store.find_unresolved(context.pool, datetime.max.replace(tzinfo=UTC), None, name, 1):
        raise errors.NotFound(f"any_id: there is no transfer or refund {name}")


async def list_accepted(context: Operator, silent_for: timedelta, holder_id: int | None, name: str | None) -> list[Transfer]:
    """List payments to holders that the rail accepted, and has neither settled nor cancelled since, oldest first."""
    accepted_before = await service_now(context.clock, context.pool) - silent_for
    return await transfer_store.find_accepted(context.pool, accepted_before, holder_id, name, LISTED_MAX)
