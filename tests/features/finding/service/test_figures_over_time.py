"""Figures: the sums equal the rows, and durations are those of the newest."""

from datetime import timedelta

import pytest

from pixconnect.features.finding.service import overview
from pixconnect.features.monitoring.rules import Figures, spread
from pixconnect.features.webhooks.rules.endpoint import EndpointRequest
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.kernel.flows.partition import fold_tallies
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.access import SCOPES, Caller, Viewer
from pixconnect.kernel.rules.rail import Rejected, Settled
from pixconnect.platform.base import errors
from support.records import own_key
from support.service import Service, make_charge, open_holder, send_out


def _viewer(caller: Caller | None, *scopes: str) -> Viewer:
    return Viewer(holder_id=caller and caller.holder_id, scopes=frozenset(scopes or SCOPES))


async def _read(service: Service, viewer: Viewer, days: int = 2) -> Figures:
    now = service.clock.now()
    return await overview.read_figures(service.context, viewer, now - timedelta(days=days), now, "day")


def _totals(found: Figures) -> dict[tuple[str, str], int]:
    return {(series.kind, series.status): sum(count for _, count in series.points) for series in found.series}


async def _send(service: Service, caller: Caller, ending: Settled | Rejected) -> None:
    transfer = await send_out(service, caller, 1000)
    service.clock.advance(seconds=2)
    await end_orders(service.context, [(transfer.end_to_end_id, ending)])


async def test_totals_reasons_and_times_are_those_of_what_happened(service: Service, caller: Caller) -> None:
    other = await open_holder(service, account_number="2")
    for _ in range(3):
        await make_charge(service, caller)
        service.clock.advance(hours=9)
    await make_charge(service, other, key=own_key("2"))
    await _send(service, caller, Settled(settled_at=service.clock.now()))
    await _send(service, caller, Rejected(code="AC03", reason="no such account"))
    await _send(service, caller, Rejected(code="AC03", reason="no such account"))
    found = await _read(service, _viewer(caller))
    totals = _totals(found)
    assert totals["charge", "PENDING"] == 3
    assert (totals["transfer", "CONFIRMED"], totals["transfer", "ERROR"]) == (1, 2)
    assert totals["spent", "OUT"] == 1000
    assert totals["event", "made"] == 9
    assert [(reason.code, reason.direction, reason.count) for reason in found.reasons] == [("AC03", "OUT", 2)]
    assert found.settling is not None
    assert (found.settling.count, found.settling.p50_us) == (1, 2_000_000)
    assert (found.delivering, found.holders_count, found.is_partial) == (None, 1, False)
    # Notes that are added up count the same.
    while await fold_tallies(service.context):
        pass
    assert _totals(await _read(service, _viewer(caller))) == totals
    everybody = await _read(service, _viewer(None))
    assert (_totals(everybody)["charge", "PENDING"], everybody.holders_count) == (4, 2)


async def test_how_long_webhooks_took_is_counted_from_the_event_to_the_answer(service: Service, caller: Caller) -> None:
    request = EndpointRequest(url="https://shop.example/", secret="a secret for tests", event_types=["qrcode.pending"])
    await endpoint_usecases.create_endpoint(service.context, caller, request)
    await make_charge(service, caller)
    await make_charge(service, caller)
    await service.execute_as_owner("""
        insert into delivery_attempt (delivery_id, number, started_at, status_code, duration_us, response)
        select id, 1, created_at + interval '3 s', 200, 250000, '' from delivery;
        update delivery set attempts_count = 1;
        update delivery set status = 'delivered', attempts_count = 1, due_at = null where id = (select min(id) from delivery)
    """)
    found = await _read(service, _viewer(caller))
    assert found.delivering is not None
    assert (found.delivering.count, found.delivering.p50_us) == (1, 3_250_000)
    assert _totals(found)["delivery", "made"] == 2
    assert _totals(found)["delivery", "delivered"] == 1


async def test_scopes_and_the_span_say_what_is_shown(service: Service, caller: Caller) -> None:
    await make_charge(service, caller)
    service.clock.advance(days=30)
    assert _totals(await _read(service, _viewer(caller))) == {}
    only = await _read(service, _viewer(caller, "charge.read"), days=40)
    assert _totals(only) == {("charge", "PENDING"): 1}
    with pytest.raises(errors.BadRequest):
        await _read(service, _viewer(caller), days=-1)


async def test_adding_up_ends_in_time(service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    await open_holder(service, account_number="2")
    monkeypatch.setattr(overview, "ADDING_S", -1.0)
    monkeypatch.setattr(overview, "HOLDERS_AT_ONCE", 1)
    found = await _read(service, _viewer(None))
    assert (found.holders_count, found.is_partial) == (1, True)


def test_a_spread_has_percentiles_and_buckets_without_gaps() -> None:
    assert spread([]) is None
    found = spread([900, 1_500, 1_600, 40_000])
    assert found is not None
    assert (found.p50_us, found.p99_us) == (1_600, 40_000)
    assert found.buckets == ((1_000, 1), (2_000, 2), (5_000, 0), (10_000, 0), (20_000, 0), (50_000, 1))
    longest = spread([10**12])
    assert longest is not None
    assert longest.buckets == ((10**12, 1),)
