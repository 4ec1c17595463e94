"""A worker's acts as spans of the traces of their requests, if traces are exported.

The trace of an order or of a webhook's event is stored with its fact, so it continues in any worker that has the order or
delivery, and after a crash. Work without a trace gets no span.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import structlog
from msgspec import Struct, structs

from pixconnect.doors.worker.parts import WorkerExtension, WorkerParts
from pixconnect.features.institutions.accounts import OPEN_RAIL
from pixconnect.features.monitoring.worker import UNAVAILABLE, WrappedRail, name_message
from pixconnect.features.traces import tables as trace_store
from pixconnect.features.traces.tables import Resource, TracedOrder
from pixconnect.features.traces.tracer import Tracer, TraceSpan, open_tracer
from pixconnect.features.webhooks.rules.delivery import Conclusion, DueDelivery, Receivers
from pixconnect.features.webhooks.service import delivery as delivery_usecases
from pixconnect.features.webhooks.service.delivery import Recipient, Signatures
from pixconnect.features.webhooks.service.endpoint import RECEIVERS
from pixconnect.features.webhooks.worker.delivery import DeliveryParts
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.handover import PREPARATION
from pixconnect.kernel.rules.rail import Order, QueryAnswer, Rail, RefundOrder, SubmitAnswer
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.base.webhook_exchange import WebhookExchange
from pixconnect.platform.bounded_cache import BoundedCache
from pixconnect.platform.config import Settings
from pixconnect.platform.flow.batches import Batches
from pixconnect.platform.logging import current_trace
from pixconnect.platform.pool import Pool

_LOOKED_UP_MAX: Final = 256

Asked = TypeVar("Asked")
Answer = TypeVar("Answer", bound=SubmitAnswer | QueryAnswer)
_RailCall = Callable[[Sequence[Asked]], Awaitable[list[Answer]]]

_log = structlog.get_logger(__name__)

_ORDERS_REMEMBERED_MAX: Final = 8192
LOOK_UP_TIMEOUT_S: Final = 1.0  # a busy database answers due work first


class OrderTraces:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._by_name = BoundedCache[str, TracedOrder | None](_ORDERS_REMEMBERED_MAX)

    async def look_up(self, names: Sequence[str]) -> None:
        """Find the traces of orders, before they are marked; after any error, the orders continue without them."""
        unknown = [name for name in names if name not in self._by_name]
        if not unknown:
            return
        try:
            async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
                found = await trace_store.find_of_orders(self._pool, unknown)
        except Exception as error:  # noqa: BLE001  no trace is worth an order that waits
            _log.warning("orders go on without their traces", reason=type(error).__name__)
            return
        known = {name: TracedOrder(at=at, traceparent=traceparent) for name, at, traceparent in found if traceparent}
        for name in unknown:
            self._by_name.keep(name, known.get(name))

    def recall(self, name: str) -> TracedOrder | None:
        """An order's trace; ``None`` if it has none, or it is unknown."""
        return self._by_name.get(name)


class _OpenCall(Struct, frozen=True):
    order: TraceSpan | None
    call: TraceSpan


class TracedRail(WrappedRail):
    """A rail with a span for each order that is handed over or queried."""

    def __init__(self, rail: Rail, tracer: Tracer, traces: OrderTraces, clock: Clock, *, one_by_one: bool) -> None:
        """Wrap a rail; ``one_by_one`` if each order is a separate call, and so can have its own trace."""
        super().__init__(rail)
        self.reports, self.acknowledge = rail.reports, rail.acknowledge
        self._tracer = tracer
        self._traces = traces
        self._clock = clock
        self._one_by_one = one_by_one

    async def submit(self, orders: Sequence[Order]) -> list[SubmitAnswer]:
        # Sequentially, as the rail does: each must see those before it.
        groups = [[order] for order in orders] if self._one_by_one else [orders]
        calls = (self._call("rail transfer", group, lambda order: order.end_to_end_id, self._rail.submit) for group in groups)
        return [answer for call in calls for answer in await call]

    async def submit_refunds(self, orders: Sequence[RefundOrder]) -> list[SubmitAnswer]:
        return await self._each("rail refund", orders, lambda order: order.return_id, self._rail.submit_refunds)

    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        return await self._each("rail query", ids, str, self._rail.query)

    async def _each(
        self, what: str, asked: Sequence[Asked], name: Callable[[Asked], str], call: _RailCall[Asked, Answer]
    ) -> list[Answer]:
        if not self._one_by_one or len(asked) <= 1:
            return await self._call(what, asked, name, call)
        # All of them end before any failure is raised: an abandoned call would continue unseen.
        done = await asyncio.gather(*(self._call(what, [one], name, call) for one in asked), return_exceptions=True)
        for failure in done:
            if isinstance(failure, BaseException):
                raise failure
        return [answer for answers in done if not isinstance(answers, BaseException) for answer in answers]

    async def _call(
        self, what: str, asked: Sequence[Asked], name: Callable[[Asked], str], call: _RailCall[Asked, Answer]
    ) -> list[Answer]:
        opened = [self._open(what, name(one)) for one in asked]
        is_alone = len(opened) == 1 and opened[0] is not None
        before = current_trace.set(opened[0].call.traceparent if is_alone and opened[0] else None)
        words: list[str] = []
        try:
            answers = await call(asked)
            words = [name_message(type(answer)) for answer in answers]
        finally:
            current_trace.reset(before)
            for place, one in enumerate(opened):
                _close(one, words[place] if words else UNAVAILABLE)
        return answers

    def _open(self, what: str, name: str) -> _OpenCall | None:
        known = self._traces.recall(name)
        if known is None:
            return None
        if what == "rail query":
            return _OpenCall(None, self._tracer.begin("client", what, known.traceparent))
        # Service time, which in a sandbox need not be real: from acceptance until the rail has answered.
        began_at = min(known.at - self._clock.offset, self._clock.real_now())
        order = self._tracer.begin("internal", "order", known.traceparent, began_at=began_at)
        return _OpenCall(order, self._tracer.begin("client", what, order.traceparent))


