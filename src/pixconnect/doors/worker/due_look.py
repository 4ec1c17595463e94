"""Asks once a second, in one query, which resting parts of the worker have due work, and wakes those.

Parts that are busy look by themselves. A part without a wake-up for ``REST_MAX_S`` looks by itself too, so a wrong condition
costs time and no work.
"""

from __future__ import annotations

import asyncio
from typing import Final, LiteralString, cast

import structlog

from pixconnect.doors.worker.leases import Member, Poller, SlotLeases, until_beat
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.base import errors
from pixconnect.platform.database_failure import DATABASE_FAILED

LOOK_EVERY_S: Final = 1.0

_log = structlog.get_logger(__name__)


class DueLook:
    def __init__(self, context: Context, leases: SlotLeases) -> None:
        self._context = context
        self._leases = leases
        self._members = [member for member in leases.members if member.due_if]
        for member in self._members:
            member.is_looked_after = True
        # PostgreSQL evaluates no condition of a part that is busy.
        asked: list[LiteralString] = [
            f"case when ($3::boolean[])[{cast('LiteralString', str(place))}] then {member.due_if} else false end"
            for place, member in enumerate(self._members, 1)
        ]
        self._query: LiteralString = "select " + ", ".join(asked)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(until_beat(LOOK_EVERY_S, Poller.DUE, self._context.clock.monotonic_s()))
            try:
                await self.look()
            except (*DATABASE_FAILED, errors.PixConnectError) as error:
                _log.warning("due work waits", reason=type(error).__name__)

    async def look(self) -> list[Member]:
        """Wake the resting parts that have due work, and return them."""
        resting = [member.is_resting for member in self._members]
        slots = sorted(self._leases.held)
        if not slots or not any(resting):
            return []
        found = await self._context.pool.fetchrow(self._query, slots, self._context.clock.now(), resting)
        due: list[Member] = []
        for member, was_resting, is_due in zip(self._members, resting, found or (), strict=True):
            if was_resting:
                member.looked(is_due=is_due)
            if is_due:
                due.append(member)
        return due
