"""A worker's dependencies, and the members that features add to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, LiteralString, Protocol

import structlog
from msgspec import Struct

from pixconnect.doors.worker.leases import Connect, SlotLeases, TimedMember, until_beat
from pixconnect.doors.worker.meter import Gauge
from pixconnect.kernel.flows.context import Context
from pixconnect.platform.base import errors
from pixconnect.platform.base.feature_parts import FeatureParts
from pixconnect.platform.config import Settings
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.metrics import Read
from pixconnect.platform.notifier import Notifier


class WorkerParts(Struct, frozen=True, kw_only=True):
    context: Context
    notifier: Notifier
    calls: Mapping[tuple[str, str], int]
    """Those to institutions, by account and outcome."""
    connect: Connect
    """Opens a separate connection for the leases."""
    event_retention_days: int
    of_features: FeatureParts
    """Further dependencies of features' members."""
    serve_metrics: Callable[[Read], AbstractAsyncContextManager[None]] = lambda _read: nullcontext()


class Runner(Protocol):
    async def run(self) -> None:
        """Work until cancelled."""
        ...


class MemberRow(Struct, frozen=True, kw_only=True):
    """A part of a worker that a feature adds."""

    name: str
    make: Callable[[WorkerParts, SlotLeases, int], Runner]
    """The last argument is its place in the beat of pollers (``Poller``)."""
    gauges: Sequence[Gauge[Any]] = ()
    """Read from the result."""


class WorkerExtension(Struct, frozen=True, kw_only=True):
    """A feature's wrappers of a worker's parts."""

    open: Callable[[Settings, WorkerParts], AbstractAsyncContextManager[WorkerParts]]


BATCH_MAX: Final = 64
LOOK_AFTER_S: Final = 1.0

_log = structlog.get_logger(__name__)


class SlotPoller(TimedMember):
    """Does what is due in this worker's slots, and looks for more every second.

    ``due_if`` is the condition of ``Member``.
    """

    def __init__(
        self,
        name: str,
        context: Context,
        leases: SlotLeases,
        place: int,
        do_due: Callable[[Context, Sequence[int], int], Awaitable[int]],
        due_if: LiteralString,
    ) -> None:
        super().__init__()
        self._name = name
        self._context = context
        self._leases = leases
        self._place = place
        self._do_due = do_due
        self.due_if = due_if
        leases.add(self)

    async def run(self) -> None:
        while True:
            done_count = 0
            self.is_due.clear()
            slots = sorted(self._leases.held)
            try:
                done_count = await self._do_due(self._context, slots, BATCH_MAX) if slots else 0
            except (*DATABASE_FAILED, errors.PixConnectError) as error:
                _log.warning("due work waits", member=self._name, reason=type(error).__name__)
            if done_count < BATCH_MAX:
                now_s = self._context.clock.monotonic_s()
                rest_s = min(LOOK_AFTER_S, until_beat(LOOK_AFTER_S, self._place, now_s))
                await self.rest(self.is_due, rest_s, has_found=done_count > 0)
