"""What a worker measures: webhooks, and transfers and refunds on their way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, get_args

from pixconnect.domain import kept_report
from pixconnect.domain.event import SLOTS_COUNT
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.metrics import Family, Measured, Read, measure
from pixconnect.store import delivery as delivery_store
from pixconnect.store import order_figures as order_figures_store
from pixconnect.store import partition as partition_store
from pixconnect.store.order_figures import OrderFigures
from pixconnect.usecases import delivery as delivery_usecases
from pixconnect.usecases import kept_report as kept_usecases
from pixconnect.usecases import metrics as usecase_metrics
from pixconnect.usecases.context import Context
from pixconnect.worker.delivery import DeliveryWorker
from pixconnect.worker.leases import SlotLeases
from pixconnect.worker.rail_figures import RailFigures

COUNTED_MAX: Final = 100_000
"""More due deliveries, or open orders, than this are not told apart: whoever counts must not be a burden."""

DUE: Final = Family(
    name="pixconnect_deliveries_due",
    kind="gauge",
    meaning=f"Deliveries that are due, of all workers, held back or not; counted up to {COUNTED_MAX}.",
)
OLDEST_DUE_AGE: Final = Family(
    name="pixconnect_delivery_oldest_due_age_seconds",
    kind="gauge",
    meaning="How long the oldest due delivery waits, of all workers, that nothing holds back; what the health check judges.",
)
IN_FLIGHT: Final = Family(
    name="pixconnect_deliveries_in_flight",
    kind="gauge",
    meaning="Attempts of this worker that are under way.",
)
WAITING: Final = Family(
    name="pixconnect_deliveries_waiting",
    kind="gauge",
    meaning="Deliveries that this worker has read and not started.",
)
ATTEMPTS: Final = Family(
    name="pixconnect_delivery_attempts_total",
    kind="counter",
    meaning="Attempts: delivered, refused (an answer that is no 2xx), or broken (no answer, or no whole one).",
    labels=("result",),
)
GIVEN_UP: Final = Family(
    name="pixconnect_deliveries_given_up_total",
    kind="counter",
    meaning="Deliveries given up after their last attempt.",
)
FIRST_ATTEMPT: Final = Family(
    name="pixconnect_delivery_first_attempt_seconds",
    kind="histogram",
    meaning="From the fact, or what made it due again, to the start of a delivery's first attempt.",
)
SLOTS: Final = Family(
    name="pixconnect_slots_held",
    kind="gauge",
    meaning=f"Slots in which this worker may start work; all workers together hold {SLOTS_COUNT}.",
)
ORDERS_DUE: Final = Family(
    name="pixconnect_orders_due",
    kind="gauge",
    meaning="Transfers and refunds that a worker must look at now, of all workers;"
    f" these and the next are counted up to {COUNTED_MAX}.",
    labels=("kind",),
)
ORDERS_OPEN: Final = Family(
    name="pixconnect_orders_open",
    kind="gauge",
    meaning="Those that are not final, of all workers: unsent, sent, or silent (the rail was asked about them at least once).",
    labels=("kind", "state"),
)
OLDEST_OPEN_AGE: Final = Family(
    name="pixconnect_order_oldest_open_age_seconds",
    kind="gauge",
    meaning="How long ago the oldest of them was accepted, of all workers; 0 if there is none.",
    labels=("kind",),
)
SUBMISSIONS: Final = Family(
    name="pixconnect_order_submissions_total",
    kind="counter",
    meaning="What the rail answered to orders that were sent; one that was sent again counts again.",
    labels=("kind", "result"),
)
QUESTIONS: Final = Family(
    name="pixconnect_order_questions_total",
    kind="counter",
    meaning="What the rail answered when it was asked what became of an order.",
    labels=("result",),
)
REPORTS: Final = Family(
    name="pixconnect_rail_reports_total",
    kind="counter",
    meaning="What the rail reported: credit or return (money for us), settled or rejected (orders of ours); repeated ones too.",
    labels=("report",),
)
ACKNOWLEDGEMENTS: Final = Family(
    name="pixconnect_rail_acknowledgements_total",
    kind="counter",
    meaning="Our word on reports, after they were recorded: accepted, or refused.",
    labels=("result",),
)
REPORTS_KEPT: Final = Family(
    name="pixconnect_reports_kept",
    kind="gauge",
    meaning="Reports of the rail that wait for an operator, of all workers, by why: see `pixconnect report list`.",
    labels=("reason",),
)
PARTITIONS_AHEAD: Final = Family(
    name="pixconnect_partitions_ahead",
    kind="gauge",
    meaning="Partitions that were made and not begun yet, by table: below 1 for long, and soon nothing can be written.",
    labels=("table",),
)
FAMILIES: Final = (
    DUE,
    OLDEST_DUE_AGE,
    ORDERS_DUE,
    ORDERS_OPEN,
    OLDEST_OPEN_AGE,
    REPORTS_KEPT,
    PARTITIONS_AHEAD,
    IN_FLIGHT,
    WAITING,
    ATTEMPTS,
    GIVEN_UP,
    FIRST_ATTEMPT,
    SUBMISSIONS,
    QUESTIONS,
    REPORTS,
    ACKNOWLEDGEMENTS,
    SLOTS,
    *usecase_metrics.FAMILIES,
)

_NO_ORDERS: Final = OrderFigures(due_count=0, unsent_count=0, sent_count=0, silent_count=0, oldest_at=None)


def make_read(context: Context, leases: SlotLeases, deliveries: DeliveryWorker, rail: RailFigures) -> Read:
    """Measures one worker."""

    async def read() -> Sequence[Measured]:
        figures = deliveries.figures
        return (
            *await _measure_waiting(context),
            measure(IN_FLIGHT, deliveries.queue.in_flight_count),
            measure(WAITING, deliveries.queue.waiting_count),
            Measured(family=ATTEMPTS, values={(result,): count for result, count in figures.attempts.items()}),
            measure(GIVEN_UP, figures.given_up_count),
            measure(FIRST_ATTEMPT, figures.first_attempt_s),
            Measured(family=SUBMISSIONS, values=dict(rail.submissions)),
            _by_result(QUESTIONS, rail.questions),
            _by_result(REPORTS, rail.reports),
            _by_result(ACKNOWLEDGEMENTS, rail.acknowledgements),
            measure(SLOTS, len(leases.held)),
            *usecase_metrics.measure_writes(context.writes),
        )

    return read


def _by_result(family: Family, counts: Mapping[str, int]) -> Measured:
    return Measured(family=family, values={(result,): count for result, count in counts.items()})


async def _measure_waiting(context: Context) -> Sequence[Measured]:
    """What only the database knows; nothing while it is away, so that the rest can still be read."""
    try:
        now = await delivery_usecases.read_now(context)
        due_count = await delivery_store.count_due(context.pool, now, COUNTED_MAX)
        oldest_due_at = await delivery_usecases.read_oldest_due(context)
        found = await order_figures_store.read_all(context.pool, now, COUNTED_MAX)
        kept = await kept_usecases.count_open(context.pool)
        ahead = await partition_store.read_ahead(context.pool)
    except DATABASE_FAILED:
        return ()
    # A kind of which none is open has no row, and is shown as zero all the same.
    orders = {kind: found.get(kind, _NO_ORDERS) for kind in ("transfer", "refund")}
    states = {
        kind: {"unsent": figures.unsent_count, "sent": figures.sent_count, "silent": figures.silent_count}
        for kind, figures in orders.items()
    }
    return (
        measure(DUE, due_count),
        measure(OLDEST_DUE_AGE, _age_s(oldest_due_at, now)),
        Measured(family=ORDERS_DUE, values={(kind,): figures.due_count for kind, figures in orders.items()}),
        Measured(
            family=ORDERS_OPEN,
            values={(kind, state): count for kind, counts in states.items() for state, count in counts.items()},
        ),
        Measured(
            family=OLDEST_OPEN_AGE,
            values={(kind,): _age_s(figures.oldest_at, now) for kind, figures in orders.items()},
        ),
        _by_result(REPORTS_KEPT, {reason: kept.get(reason, 0) for reason in get_args(kept_report.Reason)}),
        Measured(family=PARTITIONS_AHEAD, values={(table,): count for table, count in ahead.counts.items()}),
    )


def _age_s(instant: datetime | None, now: datetime) -> float:
    return 0.0 if instant is None else max(0.0, (now - instant).total_seconds())
