"""Holders that callers make for their tests, in a sandbox only: a function does it that runs as the owner."""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString

from pixconnect.domain.money.pix_key import PixKey
from pixconnect.foundation import privileges
from pixconnect.foundation.pool import Connection
from pixconnect.store.identity.access import StoredClient

_OPEN: Final[LiteralString] = "select open_sandbox_holder($1, $2, $3, $4, $5, $6::text[], $7, $8, $9, $10, $11, $12)"


async def open_sandbox_holder(
    connection: Connection,
    name: str,
    tax_id: str,
    key: PixKey,
    client: StoredClient,
    *,
    now: datetime,
    asked_by: str,
    holders_max: int,
) -> int | None:
    """Make a holder with an empty account, this key and this client, and note it in the audit.

    Answers its id, or ``None`` if there are as many as there may be. Outside a sandbox PostgreSQL refuses it.
    """
    own = client.client
    # As for deposits, we take this role for one statement.
    await connection.execute(f"set local role {privileges.FUNDING_ROLE}")
    holder_id: int | None = await connection.fetchval(
        _OPEN,
        *(name, tax_id, key.key, now, own.name, list(own.scopes), own.client_id),
        *(client.secret_hash, client.secret_key_id, own.created_at, asked_by, holders_max),
    )
    await connection.execute(f"set local role {privileges.SERVICE_ROLE}")
    return holder_id
