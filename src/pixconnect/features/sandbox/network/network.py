"""The settlement system (SPI): takes orders, settles them when they are due, and reports until that is acknowledged.

::

    submit ── insert ── schedule ──(time)── outbox ── reports ── acknowledge ── update
              durable                        memory, rebuilt from the tables       lazily durable

The network decides an order's outcome when the order comes in, and writes nothing when it falls due. The tables hold
everything. The schedule and the outbox are copies of the open reports, in the memory of the only process that writes the
tables.
"""

import asyncio
import heapq
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from itertools import count
from typing import Final, Literal, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from pixconnect.features.sandbox.network import answers, behaviour, tables
from pixconnect.features.sandbox.network.answers import OrderGroup
from pixconnect.features.sandbox.network.behaviour import Behaviour, Faults, Message
from pixconnect.features.sandbox.network.outbox import Outbox, Pending, SharedLock, list_parts
from pixconnect.features.sandbox.network.tables import Acknowledged, AfterStep, DueOrder, KnownOrder, NewArrival, NewOrder
from pixconnect.features.sandbox.rules import Due, SandboxUnavailable
from pixconnect.kernel.register import is_outside_window
from pixconnect.kernel.rules.rail import Acknowledgement, NeverTaken, Order, QueryAnswer, RefundOrder, Taken, Unknown
from pixconnect.platform.base.clock import Clock


class Schedule:
    def __init__(self) -> None:
        # The number keeps groups of one instant in the order in which they were added.
        self._heap: list[tuple[datetime, int, Sequence[Pending]]] = []
        self._number = count()

    def clear(self) -> None:
        """Drop all reports; the tables still have them."""
        self._heap.clear()

    def add(self, due_at: datetime, group: Sequence[Pending]) -> None:
        heapq.heappush(self._heap, (due_at, next(self._number), group))

    def pop_due(self, now: datetime) -> list[Pending]:
        due: list[Pending] = []
        while self._heap and self._heap[0][0] <= now:
            due.extend(heapq.heappop(self._heap)[2])
        return due

    @property
    def next_due_at(self) -> datetime | None:
        return self._heap[0][0] if self._heap else None


# How much later than the report of its outcome an order is answered, if a rule puts them out of order.
HELD_BACK_S: Final = 0.3

Written = TypeVar("Written")
_TAKEN: Final = Taken()


