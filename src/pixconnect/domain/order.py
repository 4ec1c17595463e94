"""An order: an outgoing transfer or refund that the rail has not ended yet.

It lives beside its transfer or refund from acceptance to the end, and holds only what its way over the rail changes: what was
agreed does not move while it is under way.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from pixconnect.domain.refund import Refund
from pixconnect.domain.transfer import Transfer


class OpenOrder(Struct, frozen=True, kw_only=True):
    """What a worker must know to move it on.

    Attributes:
        name: On the network: the ``end_to_end_id`` of a transfer, the ``return_id`` of a refund.
        holder_id: Whose it is.
        resource_id: Of the transfer or refund.
        slot: Part of the workers' division of labour; that of its transfer or refund.
        ordered_at: Service time.
        due_at: When a worker looks at it again.
        give_up_at: When it is given up if it has not been handed over.
        handed_at: Written before the rail first hears of it. From then on only the rail's own word ends it.
        asked_count: How often the rail was asked about it.
    """

    name: str
    holder_id: int
    resource_id: int
    slot: int
    ordered_at: datetime
    due_at: datetime
    give_up_at: datetime
    handed_at: datetime | None = None
    asked_count: int = 0


def name_of(ordered: Transfer | Refund) -> str:
    """Its name on the network."""
    return ordered.end_to_end_id if isinstance(ordered, Transfer) else ordered.return_id


def open_order(ordered: Transfer | Refund, now: datetime, handover_timeout: timedelta) -> OpenOrder:
    """A new order, due at once."""
    return OpenOrder(
        name=name_of(ordered),
        holder_id=ordered.holder_id,
        resource_id=ordered.id,
        slot=ordered.slot,
        ordered_at=now,
        due_at=now,
        give_up_at=now + handover_timeout,
    )
