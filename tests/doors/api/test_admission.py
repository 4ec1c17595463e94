"""An overloaded process refuses changing requests immediately."""

from io import StringIO
from typing import Any

import msgspec
import pytest
from msgspec import structs

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Services
from pixconnect.platform.flow.overload import AT_ONCE_COUNT, EACH_S, Admission
from pixconnect.platform.logging import AccessLog
from support.api import Api
from support.service import FakeClock, a_context


async def test_a_full_process_refuses_writes_before_it_reads_them_and_answers_reads(services: Services) -> None:
    application = make_application(services, AccessLog(services.context.clock, wanted="off"))
    application._admission = Admission(0)
    api = Api(application)
    refused = await api.post("/v1/connect/charge", {"no": "charge"})
    assert (refused.status, refused.code) == (503, "SERVICE_UNAVAILABLE")
    assert (await api.get("/v1/connect/ledger/balance")).status == 404
    application._admission = Admission(1)
    for _ in range(2):
        assert (await api.post("/v1/connect/charge", {"no": "charge"})).status == 400, "what has ended counts no more"


def _scope(method: str, path: str) -> dict[str, Any]:
    headers = {b"authorization": b"Bearer good"}
    return dict(method=method, raw_path=path.encode(), headers_by_name=headers, client=None, client_certificate=None)


async def test_a_refusal_at_once_says_what_the_long_one_says(services: Services) -> None:
    application = make_application(services, AccessLog(services.context.clock, wanted="off"))
    application._admission = Admission(0)
    told = await Api(application).post("/v1/connect/charge", {"no": "charge"})
    answer = application.answer_at_once(_scope("POST", "/v1/connect/charge"))
    assert answer is not None
    at_once = msgspec.json.decode(answer.body)
    assert (answer.status, at_once["error"]) == (told.status, told.body["error"])
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    assert headers["x-request-id"] == at_once["meta"]["request_id"]
    own = ("x-request-id", "content-length")
    assert {name: headers[name] for name in headers if name not in own} == {
        name: value for name, value in told.headers.items() if name not in own
    }
    assert application.answers["create_charge", 503] == 2


@pytest.mark.parametrize(
    ("method", "path", "change"),
    [
        ("GET", "/v1/connect/ledger/balance", {}),
        ("POST", "/v1/connect/nothing", {}),
        ("POST", "/oauth/token", {}),
        ("POST", "/v1/connect/charge", {"headers_by_name": {}}),
        ("POST", "/v1/connect/charge", {"headers_by_name": {b"authorization": b"Bearer poor"}}),
    ],
    ids=["a read", "no path", "a public one", "no token", "another scope"],
)
async def test_anything_else_takes_long_way(services: Services, method: str, path: str, change: dict[str, Any]) -> None:
    application = make_application(services, AccessLog(services.context.clock, wanted="off"))
    application._admission = Admission(0)
    assert application.answer_at_once({**_scope(method, path), **change}) is None
    application._admission = Admission(1)
    assert application.answer_at_once(_scope("POST", "/v1/connect/charge")) is None, "there is room"


async def test_a_flood_of_one_holder_is_slowed_down_on_the_long_way(services: Services) -> None:
    services = structs.replace(services, context=a_context(clock=FakeClock(monotonic_s=0.0)))
    application = make_application(services, AccessLog(services.context.clock, wanted="off"))
    application._admission = Admission(0)
    told = [application.answer_at_once(_scope("POST", "/v1/connect/charge")) for _ in range(AT_ONCE_COUNT + 5)]
    assert sum(answer is not None for answer in told) == AT_ONCE_COUNT


async def test_who_owes_a_wait_is_refused_later_and_without_a_task(services: Services) -> None:
    services = structs.replace(services, context=a_context(clock=FakeClock(monotonic_s=0.0)))
    log = AccessLog(services.context.clock, wanted="refused", stream=StringIO())
    application = make_application(services, log)
    told = await Api(application).post("/v1/connect/charge", {"no": "charge"})
    assert (told.status, application.answer_at_once(_scope("GET", "/v1/connect/ledger/balance"))) == (400, None)
    application._refusal_pace.owing_until_s = {7: 60.0}
    refused = [application.answer_at_once(_scope("GET", "/v1/connect/ledger/balance")) for _ in range(AT_ONCE_COUNT + 5)]
    assert {answer.status for answer in refused if answer is not None} == {429}
    delays = [answer.delay_s for answer in refused if answer is not None]
    assert len(delays) == len(refused)
    assert (delays[0], delays == sorted(delays), delays[-1] >= 4 * EACH_S) == (0.0, True, True)
    assert [line.holder_id for line in log._waiting] == [7] * len(refused)
    assert application.answer_at_once(_scope("POST", "/oauth/token")) is None, "whoever asks for a token is not known"
