"""Makes the backlog of resumed endpoints due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pixconnect.doors.worker.parts import MemberRow, SlotPoller
from pixconnect.features.webhooks.service.endpoint import finish_resuming
from pixconnect.features.webhooks.tables.endpoint import IS_ANY_RESUMED
from pixconnect.kernel.flows.context import Context


async def _resume(context: Context, _slots: Sequence[int], _count_max: int) -> int:
    return await finish_resuming(context)


MEMBERS: Final = (
    MemberRow(
        name="resumptions",
        make=lambda parts, leases, place: SlotPoller(
            "resumptions", parts.context, leases, place, _resume, IS_ANY_RESUMED
        ),
    ),
)
