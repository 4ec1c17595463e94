"""The feed has each event once, in an order that never changes, whenever it was committed."""

import asyncio
import random
from datetime import timedelta
from functools import partial

import asyncpg
import pytest

from pixconnect.features.webhooks.service import feed as feed_usecases
from pixconnect.features.webhooks.service.feed import (
    FeedCursor,
    FeedPage,
    FeedQuery,
    give_positions,
    read_feed,
    sweep_positions,
)
from pixconnect.kernel.flows import partition as partition_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform import pool
from pixconnect.platform.base import errors
from support.feed import insert_events, write_events
from support.service import Service

RETENTION = timedelta(days=90)
CALLER = Caller(client_id="test", holder_id=7, scopes=frozenset())


async def read_all(service: Service, caller: Caller = CALLER, page_size: int = 3) -> list[int]:
    """The reading of a program from now to the end."""
    event_ids: list[int] = []
    query = FeedQuery(page_size=page_size)
    while True:
        page = await read_feed(service.context, caller, query)
        event_ids += [one.event.id for one in page.events]
        if not page.has_more:
            return event_ids
        query = FeedQuery(page_size=page_size, cursor=page.next)


@pytest.mark.long
async def test_events_are_read_in_the_order_of_their_positions(service: Service) -> None:
    first = await write_events(service, 5)
    assert (await give_positions(service.context)).events_count == 5
    second = await write_events(service, 500)
    await write_events(service, 2, holder_id=8)
    assert (await give_positions(service.context)).events_count == 502
    assert await read_all(service) == first + second
    assert (await give_positions(service.context)).events_count == 0
    assert await read_all(service) == first + second


async def test_what_commits_late_gets_a_later_position(service: Service) -> None:
    async with service.context.pool.acquire() as late, service.context.pool.acquire() as later:
        one, other = late.transaction(), later.transaction()
        await one.start()
        await late.execute("set local idle_in_transaction_session_timeout = 0")
        late_id = await late.fetchval("select nextval('write_group_id')")
        await other.start()
        await later.execute("set local idle_in_transaction_session_timeout = 0")
        later_id = await later.fetchval("select nextval('write_group_id')")
        early = await write_events(service, 2)
        # However often it is read meanwhile, events that may still be written are never passed over.
        for _ in range(3):
            await give_positions(service.context)
        assert await read_all(service) == early
        await insert_events(later, later_id)
        await other.commit()
        await give_positions(service.context)
        between = await write_events(service, 1)
        await give_positions(service.context)
        await insert_events(late, late_id)
        await give_positions(service.context)
        assert await read_all(service) == [*early, later_id, *between]
        await one.commit()
    await give_positions(service.context)
    assert await read_all(service) == [*early, later_id, *between, late_id]


async def test_ids_that_nobody_may_write_any_more_are_looked_at_no_longer(service: Service) -> None:
    async with service.context.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("set local idle_in_transaction_session_timeout = 0")
        held_id = await connection.fetchval("select nextval('write_group_id')")
        await write_events(service)
        await give_positions(service.context)
        assert (await read_state(service))["settled_id"] < held_id
        await transaction.rollback()
    await give_positions(service.context)
    given_id = await service.context.pool.fetchval("select last_value from write_group_id")
    assert (await read_state(service))["settled_id"] >= given_id


async def read_state(service: Service) -> asyncpg.Record:
    (state,) = await service.fetch("select * from event_feed_state")
    return state


@pytest.mark.parametrize("at_once", [1, 2, 7, 100])
async def test_a_backlog_is_worked_off_in_parts(service: Service, at_once: int) -> None:
    async with service.context.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("set local idle_in_transaction_session_timeout = 0")
        held_id = await connection.fetchval("select nextval('write_group_id')")
        # These have positions beyond the bound when the backlog comes before them.
        early = await write_events(service, 3)
        await give_positions(service.context)
        await insert_events(connection, *range(held_id, held_id + 20))
        await transaction.commit()
    new = await write_events(service, 5)
    while (await give_positions(service.context, at_once)).has_more:
        pass
    expected = [*early, *range(held_id, held_id + 20), *new]
    assert await read_all(service) == expected
    assert await read_all(service, page_size=1) == expected


async def test_the_sweep_finds_what_the_bound_has_passed(service: Service) -> None:
    await sweep_positions(service.context)
    first, second = await write_events(service), await write_events(service)
    await give_positions(service.context)
    async with service.context.pool.acquire() as connection:
        # No writer does this: its id was given out long ago, by a transaction that has ended.
        await insert_events(connection, first[0] + 1, first[0] + 2)
    assert (await give_positions(service.context)).events_count == 0
    assert await sweep_positions(service.context) == 0
    assert await sweep_positions(service.context) == 2
    assert await read_all(service) == [*first, *second, first[0] + 1, first[0] + 2]
    assert await sweep_positions(service.context) == 0


