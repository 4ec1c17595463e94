"""Which holders get batches of their own."""

import asyncio
from collections.abc import Sequence

import pytest

from pixconnect.platform.flow.shares import FairQueue
from pixconnect.platform.flow.stalled_holders import SENT_MIN, BusyHolder


def raise_on_drop(_: int) -> None:
    raise AssertionError("there is room")


@pytest.mark.parametrize(
    ("written", "waiting", "busy"),
    [
        ([1] * (SENT_MIN - 3) + [2], [1, 1, 1, 3], 1), ([1] * SENT_MIN, [], 1), ([2], [1] * SENT_MIN, 1),
        ([1] * (SENT_MIN - 1), [2], None), ([1] * SENT_MIN + [2] * SENT_MIN, [3], None), ([], [], None),
    ],
    ids=["of the last batch and of what waits", "alone", "of what waits", "a few", "as many as others", "nobody"],
)  # fmt: skip
async def test_the_largest_sender_is_apart(written: Sequence[int], waiting: Sequence[int], busy: int | None) -> None:
    queue: FairQueue[int] = FairQueue(100, raise_on_drop)
    ended = asyncio.Event()

    async def write_next() -> bool:
        return bool(queue.take(100, may_have=lambda holder_id: holder_id == chosen.holder_id))

    for holder_id in waiting:
        queue.put(holder_id, holder_id)
    chosen = BusyHolder(queue, write_next, ended.set)
    chosen.choose(written)
    assert chosen.holder_id == busy
    if busy is not None:
        chosen.end_soon()
        async with asyncio.timeout(60):
            await ended.wait()
        assert not queue.has(busy)
        assert chosen.holder_id is None
