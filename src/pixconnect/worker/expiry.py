"""Marks charges that were not paid in time."""

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from pixconnect.foundation.pool import DATABASE_AWAY
from pixconnect.usecases.charge import expire_charges

if TYPE_CHECKING:
    from pixconnect.usecases.context import Context
    from pixconnect.worker.leases import SlotLeases

BATCH_MAX: Final = 256
LOOK_AFTER_S: Final = 1.0

_log = structlog.get_logger(__name__)


async def keep_expiring_charges(context: "Context", leases: "SlotLeases") -> None:
    """Expire what is past its time in the slots that this worker leases, until cancelled."""
    while True:
        expired_count = 0
        try:
            if leases.held:
                slots = sorted(leases.held)
                expired_count = await expire_charges(context, slots, context.clock.now(), BATCH_MAX)
        except DATABASE_AWAY as error:
            _log.warning("expiry waits", reason=type(error).__name__)
        if expired_count < BATCH_MAX:
            await asyncio.sleep(LOOK_AFTER_S)
