"""Webhooks of Pix keys by their keys; what they share with other endpoints is in ``store/webhooks/endpoint.py``.

The hosts that are told of Pix keys, whose keys these are, and the hosts that an operator lets several holders share.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from pixconnect.domain.frame.listing import Page, Span
from pixconnect.domain.webhooks.key_webhook import KeyWebhook
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import Table

KEY_WEBHOOK: Final = Table(
    "key_webhook",
    KeyWebhook,
    "pix_key text, holder_id bigint, endpoint_id bigint, created_at timestamptz",
    key=("pix_key",),
    joined=("url",),
)

_SELECT: Final[LiteralString] = f"""
    select {KEY_WEBHOOK.select}, url from key_webhook join webhook_endpoint on webhook_endpoint.id = endpoint_id
"""


async def find(connection: Connection | Pool, holder_id: int, pix_key: str) -> KeyWebhook | None:
    where: LiteralString = "where key_webhook.pix_key = $1 and key_webhook.holder_id = $2"
    return KEY_WEBHOOK.read_found(await connection.fetchrow(f"{_SELECT} {where}", pix_key, holder_id))


async def insert(connection: Connection, webhook: KeyWebhook) -> None:
    """Name an endpoint by its key.

    Raises:
        asyncpg.ForeignKeyViolationError: The key was removed meanwhile.
    """
    await KEY_WEBHOOK.insert(connection, webhook)


async def set_created(connection: Connection, pix_key: str, created_at: datetime) -> None:
    await connection.execute("update key_webhook set created_at = $2 where pix_key = $1", pix_key, created_at)


_IN_SPAN: Final[LiteralString] = """
    key_webhook.holder_id = $1 and key_webhook.created_at >= coalesce($2, '-infinity'::timestamptz)
        and key_webhook.created_at <= coalesce($3, 'infinity'::timestamptz)
"""
_COUNT: Final[LiteralString] = f"select count(*) from key_webhook where {_IN_SPAN}"
_PAGE: Final[LiteralString] = f"""
    {_SELECT} where {_IN_SPAN} order by key_webhook.created_at desc, key_webhook.pix_key desc offset $4 limit $5
"""


async def read_page(pool: Pool, holder_id: int, span: Span) -> Page[KeyWebhook]:
    """One page of a holder's webhooks of keys, the one that was set last first, and how many there are."""
    # As many as a holder has keys: few enough to be counted each time.
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        count = await connection.fetchval(_COUNT, holder_id, span.initial_at, span.final_at)
        rows = await connection.fetch(
            _PAGE, holder_id, span.initial_at, span.final_at, min(span.position, 2**62), span.page_size
        )
    return Page(items=[KEY_WEBHOOK.read(row) for row in rows], total_count=count)


async def delete(connection: Connection, holder_id: int, pix_key: str) -> bool:
    """Forget the webhook of a key; its deliveries stay until their time is over. Returns whether there was one."""
    statement: LiteralString = "delete from webhook_endpoint where holder_id = $1 and pix_key = $2"
    return await connection.execute(statement, holder_id, pix_key) != "DELETE 0"


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
