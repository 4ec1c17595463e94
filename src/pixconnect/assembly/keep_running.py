"""What runs beside a process is needed for as long as that lives: what a defect, or a lack of memory, ends is begun again."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog

AGAIN_AFTER_S: Final = 1.0

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def running_beside(*tasks: Callable[[], Awaitable[None]]) -> AsyncGenerator[None]:
    """Keep these running beside the block, and cancel them after it."""
    running = [asyncio.create_task(keep_running(task)) for task in tasks]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def keep_running(run: Callable[[], Awaitable[None]]) -> None:
    """Run until it returns or this is cancelled; what it raises is logged, and it is run again after a moment."""
    has_failed = False
    while True:
        try:
            if has_failed:
                await asyncio.sleep(AGAIN_AFTER_S)
            return await run()
        except Exception:  # noqa: BLE001  as it says
            has_failed = True
            # Who has no memory may have none for a line either.
            with suppress(Exception):
                name = getattr(getattr(run, "func", run), "__qualname__", None)
                _log.exception("what runs beside has failed, and is begun again", task=name)
