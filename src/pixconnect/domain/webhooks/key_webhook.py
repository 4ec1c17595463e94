"""Webhooks of Pix keys, as the central bank's Pix API has them: one for a key, told of each Pix that is paid to it.

Such a webhook is an ``Endpoint`` with a ``pix_key``. It gets *notices*: each has the Pix of its key that were due
together, written once as they were then. We keep a notice before we send it, so every attempt sends the same bytes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from pixconnect.domain.frame.event import Event, EventName
from pixconnect.domain.money.refund import Refund
from pixconnect.domain.money.transfer import Transfer

RESOURCE: Final = "pix"
"""For a delivery to such a webhook; its resource id is the transfer's, for refunds of it too: so they keep their order."""

NOTICE_PIX_MAX: Final = 100

EVENT_TYPES: Final[tuple[EventName, ...]] = ("transfer.in.confirmed", "refund.out.returned", "refund.out.error")
"""The events that a key webhook announces: a Pix that settled, and a refund of one that ended, well or not."""

URL_LENGTH_MAX: Final = 2000


class KeyWebhook(Struct, frozen=True, kw_only=True):
    pix_key: str
    holder_id: int
    endpoint_id: int
    url: str
    """As it was set, without ``/pix``."""
    created_at: datetime
    """When it was last set."""


class KeyWebhookEvent(Struct, frozen=True, kw_only=True):
    """An event that the key webhook announces, if the key has one."""

    event_id: int
    holder_id: int
    transfer_id: int
    """The Pix's id, also if the event concerns a refund."""
    pix_key: str | None
    """``None`` leaves it to the Pix that is there already."""
    has_txid: bool
    is_sent: bool
    """Of what the holder sent, which only some webhooks are told of."""
    told_at: datetime

    @classmethod
    def of(cls, event: Event, transfer_id: int, told_of: Transfer | None) -> KeyWebhookEvent:
        return cls(
            event_id=event.id,
            holder_id=event.holder_id,
            transfer_id=transfer_id,
            pix_key=told_of and told_of.own_key,
            has_txid=told_of is not None and told_of.txid is not None,
            is_sent=told_of is not None and told_of.direction == "OUT",
            told_at=event.created_at,
        )


def is_told_of(happened: Transfer | Refund) -> bool:
    """Whether a key webhook announces the new state of a transfer or refund."""
    if isinstance(happened, Transfer):
        ends = ("CONFIRMED",) if happened.direction == "IN" else ("CONFIRMED", "ERROR", "CANCELLED")
        return happened.own_key is not None and happened.status in ends
    return happened.flow == "OUT" and happened.status != "PROCESSING"


def callback_url(url: str, *, is_appended: bool = False, name: str = "pix") -> str:
    """Where notices are posted: ``/pix`` joined to the path of the URL that was set, before its query.

    Behind a query that ends in ``=`` it is appended as it stands: receivers use that to be called at a path of their own.

    Args:
        is_appended: Always append it so.
        name: Instead of ``pix``.
    """
    path, mark, query = url.partition("?")
    return f"{url}/{name}" if is_appended or query.endswith("=") else f"{path.rstrip('/')}/{name}{mark}{query}"
