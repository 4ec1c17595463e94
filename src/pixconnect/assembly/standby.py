"""Opens the standby from which a process reads what need not be the newest."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pixconnect.assembly.base import SERVICE_SCHEMA
from pixconnect.assembly.keep_running import running_beside
from pixconnect.config import Settings
from pixconnect.foundation import pool
from pixconnect.foundation.privileges import SERVICE_ROLE
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.running.standby import AGE_MAX_S, Standby


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