class Network:
    """The money side of the simulated network, in one process at a time.

    An ordinary order settles after ``latency_ms``.
    """

    def __init__(
        self, pool: asyncpg.Pool, clock: Clock, faults: Faults, save_faults: Callable[[], Awaitable[None]], latency_ms: int
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._faults = faults
        self._save_faults = save_faults
        self._latency_ms = latency_ms
        self._schedule = Schedule()
        self._lock = SharedLock()
        self.giving_back = asyncio.Lock()
        """Locked while deciding how much of a payment is returned: two must not both take the rest of it."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_stale = True
        self._waiting: dict[str, asyncio.Future[str | None]] = {}
        self._waiting_fees: set[str] = set()
        self.outbox = Outbox(clock)
        self.arrival_numbers: Iterator[int] = iter(())

    async def open(self) -> None:
        """Read the open reports from the tables; also after a write whose outcome is unknown."""
        async with self._lock.exclusive():
            await self._load()

    async def submit(self, orders: Sequence[Order]) -> list[answers.OrderAnswer]:
        return await self._take("order", answers.read_orders(self._faults, orders, self._latency_ms))

    async def submit_refunds(self, orders: Sequence[RefundOrder]) -> list[answers.OrderAnswer]:
        """Take refund orders; the payer's institution rejects (AM09) more than it sent."""
        async with self.giving_back:
            originals = await tables.find_originals(self._pool, [order.original_end_to_end_id for order in orders])
            taken = answers.read_refunds(self._faults, orders, originals, self._latency_ms)
            return await self._take("refund", taken)

    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        known = await tables.find_orders(self._pool, ids, self._clock.now())
        behaviours = [self._treat_query(order_id, known.get(order_id)) for order_id in ids]
        if self._faults.rules:
            await self._save_faults()
            if any(how.is_refused or not how.is_answered or how.code is not None for how in behaviours):
                raise SandboxUnavailable("a fault rule keeps the network from answering this question")
            await asyncio.sleep(max((how.delay_ms or 0 for how in behaviours), default=0) / 1000)
        # An order that has not come and can no longer come is closed for good, so that this answer stays true: one that comes
        # later is rejected. Written before the answer, under the primary key of orders: a concurrent order finds it instead.
        now = self._clock.now()
        outside = sorted({order_id for order_id in ids if order_id not in known and is_outside_window(order_id, now)})
        if outside:
            await self._pool.execute(tables.CLOSE_IDS, outside, now)
            known |= await tables.find_orders(self._pool, outside, now)
        return [self._query_answer(known.get(order_id), how) for order_id, how in zip(ids, behaviours, strict=True)]

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Take acknowledgements; only the first one of a report counts."""
        # An arrival ended by an acknowledgement of unknown outcome may have another report by the next acknowledgement.
        await self._refresh()
        orders, arrivals, others = answers.sort_acknowledged(acknowledgements, self.outbox.find)
        steps: list[AfterStep] = []
        async with self._lock.shared():
            now = self._clock.now()
            if orders:
                await tables.close_orders(self._pool, list(orders.values()))
            if arrivals:
                steps = await self._end_arrivals(arrivals, now)
            for part, names in others.items():
                for due_at, pending in await part.acknowledge(self._pool, names, now):
                    self._schedule.add(due_at, [pending])
            of_features = [name for names in others.values() for name in names]
            self.outbox.close((*orders, *arrivals, *of_features))
            for step in steps:
                if step.is_open:
                    self._schedule.add(step.due_at, [answers.make_pending(step.report, step.due_at)])
        self._report_to_payers((step.id, step.code) for step in steps if not step.is_open or step.is_held)
        self._report_to_payers((name, None) for name in of_features)
        if any(step.is_open for step in steps):
            self._sweep()

    async def change(self, write: Callable[[PoolConnectionProxy, datetime], Awaitable[Written]]) -> Written:
        """Write a decision, and send its reports: now, and by time."""
        async with self._lock.exclusive():
            self._is_stale = True
            async with self._pool.acquire() as connection, connection.transaction():
                written = await write(connection, self._clock.now())
            # Earlier pending reports are discarded with all others, and read again.
            await self._load()
        return written

    async def _end_arrivals(self, arrivals: Mapping[str, Acknowledged], now: datetime) -> list[AfterStep]:
        """Write how arrivals end, with the fees that wait for them; return their next steps."""
        acknowledged = list(arrivals.values())
        names = {one.id for one in acknowledged}
        if self._waiting_fees.isdisjoint(names):
            return await tables.acknowledge_arrivals(self._pool, acknowledged, now)
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                steps = await tables.acknowledge_arrivals(connection, acknowledged, now)
                ended = {step.id: step.code for step in steps if not step.is_open}
                fees = [(answers.fee_id(name), code) for name, code in ended.items() if name in self._waiting_fees]
                steps += await tables.release_fees(connection, fees, now) if fees else []
        except BaseException:
            self._is_stale = True
            raise
        self._waiting_fees -= ended.keys()
        return steps

    def _report_to_payers(self, ended: Iterable[tuple[str, str | None]]) -> None:
        for name, code in ended:
            waiting = self._waiting.pop(name, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(code)

    async def insert_arrivals(self, groups: Sequence[Sequence[tuple[NewArrival, Pending | None]]]) -> list[None]:
        """Store what comes from outside, and schedule the reports of it."""
        arrivals = [each for group in groups for each in group]
        await self._refresh()
        async with self._lock.shared():
            try:
                await tables.insert_arrivals(self._pool, [arrival for arrival, _ in arrivals])
            except BaseException:
                # The written state is unknown, so memory is rebuilt before the next write.
                self._is_stale = True
                raise
            self._schedule_arrivals(arrivals)
        self._sweep()
        return [None] * len(groups)

    def _schedule_arrivals(self, arrivals: Iterable[tuple[NewArrival, Pending | None]]) -> None:
        for arrival, pending in arrivals:
            if arrival.waits_for is not None:
                self._waiting_fees.add(arrival.waits_for)
            elif pending is not None:
                self._schedule.add(arrival.due_at, [pending])

    @contextmanager
    def expecting_acknowledgement(self, arrival_id: str) -> Generator[asyncio.Future[str | None]]:
        """Return a future for how an arrival that is about to be inserted ends: with a code, or ``None`` if it settles."""
        acknowledged = self._waiting[arrival_id] = asyncio.get_running_loop().create_future()
        try:
            yield acknowledged
        finally:
            self._waiting.pop(arrival_id, None)

    @asynccontextmanager
    async def settled(self) -> AsyncGenerator[tuple[PoolConnectionProxy, datetime]]:
        """Return a snapshot with everything settled before an instant, and the instant: nothing is dated earlier later."""
        async with AsyncExitStack() as stack:
            # Exclusive only until the snapshot is taken: each writer that dates a row shares the lock until the row is written.
            async with self._lock.exclusive():
                connection = await stack.enter_async_context(self._pool.acquire())
                await stack.enter_async_context(connection.transaction(isolation="repeatable_read", readonly=True))
                await connection.execute("select 1")
                now = self._clock.now()
            yield connection, now

    async def set_offset(self, offset: timedelta) -> Due:
        """Move the clock, and queue what falls due."""
        async with self._lock.exclusive():
            # The service sends the same again now and then.
            if offset != self._clock.offset or self._is_stale:
                before = self._clock.now()
                after = self._clock.real_now() + offset
                # Moving back changes deadlines in the tables, so the schedule is read again.
                must_load = self._is_stale or after < before
                self._is_stale = True  # until we know that the write was made
                await tables.write_clock(self._pool, offset, before, after)
                self._clock.set_offset(offset)
                if must_load:
                    await self._load()
                self._is_stale = False
        self._sweep()
        return self.due()

    def due(self) -> Due:
        return Due(next_due_at=self._schedule.next_due_at, reports_count=len(self.outbox))

    def release(self) -> None:
        """End all waiting calls: the process is about to stop."""
        self.outbox.release()
        for acknowledged in self._waiting.values():
            if not acknowledged.done():
                acknowledged.set_exception(TimeoutError())

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _take(self, kind: Literal["order", "refund"], group: OrderGroup) -> list[answers.OrderAnswer]:
        new, behaviours = group.orders, group.behaviours
        await self._refresh()
        await self._save_faults()
        now = self._clock.now()
        is_late = [is_outside_window(order.id, now) for order in new]
        arriving: dict[str, NewOrder] = {}
        for order, how, late in zip(new, behaviours, is_late, strict=True):
            if how.arrives and not how.is_refused and not late:
                # If two orders have one id, the first counts.
                arriving.setdefault(order.id, order)
        async with self._lock.shared():
            # Read under the lock: the clock cannot move between this instant and the deadlines that count from it.
            now = self._clock.now()
            try:
                taken, arriving, arrivals = await answers.write(self._pool, kind, now, arriving, group, self.arrival_numbers)
            except BaseException:
                self._is_stale = True
                raise
            self._schedule_outcomes(now, [arriving[order_id] for order_id in arriving if order_id in taken], new, behaviours)
            self._schedule_arrivals(arrivals)
        self._sweep()
        if any(how.is_early for how in behaviours):
            await asyncio.sleep(HELD_BACK_S)
        return [
            answers.answer_order(order.id, how, arriving, taken, is_late=late)
            for order, how, late in zip(new, behaviours, is_late, strict=True)
        ]

    def _schedule_outcomes(
        self, now: datetime, written: Iterable[NewOrder], new: Sequence[NewOrder], behaviours: Sequence[Behaviour]
    ) -> None:
        repeated = {order.id: how.reports_count for order, how in zip(new, behaviours, strict=True) if how.reports_count > 1}
        groups: defaultdict[int, list[Pending]] = defaultdict(list)
        for order in written:
            if order.is_open:
                due_at = now + timedelta(milliseconds=order.delay_ms)
                report = answers.outcome_report(DueOrder(order.id, due_at, order.code))
                groups[order.delay_ms].append(Pending(report, repeated.get(order.id, 1)))
        for delay_ms, group in groups.items():
            self._schedule.add(now + timedelta(milliseconds=delay_ms), group)

    def _treat_query(self, order_id: str, order: KnownOrder | None) -> Behaviour:
        if not self._faults.rules:
            return behaviour.USUAL
        key, amount_cents = (None, None) if order is None else (order.key, order.amount_cents)
        message = Message(operation="query", id=order_id, key=key, amount_cents=amount_cents)
        return self._faults.behaviour_of(message) or behaviour.USUAL

    def _query_answer(self, order: KnownOrder | None, how: Behaviour) -> QueryAnswer:
        if order is None:
            return Unknown()
        if order.is_closed:
            return NeverTaken()
        if not order.is_over or how.is_early:
            return _TAKEN
        if how.reports_count > 1:
            # A rule for duplicates sends the outcome twice: by this answer and by a report.
            self.outbox.put([Pending(answers.outcome_report(order))])
        return answers.final_answer(order)

    async def _refresh(self) -> None:
        if self._is_stale:
            await self.open()

    async def _load(self) -> None:
        """Rebuild the schedule and the outbox; the caller must hold the lock exclusively."""
        self._clock.set_offset(await self._pool.fetchval("select moved_by from clock"))
        orders = await tables.open_orders(self._pool)
        arrivals = await tables.open_arrivals(self._pool)
        now = self._clock.now()
        others = [pending for part in list_parts() for pending in await part.list_pending(self._pool, now)]
        self._schedule.clear()
        self.outbox.clear()
        for order in orders:
            # A settled order stays settled, even if the clock was moved back behind its deadline.
            self._schedule.add(now if order.is_due else order.due_at, [Pending(answers.outcome_report(order))])
        self._waiting_fees = {waits_for for *_, waits_for in arrivals if waits_for is not None}
        for _, due_at, report, is_due, waits_for in arrivals:
            if waits_for is None:
                self._schedule.add(now if is_due else due_at, [answers.make_pending(report, due_at)])
        for due_at, pending in others:
            self._schedule.add(due_at, [pending])
        self._is_stale = False
        self._sweep()

    def _sweep(self) -> None:
        """Queue due reports, and set the timer for the next group."""
        self.outbox.put(self._schedule.pop_due(self._clock.now()))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (next_due_at := self._schedule.next_due_at) is not None:
            wait_s = (next_due_at - self._clock.now()).total_seconds()
            self._timer = asyncio.get_running_loop().call_later(min(max(wait_s, 0.001), 3600), self._sweep)
