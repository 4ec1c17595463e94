"""Health as it is shown."""

import re

import msgspec

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.envelope import format_duration
from pixconnect.doors.api.operation import Services
from pixconnect.features.monitoring.service.health import Check, HealthWatch, ServiceHealth
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base import errors
from pixconnect.platform.logging import AccessLog
from support.api import Api


async def fine() -> None:
    pass


async def broken() -> None:
    raise errors.ServiceUnavailable("the clock of this machine is +7.0 s from the database's; nothing was done")


async def unreachable() -> None:
    raise ConnectionRefusedError("postgresql://admin:secret@10.0.0.1/")


def with_health(services: Services, watch: HealthWatch) -> Services:
    health = ServiceHealth(read_health=watch.read_health, read_readiness=watch.read_health)
    return msgspec.structs.replace(services, of_features=services.of_features | {ServiceHealth: health})


def open_api(services: Services, **checks: Check) -> Api:
    watch = HealthWatch(checks, SystemClock())
    services = with_health(services, watch)
    return Api(make_application(services, AccessLog(services.context.clock, wanted="off")))


async def test_a_probe_is_told_that_the_process_lives_whatever_the_database_does(services: Services) -> None:
    answer = await open_api(services, database=unreachable).get("/livez", token=None)
    assert (answer.status, answer.body) == (200, {"status": "alive"})


async def test_a_process_that_may_work_is_ready(services: Services) -> None:
    api = open_api(services, database=fine, clock=fine)
    answer = await api.get("/readyz?verbose", headers={"Authorization": "Basic nonsense"}, token=None)
    assert (answer.status, answer.body) == (200, {"status": "ready"})
    assert (await api.call("HEAD", "/readyz", token=None)).status == 200


async def test_a_process_that_may_not_work_is_not_ready_and_says_why(services: Services) -> None:
    answer = await open_api(services, database=unreachable, clock=broken, signing_key=fine).get("/readyz", token=None)
    assert answer.status == 503
    assert answer.headers["retry-after"]
    assert answer.body == {
        "status": "not ready",
        "error": "database: cannot be reached; "
        "clock: the clock of this machine is +7.0 s from the database's; nothing was done",
    }


async def test_health_has_the_contracts_fields_and_looks_at_no_token(services: Services) -> None:
    watch = HealthWatch(dict.fromkeys(("database", "rail", "webhooks", "signing_key"), fine), SystemClock())
    services = with_health(services, watch)
    api = Api(make_application(services, AccessLog(services.context.clock, wanted="off")))
    answer = await api.get("/v1/connect/health?verbose=yes", headers={"Authorization": "Basic nonsense"}, token=None)
    assert answer.status == 200
    data = answer.body["data"]
    assert list(data) == ["status", "duration", "timestamp", "checks", "system"]
    assert list(data["checks"]) == ["database", "rail", "webhooks", "signing_key"]
    assert {tuple(check) for check in data["checks"].values()} == {("status", "duration")}
    system = data["system"]
    assert set(system) == {
        "go_version", "mem_alloc_mb", "mem_sys_mb", "mem_total_mb", "num_cpu", "num_gc", "num_goroutine", "uptime", "version",
    }  # fmt: skip
    assert re.match(r"python 3\.", system["go_version"])
    assert system["mem_total_mb"] >= system["mem_sys_mb"] > 0


async def test_an_operator_may_leave_the_system_blank(services: Services) -> None:
    watch = HealthWatch({"database": fine}, SystemClock())
    services = msgspec.structs.replace(with_health(services, watch), shows_system=False)
    api = Api(make_application(services, AccessLog(services.context.clock, wanted="off")))
    system = (await api.get("/v1/connect/health", token=None)).body["data"]["system"]
    assert len(system) == 9
    assert set(system.values()) == {"", 0}


def test_durations_are_texts_with_a_unit() -> None:
    durations_s = [0.0000005, 0.000123, 0.00127, 0.5, 1.5, 59.99, 61, 3600, 11525.4, 90_061]
    assert [format_duration(duration_s) for duration_s in durations_s] == [
        "0µs", "123µs", "1.27ms", "500.00ms", "1.50s", "59.99s", "1m1s", "1h0m0s", "3h12m5s", "25h1m1s",
    ]  # fmt: skip
