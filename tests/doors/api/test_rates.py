"""The operator's limits of requests, which are off by default."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Services
from pixconnect.doors.api.rates import make_request_rates
from pixconnect.platform.base.clock import RatePolicy
from pixconnect.platform.logging import AccessLog
from support.api import Api
from support.service import a_context

BALANCE = "/v1/connect/ledger/balance"


class Stopped:
    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Stopped:
    return Stopped()


def limited(services: Services, clock: Stopped, client_max: int, holder_max: int) -> Api:
    rates = make_request_rates(clock, client_max, holder_max)  # type: ignore[arg-type]
    return Api(make_application(structs.replace(services, rates=rates), AccessLog(services.context.clock, wanted="off")))


async def test_without_a_setting_there_is_no_limit_and_no_header(api: Api) -> None:
    for _ in range(200):
        answer = await api.get(BALANCE)
        assert answer.status == 404
    assert not {"ratelimit", "ratelimit-policy"} & set(answer.headers)


async def test_what_is_left_of_look_ups_is_told_with_answers_to_transfers_alone(services: Services) -> None:
    policy = RatePolicy(name="lookups", tokens_max=1000, refill_per_s=20 / 60)
    lookups: Any = SimpleNamespace(recall_left=lambda _context, _holder_id: (policy, 980, 60))
    told = structs.replace(services, context=a_context(lookups=lookups))
    api = Api(make_application(told, AccessLog(services.context.clock, wanted="off")))
    answer = await api.post("/v1/connect/transfer/key", {"amount": 5, "key": "a@b.example", "key_type": "EMAIL"})
    assert answer.headers["ratelimit-policy"] == '"lookups";q=1000;w=3000'
    assert answer.headers["ratelimit"] == '"lookups";r=980;t=60'
    assert "ratelimit" not in (await api.get(BALANCE)).headers


async def test_what_is_left_is_told_with_every_answer_and_then_it_is_429(services: Services, clock: Stopped) -> None:
    api = limited(services, clock, 6, 0)
    left = []
    for _ in range(6):
        answer = await api.get(BALANCE)
        assert answer.headers["ratelimit-policy"] == '"client";q=6;w=60'
        left.append(answer.headers["ratelimit"])
    assert left == [f'"client";r={5 - number};t={10 * (number + 1)}' for number in range(6)]
    refused = await api.get(BALANCE)
    assert (refused.status, refused.code) == (429, "RATE_LIMITED")
    assert refused.headers["retry-after"] == "10"
    assert refused.headers["ratelimit"] == '"client";r=0;t=10'
    clock.now_s += 10
    assert (await api.get(BALANCE)).status == 404


async def test_a_holder_and_its_clients_have_limits_of_their_own(services: Services, clock: Stopped) -> None:
    api = limited(services, clock, 10, 2)
    answer = await api.get(BALANCE)
    assert answer.headers["ratelimit-policy"] == '"client";q=10;w=60, "holder";q=2;w=60'
    assert answer.headers["ratelimit"].startswith('"client";r=9;t=6, "holder";r=1;t=30')
    await api.get(BALANCE)
    refused = await api.get(BALANCE)
    assert (refused.status, refused.headers["ratelimit-policy"]) == (429, '"holder";q=2;w=60')


async def test_public_addresses_and_refused_tokens_are_not_counted(services: Services, clock: Stopped) -> None:
    api = limited(services, clock, 1, 1)
    for _ in range(3):
        assert (await api.get(BALANCE, token="bad")).status == 401
        assert (await api.get("/openapi.json", token=None)).status == 200
    assert (await api.get(BALANCE)).status == 404
