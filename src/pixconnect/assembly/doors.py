"""What a process that answers callers has beside its context."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from msgspec import Struct

from pixconnect.assembly.base import SERVICE_SCHEMA, Base, connect_as_service, keep_up
from pixconnect.assembly.keep_running import running_beside
from pixconnect.foundation import pool
from pixconnect.foundation.pool import Pool
from pixconnect.foundation.privileges import SERVICE_ROLE
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.identity.keyring import Keyring
from pixconnect.usecases.identity.token import TokenVerifier
from pixconnect.usecases.identity.token_issuer import TokenIssuer
from pixconnect.usecases.institutions.callback import Callbacks
from pixconnect.usecases.webhooks.feed_waits import FeedWaits
from pixconnect.writing.write_queues import QUEUE_LENGTH_MAX


class ApiParts(Struct, frozen=True, kw_only=True):
    """What the API has of its own."""

    context: Context
    keyring: Keyring
    access_pool: Pool
    verifier: TokenVerifier
    issuer: TokenIssuer
    feed_waits: FeedWaits
    callbacks: Callbacks


@asynccontextmanager
async def open_door(base: Base) -> AsyncGenerator[ApiParts]:
    """Open it, and run what it needs beside the block."""
    async with _open_access_pool(base) as access_pool:
        verifier = TokenVerifier(base.context, base.keyring, access_pool)
        base.context.server.on_start(verifier.forget_all)
        feed_waits = FeedWaits(connect_as_service(base.settings, "pixconnect feed"))
        async with running_beside(verifier.keep_fresh, feed_waits.listen, *keep_up(base, for_others=False)):
            yield ApiParts(
                context=base.context,
                keyring=base.keyring,
                access_pool=access_pool,
                verifier=verifier,
                issuer=TokenIssuer(base.context, base.keyring),
                feed_waits=feed_waits,
                callbacks=Callbacks(base.context),
            )


@asynccontextmanager
async def _open_access_pool(base: Base) -> AsyncGenerator[Pool]:
    """One connection, opened by the first caller, for access alone: callers are verified however busy everything else is."""
    connections = await pool.open_pool(
        base.settings.database_url,
        role=SERVICE_ROLE,
        schema=SERVICE_SCHEMA,
        connections_max=1,
        name="pixconnect access",
        waiting_max=QUEUE_LENGTH_MAX,
        look=base.context.server.look,
    )
    try:
        yield connections
    finally:
        await pool.close_pool(connections)
