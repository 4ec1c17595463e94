"""The rows about a person, found by tax id, over all holders.

No index leads from a tax id to a Pix: it would slow every Pix for a request made a few times a year. So transfers are read in
slices by id, and related rows are found through them.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, LiteralString

import msgspec
from msgspec import Struct

from pixconnect.kernel.tables.lookup import Column
from pixconnect.platform.pool import Connection

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_SLICE_ROWS: Final = 20_000  # transfers per statement: far fewer than the statement timeout allows


class PersonRow(Struct, frozen=True, kw_only=True):
    kind: str
    id: int
    holder_id: int
    role: str  # the person's role in it: payer, payee, debtor, refunded, holder, or named in its text
    began_at: datetime  # the start of its retention; in service time, for reports and lines in real time
    is_open: bool  # whether it is open: then all of it stays
    is_paid: bool = False  # for a charge: its debtor is kept as long as its payer
    texts: Mapping[str, Any] = {}  # the stored texts about the person, and the kind of row


# Limited by ids and not by matches: a person may be in none of the next million transfers, and each statement has to end in
# time.
_NEXT_SLICE: Final[LiteralString] = "select max(id) from (select id from transfer where id > $1 order by id limit $2) as slice"
# Every recorded form of the counterparty is searched: the first report, its completion, the payee reached, and the one that the
# institution named before payment. A key counts too, since a tax id may be one. The retention starts at the last event: a
# refund made years later keeps the texts of its payment.
_TRANSFERS: Final[LiteralString] = """
    select 'transfer' as kind, transfer.id, transfer.holder_id,
        case direction when 'IN' then 'payer' else 'payee' end as role,
        greatest(coalesce(settled_at, transfer.created_at), (
            select max(created_at) from refund
            where refund.transfer_id = transfer.id and refund.holder_id = transfer.holder_id
        )) as began_at,
        status = 'PROCESSING' or returning_cents > 0 or is_blocked(transfer.id, transfer.holder_id) as is_open,
        jsonb_strip_nulls(jsonb_build_object(
            'amount_cents', transfer.amount_cents, 'status', status, 'created_at', transfer.created_at,
            'end_to_end_id', coalesce(network_id, end_to_end_id), 'party', counterparty,
            'known_before', completion.before, 'reached', reached.payee, 'message', payer_message,
            'asked_there', case when step.payee <> '' then jsonb_build_object(
                'payee', step.payee, 'owner_tax_id', owner_tax_id, 'owner_name', owner_name
            ) end
        )) as texts
    from transfer
    left join payer_completion as completion
        on completion.transfer_id = transfer.id and completion.holder_id = transfer.holder_id
    left join settled_payee as reached on reached.transfer_id = transfer.id and reached.holder_id = transfer.holder_id
    left join rail_step as step on step.order_name = transfer.end_to_end_id and direction = 'OUT'
    where transfer.id > $1 and transfer.id <= $2
        and $3 in (
            counterparty ->> 'tax_id', counterparty ->> 'key', before ->> 'tax_id', reached.payee ->> 'tax_id', owner_tax_id
        )
    order by transfer.id, transfer.holder_id
"""
_REFUNDS: Final[LiteralString] = """
    select 'refund' as kind, refund.id, refund.holder_id, 'refunded' as role,
        coalesce(settled_at, created_at) as began_at,
        status = 'PROCESSING' or is_blocked(refund.transfer_id, refund.holder_id) as is_open,
        jsonb_strip_nulls(jsonb_build_object(
            'transfer_id', transfer_id, 'amount_cents', amount_cents, 'status', status, 'created_at', created_at,
            'return_id', coalesce(network_id, return_id), 'message', description
        )) as texts
    from unnest($1::bigint[], $2::bigint[]) as of_person (id, holder_id)
    join refund on refund.transfer_id = of_person.id and refund.holder_id = of_person.holder_id
    order by refund.id, refund.holder_id
"""
# Contests that name the person are found by their words; these are contested payments by or to the person.
_CONTESTS: Final[LiteralString] = """
    select 'infraction' as kind, infraction.id, infraction.holder_id, 'payer' as role, modified_at as began_at,
        state in ('open', 'answered') or is_blocked(transfer_id, infraction.holder_id) as is_open,
        jsonb_strip_nulls(jsonb_build_object(
            'name', name, 'end_to_end_id', end_to_end_id, 'amount_cents', amount_cents, 'status', state,
            'opened_at', opened_at, 'words', words, 'defence', defence, 'defence_refusal', defence_refusal
        )) as texts
    from unnest($1::bigint[], $2::bigint[]) as of_person (id, holder_id)
    join infraction on transfer_id = of_person.id and infraction.holder_id = of_person.holder_id
    where position($3 in concat_ws(' ', words, defence, defence_refusal)) = 0
    order by infraction.id, infraction.holder_id
