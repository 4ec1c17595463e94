"""The tables of webhook endpoints, of webhooks of Pix keys and of keys that sign callbacks.

Also the hosts with key webhooks, their holders, and the hosts that an operator permits several holders to share.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, LiteralString

from pixconnect.features.webhooks.rules.endpoint import CallbackKey, Endpoint, EndpointStatus, KeyWebhook
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables.lookup import (
    Column,
    Command,
    FindAll,
    FindBy,
    FindOne,
    Pairs,
    ReadOne,
    Tuples,
    Value,
    counted_page,
)
from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection, Pool

ENDPOINT: Final = Table(
    "webhook_endpoint",
    Endpoint,
    """
    id bigint, holder_id bigint, url text, event_types text[], status text, status_reason text, secret bytea,
    previous_secret bytea, previous_secret_until timestamptz, first_failure_at timestamptz, created_at timestamptz,
    modified_at timestamptz, pix_key text, profile text, only_with_txid boolean, name text, authorization_sealed bytea
    """,
    read={
        "event_types": (tuple, "event_types"),
        "secret_sealed": (None, "secret"),
        "previous_secret_sealed": (None, "previous_secret"),
    },
    write={
        "secret": lambda endpoint: endpoint.secret_sealed,
        "previous_secret": lambda endpoint: endpoint.previous_secret_sealed,
    },
)

next_id: Final = Value[int]("select nextval('webhook_endpoint_id') where refuse_old_session()")
"""Return an id for a new endpoint; its secret's seal is bound to it."""

# Webhooks of Pix keys are named by their keys, and are not counted with the others.
count: Final = Value[int, int]("select count(*) from webhook_endpoint where holder_id = $1 and pix_key is null")

insert: Final = ENDPOINT.insert

_OWN: Final[LiteralString] = "where id = $2 and holder_id = $1 and pix_key is null"

find: Final = FindOne[Endpoint, int, int](ENDPOINT, _OWN)

list_of_account: Final = FindAll[Endpoint, int, str](
    ENDPOINT, "where holder_id = $1 and profile = $2 and pix_key is null order by id"
)
"""The endpoints that receive the holder's sends in this institution's format, by id."""

find_many: Final = FindBy[int, Endpoint, Sequence[int]](ENDPOINT, "id", "where id = any($1)")
"""Endpoints in their present state, by id, of any holder."""

lock_by_id: Final = FindOne[Endpoint, int](ENDPOINT, "where id = $1 for no key update")

list_all: Final = FindAll[Endpoint, int | None, EndpointStatus | Literal["failing"] | None, int](
    ENDPOINT,
    """where (holder_id = $1 or $1 is null) and case $2 when 'failing' then status = 'active' and first_failure_at is not null
        else status = $2 or $2 is null end order by id limit $3""",
)

read_oldest_failure: Final = Value[datetime | None]("""
    select min(first_failure_at) from webhook_endpoint where status = 'active' and first_failure_at is not null
""")
"""Return since when an active endpoint has failed, for the one that has failed longest."""

find_last_errors: Final = Pairs[int, str, Sequence[int]]("""
    select endpoint.id, newest.error from unnest($1::bigint[]) as endpoint (id) cross join lateral (
        select attempt.error from (
            select * from delivery where endpoint_id = endpoint.id and status = 'pending'
                and attempts_count > 0 and covered_by is null order by resource_id, event_id, delivery.id limit 20
        ) as tried join delivery_attempt as attempt on delivery_id = tried.id and number = attempts_count
        order by started_at desc limit 1
    ) as newest
""")
"""The error of the newest attempt for the oldest pending deliveries of each endpoint."""

list_removed: Final = Column[int, int]("select id from removed_endpoint where holder_id = $1 order by removed_at desc")

find_some: Final = FindAll[Endpoint, int | None, int | None, int](
    ENDPOINT, "where (holder_id = $1 or $1 is null) and (id = $2 or $2 is null) order by id limit $3"
)

# By the index of pending ones only; counting stops at the bound. A delivery behind another of its resource is not due.
_READ_BACKLOGS: Final[LiteralString] = """
    select endpoint.id, backlog.* from unnest($1::bigint[]) as endpoint (id)
    cross join lateral (
        select count(*) as count, min(due_at) filter (where place = 1) as next_at from (
            select due_at, row_number() over (partition by resource_id, resource order by event_id, id) as place from (
                select * from delivery where endpoint_id = endpoint.id and status = 'pending'
                order by resource_id, event_id, delivery.id limit $2
            ) as pending
        ) as waiting
    ) as backlog
"""


async def read_backlogs(pool: Pool, endpoint_ids: Sequence[int], count_max: int) -> dict[int, tuple[int, datetime | None]]:
    """Count each endpoint's pending deliveries up to a bound, and return when the next one is sent."""
    rows = await pool.fetch(_READ_BACKLOGS, endpoint_ids, count_max)
    return {row["id"]: (row["count"], row["next_at"]) for row in rows}


lock: Final = FindOne[Endpoint, int, int](ENDPOINT, f"{_OWN} for no key update")

lock_concerned: Final = FindAll[Endpoint, Sequence[int], Sequence[int]](
    ENDPOINT, "where id = any($1) and (id = any($2) or first_failure_at is not null) order by id for no key update"
)
"""Lock the endpoints of these attempts that may change: they failed now or had failed before."""

update: Final = ENDPOINT.updating(ENDPOINT.without("created_at", "pix_key"))

