"""The feed over HTTP: pages, damaged cursors, and long polling."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast

import pytest

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Services
from pixconnect.features.movements.service import receive_movement
from pixconnect.features.webhooks.api import feed as feed_api
from pixconnect.features.webhooks.service.feed import HOLDER_MAX, FeedCursor, FeedWaits, give_positions
from pixconnect.kernel.feature import FeatureParts
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.rules.rail import Abilities
from pixconnect.platform.flow.turns import Turns
from pixconnect.platform.logging import AccessLog
from pixconnect.platform.pool import connect
from support.api import Api, StubVerifier, UseCases
from support.feed import write_events
from support.postgres import Addresses
from support.service import Service, credit_report, make_charge, movement_report, open_holder, open_service

PATH = "/v1/webhook/feed"
HOLDER_ID = 7  # the holder of the stub's token


class Feed(Api):
    """The application on a database, and its waiting requests."""

    def __init__(self, service: Service, waits: FeedWaits) -> None:
        empty = dict.fromkeys(Services.__struct_fields__) | {"trusted_proxies": ()}
        present = {
            "context": service.context, "verifier": StubVerifier(), "turns": Turns(),
            "of_features": FeatureParts({FeedWaits: waits})
        }  # fmt: skip
        services = Services(**cast(Any, empty | present))
        super().__init__(make_application(services, AccessLog(service.clock, wanted="off")))
        self.service = service
        self.waits = waits

    async def read(self, query: str = "") -> Any:
        answer = await self.get(f"{PATH}?{query}")
        assert answer.status == 200, answer
        return answer.body["data"]


@pytest.fixture
async def feed(database: Addresses) -> AsyncIterator[Feed]:
    async with open_service(database) as service:
        waits = FeedWaits(
            partial(connect, database.service_url, role="pixconnect_service", schema="pixconnect", name="test feed"),
            poll_s=3600.0,  # requests in these tests are not woken by the slow poll
        )
        listening = asyncio.create_task(waits.listen())
        yield Feed(service, waits)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def until_waiting(feed: Feed, count: int = 1) -> None:
    async with asyncio.timeout(60):
        await feed.waits._is_listening.wait()
        while len(feed.waits._waiting.get(HOLDER_ID, ())) < count:  # noqa: ASYNC110  nothing tells
            await asyncio.sleep(0.01)
        # And has looked: it returned its connection before waiting.
        pool = feed.service.context.pool
        while pool.get_idle_size() < pool.get_size():  # noqa: ASYNC110  nothing tells
            await asyncio.sleep(0.01)


async def test_pages_go_on_where_the_one_before_ended(feed: Feed) -> None:
    event_ids = await write_events(feed.service, 3)
    await give_positions(feed.service.context)
    first = await feed.read("page_size=2")
    assert ([each["id"] for each in first["events"]], first["has_more"]) == (event_ids[:2], True)
    second = await feed.read(f"page_size=2&cursor={first['cursor']}")
    assert ([each["id"] for each in second["events"]], second["has_more"]) == (event_ids[2:], False)
    # Each event has its own cursor.
    again = await feed.read(f"cursor={first['events'][0]['cursor']}")
    assert [each["id"] for each in again["events"]] == event_ids[1:]
    assert list(second["events"][0]) == [
        "id", "name", "create_timestamp", "resource", "resource_id", "payload", "detail", "cursor",
    ]  # fmt: skip


async def test_the_detail_says_by_what_a_charge_was_paid(database: Addresses) -> None:
    async with open_service(database) as service:
        caller = await open_holder(service)
        charge = await make_charge(service, caller)
        report = credit_report(service, txid=charge.txid)
        await receive_credit(service.context, report)
        await receive_credit(service.context, credit_report(service, txid=charge.txid, end_to_end_id="E" + "2" * 31))
        await give_positions(service.context)
        page = await feed_api.feed_usecases.read_feed(service.context, caller, feed_api.FeedQuery())
        shown = [feed_api._show_event(one, caller.holder_id) for one in page.events]
    details = {(one.name, one.resource_id): one.detail for one in shown}
    by_name = {name: detail for (name, _), detail in details.items()}
    assert by_name["qrcode.pending"].paid_by is None
    paid = by_name["qrcode.approved"].paid_by
    assert paid is not None
    assert (paid.end_to_end_id, paid.amount) == (report.end_to_end_id, charge.amount_cents)
    assert paid.payer.name == report.debit_party.name
    refused = by_name["transfer.in.error"]
    assert refused.outcome is not None
    assert refused.debit_party is not None


BAD = [
    *("cursor=", "cursor=abc", "cursor=%00", f"cursor={'A' * 24}", f"cursor={'A' * 513}"),
    f"cursor={feed_api.write_feed_cursor(FeedCursor(position=5, passed_count=1), HOLDER_ID + 1)}",
    f"cursor={feed_api.write_feed_cursor(FeedCursor(position=5, passed_count=1), HOLDER_ID)}&start=now",
    *("start=yesterday", "page_size=0", "page_size=1001", "wait_s=31", "wait_s=-1", "wait_s=1.5", "event_types="),
    *("event_types=qrcode.paid", "event_types=qrcode.approved,,", "resource=payment", "id=", f"id={'1' * 256}", "limit=5"),
]


async def test_a_bad_query_names_its_parameter_and_nothing_is_asked_for(api: Api, use_cases: UseCases) -> None:
    for query in BAD:
        answer = await api.get(f"{PATH}?{query}")
        assert (answer.status, answer.code) == (400, "BAD_REQUEST"), query
        assert answer.message.startswith(query.rpartition("&")[2].partition("=")[0] + ": "), query
    assert use_cases.asked == []


def test_a_cursor_is_read_as_it_was_written_and_no_other() -> None:
    written = feed_api.write_feed_cursor(FeedCursor(position=2**53 - 1, passed_count=200), HOLDER_ID)
    assert feed_api.read_feed_cursor(written, HOLDER_ID) == FeedCursor(position=2**53 - 1, passed_count=200)
    assert written == "AQAf________AMh7eJsvrraf", "programs keep them"
    for at in range(len(written)):
        changed = written[:at] + ("A" if written[at] != "A" else "B") + written[at + 1 :]
        with pytest.raises(feed_api.errors.BadRequest):
            feed_api.read_feed_cursor(changed, HOLDER_ID)


async def test_a_made_up_cursor_leads_to_nobody_elses_events(feed: Feed) -> None:
    await write_events(feed.service, 3, holder_id=HOLDER_ID + 1)
    await give_positions(feed.service.context)
    own = await write_events(feed.service, 1)
    await give_positions(feed.service.context)
    made_up = feed_api.write_feed_cursor(FeedCursor(position=1, passed_count=0), HOLDER_ID)
    assert [each["id"] for each in (await feed.read(f"cursor={made_up}"))["events"]] == own


async def test_an_expired_cursor_is_refused_by_name(feed: Feed) -> None:
    beyond = feed_api.write_feed_cursor(FeedCursor(position=99, passed_count=0), HOLDER_ID)
    answer = await feed.get(f"{PATH}?cursor={beyond}")
    assert (answer.status, answer.code) == (410, "CURSOR_EXPIRED")


async def test_who_waits_is_answered_when_something_happens(feed: Feed) -> None:
    end = await feed.read("start=now")
    asked = asyncio.create_task(feed.read(f"wait_s=30&cursor={end['cursor']}"))
    await until_waiting(feed)
    await write_events(feed.service, 1, holder_id=HOLDER_ID + 1)
    await give_positions(feed.service.context)
    event_ids = await write_events(feed.service, 2)
    await give_positions(feed.service.context)
    async with asyncio.timeout(60):
        found = await asked
    assert [each["id"] for each in found["events"]] == event_ids
    assert feed.waits._waiting == {}


async def test_who_waits_holds_neither_a_connection_nor_a_turn(feed: Feed) -> None:
    asked = [asyncio.create_task(feed.read("wait_s=30")) for _ in range(HOLDER_MAX)]
    await until_waiting(feed, HOLDER_MAX)
    # More than may have a turn at once while others are there.
    assert (await feed.read())["events"] == []
    too_many = await feed.get(f"{PATH}?wait_s=30")
    assert (too_many.status, too_many.code, too_many.headers["retry-after"]) == (429, "RATE_LIMITED", "1")
    feed.waits.end()
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*asked)
    assert [answer["events"] for answer in answers] == [[]] * HOLDER_MAX


async def test_who_waits_in_vain_gets_a_cursor_in_time(feed: Feed) -> None:
    answer = await feed.read("wait_s=1")
    assert (answer["events"], answer["has_more"]) == ([], False)
    event_ids = await write_events(feed.service, 1)
    await give_positions(feed.service.context)
    assert [each["id"] for each in (await feed.read(f"cursor={answer['cursor']}"))["events"]] == event_ids


async def test_a_caller_that_goes_away_waits_no_more(feed: Feed) -> None:
    asked = asyncio.create_task(feed.read("wait_s=30"))
    await until_waiting(feed)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert feed.waits._waiting == {}


async def test_what_was_given_while_nobody_listened_is_found(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listening connection may be lost at any time."""
    asked = asyncio.create_task(feed.read("wait_s=30"))
    await until_waiting(feed)
    await feed.service.execute_as_owner(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'test feed'"
        " and datname = current_database()"
    )
    event_ids = await write_events(feed.service, 1)
    await give_positions(feed.service.context)
    async with asyncio.timeout(60):
        assert [each["id"] for each in (await asked)["events"]] == event_ids


