"""Compares the database's server with the known one before a connection is used: it may have lost data.

::

    the same as known ───────────────────────────────────────────────── nothing to do
    restarted ──────────── ids move ahead, caches are dropped; orders open before and too late are queried, never given up
    a standby of our cluster took over that had each commit ─────────── the same
    another server, timeline or database, other tables, or less ─────── the same, each open order counts as handed over, and
    one that had these tables before ───────────────────────────────── accounts at institutions are paused
    tables of another installation ──────────────────────────────────── not used, until its address leads to ours again

A restored copy of the data looks like any other start, so each start is handled as the second line. A detected loss is handled
as the fourth: money may have moved without a row in these tables, so we alert an operator. Each is one transaction under one
lock, which ends before any connection to that server does anything else. If the process is killed in it, only ids are skipped.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

import asyncpg
import structlog

from pixconnect.kernel.rules.order import FirstIds
from pixconnect.kernel.tables import database_loss as loss_store
from pixconnect.kernel.tables import installation as installation_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.database_server import DatabaseServer, ServerMemory
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.pool import Connection, Pool

NOTE_EVERY_S: Final = 10.0  # how often a process reads the server's position: a loss of less than this may go undetected
HIGH_WATER_EVERY: Final = 6
"""Position notes per note of the ids: a start after a stop of a minute skips the ids that a minute may use."""

_log = structlog.get_logger(__name__)


class ServerWatch:
    """One process's record of the database's server.

    Args:
        memory: A record outside of the data, which outlives this process; without it only this process's observations count.
        has_rail: Whether there is a rail. Without one, only orders over accounts at institutions can have been sent, even if
            lost.
        must_last: Use no server whose settings may lose committed data.
        cluster: Use only servers of this cluster, and trust that a takeover in it has each commit that was waited for.
        is_remembered: Whether an observed start is recorded, here and in ``memory``: a verb may read a copy that does not
            serve.
    """

    def __init__(
        self,
        memory: ServerMemory | None = None,
        *,
        has_rail: bool = True,
        must_last: bool = False,
        cluster: str = "",
        is_remembered: bool = True,
    ) -> None:
        self._memory = memory
        self._is_remembered = is_remembered
        self._has_rail = has_rail
        self._cluster = cluster
        self._must_last = must_last
        self._refused_at: datetime | None = None
        self._judging = asyncio.Lock()
        self._counted_at_s = float("-inf")  # when the last comparison of sequences with ids began
        self._has_begun = False
        self._known: DatabaseServer | None = None
        self._latest: DatabaseServer | None = None  # the furthest known position of the server; at first the remembered one
        self._forgetters: list[Callable[[], None]] = []
        self.first_ids = FirstIds()  # the first ids after the last start that this process knows of

    def on_start(self, *forgetters: Callable[[], None]) -> None:
        """Register caches to empty when the server restarts or is another: it may have lost rows that they still hold."""
        # Copies of a context share its caches, and each of them registers them when it is made.
        self._forgetters += [each for each in forgetters if each not in self._forgetters]

    async def begin(self, connection: Connection) -> None:
        """Compare the server with the one that last held these tables; the caller has checked that it is ours."""
        self._has_begun = True
        # Before the first look: the present state is compared with the previous process's record.
        self._latest = None if self._memory is None else self._memory.read()
        await self.look(connection)

    async def look(self, connection: Connection) -> None:
        """Compare a new connection's server with the known one, and make its commits durable."""
        if not self._has_begun:
            # Not yet checked: whether these are our tables.
            await installation_store.demand_durable_commits(connection)
            return
        # Read our record first: while the answer comes, other processes may note a later position.
        latest, asked_at_s = self._latest, time.monotonic()
        session = await installation_store.prepare_session(connection)
        self._refuse(session)
        found = session.server
        # If connections are opened together, one handles another server; the rest find it handled.
        async with self._judging:
            if self._is_new(found) or (latest is not None and found.is_behind(latest)):
                await self._meet(connection, found, latest)
            if self._counted_at_s < asked_at_s:
                await self._catch_up(connection)

    def _refuse(self, session: installation_store.PreparedSession) -> None:
        """Raise the error of an unreachable server, so that the caller retries until this or another server qualifies."""
        if session.is_standby:
            # A session outlives its promotion, and would not be checked again.
            raise asyncpg.ReadOnlySQLTransactionError("the server is a standby")
        if session.weak and self._must_last:
            self._complain(session.server, "the database may lose committed data, and is not used", off=session.weak)
            raise ConnectionRefusedError(f"the database runs with {' and '.join(session.weak)} off")
        if self._cluster and session.cluster != self._cluster:
            raise ConnectionRefusedError(
                f'the server is of the cluster "{session.cluster}", and the settings name "{self._cluster}"'
            )
        known = self._known
        if known is not None and session.server.made_at != known.made_at:
            # Nothing else distinguishes them: its own processes recognize it as their server.
            self._complain(session.server, "the database is that of another installation, and is not used")
            raise ConnectionRefusedError("the database is that of another installation")
        latest = self._latest
        if self._cluster and latest is not None and session.server.is_replaced_by(latest):
            # With two primaries, the old one's answer proves nothing, and it can commit nothing.
            raise ConnectionRefusedError(
                f"the server is on timeline {session.server.timeline}, and another of its cluster has been on {latest.timeline}"
            )

    def _complain(self, server: DatabaseServer, event: str, **facts: object) -> None:
        # Once for each start of a server: every new connection comes by here.
        if self._refused_at != server.started_at:
            self._refused_at = server.started_at
            _log.critical(event, **facts)

    def _is_new(self, found: DatabaseServer) -> bool:
        known = self._known
        return known is None or found.identity != known.identity or found.started_at != known.started_at

    async def _catch_up(self, connection: Connection) -> None:
        began_at_s = time.monotonic()
        behind = await installation_store.catch_up_sequences(connection)
        # By its beginning: a comparison that began before a session was asked does not count for that session.
        self._counted_at_s = began_at_s
        if behind:
            self._forget()
            _log.critical("sequences were behind the ids that they gave out, and have been moved ahead", sequences=behind)

    async def keep_noting(self, pool: Pool, *, for_others: bool, every_s: float = NOTE_EVERY_S) -> None:
        """Record the server's position until cancelled; ``for_others`` also stores it, and the latest ids, in the database."""
        # The keys are read every second time: at the same moment both would need a connection.
        pause_s = every_s / 2
        while True:
            for number in range(HIGH_WATER_EVERY):
                try:
                    async with pool.acquire() as connection:
                        is_news = await self.note(connection)
                        if for_others:
                            await self._note_cluster(connection)
                        if for_others and number == 0:
                            await installation_store.note_high_water(connection)
                    if for_others and is_news:
                        self._write()
                # A missing record makes the next loss look smaller, and stops no process: connections are compared when they
                # are opened.
                except (*DATABASE_FAILED, errors.ServiceUnavailable) as error:
                    _log.debug("the database's position is not known", reason=type(error).__name__)
                await asyncio.sleep(pause_s)
                pause_s = every_s

    async def _note_cluster(self, connection: Connection) -> None:
        if await installation_store.note_cluster(connection) and self._cluster:
            if await installation_store.find_waiting_cluster(connection):
                _log.info("commits wait for a standby")
            else:
                _log.critical("commits wait for no standby: a takeover may lose confirmed data")

    async def note(self, connection: Connection) -> bool:
        """Read the server's position; return whether it is further than we knew."""
        if self._cluster:
            # Rows only on the primary may be lost with it, and no answer depended on them.
            found = await installation_store.read_server_at_standbys(connection)
        else:
            found = await installation_store.read_server(connection)
        # A connection from before the server was replaced proves nothing about the present one.
        if self._is_new(found):
            return False
        is_news = self._latest is None or self._latest.is_behind(found)
        if is_news:
            self._latest = found
        return is_news

    async def _meet(self, connection: Connection, found: DatabaseServer, latest: DatabaseServer | None) -> None:
        before = latest if latest is not None and found.is_behind(latest) else None
        reason: str | None = None
        orders_count = accounts_count = 0
        async with connection.transaction():
            # All processes meet a new server at once: the first handles it under this lock, and the others find it recorded.
            await installation_store.lock_noted_server(connection)
            noted = await installation_store.find_noted_server(connection, found, latest)
            # A loss that another process has counted is not counted again.
            if before is not None and await self._is_known(connection, found, before):
                before = None
            has_waited = bool(self._cluster) and await installation_store.find_waiting_cluster(connection) == self._cluster
            # A takeover is trusted only where commits are known to have waited for a standby, and nothing is missing.
            if noted is not None and not (has_waited and before is None and found.takes_over_from(noted, latest)):
                reason = _what_was_seen(found, noted, before)
            if reason is not None:
                # Before the server is recorded as known, and before any order can be moved at it.
                orders_count = await loss_store.count_orders_as_handed(connection, has_rail=self._has_rail)
                accounts_count = await loss_store.insert_loss(connection, reason, found, before, orders_count)
            # At an ordinary start too: restored data looks like one.
            if noted is not None and (reason is not None or noted.started_at != found.started_at):
                await installation_store.move_ids_ahead(connection)
            # Verbs that did not observe the start would hide from all other processes that they were elsewhere meanwhile. A
            # serving process compares with its own record, so a verb records no start for it.
            if self._is_remembered or noted is None or reason is not None:
                await installation_store.note_server(connection, found, has_come=noted is None or reason is not None)
            await installation_store.note_cluster(connection)
            self.first_ids = await installation_store.read_first_ids(connection)
        self._forget()
        # Only now known: had the transaction failed, the next connection would check the same server again.
        self._known = self._latest = found
        self._write()
        if reason is None and noted is not None and noted.timeline != found.timeline:
            _log.warning("a standby has taken over, with all that was answered", timeline=found.timeline)
        if reason is not None:
            _log.critical(
                "the database has forgotten something: the worker asks the rail about all open orders and gives none up; "
                "compare with the rail before you go on (docs/guides/production.md, 'After a restore or a failover')",
                seen=reason,
                orders_count=orders_count,
                accounts_count=accounts_count,
                system_identifier=str(found.system_identifier),
                timeline=found.timeline,
            )

    async def _is_known(self, connection: Connection, found: DatabaseServer, before: DatabaseServer) -> bool:
        if before.place == found.place:
            return await loss_store.is_known_to_be_behind(connection, before)
        # The earlier holder of the lock has met it since.
        return not (await installation_store.read_server(connection)).was_left_for(before)

    def _write(self) -> None:
        if self._memory is not None and self._latest is not None and self._is_remembered:
            self._memory.write(self._latest)

    def _forget(self) -> None:
        for forget in self._forgetters:
            forget()


