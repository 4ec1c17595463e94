"""Checks that the database is the right one: of our mode, the same server as before, durable, its sequences ahead of all ids.

Another server than before is a restored backup or a standby that took over. Both may have lost the last writes, and would give
out ids again that this process still holds: those are thrown away, and the sequences are moved ahead. Only people can compare
what the rail and the holders have been told since; the log asks them to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import structlog

from pixconnect.foundation.pool import Connection
from pixconnect.store import installation as installation_store
from pixconnect.store.installation import Mode, Server
from pixconnect.usecases.operator import OperatorContext

SKIPPED_BLOCKS: Final = 64
"""Blocks of ids skipped after a change of servers: more than all processes can hold of each sequence."""

_log = structlog.get_logger(__name__)


class InstallationError(Exception):
    """We may not work with this database; the message says why, and what to do."""


async def check_mode(connection: Connection, mode: Mode) -> None:
    """Raise ``InstallationError`` for a database of the other mode; a new one takes ours."""
    refuse_other_mode(await installation_store.take_mode(connection, mode), mode)


def refuse_other_mode(found: Mode | None, mode: Mode) -> None:
    """Raise ``InstallationError`` for a database of the other mode; ``None`` is one without tables."""
    if found is None or found == mode:
        return
    raise InstallationError(
        f"this database was made in {found} mode and cannot be used in {mode} mode: set PIXCONNECT_MODE={found}, "
        "or begin with another home or an empty database"
    )


class ServerWatch:
    """Compares the server behind every new connection with the one that this process knows, before it is used."""

    def __init__(self) -> None:
        self._known: Server | None = None
        self._forget: Callable[[], None] = lambda: None

    async def begin(self, connection: Connection, forget: Callable[[], None]) -> None:
        """Compare the server with the one that last held these tables."""
        # Throws away the blocks of ids that this process holds.
        self._forget = forget
        self._known = await installation_store.find_noted_server(connection)
        if self._known is None:
            self._known = await installation_store.read_server(connection)
            await installation_store.note_server(connection, self._known)
        await self.look(connection)

    async def look(self, connection: Connection) -> None:
        """Compare a new connection's server with the one known, and make its commits durable."""
        await installation_store.demand_durable_commits(connection)
        if self._known is None:
            # The process has not begun: nobody has checked yet whether these are our tables.
            return
        found, before = await installation_store.read_server(connection), self._known
        if found != before:
            # Noted only when all is done: if we are interrupted before, the next connection does it again.
            self._forget()
            await installation_store.skip_blocks(connection, SKIPPED_BLOCKS)
            await installation_store.note_server(connection, found)
            self._known = found
            _log.critical(
                "the database is another server than before, a restored backup or a standby that took over: compare with "
                "the rail before you go on (docs/guides/production.md, 'After a restore or a failover')",
                system_identifier=str(found.system_identifier),
                timeline=found.timeline,
                timeline_before=before.timeline,
            )
        behind = await installation_store.catch_up_sequences(connection)
        if behind:
            self._forget()
            _log.critical(
                "sequences were behind the ids that they gave out, and have been moved ahead", sequences=behind
            )


async def check_durability(connection: Connection, mode: Mode) -> None:
    """Log the server's durability settings; in live mode raise ``InstallationError`` for those that may lose a commit."""
    found = await installation_store.read_durability(connection)
    weak = [name for name in ("fsync", "full_page_writes") if found[name] != "on"]
    if weak and mode == "live":
        raise InstallationError(
            f"the database runs with {' and '.join(f'{name} = off' for name in weak)} and may lose what was committed: "
            "set it on in postgresql.conf"
        )
    if weak:
        _log.warning("the database may lose what was committed", **found)
    elif mode == "live":
        _log.info("the database keeps what was committed", **found)


async def describe_database(context: OperatorContext) -> Mapping[str, str | int]:
    """What an operator wants to know about the database: mode, version, identity, durability."""
    async with context.pool.acquire() as connection:
        server = await installation_store.read_server(connection)
        return {
            "mode": await connection.fetchval("select mode from installation"),
            "postgresql": await connection.fetchval("select current_setting('server_version')"),
            "system_identifier": str(server.system_identifier),
            "timeline": server.timeline,
            "in_recovery": str(await connection.fetchval("select pg_is_in_recovery()")).lower(),
            **await installation_store.read_durability(connection),
        }
