"""Batches concurrent requests: while one batch runs, the next one fills.

::

    a ─► [a] ────────► answered
          b, c wait ─► [b, c] ─► answered

No request waits for a timer: one request alone is a batch of one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Batches(Generic[Item, Answer]):
    """Batches of one kind of query, one at a time, answered in order; an error of ``ask`` is raised to the whole batch."""

    def __init__(self, ask: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]], size_max: int) -> None:
        self._ask = ask
        self._size_max = size_max
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._running: asyncio.Task[None] | None = None

    async def ask(self, item: Item) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._running is None:
            # It acts for all callers: the first one's holder and request id must not apply to all.
            self._running = asyncio.get_running_loop().create_task(self._run(), context=Context())
        return await answer

    async def _run(self) -> None:
        batch: Sequence[tuple[Item, asyncio.Future[Answer]]] = ()
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._size_max], self._waiting[self._size_max :]
                # A caller that went away while waiting is skipped.
                batch = [(item, answer) for item, answer in batch if not answer.done()]
                if batch:
                    await self._run_batch(batch)
        finally:
            self._running = None
            # This process ends: otherwise they would wait for ever.
            for _, answer in (*batch, *self._waiting):
                answer.cancel()

    async def _run_batch(self, batch: Sequence[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._ask([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 every caller of the batch gets the batch's failure
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, answer), given in zip(batch, answers, strict=True):
            if not answer.done():
                answer.set_result(given)