async def test_a_sweep_goes_on_behind_a_backlog_that_is_too_long_for_it(service: Service) -> None:
    await sweep_positions(service.context, swept_max=1)
    event_ids = await write_events(service, 11)
    await give_positions(service.context)
    await sweep_positions(service.context, swept_max=1)
    assert await sweep_positions(service.context, swept_max=1) == 0
    assert (await read_state(service))["swept_id"] >= event_ids[-1]


@pytest.mark.long
@pytest.mark.parametrize("count", [4_000, 100_000])
async def test_the_feed_takes_time_as_its_events_under_a_generic_plan(service: Service, count: int) -> None:
    await service.execute_as_owner(
        f"""
        insert into event (id, holder_id, name, resource, resource_id, slot, body, created_at)
        select id, 7, 'qrcode.pending', 'charge', id, 0, '{{}}', now() from generate_series(1, {count}) as id;
        insert into event_feed (position, holder_id, event_ids)
        select id, 7, array[id] from generate_series(1001, {count}) as id;
        select setval('write_group_id', {count});
        update event_feed_state set next_id = {count}, settled_id = {count}, last_position = {count};
        analyze event, event_feed, event_feed_state;
        """
    )
    # A loop over all pairs takes seconds for some thousand.
    limits = f"set local plan_cache_mode = force_generic_plan; set local statement_timeout = {max(1500, count // 10)}"
    async with service.context.pool.acquire() as connection, connection.transaction():
        await connection.execute(limits)
        assert len(await connection.fetchval("select sweep_event_positions(200000)")) == 1000
    await service.execute_as_owner(
        "delete from event_feed where position > 100; update event_feed_state set settled_id = 0, settled_position = 0"
    )
    async with service.context.pool.acquire() as connection, connection.transaction():
        await connection.execute(limits)
        given = await connection.fetchval("select events_count from give_event_positions(200000)")
    assert given == count - 100


class Trial:
    """Slow or killed writers, killed sequencers, and the committed events."""

    def __init__(self, service: Service) -> None:
        self.committed: set[int] = set()
        self.is_over = False
        self._service = service
        self._chance = random.Random(12)  # noqa: S311  the same each time

    async def write(self) -> None:
        for _ in range(25):
            connection = await connect(self._service)
            transaction = connection.transaction()
            await transaction.start()
            first_id = await connection.fetchval("select nextval('write_group_id')")
            event_ids = [first_id + number for number in range(self._chance.randrange(1, 4))]
            await asyncio.sleep(self._chance.choice([0, 0, 0.001, 0.02]))
            await insert_events(connection, *event_ids)
            if self._chance.random() < 0.8:
                await transaction.commit()
                self.committed.update(event_ids)
            # In the middle of a transaction this is a kill.
            connection.terminate()

    async def give(self) -> None:
        while not self.is_over:
            connection = await connect(self._service)
            for _ in range(5):
                asking = asyncio.create_task(connection.fetch("select * from give_event_positions(20)"))
                if self._chance.random() < 0.2:
                    await asyncio.sleep(0)
                    connection.terminate()
                await asyncio.gather(asking, return_exceptions=True)
            connection.terminate()

    async def read(self) -> list[int]:
        read_ids: list[int] = []
        query = FeedQuery(page_size=5)
        while True:
            was_over = self.is_over
            page = await read_feed(self._service.context, CALLER, query)
            read_ids += [one.event.id for one in page.events]
            query = FeedQuery(page_size=5, cursor=page.next)
            if was_over and not page.has_more:
                return read_ids


@pytest.mark.long
async def test_writers_and_sequencers_that_are_killed_lose_nothing(service: Service) -> None:
    """A reader beside them sees each committed event once, in an order that stays."""
    trial = Trial(service)
    reading = asyncio.create_task(trial.read())
    giving = [asyncio.create_task(trial.give()) for _ in range(2)]
    await asyncio.gather(*(trial.write() for _ in range(8)))
    while (await read_state(service))["settled_id"] < await service.context.pool.fetchval(
        "select last_value from write_group_id"
    ):
        await give_positions(service.context)
    trial.is_over = True
    await asyncio.gather(*giving)
    read_ids = await reading
    assert sorted(read_ids) == sorted(trial.committed)
    assert await read_all(service, page_size=1000) == read_ids


async def connect(service: Service) -> asyncpg.Connection:
    return await pool.connect(service.database.service_url, role="pixconnect_service", schema="pixconnect", name="killed")


