"""A worker's metrics: webhooks, and transfers and refunds on their way.

A metric is a row of one of the two tables, and a reading under its name below. The page of metrics is written from the rows.

Also a worker's metrics of accounts at institutions.

Each worker reports the database's figures about them; the worker that has an account reports its institution's last balance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta
from typing import Final, Literal, get_args

from msgspec import Struct

from pixconnect.domain.frame.civil_time import SAO_PAULO, to_day
from pixconnect.domain.frame.event import SLOTS_COUNT
from pixconnect.domain.institutions.certificate import WARNED_AT
from pixconnect.domain.money import kept_report
from pixconnect.domain.proof.case import CaseKind
from pixconnect.domain.proof.rule import Extent
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.metrics import Measured, MetricFamily, Read, Value
from pixconnect.foundation.pool import Pool
from pixconnect.store.identity import access as access_store
from pixconnect.store.institutions import account_alarm as alarm_store
from pixconnect.store.institutions import account_figures as figures_store
from pixconnect.store.institutions import certificate as certificate_store
from pixconnect.store.institutions import waiting_charge as waiting_store
from pixconnect.store.institutions.account_alarm import AlarmKind
from pixconnect.store.money import approval as approval_store
from pixconnect.store.money import order as order_store
from pixconnect.store.proof import case as case_store
from pixconnect.store.proof import run as run_store
from pixconnect.store.running import order_figures as order_figures_store
from pixconnect.store.running import partition as partition_store
from pixconnect.store.running.order_figures import OrderFigures
from pixconnect.store.webhooks import delivery as delivery_store
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.money import kept_report as kept_usecases
from pixconnect.usecases.money.unresolved import LISTED_MAX
from pixconnect.usecases.running import batch_metrics
from pixconnect.usecases.running.batch_metrics import CALLS, measure_calls
from pixconnect.usecases.simulation.clock import read_clock
from pixconnect.usecases.webhooks import delivery as delivery_usecases
from pixconnect.usecases.webhooks.feed import read_lag_s
from pixconnect.worker.delivery import DeliveryWorker
from pixconnect.worker.feed import Sequencer
from pixconnect.worker.leases import SlotLeases
from pixconnect.worker.rail_figures import RailFigures

# Each worker counts at each scrape, so a busy account must not be counted to its end.
RECEIVED_MAX: Final = 10_000
QUEUED_MAX: Final = 10_000
UNCLOSED_DAYS_MAX: Final = 40
"""`pixconnect institution days` lists older open days."""
_AN_HOUR: Final = timedelta(hours=1)

Readings = Mapping[str, Mapping[str, Value] | Mapping[tuple[str, ...], Value]]

# fmt: off
ROWS: Final[tuple[tuple[str, Literal["gauge"], tuple[str, ...], str], ...]] = (
    ("pixconnect_institution_received_last_hour", "gauge", ("institution",),
        "Pix that came in at an account within the last hour, by when the network settled them; "
        f"counted up to {RECEIVED_MAX}."),
    ("pixconnect_institution_unread_seconds", "gauge", ("institution",),
        "How long ago what came in at an account was last read whole; the health check uses it."),
    ("pixconnect_institution_poll_seconds", "gauge", ("institution",), "How often it is to be read."),
    ("pixconnect_institution_paused", "gauge", ("institution", "reason"),
        "1 for an account over which no money leaves: by an operator, since the database forgot something (loss), or by an "
        "alarm (strays, drain)."),
    ("pixconnect_institution_unclosed_day_age_seconds", "gauge", ("institution",),
        "How long ago the oldest day ended that is over and not closed, in the real time of Sao Paulo, among "
        f"the last {UNCLOSED_DAYS_MAX} and after the day on which the account's books began; 0 if there is none."),
    ("pixconnect_institution_queued_cents", "gauge", ("institution",),
        "What orders are to take from an account that were not handed over, or wait there for enough money, but for those that "
        f"wait for an operator's yes; of up to {QUEUED_MAX} orders."),
)
# fmt: on


class InstitutionFigures(Struct, frozen=True, kw_only=True):
    """What this worker knows of accounts by itself."""

    calls: Mapping[tuple[str, str], int] = {}
    """By account and outcome."""
    balances_cents: Mapping[str, int] = {}
    """By account."""


async def measure_accounts(pool: Pool, now: datetime, real_now: datetime) -> Readings:
    """What the database knows of accounts that are not closed, by metric and account.

    Args:
        pool: Of the service.
        now: In service time.
        real_now: By which days end.
    """
    # Institutions end their days by real time, regardless of the sandbox's clock.
    today = to_day(real_now)
    accounts = await figures_store.list_figures(pool, today, UNCLOSED_DAYS_MAX)
    # In a sandbox there is often none, and each scrape would ask in vain.
    queued_cents = await figures_store.sum_queued(pool, QUEUED_MAX) if accounts else {}
    received = await figures_store.count_received(pool, now - _AN_HOUR, RECEIVED_MAX) if accounts else {}
    return {
        "pixconnect_institution_received_last_hour": {one.name: received.get(one.id, 0) for one in accounts},
        "pixconnect_institution_unread_seconds": {
            one.name: max(0.0, (real_now - one.read_at).total_seconds()) for one in accounts
        },
        "pixconnect_institution_poll_seconds": {one.name: one.poll_s for one in accounts},
        "pixconnect_institution_paused": {(one.name, one.paused_by): 1 for one in accounts if one.paused_by},
        "pixconnect_institution_unclosed_day_age_seconds": {
            one.name: 0.0
            if one.unclosed_on is None
            else (real_now - datetime.combine(one.unclosed_on + timedelta(days=1), time.min, SAO_PAULO)).total_seconds()
            for one in accounts
        },
        "pixconnect_institution_queued_cents": {one.name: queued_cents.get(one.id, 0) for one in accounts},
    }


COUNTED_MAX: Final = 100_000
"""Counting stops here: measuring a backlog must not be a load."""

Kind = Literal["gauge", "counter", "histogram"]
Reading = Value | Mapping[str, Value] | Mapping[tuple[str, ...], Value]
"""One value, or several by the value of their label, or of their labels."""

_NO_ORDERS: Final = OrderFigures(
    due_count=0, unsent_count=0, sent_count=0, silent_count=0, oldest_at=None, oldest_silent_at=None
)


def _tabulate(*rows: tuple[str, Kind, tuple[str, ...], str]) -> Sequence[MetricFamily]:
    return [MetricFamily(name=name, kind=kind, labels=labels, meaning=meaning) for name, kind, labels, meaning in rows]


# fmt: off
_OF_ALL_WORKERS: Final = _tabulate(
    ("pixconnect_deliveries_due", "gauge", (),
        f"Deliveries of all workers that are due, held back or not; counted up to {COUNTED_MAX}."),
    ("pixconnect_delivery_oldest_due_age_seconds", "gauge", (),
        "How late the oldest due delivery is, among those of all workers that nothing holds back; the health check uses it."),
    ("pixconnect_orders_due", "gauge", ("kind",),
        "Transfers and refunds of all workers whose next step is due;"
        f" this and the next metric are counted up to {COUNTED_MAX}."),
    ("pixconnect_orders_open", "gauge", ("kind", "state"),
        "Transfers and refunds of all workers that are not final: unsent, sent, or silent (we asked the rail at least once); "
        "but for those that wait for an operator's yes."),
    ("pixconnect_order_oldest_open_age_seconds", "gauge", ("kind",),
        "How long ago we accepted the oldest of these; 0 if there is none."),
    ("pixconnect_order_oldest_silent_age_seconds", "gauge", ("kind",),
        "How long ago we accepted the oldest of those that are silent and wait for no person; 0 if there is none."),
    ("pixconnect_reports_kept", "gauge", ("reason",),
        "Reports of the rail that wait for an operator, by reason: see `pixconnect report list`."),
    ("pixconnect_cases", "gauge", ("kind",),
        "Cases that are open: what an institution or the rail says and the books do not, or the other way round; see "
        "`pixconnect case list`."),
    ("pixconnect_case_oldest_open_age_seconds", "gauge", ("kind",),
        "How long ago the oldest of these was found; 0 if there is none."),
    ("pixconnect_institution_alarms", "gauge", ("kind",),
        "Accounts at institutions that are paused by an alarm: Pix without an order here (strays), or a large part "
        "of the balance within an hour (drain); see `pixconnect institution show`."),
    ("pixconnect_institution_transfers_waiting", "gauge", ("institution",),
        "Transfers that wait for a person at their institution, to be approved or for enough money there."),
    ("pixconnect_institution_transfer_oldest_waiting_age_seconds", "gauge", ("institution",),
        "How long ago the oldest of these began to wait."),
    ("pixconnect_transfers_to_approve", "gauge", (),
        f"Transfers that wait for an operator's yes, counted up to {COUNTED_MAX}; see `pixconnect operator transfer list`."),
    ("pixconnect_transfer_to_approve_oldest_age_seconds", "gauge", (),
        "How long ago the oldest of these was accepted; 0 if there is none."),
    ("pixconnect_feed_lag_seconds", "gauge", (),
        "How long the oldest event of all workers has waited for its position in the feed; the health check uses it."),
    ("pixconnect_institution_certificate_seconds_left", "gauge", ("institution", "part"),
        "How long a certificate by which an account at an institution is reached is still valid: of the receiving or the "
        "sending credential, or the authority of the institution's own."),
    ("pixconnect_client_certificates", "gauge", ("state",),
        "Certificates bound to enabled clients: valid, ending within 30 days, or ended, so that their clients "
        "cannot connect; see `pixconnect client list`."),
    ("pixconnect_institution_charges_waiting", "gauge", ("institution", "wanted"),
        "Charges at institutions that are being opened, revised, removed or withdrawn, with an unknown outcome; "
        "counted up to 1000. See `pixconnect find --unresolved`."),
    ("pixconnect_institution_charge_oldest_waiting_age_seconds", "gauge", ("institution",),
        "How long the oldest of these has waited."),
    ("pixconnect_verify_broken", "gauge", ("rule",),
        "What `pixconnect verify` found wrong when it last looked at everything, and at changes since, by rule; the health "
        "check uses it."),
    ("pixconnect_verify_age_seconds", "gauge", ("extent",),
        "How long ago the last run of `pixconnect verify` over everything (whole), or over changes, has ended."),
    ("pixconnect_verify_seconds", "gauge", ("extent",), "How long that run took."),
    ("pixconnect_partitions_ahead", "gauge", ("table",),
        "Partitions made in advance and still empty, by table; if this stays below 1, writes will soon fail."),
    *ROWS,
)
_OF_THIS_WORKER: Final = _tabulate(
    ("pixconnect_deliveries_in_flight", "gauge", (), "Attempts of this worker that are under way."),
    ("pixconnect_deliveries_waiting", "gauge", (), "Deliveries that this worker has read and not started."),
    ("pixconnect_delivery_attempts_total", "counter", ("result",),
        "Attempts: delivered, refused (an answer that is no 2xx), or broken (no answer, or no whole one)."),
    ("pixconnect_deliveries_given_up_total", "counter", (), "Deliveries given up after their last attempt."),
    ("pixconnect_delivery_first_attempt_seconds", "histogram", (),
        "Time from the fact (or from the redelivery's request) to the start of a delivery's first attempt."),
    ("pixconnect_order_submissions_total", "counter", ("kind", "result"),
        "The rail's answers to orders that this worker sent; an order that was sent again counts again."),
    ("pixconnect_order_questions_total", "counter", ("result",),
        "The rail's answers when this worker asked what became of an order."),
    ("pixconnect_rail_reports_total", "counter", ("report",),
        "Reports of the rail, repeated ones too: credit or return (money for us), credit_accepted, credit_held or "
        "credit_cancelled (steps of a credit), settled or rejected (orders of ours), movement (the institution's "
        "own), block (money that cannot be spent), infraction (a contested Pix)."),
    ("pixconnect_rail_acknowledgements_total", "counter", ("result",),
        "Acknowledgements that this worker sent after it had recorded a report: accepted, or refused."),
    ("pixconnect_feed_positions_total", "counter", ("found_by",),
        "Events to which this worker gave positions in the feed; if the sweep found any, please report it as a defect."),
    ("pixconnect_slots_held", "gauge", (),
        f"Slots in which this worker may start work; all workers together hold {SLOTS_COUNT}."),
    ("pixconnect_institution_balance_cents", "gauge", ("institution",),
        "An institution's last reported balance of an account, while orders wait to leave it; only of institutions "
        "with a balance, and read at most once a minute."),
)
# fmt: on
FAMILIES: Final = (*_OF_ALL_WORKERS, *_OF_THIS_WORKER, CALLS, *batch_metrics.FAMILIES)


def make_worker_read(
    context: Context,
    leases: SlotLeases,
    deliveries: DeliveryWorker,
    sequencer: Sequencer,
    rail: RailFigures,
    there: InstitutionFigures,
) -> Read:
    async def read() -> Sequence[Measured]:
        readings: dict[str, Reading] = {
            "pixconnect_deliveries_in_flight": deliveries.queue.in_flight_count,
            "pixconnect_deliveries_waiting": deliveries.queue.waiting_count,
            "pixconnect_delivery_attempts_total": deliveries.figures.attempts,
            "pixconnect_deliveries_given_up_total": deliveries.figures.given_up_count,
            "pixconnect_delivery_first_attempt_seconds": deliveries.figures.first_attempt_s,
            "pixconnect_order_submissions_total": rail.submissions,
            "pixconnect_order_questions_total": rail.questions,
            "pixconnect_rail_reports_total": rail.reports,
            "pixconnect_rail_acknowledgements_total": rail.acknowledgements,
            "pixconnect_slots_held": len(leases.held),
            "pixconnect_institution_balance_cents": dict(there.balances_cents),
            "pixconnect_feed_positions_total": {"first look": sequencer.given_count, "sweep": sequencer.swept_count},
        }
        return (
            *await _measure_waiting(context),
            *(_measure(family, readings[family.name]) for family in _OF_THIS_WORKER),
            measure_calls(there.calls),
            *batch_metrics.measure_writes(context.writes),
        )

    return read


def _measure_orders(found: Mapping[str, OrderFigures], now: datetime) -> dict[str, Reading]:
    # A kind without open ones has no row in the database, and is shown as zero all the same.
    orders = {kind: found.get(kind, _NO_ORDERS) for kind in ("transfer", "refund")}
    return {
        "pixconnect_orders_due": {kind: figures.due_count for kind, figures in orders.items()},
        "pixconnect_orders_open": {
            (kind, state): count
            for kind, figures in orders.items()
            for state, count in (
                ("unsent", figures.unsent_count),
                ("sent", figures.sent_count),
                ("silent", figures.silent_count),
            )
        },
        "pixconnect_order_oldest_open_age_seconds": {
            kind: _age_s(figures.oldest_at, now) for kind, figures in orders.items()
        },
        "pixconnect_order_oldest_silent_age_seconds": {
            kind: _age_s(figures.oldest_silent_at, now) for kind, figures in orders.items()
        },
    }


def _measure_transfers(
    for_people: Sequence[tuple[str, datetime]], to_approve: tuple[int, datetime | None], now: datetime
) -> dict[str, Reading]:
    return {
        "pixconnect_transfers_to_approve": to_approve[0],
        "pixconnect_transfer_to_approve_oldest_age_seconds": _age_s(to_approve[1], now),
        "pixconnect_institution_transfers_waiting": Counter(name for name, _ in for_people),
        # The oldest comes first, so it is written last.
        "pixconnect_institution_transfer_oldest_waiting_age_seconds": {
            name: _age_s(since, now) for name, since in reversed(for_people)
        },
    }


async def _measure_waiting(context: Context) -> Sequence[Measured]:
    try:
        now = await read_clock(context)
        due_count = await delivery_store.count_due(context.pool, now, COUNTED_MAX)
        oldest_due_at = await delivery_usecases.read_oldest_due(context)
        found = await order_figures_store.read_all(context.pool, now, COUNTED_MAX)
        kept = await kept_usecases.count_open(context.pool)
        cases = await case_store.count_open(context.pool)
        alarms = Counter(one.kind for one in await alarm_store.list_alarms(context.pool))
        for_people = await order_store.list_waiting_since(context.pool, LISTED_MAX)
        to_approve = await approval_store.measure_awaited(context.pool, COUNTED_MAX)
        ahead = await partition_store.read_ahead(context.pool)
        certificates = await certificate_store.list_all(context.pool)
        real_now = context.clock.real_now()
        of_clients = await access_store.count_certificates(context.pool, real_now, real_now + max(WARNED_AT))
        waiting = await waiting_store.list_begun(context.pool, real_now, LISTED_MAX)
        feed_lag_s = await read_lag_s(context.pool, context.clock)
        proof = await _read_proof(context.pool, real_now)
        accounts = await measure_accounts(context.pool, now, real_now)
    except DATABASE_FAILED:
        # What the worker itself knows is measured all the same.
        return ()
    readings: dict[str, Reading] = {
        "pixconnect_deliveries_due": due_count,
        "pixconnect_delivery_oldest_due_age_seconds": _age_s(oldest_due_at, now),
        **_measure_orders(found, now),
        # A reason without kept reports is shown as zero: readers see that it was checked.
        "pixconnect_reports_kept": {reason: kept.get(reason, 0) for reason in get_args(kept_report.Reason)},
        "pixconnect_cases": {kind: cases[kind].count if kind in cases else 0 for kind in get_args(CaseKind)},
        "pixconnect_case_oldest_open_age_seconds": {
            kind: _age_s(cases[kind].oldest_at if kind in cases else None, real_now) for kind in get_args(CaseKind)
        },
        "pixconnect_institution_alarms": {kind: alarms[kind] for kind in get_args(AlarmKind)},
        **_measure_transfers(for_people, to_approve, now),
        "pixconnect_feed_lag_seconds": feed_lag_s,
        "pixconnect_institution_certificate_seconds_left": {
            (name, used.part): (used.ends_at - real_now).total_seconds() for name, used in certificates
        },
        "pixconnect_client_certificates": of_clients,
        "pixconnect_institution_charges_waiting": Counter((one.institution, one.wanted) for one in waiting),
        # The oldest comes first, so it is written last.
        "pixconnect_institution_charge_oldest_waiting_age_seconds": {
            one.institution: _age_s(one.since, real_now) for one in reversed(waiting)
        },
        "pixconnect_partitions_ahead": ahead.counts,
        **proof,
        **accounts,
    }
    return [_measure(family, readings[family.name]) for family in _OF_ALL_WORKERS]


async def _read_proof(pool: Pool, real_now: datetime) -> Mapping[str, Reading]:
    """The state of the proof; without a run there is none."""
    runs = {extent: await run_store.find_last_ended(pool, extent) for extent in get_args(Extent)}
    ended = [(extent, run.began_at, run.ended_at) for extent, run in runs.items() if run is not None and run.ended_at]
    return {
        "pixconnect_verify_broken": await run_store.count_broken(pool),
        "pixconnect_verify_age_seconds": {extent: _age_s(ended_at, real_now) for extent, _, ended_at in ended},
        "pixconnect_verify_seconds": {extent: _age_s(began_at, ended_at) for extent, began_at, ended_at in ended},
    }


def _measure(family: MetricFamily, reading: Reading) -> Measured:
    if not isinstance(reading, Mapping):
        return Measured(family=family, values={(): reading})
    return Measured(
        family=family, values={(label,) if isinstance(label, str) else label: value for label, value in reading.items()}
    )


def _age_s(instant: datetime | None, now: datetime) -> float:
    # The clock of the machine that wrote it may be a moment ahead of ours, and no age is negative.
    return 0.0 if instant is None else max(0.0, (now - instant).total_seconds())
