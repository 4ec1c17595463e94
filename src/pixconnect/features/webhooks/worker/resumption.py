"""Makes the backlog of resumed endpoints due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pixconnect.doors.worker.parts import poll_slots
from pixconnect.features.webhooks.service.endpoint import finish_resuming
from pixconnect.features.webhooks.tables.endpoint import IS_ANY_RESUMED
from pixconnect.kernel.flows.context import Context


async def _resume(context: Context, _slots: Sequence[int], _count_max: int) -> int:
    return await finish_resuming(context)


MEMBERS: Final = (poll_slots("resumptions", _resume, IS_ANY_RESUMED),)
