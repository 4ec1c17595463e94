"""Log lines have the request and the holder, and never a secret."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import structlog
from structlog.testing import capture_logs

from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.logging import AccessLog, AccessLogWanted, current_request, set_up_logging
from support.plain_logs import use_plain_logs


@pytest.fixture
def lines() -> Iterator[Any]:
    stream = io.StringIO()
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    set_up_logging("json", "info", stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    use_plain_logs()
    root.handlers = before
    root.setLevel(level)


def test_a_line_is_json_with_time_level_and_event(lines: Any) -> None:
    structlog.get_logger("pixconnect.test").info("worker started", slots_count=256)
    (line,) = lines()
    assert (line["event"], line["level"], line["slots_count"]) == ("worker started", "info", 256)
    assert line["timestamp"].endswith("Z")


def test_a_line_of_a_request_carries_its_id_and_holder(lines: Any) -> None:
    token = current_request.set(("req-1", 7))
    structlog.get_logger("pixconnect.test").warning("slow")
    logging.getLogger("some.library").warning("slow too")
    current_request.reset(token)
    assert [(line["request_id"], line["holder_id"]) for line in lines()] == [("req-1", 7), ("req-1", 7)]


def test_less_important_lines_are_left_out(lines: Any) -> None:
    structlog.get_logger("pixconnect.test").debug("detail")
    logging.getLogger("asyncio").info("Using selector: EpollSelector")
    assert lines() == []


def test_a_logger_that_has_written_follows_whoever_configures_anew(lines: Any) -> None:
    log = structlog.get_logger("pixconnect.test")
    log.info("first")
    second = io.StringIO()
    set_up_logging("json", "info", second)
    log.info("second")
    with capture_logs() as captured:
        log.info("third")
    use_plain_logs()
    with capture_logs() as captured_plainly:
        log.info("fourth")

    assert [line["event"] for line in lines()] == ["first"]
    assert [json.loads(line)["event"] for line in second.getvalue().splitlines()] == ["second"]
    assert [line["event"] for line in [*captured, *captured_plainly]] == ["third", "fourth"]


@pytest.mark.parametrize(
    "field", ["client_secret", "access_token", "key", "pix_key", "tax_id", "authorization", "secret_sealed"]
)
def test_a_field_that_holds_a_secret_is_hidden(lines: Any, field: str) -> None:
    structlog.get_logger("pixconnect.test").info("event", **{field: "something"})
    assert lines()[0][field] == "[hidden]"


@pytest.mark.parametrize(
    "secret",
    [
        "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
        "maria@example.com",
        "52998224725",
        "11222333000181",
        "12ABC34501DE35",
    ],
)
def test_a_secret_in_a_text_or_a_traceback_is_hidden(lines: Any, secret: str) -> None:
    log = structlog.get_logger("pixconnect.test")
    try:
        raise ValueError(f"Key (tax_id)=({secret}) exists")
    except ValueError:
        log.exception("failed", detail=f"it was {secret}")
    (line,) = lines()
    assert secret not in json.dumps(line)
    assert "ValueError" in line["exception"]


def test_a_login_in_an_address_is_hidden(lines: Any) -> None:
    structlog.get_logger("pixconnect.test").info("no answer from postgresql://pix:hunter2@10.0.0.1:5432/pixconnect")
    assert lines()[0]["event"] == "no answer from postgresql://[hidden]@10.0.0.1:5432/pixconnect"


def test_on_a_console_lines_are_for_people() -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    before = list(root.handlers)
    set_up_logging("console", "info", stream)
    structlog.get_logger("pixconnect.test").info("worker started", slots_count=256)
    use_plain_logs()
    root.handlers = before
    assert "worker started" in stream.getvalue()
    assert "slots_count" in stream.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("wanted", "has_color"), [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)])
def test_who_wants_no_color_gets_none(wanted: dict[str, str], has_color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in wanted.items():
        monkeypatch.setenv(name, value)
    root = logging.getLogger()
    before, stream = list(root.handlers), Terminal()
    set_up_logging("auto", "info", stream)
    structlog.get_logger("pixconnect.test").info("worker started")
    use_plain_logs()
    root.handlers = before
    assert ("\x1b[" in stream.getvalue()) == has_color


def append(log: AccessLog, status: int = 200, request_id: str = "r") -> None:
    log.append(
        operation="readCharge", method="GET", path="/v1/connect/charge/{id}", status=status, duration_ms=0.1234567,
        request_id=request_id, holder_id=7, client_id="shop", peer="203.0.113.9",
    )  # fmt: skip


async def test_access_lines_are_gathered_and_written_together() -> None:
    stream = io.StringIO()
    log = AccessLog(SystemClock(), wanted="all", stream=stream)
    for number in range(3):
        append(log, request_id=f"req-{number}")
    assert stream.getvalue() == ""
    log.flush()
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["request_id"] for line in found] == ["req-0", "req-1", "req-2"]
    assert found[0].pop("timestamp").endswith("Z")
    assert found[0] == {
        "level": "info", "event": "request", "operation": "readCharge", "method": "GET",
        "path": "/v1/connect/charge/{id}", "status": 200, "duration_ms": 0.123, "request_id": "req-0", "holder_id": 7,
        "client_id": "shop", "peer": "203.0.113.9",
    }  # fmt: skip
    log.flush()


async def test_no_more_than_a_few_hundred_access_lines_wait() -> None:
    stream = io.StringIO()
    log = AccessLog(SystemClock(), wanted="all", stream=stream)
    for _ in range(AccessLog.LINES_MAX):
        append(log)
    assert len(stream.getvalue().splitlines()) == AccessLog.LINES_MAX


def test_which_requests_get_a_line_is_a_setting() -> None:
    statuses = (200, 401, 403, 404, 429, 500)
    wanted = {
        name: [status for status in statuses if AccessLog(SystemClock(), wanted=name).wants(status)]
        for name in get_args(AccessLogWanted)
    }
    assert wanted == {"all": list(statuses), "refused": [401, 403, 429], "off": []}


async def test_who_is_refused_again_and_again_does_not_fill_the_log(lines: Any) -> None:
    stream = io.StringIO()
    log = AccessLog(SystemClock(), wanted="refused", stream=stream)
    for _ in range(100):
        append(log, 401)
    log.flush()
    shown = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["status"], line["level"]) for line in shown] == [(401, "warning")] * AccessLog.REFUSED_SHOWN_MAX
    assert lines()[0]["requests_count"] == 100 - AccessLog.REFUSED_SHOWN_MAX
