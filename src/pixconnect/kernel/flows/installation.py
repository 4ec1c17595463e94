"""Checks that the database has our mode, is durable, and has lost nothing that no operator has acknowledged."""

from collections.abc import Mapping, Sequence

import structlog

from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator, write_alone
from pixconnect.kernel.tables import database_loss as loss_store
from pixconnect.kernel.tables import installation as installation_store
from pixconnect.kernel.tables.database_loss import Loss
from pixconnect.kernel.tables.installation import Mode
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool

_log = structlog.get_logger(__name__)


class InstallationError(Exception):
    """This database must not be used; the message states the reason and the remedy."""


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


async def check_durability(connection: Connection, mode: Mode) -> None:
    """Log the server's durability settings; in live mode raise ``InstallationError`` for those that may lose a commit."""
    found = await installation_store.read_durability(connection)
    # Settings of the server. Each of our sessions sets ``synchronous_commit`` itself, so it is not checked.
    weak = [name for name in ("fsync", "full_page_writes") if found[name] != "on"]
    if weak and mode == "live":
        raise InstallationError(
            f"the database runs with {' and '.join(f'{name} = off' for name in weak)} and may lose committed "
            "data: set it on in postgresql.conf"
        )
    if weak:
        _log.warning("the database may lose committed data", **found)
    elif mode == "live":
        _log.info("the database keeps committed data", **found)


async def describe_database(context: Operator) -> Mapping[str, str | int]:
    """Describe the database for an operator: mode, version, identity, durability."""
    async with context.pool.acquire() as connection:
        server = await installation_store.read_server(connection)
        losses = await loss_store.find_losses(connection)
        lost: dict[str, str | int] = {"losses_count": len(losses)}
        # If the service's last position is unknown, the beginning of the loss is unknown too.
        if known := [loss.known_until for loss in losses if loss.known_until is not None]:
            lost |= {"forgotten_since": min(known).isoformat(), "forgotten_until": losses[-1].noticed_at.isoformat()}
        return {
            "mode": await connection.fetchval("select mode from installation"),
            "postgresql": await connection.fetchval("select current_setting('server_version')"),
            "system_identifier": str(server.system_identifier),
            "timeline": server.timeline,
            "database_oid": server.database_oid,
            "started_at": server.started_at.isoformat(),
            **lost,
            "inherited": "; ".join(await installation_store.list_inherited(connection)),
            "in_recovery": str(await connection.fetchval("select pg_is_in_recovery()")).lower(),
            **await installation_store.read_durability(connection),
        }


async def check_losses(pool: Pool) -> None:
    """Health check: facts that the database has lost and no operator has acknowledged."""
    if losses := await loss_store.find_losses(pool):
        raise errors.ServiceUnavailable(
            f"the database has forgotten something ({losses[-1].reason}): read 'After a restore or a failover' in the guide to "
            "production, and end this by `pixconnect database recovered`"
        )


async def close_losses(context: Operator) -> Sequence[Loss]:
    """Record that an operator has acknowledged the database's losses and repaired what they require."""
    async with write_alone(context.pool) as connection:
        losses = await loss_store.find_losses(connection)
        if not losses:
            raise errors.NotFound("database: nothing is known to be forgotten that an operator has not read of")
        await loss_store.close_losses(connection, [loss.id for loss in losses], context.operator)
        await audit.record(
            context,
            connection,
            "database recovered",
            "database",
            before={"losses": [f"{loss.noticed_at.isoformat()}: {loss.reason}" for loss in losses]},
        )
    return losses
