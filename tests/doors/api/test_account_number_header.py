"""``X-Account-Number``: a read answers for the holder that succeeded the caller's; nothing else is done on its account."""

from typing import Any

import pytest
from msgspec import structs

from pixconnect.doors.api.operation import Services
from support.api import Api, UseCases
from support.service import a_context

BALANCE = "/v1/connect/ledger/balance"
FORMER = {"X-Account-Number": "1234"}


class Family:
    """A pool with one former account of holder 7."""

    async def fetchval(self, _statement: str, holder_id: int, account_number: str) -> int | None:
        return {(7, "1234"): 4}.get((holder_id, account_number))


@pytest.fixture
def services(services: Services) -> Services:
    return structs.replace(services, context=a_context(pool=Family()))


async def test_a_read_is_of_the_account_that_it_names(api: Api, use_cases: UseCases) -> None:
    await api.call("GET", BALANCE)
    await api.call("GET", BALANCE, headers=FORMER)
    asked: list[Any] = [arguments[1] for _, arguments in use_cases.asked]
    assert [caller.holder_id for caller in asked] == [7, 4]


async def test_an_account_of_others_is_as_one_that_is_not_there(api: Api, use_cases: UseCases) -> None:
    answer = await api.call("GET", BALANCE, headers={"X-Account-Number": "99"})
    assert (answer.status, use_cases.asked) == (404, [])
    assert "X-Account-Number" in answer.message


async def test_nothing_is_asked_for_on_a_former_account(api: Api, use_cases: UseCases) -> None:
    body = {"amount": 100, "key": "loja@sandbox.pix.example"}
    answer = await api.post("/v1/connect/charge", body, headers=FORMER)
    assert (answer.status, answer.code, use_cases.asked) == (400, "BAD_REQUEST", [])


async def test_a_token_without_the_scope_is_refused_first(api: Api) -> None:
    assert (await api.call("GET", BALANCE, token="poor", headers=FORMER)).status == 403
