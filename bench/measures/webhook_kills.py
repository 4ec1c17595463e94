"""What becomes of webhooks when workers are killed.

``kills``: events are written at an even pace, five of each resource, while three workers deliver them to a receiver that takes
up to 100 ms. Again and again one of two of them is killed (``kill -9``) and another started in its place; the third is the
service's own. Told are events that were lost, resources whose events came out of order, deliveries that came twice,
``sent_again_after_max_s`` between those two, and ``delivered_after_max_s`` from the commit of an event to its first arrival.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator

from bench.figures import Row
from bench.harness.installation import Account, Installation, installed
from bench.load.events import Writer, writing
from bench.load.receivers import Arrivals, receiving

EVENTS_OF_RESOURCE = 5
_PAUSES_S = (2.5, 4.5)
_START_S = 3.0


def measure_kills(kills_count: int, events_count: int) -> Iterator[Row]:
    """Kill while events are written; then wait until all are told."""
    with receiving() as receivers, installed(is_proved=False) as service:
        account = service.demonstration()
        service.add_endpoint(account, f"{receivers.urls[0]}/slow")
        writer = asyncio.run(_write_and_kill(service, account, kills_count, events_count))
        drained_s = service.wait_until_quiet()
        yield {
            "name": "kills",
            "kills": kills_count,
            **_judge(writer, receivers.arrivals()),
            "drained_after_s": drained_s,
        }


async def _write_and_kill(service: Installation, account: Account, kills_count: int, events_count: int) -> Writer:
    workers = [service.start_worker(), service.start_worker()]
    try:
        await asyncio.sleep(_START_S)
        async with writing(service) as writer:
            resources = range(1, events_count // EVENTS_OF_RESOURCE + 1)
            per_second = events_count / (kills_count * sum(_PAUSES_S) / 2)
            events = [resource_id for _ in range(EVENTS_OF_RESOURCE) for resource_id in resources]
            steady = asyncio.create_task(writer.write_steadily([account.holder_id], events, per_second))
            for _ in range(kills_count):
                await asyncio.sleep(random.uniform(*_PAUSES_S))
                victim = workers.pop(random.randrange(len(workers)))
                victim.kill()
                victim.wait()
                workers.append(service.start_worker())
            await steady
            return writer
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _judge(writer: Writer, arrivals: Arrivals) -> Row:
    first_at_s: dict[int, float] = {}
    last_at_s: dict[int, float] = {}
    order: dict[int, list[int]] = defaultdict(list)
    again_after_s = [0.0]
    for event_id, at_s in zip(arrivals.event_ids, arrivals.at_s, strict=True):
        if event_id in first_at_s:
            again_after_s.append(at_s - last_at_s[event_id])
        else:
            first_at_s[event_id] = at_s
            order[writer.resource_ids[event_id]].append(event_id)
        last_at_s[event_id] = at_s
    return {
        "events": len(writer.committed_at_s),
        "lost": len(writer.committed_at_s.keys() - first_at_s.keys()),
        "out_of_order": sum(event_ids != sorted(event_ids) for event_ids in order.values()),
        "duplicated": len(arrivals.event_ids) - len(first_at_s),
        "sent_again_after_max_s": max(again_after_s),
        "delivered_after_max_s": max(at_s - writer.committed_at_s[event_id] for event_id, at_s in first_at_s.items()),
    }
