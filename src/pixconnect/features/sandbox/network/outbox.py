"""Due reports: delivered oldest first, and again until they are acknowledged."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any, Final, LiteralString

import asyncpg
from msgspec import Struct

from pixconnect.kernel.feature import gather
from pixconnect.kernel.rules.rail import CreditReport, Report
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.shared_look import wait_for

REDELIVERED_AFTER_S: Final = 5.0
BATCH_MAX: Final = 256


class Pending(Struct, frozen=True):
    report: Report
    count: int = 1  # how many acknowledgements it needs


DuePending = tuple[datetime, Pending]


class NetworkPart(Struct, frozen=True, kw_only=True):
    """Reports that a feature keeps in a table of its own, with the columns of ``arrival`` that the clock changes."""

    table: LiteralString
    kind: type[Any]  # of its reports
    # Lists the unfinished reports, with their times.
    list_pending: Callable[[asyncpg.Pool, datetime], Awaitable[Iterable[DuePending]]]
    # Records acknowledgements of the reports with these ids; returns those that follow.
    acknowledge: Callable[[asyncpg.Pool, Sequence[str], datetime], Awaitable[Iterable[DuePending]]]


@cache
def list_parts() -> tuple[NetworkPart, ...]:
    return gather("network_parts", NetworkPart)


class Outbox:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: dict[str, Pending] = {}
        self._handed_out: dict[str, tuple[Pending, float]] = {}
        self._wake = asyncio.Event()
        self._is_released = False

    def __len__(self) -> int:
        return len(self._ready) + len(self._handed_out)

    def clear(self) -> None:
        """Drop all reports; the tables still have them."""
        self._ready.clear()
        self._handed_out.clear()

    def put(self, pendings: Iterable[Pending]) -> None:
        for pending in pendings:
            self._ready[pending.report.report_id] = pending
        if self._ready:
            self._wake.set()

    async def take(self, wait_s: float) -> list[Report]:
        """Return up to 256 reports, as soon as there is one; none when ``wait_s`` has passed."""
        # Real time, regardless of the sandbox clock: this is about the connection, not about the scheme.
        deadline_s = self._clock.monotonic_s() + wait_s
        while True:
            now_s = self._clock.monotonic_s()
            self._return_overdue(now_s)
            if self._ready:
                return self._hand_out(now_s)
            if now_s >= deadline_s or self._is_released:
                return []
            self._wake.clear()
            # The first was handed out first.
            overdue_s = next((handed_out_s for _, handed_out_s in self._handed_out.values()), deadline_s) + REDELIVERED_AFTER_S
            await wait_for(self._wake, min(deadline_s, overdue_s) - now_s)

    def release(self) -> None:
        """End all waiting calls, now and from now on."""
        self._is_released = True
        self._wake.set()

    def find(self, report_id: str) -> Report | None:
        if (pending := self._ready.get(report_id)) is not None:
            return pending.report
        handed_out = self._handed_out.get(report_id)
        return None if handed_out is None else handed_out[0].report

    def waiting_since(self) -> datetime | None:
        """Return when the oldest payment was reported that is not acknowledged yet."""
        # All are scanned: there are few at a time.
        pendings = (*self._ready.values(), *(pending for pending, _ in self._handed_out.values()))
        instants = [pending.report.reported_at for pending in pendings if isinstance(pending.report, CreditReport)]
        return min(instants, default=None)

    def close(self, report_ids: Iterable[str]) -> None:
        """Remove reports that were acknowledged; one that must be reported again is queued behind the others."""
        again: list[Pending] = []
        for report_id in report_ids:
            handed_out = self._handed_out.pop(report_id, None)
            pending = self._ready.pop(report_id, None) or (None if handed_out is None else handed_out[0])
            if pending is not None and pending.count > 1:
                again.append(Pending(pending.report, pending.count - 1))
        if again:
            self.put(again)

    def _hand_out(self, now_s: float) -> list[Report]:
        # Usually all of them fit, and nothing is copied.
        if len(self._ready) <= BATCH_MAX:
            batch, self._ready = self._ready, {}
        else:
            batch = dict(islice(self._ready.items(), BATCH_MAX))
            for report_id in batch:
                del self._ready[report_id]
        for report_id, pending in batch.items():
            self._handed_out[report_id] = (pending, now_s)
        return [pending.report for pending in batch.values()]

    def _return_overdue(self, now_s: float) -> None:
        overdue: dict[str, Pending] = {}
        # In the order of delivery, so the first that is not overdue ends the search.
        for report_id, (pending, handed_out_s) in self._handed_out.items():
            if now_s - handed_out_s < REDELIVERED_AFTER_S:
                break
            overdue[report_id] = pending
        if overdue:
            for report_id in overdue:
                del self._handed_out[report_id]
            self._ready = {**overdue, **self._ready}


class SharedLock:
    """Writing an order shares it, moving the clock holds it exclusively.

    A writer that wants it exclusively waits for the present sharers; later callers wait for that writer.
    """

    def __init__(self) -> None:
        self._alone = asyncio.Lock()
        self._sharing_count = 0
        self._is_free = asyncio.Event()
        self._is_free.set()

    @asynccontextmanager
    async def shared(self) -> AsyncGenerator[None]:
        # The inner lock is held only while entering, so that sharers do not exclude each other.
        if self._alone.locked():
            async with self._alone:
                self._enter()
        else:
            self._enter()
        try:
            yield
        finally:
            self._sharing_count -= 1
            if not self._sharing_count:
                self._is_free.set()

    @asynccontextmanager
    async def exclusive(self) -> AsyncGenerator[None]:
        async with self._alone:
            await self._is_free.wait()
            yield

    def _enter(self) -> None:
        self._sharing_count += 1
        self._is_free.clear()
