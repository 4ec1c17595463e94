"""The metrics of an API process about its requests."""

from types import SimpleNamespace
from typing import Any

from msgspec import structs

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Services
from pixconnect.features.institutions.accounts import CALLS, CallCounts
from pixconnect.features.monitoring import process_metrics as metrics
from pixconnect.features.monitoring.service.health import CheckResult, Health
from pixconnect.platform.logging import AccessLog
from pixconnect.platform.metrics import Histogram
from support.api import Api


async def test_requests_are_counted_by_operation_and_status(services: Services) -> None:
    application = make_application(services, AccessLog(services.context.clock, wanted="off"))
    api = Api(application)
    for path in ("/v1/connect/charge/1", "/v1/connect/charge/2", "/v1/connect/charge/x", "/nowhere"):
        await api.get(path)
    await api.get("/v1/connect/charge/1", token=None)
    await api.call("PUT", "/v1/connect/charge/1")

    async def read_health() -> Health:
        checks = {
            "database": CheckResult(status="healthy", duration_s=0.1),
            "disk": CheckResult(status="degraded", duration_s=0.1),
            "clock": CheckResult(status="degraded", duration_s=0.1, is_read=False),
        }
        return Health(status="degraded", duration_s=0.1, checked_at=services.context.clock.now(), checks=checks, uptime_s=1)

    writes: Any = SimpleNamespace(read_figures=list)
    context = structs.replace(services.context, writes=writes).with_port(CALLS, CallCounts({("loja", "throttled"): 2}))
    measured = await metrics.make_api_read(
        *(context, application.answers, application.durations_s, lambda: {"webhooks": -1.0}, read_health, None)
    )()
    # Without a standby there is no metric of one.
    told = [family for family in metrics.FAMILIES if family not in (metrics.STANDBY_READS, metrics.STANDBY_AGE)]
    assert [one.family for one in measured] == told
    assert measured[0].values == {
        ("get_charge_by_id", "404"): 2, ("get_charge_by_id", "400"): 1, ("get_charge_by_id", "401"): 1,
        ("", "404"): 1, ("", "405"): 1,
    }  # fmt: skip
    ((operation,), histogram) = next(iter(measured[1].values.items()))
    assert (operation, len(measured[1].values)) == ("get_charge_by_id", 1)
    assert isinstance(histogram, Histogram)
    assert sum(histogram.counts) == 4
    assert 0 < histogram.total < 4
    told = {one.family.name: one.values for one in measured}
    assert told["pixconnect_health_check_failed"] == {("database",): 0.0, ("disk",): 1.0}
    assert told["pixconnect_institution_calls_total"] == {("loja", "throttled"): 2}
