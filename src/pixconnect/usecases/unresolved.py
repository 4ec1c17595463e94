"""What the rail owes us a word on, for the operator to see. There is nothing to decide here: only the rail's word ends it."""

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pixconnect.store import clock as clock_store
from pixconnect.store import order as order_store
from pixconnect.store import transfer as transfer_store

if TYPE_CHECKING:
    from pixconnect.domain.order import OpenOrder
    from pixconnect.domain.transfer import Transfer
    from pixconnect.usecases.operator import OperatorContext

LISTED_MAX: Final = 1000


async def list_unresolved(
    context: "OperatorContext", silent_for: timedelta, holder_id: int | None, end_to_end_id: str | None
) -> "list[tuple[OpenOrder, Transfer]]":
    """Outgoing transfers that were handed over and not heard of since, the longest silent first.

    Args:
        context: Of the operator.
        silent_for: At least, service time.
        holder_id: Of this holder only.
        end_to_end_id: This one only.
    """
    context.clock.set_offset(await clock_store.read_offset(context.pool))
    handed_before = context.clock.now() - silent_for
    orders = await order_store.find_unresolved(context.pool, handed_before, holder_id, end_to_end_id, LISTED_MAX)
    transfers = await transfer_store.find_named(context.pool, [order.name for order in orders], "OUT")
    return [(order, transfers[order.name]) for order in orders if order.name in transfers]