"""


# By the index of debtors, holder by holder; earlier contents of a charge may have named another debtor.
_CHARGES: Final[LiteralString] = """
    select 'charge' as kind, charge.id, charge.holder_id, 'debtor' as role, modified_at as began_at,
        status = 'PENDING' or exists (
            select from block join transfer on transfer.id = block.transfer_id and transfer.holder_id = block.holder_id
            where block.state = 'open' and block.holder_id = charge.holder_id and transfer.charge_id = charge.id offset 0
        ) as is_open, status in ('APPROVED', 'RETURNED') as is_paid,
        jsonb_strip_nulls(jsonb_build_object(
            'amount_cents', amount_cents, 'status', status, 'created_at', created_at, 'txid', txid,
            'payer_name', payer_name, 'payer_tax_id', payer_tax_id, 'contents', contents::jsonb,
            'earlier', (
                select jsonb_agg(revision.contents::jsonb order by revision) from charge_revision as revision
                where charge_id = charge.id and revision.holder_id = charge.holder_id
            )
        )) as texts
    from (
        select named.id, named.holder_id from holder cross join lateral (
            select id, holder_id from charge where (holder_id + 0) = holder.id and payer_tax_id = $1
        ) as named
        union
        select charge_id, holder_id from charge_revision where position($1 in contents) > 0
    ) as found
    join charge on charge.id = found.id and charge.holder_id = found.holder_id
    where $2::bigint < charge.id
    order by charge.id, charge.holder_id fetch first $3 rows with ties
"""


# The person's own accounts; reports of the rail, contests and statement lines that name them: few, or read once a day at most.
# Lines of statements have names and no numbers: they are counted here, for this list alone.
_OTHERS: Final[LiteralString] = """
    select 'holder' as kind, id, id as holder_id, 'holder' as role, clock_timestamp() as began_at, true as is_open,
        to_jsonb(holder) || jsonb_build_object(
            'keys', (select jsonb_agg(key order by key) from pix_key where pix_key.holder_id = holder.id)
        ) as texts
    from holder where tax_id = $1
    union all
    select 'report', id, 0, 'named', first_seen_at, closed_at is null,
        jsonb_build_object('report', report, 'explanation', explanation, 'reason', reason)
    from kept_report where position($1 in report) > 0 or position($1 in explanation) > 0
    union all
    select 'infraction', id, holder_id, 'named', modified_at,
        state in ('open', 'answered') or is_blocked(transfer_id, holder_id),
        jsonb_strip_nulls(jsonb_build_object(
            'name', name, 'end_to_end_id', end_to_end_id, 'amount_cents', amount_cents, 'status', state,
            'opened_at', opened_at, 'words', words, 'defence', defence, 'defence_refusal', defence_refusal
        ))
    from infraction where position($1 in concat_ws(' ', words, defence, defence_refusal)) > 0
    union all
    select 'statement_line', row_number() over (order by item_id), 0, 'named', recorded_at, false, to_jsonb(item)
    from institution_item as item where item.tax_id = $1
