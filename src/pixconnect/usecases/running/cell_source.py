"""Whether a cell can be copied from its database as that is: what it has forgotten a copy may still have, or never knows."""

from __future__ import annotations

from pixconnect.domain.running.known_cell import KnownCell
from pixconnect.foundation.pool import Connection
from pixconnect.store.running import database_loss as loss_store
from pixconnect.store.running import installation as installation_store
from pixconnect.usecases.running.installation import InstallationError


async def refuse_source(source: Connection) -> None:
    if await source.fetchval("select pg_is_in_recovery()"):
        raise InstallationError(
            "the cell's database only reads: it is a standby, and its address is to name the primary"
        )
    level = await source.fetchval("select current_setting('wal_level')")
    if level != "logical":
        raise InstallationError(
            f"the cell's server keeps no logical log: set wal_level = logical there (it is {level}), and start it again"
        )


async def refuse_unmet(source: Connection) -> None:
    """Raise ``InstallationError`` where nobody has judged yet what the source has forgotten: the target would not know it."""
    found = await installation_store.read_server(source)
    noted = await installation_store.find_noted_server(source, found, None)
    # A copy of its files that was put back is the same server, started again.
    is_met = noted is None or (noted.identity, noted.started_at) == (found.identity, found.started_at)
    if not is_met or await installation_store.was_elsewhere(source):
        raise InstallationError(
            "the cell's server was started again, or its database is another one than before, and nothing has served it since: "
            "let services meet it first, which see what it has forgotten"
        )


async def refuse_ahead(source: Connection, known: KnownCell) -> None:
    """Raise ``InstallationError`` where the copy may have what the source has forgotten since: the two never become alike."""
    if await loss_store.has_forgotten(source, known.copy_name):
        raise InstallationError(
            f"the database of the cell {known.name} was put back, or taken over, while it was being copied, and the copy may "
            f"have what it has forgotten: run `pixconnect cell move {known.name} --cancel`, and begin with an empty database"
        )
