"""A background task ends by itself or with its process, and by nothing else."""

import asyncio
from functools import partial

import pytest
from structlog.testing import capture_logs

from pixconnect.assembly.base import AGAIN_AFTER_S, keep_running
from support.plain_logs import writing_no_line
from support.waiting import until


async def fail_once(begun: list[int], failure: Exception) -> None:
    begun.append(len(begun))
    if len(begun) == 1:
        raise failure
    await asyncio.Event().wait()


async def test_what_fails_is_told_and_begun_again() -> None:
    begun: list[int] = []
    with capture_logs() as logs:
        task = asyncio.create_task(keep_running(partial(fail_once, begun, LookupError("a defect"))))
        await until(lambda: len(begun) == 2)
    assert [(line["log_level"], line["task"]) for line in logs] == [("error", "fail_once")]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_it_is_begun_again_where_not_even_a_line_can_be_written() -> None:
    begun: list[int] = []
    with writing_no_line():
        task = asyncio.create_task(keep_running(partial(fail_once, begun, MemoryError())))
        await until(lambda: len(begun) == 2)
    task.cancel()
    await asyncio.wait([task])


async def test_what_returns_is_over() -> None:
    async def say() -> None:
        said.append("done")

    said: list[str] = []
    async with asyncio.timeout(AGAIN_AFTER_S / 2):
        await keep_running(say)
    assert said == ["done"]