"""


async def read_rows(connection: Connection, tax_id: str) -> AsyncGenerator[list[PersonRow]]:
    """Yield all rows about the person, a slice at a time; some are empty."""
    yield _read(await connection.fetch(_OTHERS, tax_id))
    after_id = 0
    # The walk advances by id, and the key is id and holder: the statement reads ties to their end, so that none is skipped.
    while charges := _read(await connection.fetch(_CHARGES, tax_id, after_id, _SLICE_ROWS)):
        yield charges
        after_id = charges[-1].id
    after_id = 0
    # A payment that is committed behind the walk is missed; it is too young to be erased.
    while (until_id := await connection.fetchval(_NEXT_SLICE, after_id, _SLICE_ROWS)) is not None:
        transfers = _read(await connection.fetch(_TRANSFERS, after_id, until_id, tax_id))
        ids, holder_ids = [row.id for row in transfers], [row.holder_id for row in transfers]
        refunds = _read(await connection.fetch(_REFUNDS, ids, holder_ids)) if transfers else []
        contests = _read(await connection.fetch(_CONTESTS, ids, holder_ids, tax_id)) if transfers else []
        yield transfers + refunds + contests
        after_id = until_id


class PersonEndpoint(Struct, frozen=True, kw_only=True):
    holder_id: int
    endpoint_id: int
    url: str | None  # ``None`` if the endpoint was removed since
    delivered_count: int
    pending_count: int
    last_at: datetime


# Events are found by their holders, and deliveries by the event's instant at each endpoint of that holder.
_TOLD: Final[LiteralString] = """
    select event.holder_id, delivery.endpoint_id, max(webhook_endpoint.url) as url,
        count(*) filter (where delivery.status = 'delivered') as delivered_count,
        count(*) filter (where delivery.status = 'pending') as pending_count, max(delivery.modified_at) as last_at
    from unnest($1::text[], $2::bigint[], $3::bigint[]) as held (resource, id, holder_id)
    join event on event.holder_id = held.holder_id and event.resource = held.resource and event.resource_id = held.id
    join delivery on delivery.holder_id = event.holder_id and delivery.event_id = event.id
    left join webhook_endpoint on webhook_endpoint.id = delivery.endpoint_id
    where delivery.status in ('delivered', 'pending')
    group by event.holder_id, delivery.endpoint_id
    order by event.holder_id, delivery.endpoint_id
"""


async def list_receivers(connection: Connection, rows: Sequence[PersonRow]) -> list[PersonEndpoint]:
    """The endpoints that received these rows, as far back as events are kept."""
    kinds, ids, holder_ids = ([row.kind for row in rows], [row.id for row in rows], [row.holder_id for row in rows])
    async with connection.transaction():
        # No index leads from a charge or transfer to its events: the holders' events are read once.
        await connection.execute("set local statement_timeout = 0")
        return [PersonEndpoint(**row) for row in await connection.fetch(_TOLD, kinds, ids, holder_ids)]


_EVENTS: Final[LiteralString] = """
    select event.body from unnest($1::text[], $2::bigint[], $3::bigint[]) as held (resource, id, holder_id)
    join event on event.holder_id = held.holder_id and event.resource = held.resource and event.resource_id = held.id
    order by event.id
"""


async def list_events_of(connection: Connection, rows: Sequence[PersonRow]) -> list[str]:
    async with connection.transaction():
        # As in ``list_receivers``: the holders' events are read once, however long that takes.
        await connection.execute("set local statement_timeout = 0")
        found = await connection.fetch(
            _EVENTS, [row.kind for row in rows], [row.id for row in rows], [row.holder_id for row in rows]
        )
    return [row["body"] for row in found]


# By the case's subject and its text, where alone the tax id may occur.
list_open_cases: Final = Column[int, Sequence[str], str, Sequence[str]]("""
    select id from kept_case
    where ended_at is null and (name = any($1) or position($2 in facts) > 0 or kind = 'report' and name = any($3)
        or kind = 'day' and exists (select from unnest($1) as named (name) where position(named.name in facts) > 0))
    order by id
""")
"""List open cases about one of these network names, the tax id, or a kept report."""

# By the person's own Pix, and by the Pix of contests that name them.
_OPEN_BLOCKS: Final[LiteralString] = """
    select block.reference from unnest($1::bigint[], $2::bigint[]) as paid (id, holder_id)
    join block on block.holder_id = paid.holder_id and block.state = 'open' and block.transfer_id = paid.id
    union
    select block.reference from unnest($3::bigint[], $4::bigint[]) as named (id, holder_id)
    join infraction on infraction.id = named.id and infraction.holder_id = named.holder_id
    join block on block.holder_id = infraction.holder_id and block.state = 'open'
        and block.transfer_id = infraction.transfer_id
    order by reference
"""


async def list_open_blocks(connection: Connection, rows: Sequence[PersonRow]) -> list[str]:
    """List the institutions' names of contests or blocks of these rows: an undecided contest has a block."""
    asked = list[list[int]]()
    for kind in ("transfer", "infraction"):
        of_kind = [row for row in rows if row.kind == kind]
        asked += [[row.id for row in of_kind], [row.holder_id for row in of_kind]]
    return [row["reference"] for row in await connection.fetch(_OPEN_BLOCKS, *asked)]


def _read(rows: Sequence[Any]) -> list[PersonRow]:
    found = list[PersonRow]()
    for row in rows:
        values: dict[str, Any] = dict(row)
        values["texts"] = _decode(values["texts"])
        found.append(PersonRow(**values))
    return found
