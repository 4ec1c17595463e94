"""Makes the bodies of key webhooks, and stores each before it is sent: every later attempt sends the same bytes.

The transaction is fenced: a worker that has lost its slot makes nothing, and one that dies after the commit leaves a body that
the next worker sends.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import structs

from pixconnect.domain.profiles.profile import read_profile, reshape
from pixconnect.domain.webhooks.delivery import DueDelivery
from pixconnect.store.money import transfer as transfer_store
from pixconnect.store.running import lease as lease_store
from pixconnect.store.webhooks import endpoint as endpoint_store
from pixconnect.store.webhooks import notice as notice_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.standard import pix as standard_pix
from pixconnect.usecases.standard.sent import show_sent_notice

_encoder = msgspec.json.Encoder()


async def make_notice(
    context: Context, delivery: DueDelivery, epoch: int, along_ids: Sequence[int]
) -> DueDelivery | None:
    """Write the body of a delivery to the webhook of a key, which tells of these other deliveries too.

    Args:
        epoch: The epoch of its slot when this worker read the delivery.
        along_ids: Deliveries of the same webhook that are due too; those that another body has told of are left out.

    Returns:
        The delivery with its body; ``None`` if the slot is another worker's by now, or the delivery has a body already.
    """
    async with context.pool.acquire() as connection, connection.transaction():
        if not await lease_store.fence(connection, {delivery.slot: epoch}):
            return None
        held = await notice_store.lock_uncovered(connection, delivery.holder_id, [delivery.id, *along_ids])
        if delivery.id not in held:
            return None
        # A body holds a Pix once; its other due changes wait for the next body.
        told = {delivery.resource_id: delivery.id}
        for delivery_id, transfer_id in held.items():
            told.setdefault(transfer_id, delivery_id)
        transfers = await transfer_store.find_by_ids(connection, delivery.holder_id, list(told))
        received = [transfer for transfer in transfers.values() if transfer.direction == "IN"]
        shown: dict[int, object] = {**await standard_pix.show_all(connection, received)}
        shown |= {each.id: show_sent_notice(each) for each in transfers.values() if each.direction == "OUT"}
        record: object = {"pix": [shown[transfer_id] for transfer_id in told]}
        endpoint = (await endpoint_store.find_many(connection, [delivery.endpoint_id])).get(delivery.endpoint_id)
        if endpoint is not None and endpoint.profile is not None:
            record = reshape(record, read_profile(endpoint.profile).webhook.omits)
        body = _encoder.encode(record).decode()
        covers = tuple(delivery_id for delivery_id in told.values() if delivery_id != delivery.id)
        await notice_store.keep(connection, delivery.holder_id, delivery.id, covers, body)
    return structs.replace(delivery, body=body, covers=covers)
