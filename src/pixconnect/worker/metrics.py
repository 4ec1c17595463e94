"""What a worker measures: webhooks above all."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pixconnect.foundation.metrics import Family, Measured, Read, measure
from pixconnect.foundation.pool import DATABASE_AWAY
from pixconnect.usecases import delivery as delivery_usecases
from pixconnect.usecases import metrics as usecase_metrics

if TYPE_CHECKING:
    from pixconnect.usecases.context import Context
    from pixconnect.worker.delivery import DeliveryWorker
    from pixconnect.worker.leases import SlotLeases

DUE: Final = Family(
    name="pixconnect_deliveries_due",
    kind="gauge",
    meaning=f"Deliveries that are due, of all workers, held back or not; counted up to {delivery_usecases.DUE_COUNTED_MAX}.",
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
    meaning="Slots in which this worker may start work; all workers together hold 256.",
)
FAMILIES: Final = (
    DUE,
    OLDEST_DUE_AGE,
    IN_FLIGHT,
    WAITING,
    ATTEMPTS,
    GIVEN_UP,
    FIRST_ATTEMPT,
    SLOTS,
    *usecase_metrics.FAMILIES,
)


def make_read(context: "Context", leases: "SlotLeases", deliveries: "DeliveryWorker") -> Read:
    """Measures one worker."""

    async def read() -> Sequence[Measured]:
        figures = deliveries.figures
        return (
            *await _measure_due(context),
            measure(IN_FLIGHT, deliveries.queue.in_flight_count),
            measure(WAITING, deliveries.queue.waiting_count),
            Measured(family=ATTEMPTS, values={(result,): count for result, count in figures.attempts.items()}),
            measure(GIVEN_UP, figures.given_up_count),
            measure(FIRST_ATTEMPT, figures.first_attempt_s),
            measure(SLOTS, len(leases.held)),
            *usecase_metrics.measure_groups(context.groups),
        )

    return read


async def _measure_due(context: "Context") -> Sequence[Measured]:
    """What only the database knows; nothing while it is away, so that the rest can still be read."""
    try:
        now = await delivery_usecases.read_now(context)
        due_count = await delivery_usecases.count_due(context)
        oldest_due_at = await delivery_usecases.read_oldest_due(context)
    except DATABASE_AWAY:
        return ()
    age_s = 0.0 if oldest_due_at is None else max(0.0, (now - oldest_due_at).total_seconds())
    return measure(DUE, due_count), measure(OLDEST_DUE_AGE, age_s)
