"""The tables of callback secrets, and of the webhooks at institutions that ours replaced."""

from __future__ import annotations

from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.features.institutions.rules.sweep import CallbackSecret, KeptWebhook
from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection, Pool

CALLBACK: Final = Table(
    "institution_callback",
    CallbackSecret,
    "institution_id smallint, digest bytea, secret_sealed bytea, made_at timestamptz",
    key=("institution_id",),
)
KEPT: Final = Table(
    "institution_webhook_before",
    KeptWebhook,
    "institution_id smallint, key text, url text, kept_at timestamptz",
    key=("institution_id", "key"),
)


class ActiveCallback(Struct, frozen=True, kw_only=True):
    """Of an account that is not closed: a paused one is read too, so its calls count."""

    institution_id: int
    name: str
    needs_certificate: bool
    digest: bytes


_LIST_READ: Final[LiteralString] = """
    select institution_id, name, coalesce((options ->> 'webhook_mtls')::boolean, false) as needs_certificate, digest
    from institution_callback join institution_account as account on account.id = institution_id where state <> 'closed'
"""


async def list_read(pool: Pool) -> list[ActiveCallback]:
    return [ActiveCallback(**row) for row in await pool.fetch(_LIST_READ)]


async def find(connection: Connection | Pool, institution_id: int) -> CallbackSecret | None:
    return await CALLBACK.find(connection, "where institution_id = $1", institution_id)


# Locked while secrets are sealed again: a secret made meanwhile would be overwritten with the earlier one.


async def lock_all(connection: Connection) -> list[CallbackSecret]:
    return await CALLBACK.find_all(connection, "order by institution_id for no key update")


async def list_kept_webhooks(connection: Connection | Pool, institution_id: int) -> list[KeptWebhook]:
    return await KEPT.find_all(connection, "where institution_id = $1", institution_id)


async def forget_kept(connection: Connection, institution_id: int) -> None:
    await connection.execute("delete from institution_webhook_before where institution_id = $1", institution_id)


async def forget(connection: Connection, institution_id: int) -> None:
    """Delete an account's secret: calls with it are refused."""
    await connection.execute("delete from institution_callback where institution_id = $1", institution_id)
