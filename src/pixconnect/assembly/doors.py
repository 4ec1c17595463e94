"""What a process that answers callers has of each cell beside its context, and how it is asked by whoever serves all."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from msgspec import Struct

from pixconnect.assembly.base import SERVICE_SCHEMA, Base, connect_as_service, keep_up
from pixconnect.assembly.keep_running import running_beside
from pixconnect.flow.overload import Admission
from pixconnect.foundation import pool
from pixconnect.foundation.pool import Pool
from pixconnect.foundation.privileges import SERVICE_ROLE
from pixconnect.usecases.frame.cells import ByCell, UnreachableCells
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.identity.cell_access import CellIssuer, CellKeys, CellVerifier
from pixconnect.usecases.identity.keyring import Keyring
from pixconnect.usecases.identity.token import TokenVerifier
from pixconnect.usecases.identity.token_issuer import TokenIssuer
from pixconnect.usecases.institutions.callback import Callbacks, CellCallbacks
from pixconnect.usecases.webhooks.feed_waits import FeedWaits


class CellDoor(Struct, frozen=True, kw_only=True):
    """By which callers of one cell come in."""

    context: Context
    keyring: Keyring
    access_pool: Pool
    verifier: TokenVerifier
    issuer: TokenIssuer
    feed_waits: FeedWaits
    callbacks: Callbacks


@asynccontextmanager
async def open_door(base: Base) -> AsyncGenerator[CellDoor]:
    """Open a cell's, and run what it needs beside the block."""
    async with _open_access_pool(base) as access_pool:
        verifier = TokenVerifier(base.context, base.keyring, access_pool)
        base.context.server.on_start(verifier.forget_all)
        feed_waits = FeedWaits(connect_as_service(base.settings, "pixconnect feed"))
        async with running_beside(verifier.keep_fresh, feed_waits.listen, *keep_up(base, for_others=False)):
            yield CellDoor(
                context=base.context,
                keyring=base.keyring,
                access_pool=access_pool,
                verifier=verifier,
                issuer=TokenIssuer(base.context, base.keyring),
                feed_waits=feed_waits,
                callbacks=Callbacks(base.context),
            )


class CellDoors:
    """Those of all cells that this process serves."""

    def __init__(self, home: CellDoor, away: UnreachableCells) -> None:
        self.cells = ByCell(home.context, away)
        self.feed_waits = ByCell(home.feed_waits, away)
        self.keyrings = ByCell(home.keyring, away)
        self._verifiers = ByCell(home.verifier, away)
        self._issuers = ByCell(home.issuer, away)
        self._callbacks = ByCell(home.callbacks, away)
        self.admissions = ByCell[Admission](home.context.writes.overload, away)
        self.keys = CellKeys(self.keyrings)
        self.verifier = CellVerifier(self._verifiers)
        self.issuer = CellIssuer(self._issuers)
        self.callbacks = CellCallbacks(self._callbacks)

    def open(self, number: int, door: CellDoor) -> None:
        """Let a cell's callers in; a verifier that finds them is added last."""
        self.cells.add(number, door.context)
        self.feed_waits.add(number, door.feed_waits)
        self.keyrings.add(number, door.keyring)
        self._callbacks.add(number, door.callbacks)
        self.admissions.add(number, door.context.writes.overload)
        self._issuers.add(number, door.issuer)
        self._verifiers.add(number, door.verifier)

    def close(self, number: int, door: CellDoor) -> None:
        """Let nobody in by this door any more; whoever waits for events is answered, and asks again."""
        self._verifiers.remove(number, door.verifier)
        self._issuers.remove(number, door.issuer)
        self.admissions.remove(number, door.context.writes.overload)
        self._callbacks.remove(number, door.callbacks)
        self.keyrings.remove(number, door.keyring)
        self.feed_waits.remove(number, door.feed_waits)
        self.cells.remove(number, door.context)
        door.feed_waits.end()

    def end_waits(self) -> None:
        """Answer whoever waits for events: the process is about to stop."""
        for waits in self.feed_waits:
            waits.end()


@asynccontextmanager
async def _open_access_pool(base: Base) -> AsyncGenerator[Pool]:
    """One connection, opened by the first caller, for access alone: callers are verified however busy everything else is."""
    connections = await pool.open_pool(
        base.settings.database_url,
        role=SERVICE_ROLE,
        schema=SERVICE_SCHEMA,
        connections_max=1,
        name="pixconnect access",
        waiting_max=base.settings.queue_length_max,
        look=base.context.server.look,
    )
    try:
        yield connections
    finally:
        await pool.close_pool(connections)
