"""What runs beside a process, or is opened beside it: tasks that are begun again, the standby to read from, traces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

import structlog

from pixconnect import __version__
from pixconnect.assembly.base import SERVICE_SCHEMA
from pixconnect.config import Settings, SettingsError, is_loopback_host
from pixconnect.domain.frame.trace import Tracer
from pixconnect.foundation import pool
from pixconnect.foundation.privileges import SERVICE_ROLE
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.running.standby import AGE_MAX_S, Standby

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


@asynccontextmanager
async def open_standby(settings: Settings, context: Context, name: str) -> AsyncGenerator[Standby | None]:
    """Watch the standby that the settings name; ``None`` where they name none. It need not be there yet."""
    if not settings.read_database_url:
        yield None
        return
    standby = Standby(context.pool, context.clock, age_max_s=AGE_MAX_S)
    connections = await pool.open_standby_pool(
        settings.read_database_url,
        primary=context.pool,
        role=SERVICE_ROLE,
        schema=SERVICE_SCHEMA,
        connections_max=settings.database_connections_max,
        name=f"{name} standby",
        check=standby.check,
    )
    standby.use(connections)
    # Tables that were put back are others there too.
    context.server.on_start(connections.expire)
    try:
        async with running_beside(standby.keep_watch):
            yield standby
    finally:
        await pool.close_pool(connections)


@asynccontextmanager
async def open_tracer(settings: Settings, process: str) -> AsyncGenerator[Tracer | None]:
    """What sends the spans of a process; ``None`` where none are sent.

    Raises:
        SettingsError: The address is not allowed, or what sends them is not installed.
    """
    if not settings.traces_url:
        yield None
        return
    address = urlsplit(settings.traces_url)
    if settings.mode == "live" and address.scheme != "https" and not is_loopback_host(address.hostname or ""):
        raise SettingsError("PIXCONNECT_TRACES_URL: must be an https:// address, or one of this machine, in live mode")
    try:
        # Here alone: who sends no traces has not these libraries, and loads nothing of them.
        from pixconnect.adapters.tracer import OtlpTracer  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(
            f"PIXCONNECT_TRACES_URL: traces need more packages (there is no {error.name}): pip install 'pixconnect[otel]'"
        ) from None
    tracer = OtlpTracer(settings.traces_url, process, __version__)
    try:
        yield tracer
    finally:
        await tracer.close()
