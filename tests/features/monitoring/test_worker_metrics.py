"""A worker's metrics of its deliveries match the deliveries."""

import asyncio
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, get_args

import pytest

from pixconnect.features.cases.rules import CaseKind
from pixconnect.features.institutions.worker import AccountReaders
from pixconnect.features.monitoring import worker as metrics
from pixconnect.features.monitoring.worker import WorkerFigures, name_message
from pixconnect.features.webhooks.rules import delivery as delivery_rules
from pixconnect.features.webhooks.worker.feed import Sequencer
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules import kept_report
from pixconnect.kernel.rules.rail import OwnReport
from pixconnect.kernel.rules.transfer import AccountTransferRequest
from pixconnect.platform.metrics import Histogram, Measured
from support import postgres
from support.records import outside_party
from support.service import open_holder, open_service
from support.webhooks import (
    Received,
    RunningWorker,
    WebhookService,
    answering,
    eventually,
    open_receiver,
    open_webhook_service,
    running_worker,
)

ACCOUNT_GAUGES = (
    *("received_last_hour", "unread_seconds", "poll_seconds", "paused", "unclosed_day_age_seconds", "queued_cents"),
)


async def is_told(read: Any, name: str, value: Any) -> bool:
    return values(await read())[name] == value


def values(measured: Sequence[Measured]) -> dict[str, Any]:
    """By name; of those with labels, by their values."""
    found: dict[str, Any] = {}
    for one in measured:
        plain = {",".join(words): value for words, value in one.values.items()}
        found[one.family.name] = plain if one.family.labels else plain[""]
    return found


@pytest.mark.parametrize("report", [name_message(report) for report in get_args(OwnReport)])
def test_each_label_of_reports_is_described(report: str) -> None:
    (family,) = (family for family in metrics.FAMILIES if family.name == "pixconnect_rail_reports_total")
    assert report in re.split(r"\W+", family.meaning)


