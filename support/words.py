"""Words: requests that are written as one row each, to try group commit with."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from pixconnect.domain import errors
from pixconnect.usecases import stalled_lanes
from pixconnect.usecases.group_commit import Group, GroupCommit
from support.service import Service

if TYPE_CHECKING:
    from pixconnect.foundation.pool import Connection


class Word(Struct, frozen=True, kw_only=True):
    """A request that is written as one row of a table of the test's own."""

    holder_id: int = 1
    external_id: str | None = None
    text: str = "good"


class Words:
    """Writes words, as a use case would; ``locked`` holders are waited for."""

    def __init__(self) -> None:
        self.admits = False
        self.groups: list[list[str]] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def write(self, connection: "Connection", group: Group[Word]) -> list[str | errors.PixConnectError]:
        self.groups.append([word.text for word in group])
        await self.may_go_on.wait()
        holder_ids = sorted({word.holder_id for word in group})
        await connection.fetch(
            "select holder_id from balance where holder_id = any($1) order by holder_id for no key update", holder_ids
        )
        if self.admits:
            group.admit(lambda word: word.holder_id in holder_ids)
            self.groups[-1] = [word.text for word in group]
        if any(word.text == "defect" for word in group):
            raise KeyError("a defect of ours")
        await connection.executemany(
            "insert into tally_change select $1, 'charge', $2, now(), 1",
            [(word.holder_id, word.text) for word in group],
        )
        return [errors.InsufficientFunds("refused") if word.text == "refused" else word.text for word in group]

    async def first_group(self) -> None:
        """Wait until a group is being written."""
        async with asyncio.timeout(60):
            while not self.groups:  # noqa: ASYNC110  nothing tells
                await asyncio.sleep(0.01)

    async def written(self, service: Service) -> list[str]:
        return [
            row["status"] for row in await service.context.pool.fetch("select status from tally_change order by status")
        ]


@asynccontextmanager
async def open_words(service: Service, **limits: int) -> AsyncIterator[tuple[Words, GroupCommit[Word, str]]]:
    words = Words()
    commit: GroupCommit[Word, str] = GroupCommit(
        words.write,
        pool=service.context.pool,
        clock=service.clock,
        on_commit=lambda _: None,
        lane_places=asyncio.Semaphore(stalled_lanes.LANES_AT_ONCE_MAX),
        **({"size_max": 256, "queue_length_max": 4096} | limits),
    )
    try:
        yield words, commit
    finally:
        words.may_go_on.set()
        await commit.close()


async def outcomes_of(commit: GroupCommit[Word, str], words: Sequence[Word]) -> list[str | BaseException]:
    return await asyncio.gather(*(commit.submit(word) for word in words), return_exceptions=True)