async def test_filters_pass_over_and_go_on(service: Service) -> None:
    read = partial(read_feed, service.context, CALLER, looked_at_max=4)
    pending = await write_events(service, 5)
    approved = await write_events(service, 2, name="qrcode.approved")
    await give_positions(service.context)
    first = await read(FeedQuery(names=frozenset({"qrcode.approved"})))
    assert (first.events, first.has_more) == ([], True)
    second = await read(FeedQuery(names=frozenset({"qrcode.approved"}), cursor=first.next))
    assert ([one.event.id for one in second.events], second.has_more) == (approved, False)
    of_transfers = await read(FeedQuery(resource="transfer", cursor=first.next))
    assert (of_transfers.events, of_transfers.next) == ([], second.next)
    # Filters may change from page to page.
    assert await read(FeedQuery(cursor=second.next)) == FeedPage(events=[], next=second.next, has_more=False)
    one = await read(FeedQuery(names=frozenset({"qrcode.pending"}), page_size=1))
    assert ([each.event.id for each in one.events], one.has_more) == (pending[:1], True)
    assert one.next == one.events[0].next


async def test_now_begins_behind_everything(service: Service) -> None:
    await write_events(service, 3)
    await give_positions(service.context)
    page = await read_feed(service.context, CALLER, FeedQuery(start="now"))
    assert (page.events, page.has_more) == ([], False)
    new = await write_events(service, 2)
    await give_positions(service.context)
    following = await read_feed(service.context, CALLER, FeedQuery(cursor=page.next))
    assert [one.event.id for one in following.events] == new


async def test_a_cursor_moves_on_where_nothing_happens(service: Service) -> None:
    """It would grow older than events are kept although its holder has missed none."""
    page = await read_feed(service.context, CALLER, FeedQuery())
    await write_events(service, 3, holder_id=8)
    await give_positions(service.context)
    assert (await read_feed(service.context, CALLER, FeedQuery(cursor=page.next))).next > page.next


async def test_a_cursor_beyond_the_end_is_of_a_database_that_was_lost(service: Service) -> None:
    await write_events(service, 3)
    await give_positions(service.context)
    page = await read_feed(service.context, CALLER, FeedQuery())
    beyond = FeedCursor(position=page.next.position, passed_count=1)
    with pytest.raises(errors.CursorExpired, match="set back"):
        await read_feed(service.context, CALLER, FeedQuery(cursor=beyond))


async def test_a_cursor_older_than_events_are_kept_is_refused(service: Service) -> None:
    await write_events(service, 3)
    await give_positions(service.context)
    first = await read_feed(service.context, CALLER, FeedQuery(page_size=1))
    await keep_partitions(service)
    for days in (10, 91):
        await service.execute_as_owner(
            f"update event_partition set begun_at = begun_at - interval '{days} days', "
            f"closed_at = closed_at - interval '{days} days'"
        )
        if days == 91:
            last = await write_events(service)
            await give_positions(service.context)
        await keep_partitions(service)
    assert await service.fetch("select from event where id <= 3") == []
    with pytest.raises(errors.CursorExpired, match="no longer kept"):
        await read_feed(service.context, CALLER, FeedQuery(cursor=first.next))
    with pytest.raises(errors.CursorExpired, match="no longer kept"):
        await read_feed(service.context, CALLER, FeedQuery(cursor=first.next, resource="refund"))
    assert await read_all(service) == last


async def test_events_that_went_before_their_positions_are_not_passed_over_in_silence(service: Service) -> None:
    await write_events(service, 3)
    await give_positions(service.context)
    first = await read_feed(service.context, CALLER, FeedQuery(page_size=1))
    await service.execute_as_owner("delete from event")
    for query in (FeedQuery(cursor=first.next), FeedQuery(cursor=first.next, resource="refund")):
        with pytest.raises(errors.CursorExpired, match="no longer kept"):
            await read_feed(service.context, CALLER, query)
    assert await read_all(service) == []


async def keep_partitions(service: Service) -> None:
    await service.execute_as_owner("update partition_pass set passed_at = clock_timestamp()")
    await partition_usecases.keep_partitions(service.context.pool, service.context.clock, RETENTION)


async def test_health_sees_a_sequencer_that_stands_still(service: Service) -> None:
    await feed_usecases.check_feed(service.context.pool, service.clock)
    await write_events(service)
    service.clock.advance(seconds=61)
    await service.execute_as_owner("update event_feed_state set given_at = given_at - interval '61 seconds'")
    with pytest.raises(errors.ServiceUnavailable, match="position"):
        await feed_usecases.check_feed(service.context.pool, service.clock)
    await give_positions(service.context)
    await feed_usecases.check_feed(service.context.pool, service.clock)
