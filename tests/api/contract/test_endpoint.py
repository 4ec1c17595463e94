"""What the owner of an endpoint asks for in one call for all of its deliveries."""

from datetime import UTC, datetime

import pytest

from support.api import Api, UseCases

REDELIVER = "/v1/webhook/endpoints/7/redeliver"


async def test_redelivery_of_all_that_was_not_acknowledged_says_how_many(api: Api, use_cases: UseCases) -> None:
    use_cases.answers["redeliver_unacknowledged"] = lambda *_: 42
    answer = await api.post(REDELIVER, {"initial_date": "2026-11-20T09:00:00.5-03:00"})
    assert (answer.status, answer.body["data"]) == (200, {"redelivered": 42})
    ((name, (_, _, endpoint_id, since)),) = use_cases.asked
    assert (name, endpoint_id) == ("redeliver_unacknowledged", 7)
    assert since == datetime(2026, 11, 20, 12, 0, 0, 500_000, UTC)


async def test_an_endpoint_that_is_not_there_is_404(api: Api) -> None:
    assert (await api.post(REDELIVER, {"initial_date": "2026-11-20T12:00:00Z"})).status == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "initial_date"),
        ({"initial_date": None}, "initial_date"),
        ({"initial_date": 1_800_000_000}, "initial_date"),
        ({"initial_date": "yesterday"}, "initial_date"),
        ({"initial_date": "2026-11-20"}, "initial_date"),
        ({"initial_date": "2026-11-20T12:00:00"}, "initial_date"),
        ({"initial_date": "2026-11-20T12:00:00Z", "final_date": "2026-11-21T12:00:00Z"}, "final_date"),
    ],
)
async def test_a_bad_body_names_its_field_and_nothing_is_asked_for(
    api: Api, use_cases: UseCases, body: dict[str, object], field: str
) -> None:
    answer = await api.post(REDELIVER, body)
    assert answer.status == 400
    assert answer.message.startswith(f"{field}: ")
    assert use_cases.asked == []
