"""The hosts that are told of Pix keys, whose keys these are, and the hosts that an operator lets several holders share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

from pixconnect.foundation.pool import Connection

HOST_LOCKS: Final = 0x7078_6105
"""A class of advisory locks, by host."""

# As the index has it.
_HOST: Final[LiteralString] = r"rtrim(lower(substring(url from '^[^:]+://(\[[^]]*\]|[^/?#:]*)')), '.')"


async def lock(connection: Connection, host: str) -> None:
    """Let nobody else have a webhook at a host judged until the transaction ends: of two at once, the second sees the first."""
    await connection.execute("select pg_advisory_xact_lock($1, hashtext($2))", HOST_LOCKS, host)


_IS_ANOTHERS: Final[LiteralString] = f"""
    select exists (
        select from webhook_endpoint where pix_key is not null and {_HOST} = any($1) and holder_id <> $2
    ) and not exists (select from allowed_webhook_host where host = any($1))
"""


async def is_anothers(connection: Connection, spellings: Sequence[str], holder_id: int) -> bool:
    """Whether a host gets another holder's notices, and no operator has allowed it for several holders."""
    return await connection.fetchval(_IS_ANOTHERS, spellings, holder_id)


async def allow(connection: Connection, host: str) -> bool:
    """Allow a host for several holders; returns whether that is new."""
    tag = await connection.execute("insert into allowed_webhook_host (host) values ($1) on conflict do nothing", host)
    return tag == "INSERT 0 1"