# A seal begins with the id of its key.
lock_sealed_otherwise: Final = FindAll[Endpoint, bytes, int, int](
    ENDPOINT,
    """
    where id > $2 and (
        substr(secret, 1, octet_length($1::bytea)) <> $1 or substr(previous_secret, 1, octet_length($1)) <> $1
        or substr(authorization_sealed, 1, octet_length($1)) <> $1
    )
    order by id limit $3 for no key update
""",
)
"""Lock endpoints after this one with a secret whose seal begins otherwise, until the transaction ends."""

reseal: Final = ENDPOINT.updating(ENDPOINT.only("id, holder_id, secret, previous_secret, authorization_sealed"))

set_resumed: Final = Command[int, datetime]("update webhook_endpoint set resumed_at = $2 where id = $1")
"""Record that an endpoint's pending deliveries need a new due date."""

IS_ANY_RESUMED: Final[LiteralString] = "exists (select from webhook_endpoint where resumed_at is not null)"
find_resumed: Final = Tuples[tuple[int, datetime], int]("""
    select id, resumed_at from webhook_endpoint where resumed_at is not null order by id limit $1
""")

# Only of the finished resumption: the endpoint may have been resumed once more.
forget_resumed: Final = Command[int, datetime]("""
    update webhook_endpoint set resumed_at = null where id = $1 and resumed_at = $2
""")
"""Record that all pending deliveries are rescheduled."""

delete: Final = Command[int, int]("delete from webhook_endpoint where id = $2 and holder_id = $1")
"""Delete an endpoint of a holder; its deliveries stay for their retention."""

_PAGE: Final[LiteralString] = f"""
    select {ENDPOINT.select} from webhook_endpoint
    where holder_id = $1 and pix_key is null and created_at >= coalesce($2, '-infinity'::timestamptz)
        and created_at <= coalesce($3, 'infinity'::timestamptz)
    order by created_at desc, id desc
"""


async def read_page(pool: Pool, holder_id: int, span: Span) -> Page[Endpoint]:
    rows = await pool.fetch(_PAGE, holder_id, span.initial_at, span.final_at)
    # A holder may have few endpoints, so all of them are read and the page is cut out here.
    after, start, total_count = span.after, span.position, len(rows)
    if after is not None:
        rows = [row for row in rows if (row["created_at"], row["id"]) < (after.created_at, after.id)]
        start, total_count = 0, after.total_count
    shown = rows[start : start + span.page_size]
    page = listing_store.make_page(span, shown, total_count, has_more=start + len(shown) < len(rows))
    return page.with_items([ENDPOINT.read(row) for row in shown])


CALLBACK_KEY: Final = Table(
    "callback_key",
    CallbackKey,
    "key_identifier text, profile text, public_pem text, private_sealed bytea, created_at timestamptz",
    key=("key_identifier",),
)

insert_callback_key: Final = CALLBACK_KEY.insert

list_callback_keys: Final = FindAll[CallbackKey, str](
    CALLBACK_KEY, "where profile = $1 order by created_at desc, key_identifier"
)
"""List an institution's keys, newest first."""

KEY_WEBHOOK: Final = Table(
    "key_webhook",
    KeyWebhook,
    "pix_key text, holder_id bigint, endpoint_id bigint, created_at timestamptz",
    key=("pix_key",),
    joined=("url",),
)

_KEY_WEBHOOKS: Final[LiteralString] = "key_webhook join webhook_endpoint on webhook_endpoint.id = endpoint_id"
find_key_webhook: Final = ReadOne[KeyWebhook, int, str](
    KEY_WEBHOOK,
    f"select {KEY_WEBHOOK.select}, url from {_KEY_WEBHOOKS} where key_webhook.holder_id = $1 and key_webhook.pix_key = $2",
)

set_created: Final = Command[str, datetime]("update key_webhook set created_at = $2 where pix_key = $1")

# At most one per key.
read_key_webhooks: Final = counted_page(KEY_WEBHOOK, "pix_key", source=_KEY_WEBHOOKS, also=", url")


async def delete_key_webhook(connection: Connection, holder_id: int, pix_key: str) -> bool:
    """Delete the webhook of a key; its deliveries stay for their retention. Returns whether it existed."""
    statement: LiteralString = "delete from webhook_endpoint where holder_id = $1 and pix_key = $2"
    return await connection.execute(statement, holder_id, pix_key) != "DELETE 0"


HOST_LOCKS: Final = 0x7078_6105  # a class of advisory locks, by host

# As the index has it.
_HOST: Final[LiteralString] = r"rtrim(lower(substring(url from '^[^:]+://(\[[^]]*\]|[^/?#:]*)')), '.')"


async def lock_host(connection: Connection, host: str) -> None:
    """Lock the checks of a webhook host until the transaction ends: of two concurrent ones, the second sees the first."""
    await connection.execute("select pg_advisory_xact_lock($1, hashtext($2))", HOST_LOCKS, host)


is_anothers: Final = Value[bool, Sequence[str], int](f"""
    select exists (
        select from webhook_endpoint where pix_key is not null and {_HOST} = any($1) and holder_id <> $2
    ) and not exists (select from allowed_webhook_host where host = any($1))
""")
"""Whether a host gets another holder's notices, and no operator has permitted several holders."""


async def allow_host(connection: Connection, host: str) -> bool:
    """Permit a host for several holders; returns whether that is new."""
    tag = await connection.execute("insert into allowed_webhook_host (host) values ($1) on conflict do nothing", host)
    return tag == "INSERT 0 1"
