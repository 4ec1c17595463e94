"""Key webhooks: the events that they announce, and their end with their key."""

from __future__ import annotations

from typing import Final

from pixconnect.features.webhooks.rules.endpoint import KeyWebhookEvent, notifies_key
from pixconnect.features.webhooks.tables.delivery import KEY_WEBHOOK_EVENTS
from pixconnect.features.webhooks.tables.endpoint import delete_key_webhook
from pixconnect.kernel.flows.holder import KeyRemoval
from pixconnect.kernel.rules.event import Event
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.writing.unit_of_work import Follower, UnitOfWork


def notify_key(work: UnitOfWork, event: Event, happened: Transfer | Refund) -> None:
    if event.holder_id in work.key_webhook_holders and notifies_key(happened):
        transfer_id = happened.transfer_id if isinstance(happened, Refund) else happened.id
        transfer = None if isinstance(happened, Refund) else happened
        work.put(KEY_WEBHOOK_EVENTS, KeyWebhookEvent.of(event, transfer_id, transfer))


FOLLOWERS: Final = (Follower(notify_key),)
KEY_REMOVALS: Final = (KeyRemoval(delete_key_webhook),)
