"""A worker's metrics: webhooks, pending transfers and refunds, and those of features.

A metric is a ``Gauge``, with its reading function. The page of metrics is generated from them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast, get_args

from msgspec import Struct, field

from pixconnect.doors.worker.leases import SlotLeases
from pixconnect.doors.worker.parts import Gauge, MemberRow, Meter, Runner, age_s
from pixconnect.features.identity.tables import access as access_store
from pixconnect.features.monitoring import tables as order_figures_store
from pixconnect.features.monitoring.process_metrics import SHARED, measure_shared
from pixconnect.features.monitoring.tables import OrderFigures
from pixconnect.features.sandbox.service.clock import read_clock
from pixconnect.features.webhooks.service import delivery as delivery_usecases
from pixconnect.features.webhooks.service.feed import read_lag_s
from pixconnect.features.webhooks.tables import delivery as delivery_store
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.features.webhooks.worker.delivery import DeliveryWorker
from pixconnect.features.webhooks.worker.feed import Sequencer
from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules import kept_report
from pixconnect.kernel.rules.event import SLOTS_COUNT
from pixconnect.kernel.rules.rail import (
    Acknowledgement,
    Order,
    QueryAnswer,
    Rail,
    RailUnavailable,
    RefundOrder,
    Report,
    SubmitAnswer,
)
from pixconnect.kernel.tables import partition as partition_store
from pixconnect.platform.base.clock import WARNED_AT
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.metrics import Measured, Read

UNAVAILABLE: Final = "unavailable"


class RailFigures:
    """Counts since the worker started; a repeated message counts again."""

    def __init__(self) -> None:
        self.submissions: Counter[tuple[str, str]] = Counter()  # by ``transfer`` or ``refund``, and by answer
        self.questions: Counter[str] = Counter()
        self.reports: Counter[str] = Counter()
        self.acknowledgements: Counter[str] = Counter()


def name_message(kind: type[SubmitAnswer | QueryAnswer | Report]) -> str:
    """Return the label of a message of the rail: its tag."""
    return str(kind.__struct_config__.tag)


class WrappedRail:
    """Forwards the calls that a wrapper does not change."""

    def __init__(self, rail: Rail) -> None:
        self._rail = rail
        self.abilities = rail.abilities
        self.lookup_key, self.send, self.statement = rail.lookup_key, rail.send, rail.statement
        self.waiting_since, self.position, self.check = rail.waiting_since, rail.position, rail.check


class CountingRail(WrappedRail):
    def __init__(self, rail: Rail, figures: RailFigures) -> None:
        super().__init__(rail)
        self._figures = figures

    async def submit(self, orders: Sequence[Order]) -> list[SubmitAnswer]:
        return self._note("transfer", await self._rail.submit(orders))

    async def submit_refunds(self, orders: Sequence[RefundOrder]) -> list[SubmitAnswer]:
        return self._note("refund", await self._rail.submit_refunds(orders))

    def _note(self, kind: str, answers: list[SubmitAnswer]) -> list[SubmitAnswer]:
        for answer in answers:
            self._figures.submissions[kind, name_message(type(answer))] += 1
        return answers

    async def query(self, ids: Sequence[str]) -> list[QueryAnswer]:
        try:
            answers = await self._rail.query(ids)
        except RailUnavailable:
            # Submissions need no such branch: an unreachable rail answers them with ``NotTaken`` or ``Unknown``.
            self._figures.questions[UNAVAILABLE] += len(ids)
            raise
        for answer in answers:
            self._figures.questions[name_message(type(answer))] += 1
        return answers

    async def reports(self, wait_s: float) -> list[Report]:
        reports = await self._rail.reports(wait_s)
        for report in reports:
            self._figures.reports[name_message(type(report))] += 1
        return reports

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        # Counted afterwards: an acknowledgement that did not arrive is sent again.
        await self._rail.acknowledge(acknowledgements)
        for acknowledgement in acknowledgements:
            self._figures.acknowledgements["accepted" if acknowledgement.refusal_code is None else "refused"] += 1


COUNTED_MAX: Final = 100_000  # counting stops here: measuring a backlog must not be a load
_NO_ORDERS: Final = OrderFigures(
    due_count=0, unsent_count=0, sent_count=0, silent_count=0, oldest_at=None, oldest_silent_at=None
)
_Orders = Mapping[str, tuple[OrderFigures, datetime]]  # by kind, with the instant of the query


async def _look_at_deliveries(context: Context, now: datetime) -> tuple[int, float, float]:
    due_count = await delivery_store.count_due(context.pool, now, COUNTED_MAX)
    failing_since = await endpoint_store.read_oldest_failure(context.pool)
    return due_count, age_s(await delivery_usecases.read_oldest_due(context), now), age_s(failing_since, now)


async def _look_at_orders(context: Context, now: datetime) -> _Orders:
    found = await order_figures_store.read_all(context.pool, now, COUNTED_MAX)
    # A kind without open ones has no row in the database, and is shown as zero.
    return {kind: (found.get(kind, _NO_ORDERS), now) for kind in ("transfer", "refund")}


def _each_order(read: Callable[[OrderFigures, datetime], float]) -> Callable[[_Orders], Mapping[str, float]]:
    return lambda orders: {kind: read(figures, now) for kind, (figures, now) in orders.items()}


async def _look_at_reports(context: Context, _now: datetime) -> Mapping[str, int]:
    kept = await kept_usecases.count_open(context.pool)
    # A reason without kept reports is shown as zero, which proves that it was checked.
    return {reason: kept.get(reason, 0) for reason in get_args(kept_report.Reason)}


async def _look_at_clients(context: Context, _now: datetime) -> Mapping[str, int]:
    real_now = context.clock.real_now()
    return await access_store.count_certificates(context.pool, real_now, real_now + max(WARNED_AT))


async def _look_at_partitions(context: Context, _now: datetime) -> Mapping[str, int]:
    counts, _ = await partition_store.read_ahead(context.pool)
    return counts


# fmt: off
_KERNEL: Final = (
    Meter[tuple[int, float, float]](look=_look_at_deliveries, gauges=(
        Gauge("pixconnect_deliveries_due", (),
            f"Deliveries of all workers that are due, held back or not; counted up to {COUNTED_MAX}.",
            lambda seen: seen[0]),
        Gauge("pixconnect_delivery_oldest_due_age_seconds", (),
            "How late the oldest due delivery is, among those of all workers that nothing holds back; the health check uses "
            "it.",
            lambda seen: seen[1]),
        Gauge("pixconnect_endpoint_oldest_failure_age_seconds", (),
            "How long an active webhook endpoint has failed without a success, of the one that has failed longest; 0 if none "
            "fails; see `pixconnect operator endpoint list --status failing`.",
            lambda seen: seen[2]),
    )),
    Meter[_Orders](look=_look_at_orders, gauges=(
        Gauge("pixconnect_orders_due", ("kind",),
            "Transfers and refunds of all workers whose next step is due;"
            f" this and the next metric are counted up to {COUNTED_MAX}.",
            _each_order(lambda figures, _: figures.due_count)),
        Gauge("pixconnect_orders_open", ("kind", "state"),
            "Transfers and refunds of all workers that are not final: unsent, sent, or silent (we asked the rail at least "
            "once); but for those that wait for an operator's approval.",
            lambda orders: {
                (kind, state): count
                for kind, (figures, _) in orders.items()
                for state, count in (
                    ("unsent", figures.unsent_count),
                    ("sent", figures.sent_count),
                    ("silent", figures.silent_count),
                )
            }),
        Gauge("pixconnect_order_oldest_open_age_seconds", ("kind",),
            "How long ago we accepted the oldest of these; 0 if there is none.",
            _each_order(lambda figures, now: age_s(figures.oldest_at, now))),
        Gauge("pixconnect_order_oldest_silent_age_seconds", ("kind",),
            "How long ago we accepted the oldest of those that are silent and wait for no person; 0 if there is none.",
            _each_order(lambda figures, now: age_s(figures.oldest_silent_at, now))),
    )),
    Meter[Mapping[str, int]](look=_look_at_reports, gauges=(
        Gauge("pixconnect_reports_kept", ("reason",),
            "Reports of the rail that wait for an operator, by reason: see `pixconnect report list`.",
            lambda kept: kept),
    )),
    Meter[float](look=lambda context, _now: read_lag_s(context.pool, context.clock), gauges=(
        Gauge("pixconnect_feed_lag_seconds", (),
            "How long the oldest event of all workers has waited for its position in the feed; the health check uses it.",
            lambda lag_s: lag_s),
    )),
    Meter[Mapping[str, int]](look=_look_at_clients, gauges=(
        Gauge("pixconnect_client_certificates", ("state",),
            "Certificates bound to enabled clients: valid, ending within 30 days, or ended, so that their clients "
            "cannot connect; see `pixconnect client list`.",
            lambda certificates: certificates),
    )),
    Meter[Mapping[str, int]](look=_look_at_partitions, gauges=(
        Gauge("pixconnect_partitions_ahead", ("table",),
            "Partitions made in advance and still empty, by table; if this stays below 1, writes will soon fail.",
            lambda ahead: ahead),
    )),
)
_METERS: Final = cast("tuple[Meter[Any], ...]", (*_KERNEL, *gather("meters", Meter)))


class WorkerFigures(Struct, frozen=True, kw_only=True):
    leases: SlotLeases
    deliveries: DeliveryWorker
    sequencer: Sequencer
    rail: RailFigures = field(default_factory=RailFigures)
    members: Mapping[str, Runner] = {}  # by name


MEMBERS: Final = gather("members", MemberRow)
_OF_THIS_WORKER: Final[tuple[Gauge[WorkerFigures], ...]] = (
    Gauge("pixconnect_deliveries_in_flight", (),
        "Attempts of this worker that are under way.",
        lambda worker: worker.deliveries.queue.in_flight_count),
    Gauge("pixconnect_deliveries_waiting", (),
        "Deliveries that this worker has read and not started.",
        lambda worker: worker.deliveries.queue.waiting_count),
    Gauge("pixconnect_delivery_attempts_total", ("result",),
        "Attempts: delivered, refused (an answer that is no 2xx), or broken (no answer, or no whole one).",
        lambda worker: worker.deliveries.figures.attempts, "counter"),
    Gauge("pixconnect_deliveries_given_up_total", (),
        "Deliveries given up after their last attempt.",
        lambda worker: worker.deliveries.figures.given_up_count, "counter"),
    Gauge("pixconnect_delivery_first_attempt_seconds", (),
        "Time from the fact (or from the redelivery's request) to the start of a delivery's first attempt.",
        lambda worker: worker.deliveries.figures.first_attempt_s, "histogram"),
    Gauge("pixconnect_order_submissions_total", ("kind", "result"),
        "The rail's answers to orders that this worker sent; an order that was sent again counts again.",
        lambda worker: worker.rail.submissions, "counter"),
    Gauge("pixconnect_order_questions_total", ("result",),
        "The rail's answers when this worker asked what became of an order.",
        lambda worker: worker.rail.questions, "counter"),
    Gauge("pixconnect_rail_reports_total", ("report",),
        "Reports of the rail, repeated ones too: credit or return (money for us), credit_accepted, credit_held or "
            "credit_cancelled (steps of a credit), settled or rejected (our orders), movement (the institution's "
            "own), block (money that cannot be spent), infraction (a contested Pix).",
        lambda worker: worker.rail.reports, "counter"),
    Gauge("pixconnect_rail_acknowledgements_total", ("result",),
        "Acknowledgements that this worker sent after it had recorded a report: accepted, or refused.",
        lambda worker: worker.rail.acknowledgements, "counter"),
    Gauge("pixconnect_feed_positions_total", ("found_by",),
        "Events to which this worker gave positions in the feed; if the sweep found any, please report it as a defect.",
        lambda worker: {"first look": worker.sequencer.given_count, "sweep": worker.sequencer.swept_count}, "counter"),
    Gauge("pixconnect_slots_held", (),
        f"Slots in which this worker may start work; all workers together hold {SLOTS_COUNT}.",
        lambda worker: len(worker.leases.held)),
)
# fmt: on
FAMILIES: Final = (
    *(gauge.family for meter in _METERS for gauge in meter.gauges),
    *(gauge.family for gauge in _OF_THIS_WORKER),
    *(gauge.family for row in MEMBERS for gauge in row.gauges),
    *SHARED,
)


def make_worker_read(context: Context, worker: WorkerFigures) -> Read:
    async def read() -> Sequence[Measured]:
        return (
            *await _measure_waiting(context),
            *(gauge.measure(worker) for gauge in _OF_THIS_WORKER),
            *(gauge.measure(worker.members[row.name]) for row in MEMBERS if row.name in worker.members for gauge in row.gauges),
            *measure_shared(context),
        )

    return read


async def _measure_waiting(context: Context) -> Sequence[Measured]:
    try:
        now = await read_clock(context)
        seen = [(meter, await meter.look(context, now)) for meter in _METERS]
    except DATABASE_FAILED:
        # Figures in memory are measured all the same.
        return ()
    return [gauge.measure(found) for meter, found in seen for gauge in meter.gauges]
