"""The replay of a period's events to one endpoint."""

from datetime import UTC, datetime

from support.api import Api, UseCases

REPLAY = "/v1/webhook/endpoints/7/replay"
FIRST, LAST = "2026-11-20T09:00:00.5-03:00", "2026-11-21T12:00:00Z"


async def test_a_replay_answers_how_many_events_are_sent_again(api: Api, use_cases: UseCases) -> None:
    use_cases.answers["redeliver_events"] = lambda *_: 42
    answer = await api.post(REPLAY, {"initial_date": FIRST, "final_date": LAST})
    assert (answer.status, answer.body["data"]) == (200, {"replayed": 42})
    ((name, (_, _, endpoint_id, *interval)),) = use_cases.asked
    assert (name, endpoint_id) == ("redeliver_events", 7)
    assert interval == [datetime(2026, 11, 20, 12, 0, 0, 500_000, UTC), datetime(2026, 11, 21, 12, tzinfo=UTC)]


async def test_an_endpoint_that_is_not_there_is_404(api: Api) -> None:
    assert (await api.post(REPLAY, {"initial_date": FIRST, "final_date": LAST})).status == 404