def _what_was_seen(found: DatabaseServer, noted: DatabaseServer, before: DatabaseServer | None) -> str | None:
    """Find why the data cannot be complete; ``before`` is given if the server is behind it."""
    # From the most to the least significant: another server has another timeline and other positions as well.
    if found.system_identifier != noted.system_identifier:
        return f"another server: its system identifier was {noted.system_identifier}"
    if found.timeline != noted.timeline:
        return f"another timeline, {found.timeline} after {noted.timeline}: a restore, or a standby that took over"
    if found.database_oid != noted.database_oid:
        return f"another database of the same server, {found.database_oid} after {noted.database_oid}: a dump was restored"
    if found.tables_oid != noted.tables_oid:
        return f"other tables in place of ours, {found.tables_oid} after {noted.tables_oid}: a dump was restored over them"
    if before is not None and before.place != found.place:
        return f"its tables were at another place since, {before.system_identifier}: last seen there at {before.seen_at}"
    if before is not None and (found.timeline, found.position) < (before.timeline, before.position):
        octets = before.position - found.position
        return f"its write-ahead log is behind what it was: timeline {before.timeline}, {octets} octets more"
    if before is not None:
        return f"older data was put back: ids were noted in it {found.notes_count} times, and had been {before.notes_count}"
    return None
