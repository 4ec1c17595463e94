"""Rules that compare our settlements with the rail's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

import msgspec

from pixconnect.features.proof.rules import Finding, Rule
from pixconnect.features.proof.tables.look import read_finding
from pixconnect.kernel.rules.rail import SettledItem
from pixconnect.platform.pool import Connection

_encode = msgspec.json.Encoder().encode

_THEIRS: Final[LiteralString] = """
    theirs as (
        select * from jsonb_to_recordset($1::jsonb) as item (
            id text, kind text, amount_cents bigint, settled_at timestamptz
        )
    )
"""
# Book transfers and accounts at institutions do not use this rail.
_OURS: Final[LiteralString] = """
    select coalesce(network_id, end_to_end_id) as id, case direction when 'OUT' then 'order' else 'credit' end as kind,
        amount_cents, settled_at, holder_id
    from transfer where settled_at is not null and not is_book and institution_id is null and {transfers}
    union all
    select coalesce(refund.network_id, return_id), case flow when 'OUT' then 'refund' else 'return' end, refund.amount_cents,
        refund.settled_at, refund.holder_id
    from refund join transfer on transfer.id = transfer_id and transfer.holder_id = refund.holder_id
    where refund.settled_at is not null and not refund.is_book and institution_id is null and {refunds}
    union all
    select item_id, 'movement_' || lower(direction), amount_cents, created_at, holder_id
    from movement where status = 'POSTED' and institution_id is null and {movements}
    union all
    select reference || '/' || step.kind, step.kind, amount_cents, step.created_at, step.holder_id
    from block_step as step join block on block.id = block_id and block.holder_id = step.holder_id
    where block.kind = 'precautionary' and institution_id is null and {steps}
"""
# Facts with an id are compared by id on both sides, regardless of their dates.
_BY_NAME: Final[LiteralString] = (
    _OURS.replace(
        "{transfers}",
        "(end_to_end_id in (select id from theirs) and network_id is null or network_id in (select id from theirs))",
    )
    .replace(
        "{refunds}",
        "(return_id in (select id from theirs) and refund.network_id is null or refund.network_id in (select id from theirs))",
    )
    .replace("{movements}", "item_id in (select id from theirs)")
    .replace(
        "{steps}",
        "reference in (select split_part(id, '/', 1) from theirs where theirs.kind in ('held', 'hold_ended'))",
    )
)
_BY_INSTANT: Final[LiteralString] = (
    _OURS.replace("{transfers}", "settled_at >= $2 and settled_at < $3")
    .replace("{refunds}", "refund.settled_at >= $2 and refund.settled_at < $3")
    .replace("{movements}", "created_at >= $2 and created_at < $3")
    .replace("{steps}", "step.created_at >= $2 and step.created_at < $3")
)
_WHAT_MAY_BE: Final = "a report was lost, a row was written by hand, or a restored backup lacks settlements"

ITEMS: Final = Rule(
    name="rail_settled_the_same",
    says="each settlement on the rail exists here with the same amount, and the other way round",
    broken=f"""
        with {_THEIRS}
        select ours.holder_id, array[theirs.kind || ' ' || theirs.id] as ids, theirs.amount_cents::text as expected,
            ours.amount_cents::text as found, theirs.settled_at as since
        from theirs left join ({_BY_NAME}) as ours on ours.id = theirs.id and ours.kind = theirs.kind
        where theirs.settled_at >= $2 and theirs.settled_at < $3
            and ours.amount_cents is distinct from theirs.amount_cents
        union all
        select ours.holder_id, array[ours.kind || ' ' || ours.id], null, ours.amount_cents::text, ours.settled_at
        from ({_BY_INSTANT}) as ours
        where not exists (select from theirs where theirs.id = ours.id and theirs.kind = ours.kind)
    """,
    of="rail",
    meaning=_WHAT_MAY_BE,
    todo="let the worker run until nothing is open; report the remaining differences to the rail's support with both sides",
)
# Money at institutions is elsewhere. Facts that only one side has yet are listed item by item, and are no difference of the
# sums.
SUM: Final = Rule(
    name="rail_holds_the_same",
    says="the rail holds the difference of incoming and outgoing money here, with facts known to one side only counted",
    broken=f"""
        with {_THEIRS},
        ahead as (
            select coalesce(sum(case when theirs.kind in ('credit', 'return', 'movement_in', 'held') then 1 else -1 end
                * (theirs.amount_cents - coalesce(ours.amount_cents, 0))), 0) as cents
            from theirs left join ({_BY_NAME}) as ours on ours.id = theirs.id and ours.kind = theirs.kind
            where theirs.settled_at >= $2
        ),
        behind as (
            select coalesce(sum(case when ours.kind in ('credit', 'return', 'movement_in', 'held') then 1 else -1 end
                * ours.amount_cents), 0) as cents
            from ({_BY_INSTANT}) as ours
            where not exists (select from theirs where theirs.id = ours.id and theirs.kind = ours.kind)
        ),
        held as (
            select -coalesce(sum(settlement_cents), 0) as cents from whole_balance join holder on holder.id = holder_id
            where institution_id is null
        )
        select null::bigint as holder_id, array['position'] as ids, $4::bigint::text as expected,
            (held.cents + ahead.cents - behind.cents)::bigint::text as found, null::timestamptz as since
        from ahead cross join behind cross join held
        where held.cents + ahead.cents - behind.cents is distinct from $4
    """,
    of="rail",
    meaning=_WHAT_MAY_BE,
    todo="look at everything with --whole: the items that are missing on one side are found by it",
)
RAIL: Final = (ITEMS, SUM)


async def compare_items(
    connection: Connection, theirs: Sequence[SettledItem], since: datetime, until: datetime
) -> list[Finding]:
    """Return settlements of a span that one side lacks, or has differently; ``theirs`` reach a good while beyond the span."""
    rows = await connection.fetch(ITEMS.broken, _encode(theirs).decode(), since, until)
    return [read_finding(ITEMS.name, row) for row in rows]


async def sum_held(connection: Connection, theirs: Sequence[SettledItem], since: datetime, until: datetime) -> int:
    """Return the sum that the rail should hold, in cents; ``theirs`` begin a good while before ``since``."""
    # Compared with an empty balance, so that it is always reported.
    [row] = await connection.fetch(SUM.broken, _encode(theirs).decode(), since, until, None)
    return int(row["found"])
