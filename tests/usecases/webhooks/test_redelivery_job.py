"""Sending many deliveries again: all that a filter matches, nothing of another holder, also when a worker is killed."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.event import EVENT_NAMES
from pixconnect.domain.identity.access import SCOPES, Caller
from pixconnect.domain.identity.console import Viewer
from pixconnect.domain.webhooks.endpoint import EndpointRequest
from pixconnect.domain.webhooks.redelivery import RedeliveryFilter, RedeliveryJob
from pixconnect.foundation import migrations
from pixconnect.store.webhooks import redelivery_job as redelivery_job_store
from pixconnect.usecases.money.incoming import receive_credit
from pixconnect.usecases.webhooks import endpoint as endpoint_usecases
from pixconnect.usecases.webhooks import key_webhook, redelivery_job
from pixconnect.usecases.webhooks.redelivery import BATCH_MAX
from support.records import own_key
from support.service import Service, credit_report, make_charge, open_holder


def _viewer(caller: Caller, *scopes: str) -> Viewer:
    return Viewer(holder_id=caller.holder_id, scopes=frozenset(scopes or SCOPES))


async def _add_endpoint(service: Service, caller: Caller) -> int:
    request = EndpointRequest(url="https://shop.example/hook", secret="a secret for tests", event_types=[*EVENT_NAMES])
    return (await endpoint_usecases.create_endpoint(service.context, caller, request)).id


@pytest.fixture
async def other(service: Service) -> Caller:
    return await open_holder(service, account_number="2")


@pytest.fixture
async def endpoints(service: Service, caller: Caller, other: Caller) -> list[int]:
    """Two of the caller's and one of somebody else's, each with seven failed deliveries and one that waits."""
    made = [await _add_endpoint(service, who) for who in (caller, other, caller)]
    for number in range(8):
        service.clock.advance(minutes=10)
        for who, account in ((caller, "1"), (other, "2")):
            await make_charge(service, who, amount_cents=number + 1, key=own_key(account))
    await service.execute_as_owner("""
        update delivery set status = 'failed', due_at = null, modified_at = created_at
        where created_at < (select max(created_at) from delivery)
    """)
    service.clock.advance(minutes=10)
    return [made[0], made[2], made[1]]


async def _failed(service: Service) -> dict[int, int]:
    rows = await service.fetch(
        "select endpoint_id, count(*) filter (where status = 'failed') as count from delivery group by 1"
    )
    return {row["endpoint_id"]: row["count"] for row in rows}


async def _start(service: Service, caller: Caller, batch_max: int = BATCH_MAX, **wanted: Any) -> RedeliveryJob:
    asked = RedeliveryFilter(holder_id=caller.holder_id, **wanted)
    counted = await redelivery_job.count_matching(service.context, _viewer(caller), asked, batch_max)
    return await redelivery_job.start_redelivery(
        service.context, _viewer(caller), asked, asked_by="tests", expected_count=counted.count
    )


async def _finish(service: Service, caller: Caller, job: RedeliveryJob, **bounds: int) -> RedeliveryJob:
    while (job := await redelivery_job.read_redelivery(service.context, _viewer(caller), job.id)).status == "running":
        assert await redelivery_job.work_redeliveries(service.context, **bounds)
    return job


async def test_everything_that_the_filter_matches_goes_again_and_nothing_of_another_holder(
    service: Service, caller: Caller, endpoints: list[int]
) -> None:
    first, second, others = endpoints
    assert await _failed(service) == {first: 7, second: 7, others: 7}
    job = await _finish(service, caller, await _start(service, caller, batch_max=3), batch_max=3)
    assert (job.status, job.expected_count, job.redelivered_count) == ("done", 14, 14)
    assert await _failed(service) == {first: 0, second: 0, others: 7}
    rows = await service.fetch(
        "select distinct due_at from delivery where status = 'pending' and endpoint_id = $1", first
    )
    assert service.clock.now() in {row["due_at"] for row in rows}
    # Once more there is nothing left.
    again = await _finish(service, caller, await _start(service, caller))
    assert (again.expected_count, again.redelivered_count) == (0, 0)


async def test_a_filter_narrows_it(service: Service, caller: Caller, endpoints: list[int]) -> None:
    first, second, others = endpoints
    began_at = service.clock.now()
    job = await _start(
        service,
        caller,
        endpoint_id=first,
        statuses=("failed", "pending"),
        event_types=("qrcode.pending",),
        initial_at=began_at - timedelta(minutes=50),
        final_at=began_at - timedelta(minutes=20),
    )
    assert (await _finish(service, caller, job)).redelivered_count == 4
    assert await _failed(service) == {first: 3, second: 7, others: 7}
    none = await _start(service, caller, event_types=("refund.in.error",))
    assert (await _finish(service, caller, none)).redelivered_count == 0


async def test_a_worker_that_is_killed_in_a_batch_repeats_nothing_and_leaves_nothing_out(
    service: Service, caller: Caller, endpoints: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await _start(service, caller)
    await redelivery_job.work_redeliveries(service.context, batch_max=2, batches_max=2)
    assert (await redelivery_job.read_redelivery(service.context, _viewer(caller), job.id)).redelivered_count == 4
    update, killed = redelivery_job_store.update, False

    async def dies(*arguments: Any) -> None:
        nonlocal killed
        await update(*arguments)
        if not killed:
            killed = True
            raise KeyboardInterrupt

    monkeypatch.setattr(redelivery_job_store, "update", dies)
    with pytest.raises(KeyboardInterrupt):
        await redelivery_job.work_redeliveries(service.context, batch_max=2, batches_max=2)
    assert (await redelivery_job.read_redelivery(service.context, _viewer(caller), job.id)).redelivered_count == 4
    job = await _finish(service, caller, job, batch_max=2, batches_max=2)
    assert job.redelivered_count == 14
    assert sum((await _failed(service)).values()) == 7


async def test_a_job_waits_while_as_many_wait_for_an_endpoint_as_may(
    service: Service, caller: Caller, endpoints: list[int]
) -> None:
    job = await _start(service, caller)
    pending_max = service.context.policy.webhook_pending_max
    assert await redelivery_job.work_redeliveries(service.context, batch_max=pending_max) == 0
    assert (await _finish(service, caller, job)).redelivered_count == 14


async def test_one_job_of_a_holder_runs_at_a_time_and_may_be_ended(
    service: Service, caller: Caller, other: Caller, endpoints: list[int]
) -> None:
    job = await _start(service, caller)
    with pytest.raises(errors.LimitExceeded):
        await _start(service, caller)
    others = await _start(service, other)
    for refused in (
        redelivery_job.read_redelivery(service.context, _viewer(other), job.id),
        redelivery_job.cancel_redelivery(service.context, _viewer(other), job.id),
    ):
        with pytest.raises(errors.NotFound):
            await refused
    assert (await redelivery_job.cancel_redelivery(service.context, _viewer(caller), job.id)).status == "cancelled"
    await _finish(service, other, others)
    assert await _failed(service) == {endpoints[0]: 7, endpoints[1]: 7, endpoints[2]: 0}
    assert [each.id for each in await redelivery_job.list_redeliveries(service.context, _viewer(caller))] == [job.id]
    assert (await redelivery_job.cancel_redelivery(service.context, _viewer(other), others.id)).status == "done"


async def test_another_holders_ids_and_what_makes_no_sense_are_refused(
    service: Service, caller: Caller, other: Caller, endpoints: list[int]
) -> None:
    now = service.clock.now()
    for error, viewer, wanted in (
        (errors.NotFound, _viewer(caller), RedeliveryFilter(holder_id=other.holder_id)),
        (errors.NotFound, _viewer(caller), RedeliveryFilter(holder_id=caller.holder_id, endpoint_id=endpoints[2])),
        (errors.Forbidden, _viewer(caller, "webhook.read"), RedeliveryFilter(holder_id=caller.holder_id)),
        (errors.BadRequest, _viewer(caller), RedeliveryFilter(holder_id=caller.holder_id, statuses=())),
        (errors.BadRequest, _viewer(caller), RedeliveryFilter(holder_id=caller.holder_id, event_types=("x",))),
        (
            errors.BadRequest,
            _viewer(caller),
            RedeliveryFilter(holder_id=caller.holder_id, initial_at=now, final_at=now - timedelta(days=1)),
        ),
    ):
        with pytest.raises(error):
            await redelivery_job.start_redelivery(service.context, viewer, wanted, asked_by="tests", expected_count=0)
    assert await redelivery_job.list_redeliveries(service.context, _viewer(caller)) == []


# What one body tells, and filters that part it.


@pytest.fixture
async def notices(service: Service, caller: Caller) -> dict[int, list[int]]:
    """Deliveries to the webhook of a key, ten minutes apart: by the first of each body all that it tells, oldest first.

    The first of a body is not always its oldest. One delivery is told alone, and everything failed.
    """
    await key_webhook.set_webhook(service.context, caller, own_key(), "https://shop.example/pix")
    for _ in range(10):
        service.clock.advance(minutes=10)
        await receive_credit(service.context, credit_report(service))
    rows = await service.fetch("select id from delivery order by created_at, id")
    ids = [row["id"] for row in rows]
    bodies = {ids[0]: ids[0:4], ids[6]: ids[4:8], ids[8]: [ids[8]], ids[9]: [ids[9]]}
    for first, told in bodies.items():
        covers = [each for each in told if each != first]
        if covers:
            await service.execute_as_owner(
                f"update delivery set covered_by = {first} where id = any('{set(covers)}'); "
                f"update delivery set notice = '{{}}', covers = array{covers} where id = {first}"
            )
    await service.execute_as_owner("update delivery set status = 'failed', due_at = null")
    return bodies


@pytest.mark.parametrize("batch_max", [1, 3, 100])
@pytest.mark.parametrize(
    ("span", "redelivered"),
    [
        ((0, 9), {0, 1, 2, 3}),
        ((1, 9), {0, 1, 2, 3}),  # without the first of the first body
        ((3, 4), {0, 1}),  # the last of one and the oldest of another, and of neither the first
        ((7, 7), {1}),
        ((8, 8), {2}),
    ],
)
async def test_what_one_body_tells_goes_again_together_however_a_filter_parts_it(
    service: Service,
    caller: Caller,
    notices: dict[int, list[int]],
    batch_max: int,
    span: tuple[int, int],
    redelivered: set[int],
) -> None:
    at = [row["created_at"] for row in await service.fetch("select created_at from delivery order by created_at, id")]
    since, until = span
    job = await _start(service, caller, batch_max, initial_at=at[since], final_at=at[until])
    service.clock.advance(hours=1)
    job = await _finish(service, caller, job, batch_max=batch_max)
    assert (job.expected_count, job.redelivered_count) == (until - since + 1,) * 2
    pending = {row["id"] for row in await service.fetch("select id from delivery where status = 'pending'")}
    assert pending == {each for place in redelivered for each in list(notices.values())[place]}
    # A worker finds each body once, and nothing waits that no body tells.
    firsts = await service.fetch("select id from delivery where status = 'pending' and covered_by is null")
    assert {row["id"] for row in firsts} == {list(notices)[place] for place in redelivered}
    (tally,) = await service.fetch("select count(distinct due_at) from delivery where status = 'pending'")
    assert tally["count"] == 1


async def test_a_body_that_was_told_between_two_batches_is_not_sent_once_more(
    service: Service, caller: Caller, notices: dict[int, list[int]]
) -> None:
    job = await _start(service, caller, statuses=("failed", "delivered"))
    sent: list[int] = []
    while (await redelivery_job.read_redelivery(service.context, _viewer(caller), job.id)).status == "running":
        await redelivery_job.work_redeliveries(service.context, batch_max=2, batches_max=1)
        (row,) = await service.fetch("select count(*) from delivery where status = 'pending' and covered_by is null")
        sent.append(row["count"])
        await service.execute_as_owner(
            "update delivery set status = 'delivered', due_at = null where status = 'pending'"
        )
    # The first two bodies lie in two batches each: the second of these finds them told, and tells nothing.
    assert sent[:5] == [1, 0, 1, 0, 2]
    assert not any(sent[5:])


async def test_a_filter_by_type_sends_the_whole_body_again(
    service: Service, caller: Caller, notices: dict[int, list[int]]
) -> None:
    first = list(notices)[1]
    await service.execute_as_owner(
        f"update event set name = 'refund.out.returned' where id in (select event_id from delivery where id = {first})"
    )
    job = await _finish(service, caller, await _start(service, caller, event_types=("refund.out.returned",)))
    assert (job.expected_count, job.redelivered_count) == (1, 1)
    pending = {row["id"] for row in await service.fetch("select id from delivery where status = 'pending'")}
    assert pending == set(notices[first])


async def test_what_was_stranded_before_follows_its_body_again(service: Service, notices: dict[int, list[int]]) -> None:
    (first, told), (other, others), (alone, _), _ = notices.items()
    stranded = [each for each in told if each != first]
    owner = await asyncpg.connect(service.database.owner_url, server_settings={"search_path": "pixconnect"})
    step = next(step for step in migrations.read_migrations("pixconnect.store") if step.name == "notices_are_whole")
    few_at_once = structs.replace(step, sql=step.sql.replace("first 5000 rows", "first 3 rows"))
    pending = "status = 'pending', due_at = now()"
    try:
        await owner.execute(
            f"update delivery set status = 'delivered', due_at = null, attempts_count = 2 where id = {first}"
        )
        await owner.execute(f"update delivery set {pending} where id = any($1)", [*stranded, *others, alone])
        await owner.execute("delete from schema_version where version = $1", step.version)
        await migrations.apply(owner, "pixconnect", few_at_once)
    finally:
        await owner.close()
    found = await service.fetch("select id, status, attempts_count from delivery")
    by_status = {
        status: {row["id"] for row in found if row["status"] == status} for status in ("delivered", "pending", "failed")
    }
    assert by_status["delivered"] == set(told)
    assert {row["attempts_count"] for row in found if row["status"] == "delivered"} == {2}
    # A body that waits keeps all that it tells waiting.
    assert by_status["pending"] == {*others, alone}
    assert other in others