async def test_each_attempt_is_counted(database: postgres.Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_rules, "RETRY_WAITS", (timedelta(hours=1),))  # so that none comes twice

    async def break_off(_: Received, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
        writer.close()

    async with open_webhook_service(database) as service, running_worker(service) as worker:
        read = metrics.make_worker_read(service.context, _figures_of(service, worker))
        async with open_receiver() as well, open_receiver(answering(503)) as badly, open_receiver(break_off) as half:
            for receiver in (well, badly, half):
                await service.add_endpoint(receiver.url)
            await service.announce([1, 2])
            attempts = {"delivered": 2, "refused": 2, "broken": 2}
            await eventually(lambda: is_told(read, "pixconnect_delivery_attempts_total", attempts))
            await eventually(lambda: is_told(read, "pixconnect_deliveries_in_flight", 0))
            told = values(await read())
    assert list(told) == [family.name for family in metrics.FAMILIES]
    first = told["pixconnect_delivery_first_attempt_seconds"]
    assert isinstance(first, Histogram)
    assert (sum(first.counts), first.total < 120) == (6, True)
    assert told["pixconnect_deliveries_given_up_total"] == 0
    assert told["pixconnect_slots_held"] == 256
    sizes = told["pixconnect_group_size"]["record_attempts"]
    assert (sizes.total, sum(sizes.counts) <= 6) == (6, True)
    assert told["pixconnect_group_queue_length"] == {"record_attempts": 0}


async def test_what_is_due_is_counted_and_dated_without_a_worker_too(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, open_receiver() as receiver:
        read = _read_without_worker(service)
        assert values(await read()) == {
            "pixconnect_deliveries_due": 0,
            "pixconnect_delivery_oldest_due_age_seconds": 0.0,
            "pixconnect_endpoint_oldest_failure_age_seconds": 0.0,
            "pixconnect_orders_due": {"transfer": 0, "refund": 0},
            "pixconnect_orders_open": {
                f"{kind},{state}": 0 for kind in ("transfer", "refund") for state in ("unsent", "sent", "silent")
            },
            "pixconnect_order_oldest_open_age_seconds": {"transfer": 0.0, "refund": 0.0},
            "pixconnect_order_oldest_silent_age_seconds": {"transfer": 0.0, "refund": 0.0},
            "pixconnect_reports_kept": dict.fromkeys(get_args(kept_report.Reason), 0),
            "pixconnect_cases": dict.fromkeys(get_args(CaseKind), 0),
            "pixconnect_case_oldest_open_age_seconds": dict.fromkeys(get_args(CaseKind), 0.0),
            "pixconnect_institution_alarms": {"strays": 0, "drain": 0},
            "pixconnect_transfers_to_approve": 0,
            "pixconnect_transfer_to_approve_oldest_age_seconds": 0.0,
            "pixconnect_institution_transfers_waiting": {},
            "pixconnect_institution_transfer_oldest_waiting_age_seconds": {},
            "pixconnect_feed_lag_seconds": 0.0,
            "pixconnect_institution_certificate_seconds_left": {},
            "pixconnect_client_certificates": {"ended": 0, "ending": 0, "valid": 0},
            "pixconnect_institution_charges_waiting": {},
            "pixconnect_institution_charge_oldest_waiting_age_seconds": {},
            "pixconnect_verify_broken": {},
            "pixconnect_verify_age_seconds": {},
            "pixconnect_verify_seconds": {},
            "pixconnect_partitions_ahead": {"event": 1, "delivery": 1, "event_feed": 1},
            **{f"pixconnect_institution_{name}": {} for name in ACCOUNT_GAUGES},
        }  # fmt: skip
        await service.add_endpoint(receiver.url)
        await service.announce([1, 2, 3])
        await asyncio.sleep(0.2)
        told = values(await read())
        assert told["pixconnect_deliveries_due"] == 3
        assert 0.2 <= told["pixconnect_delivery_oldest_due_age_seconds"] < 120
        await service.execute_as_owner("update webhook_endpoint set first_failure_at = created_at - interval '5 hours'")
        assert 18_000 <= values(await read())["pixconnect_endpoint_oldest_failure_age_seconds"] < 18_120
        await service.execute_as_owner("update webhook_endpoint set status = 'inactive'")
        assert values(await read())["pixconnect_endpoint_oldest_failure_age_seconds"] == 0.0


async def test_what_only_the_database_knows_is_left_out_while_it_is_away(database: postgres.Addresses) -> None:
    async with open_webhook_service(database) as service, running_worker(service) as worker:
        read = metrics.make_worker_read(service.context, _figures_of(service, worker))
        await eventually(lambda: is_told(read, "pixconnect_slots_held", 256))
        before = await metrics._measure_waiting(service.context)
        await worker.stop()
        await service.context.pool.close()
        told = values(await read())
        assert list(told) == [family.name for family in metrics.FAMILIES[len(values(before)) :]]


async def test_orders_are_counted_by_what_the_rail_has_said_of_them(database: postgres.Addresses) -> None:
    async with open_service(database) as service:
        caller = await open_holder(service, funds_cents=100_000)
        request = AccountTransferRequest(amount_cents=1, credit_party=outside_party())
        names: list[str] = []
        for _ in range(4):
            view = await transfer_usecases.start_transfer(service.context, caller, request)
            names.append(view.transfer.end_to_end_id)
            service.clock.advance(seconds=10)
        now = service.clock.now()
        later = now + timedelta(minutes=1)
        for name, asked_count in ((names[0], 2), (names[1], 0), (names[2], 1)):
            await service.context.pool.execute(
                "update open_order set handed_at = $2, due_at = $3, asked_count = $4 where name = $1",
                *(name, now, later, asked_count),
            )
        told = values(await metrics._measure_waiting(service.context))
    assert told["pixconnect_orders_open"] == {
        "transfer,unsent": 1, "transfer,sent": 1, "transfer,silent": 2,
        "refund,unsent": 0, "refund,sent": 0, "refund,silent": 0,
    }  # fmt: skip
    assert told["pixconnect_orders_due"] == {"transfer": 1, "refund": 0}
    assert told["pixconnect_order_oldest_open_age_seconds"] == {"transfer": 40.0, "refund": 0.0}
    assert told["pixconnect_order_oldest_silent_age_seconds"] == {"transfer": 40.0, "refund": 0.0}


def _figures_of(service: WebhookService, worker: RunningWorker) -> WorkerFigures:
    readers = AccountReaders(service.context, worker.leases, lambda opened, memory: service.rail)
    sequencer = Sequencer(service.context, worker.leases)
    return WorkerFigures(leases=worker.leases, deliveries=worker.delivery, sequencer=sequencer, members={"accounts": readers})


def _read_without_worker(service: WebhookService) -> Any:
    return lambda: metrics._measure_waiting(service.context)