def _close(opened: _OpenCall | None, word: str) -> None:
    if opened is not None:
        opened.call.end(has_failed=word == UNAVAILABLE, facts={"pixconnect.answer": word})
        if opened.order is not None:
            opened.order.end(facts={"pixconnect.answer": word})


class TracedAttempts:
    """Attempts of deliveries, each with a span whose id is sent to its receiver."""

    def __init__(self, pool: Pool, tracer: Tracer) -> None:
        self._pool = pool
        self._tracer = tracer
        # Those that begin together are looked up together.
        self._lookups = Batches(self._find, _LOOKED_UP_MAX)

    async def attempt(
        self, context: Context, delivery: DueDelivery, recipient: Recipient, signatures: Signatures
    ) -> Conclusion:
        """As ``features.webhooks.service.delivery.attempt``."""
        parent = await self._look_up(delivery)
        if parent is None:
            return await delivery_usecases.attempt(context, delivery, recipient, signatures)
        number = delivery.attempts_count + 1
        span = self._tracer.begin("client", "webhook attempt", parent, facts={"pixconnect.attempt": number})
        before = current_trace.set(span.traceparent)
        status_code = None
        try:
            conclusion = await delivery_usecases.attempt(context, delivery, recipient, signatures)
            status_code = conclusion.attempt.status_code
            return conclusion
        finally:
            current_trace.reset(before)
            has_arrived = status_code is not None and 200 <= status_code <= 299
            span.end(has_failed=not has_arrived, facts={"http.response.status_code": status_code or 0})

    async def _look_up(self, delivery: DueDelivery) -> str | None:
        try:
            async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
                return await self._lookups.ask((delivery.resource, delivery.resource_id, delivery.holder_id))
        except Exception as error:  # noqa: BLE001  no trace is worth a webhook that waits
            _log.warning("a delivery goes on without its trace", reason=type(error).__name__)
            return None

    async def _find(self, wanted: Sequence[Resource]) -> list[str | None]:
        kinds, ids = [kind for kind, _, _ in wanted], [resource_id for _, resource_id, _ in wanted]
        rows = await trace_store.find_of_resources(self._pool, kinds, ids, [holder_id for _, _, holder_id in wanted])
        found = {(kind, resource_id, holder_id): traceparent for kind, resource_id, holder_id, traceparent in rows}
        return [found.get(resource) or None for resource in wanted]


class TracedReceivers:
    """Posts with the ``traceparent`` of the attempt."""

    def __init__(self, receivers: Receivers) -> None:
        self._receivers = receivers

    async def check_url(self, url: str) -> None:
        await self._receivers.check_url(url)

    async def post(self, url: str, headers: Sequence[tuple[str, str]], body: bytes) -> WebhookExchange:
        traceparent = current_trace.get()
        sent_headers = headers if traceparent is None else [*headers, ("traceparent", traceparent)]
        return await self._receivers.post(url, sent_headers, body)


@asynccontextmanager
async def _open(settings: Settings, parts: WorkerParts) -> AsyncGenerator[WorkerParts]:
    async with open_tracer(settings, "pixconnect-worker") as tracer:
        if tracer is None:
            yield parts
            return
        context, deliveries = parts.context, parts.of_features[DeliveryParts]
        traces, open_rail = OrderTraces(context.pool), context.port(OPEN_RAIL)
        traced = structs.replace(
            context.with_port(RECEIVERS, TracedReceivers(context.port(RECEIVERS)))
            .with_port(PREPARATION, traces.look_up)
            .with_port(
                OPEN_RAIL,
                lambda opened, memory: TracedRail(open_rail(opened, memory), tracer, traces, context.clock, one_by_one=True),
            ),
            rail=TracedRail(context.rail, tracer, traces, context.clock, one_by_one=False),
        )
        attempt = TracedAttempts(context.pool, tracer).attempt
        of_features = parts.of_features | {DeliveryParts: structs.replace(deliveries, attempt=attempt)}
        yield structs.replace(parts, context=traced, of_features=of_features)


EXTENSIONS: Final = (WorkerExtension(open=_open),)