async def test_any_id_of_a_resource_finds_its_events(database: Addresses) -> None:
    async with open_service(database, abilities=Abilities(refuses_credits=False)) as service:
        caller = await open_holder(service)
        charge, _ = await make_charge(service, caller), await make_charge(service, caller)
        report = credit_report(service, txid=charge.txid)
        await receive_credit(service.context, report)
        # One with a line of the statement, and one that is owed in full.
        for item_id in ("M1", "M2"):
            await receive_movement(service.context, movement_report(service, item_id, amount_cents=1000))
        await give_positions(service.context)

        async def names_by(any_id: str) -> list[str]:
            query = feed_api.FeedQuery(any_id=any_id)
            page = await feed_api.feed_usecases.read_feed(service.context, caller, query)
            return [one.event.name for one in page.events]

        for any_id in (charge.external_id, charge.txid):
            assert await names_by(any_id) == ["qrcode.pending", "qrcode.approved"]
        assert await names_by(report.end_to_end_id) == ["transfer.in.processing", "transfer.in.confirmed"]
        rows = await service.fetch("select item_id, coalesce(entry_id, deficit_entry_id) as id from movement")
        for any_id in (str(value) for row in rows for value in row):
            assert await names_by(any_id) == ["movement.posted"]
        assert {row["item_id"] for row in rows} == {"M1", "M2"}
        for nothing in ("unknown", "9" * 16, "9" * 60, "\u0661"):
            assert await names_by(nothing) == []
