"""Finds any resource by id, over all holders.

Each table is queried by existing indexes: ids, external ids and network names are first in their keys. So it costs a few pages,
for any number of holders and rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, LiteralString

from msgspec import Struct, convert

from pixconnect.features.finding.tables.browse import FOLDED, fold_words
from pixconnect.features.movements.tables import IS_CONTESTED
from pixconnect.kernel.feature import list_lookups
from pixconnect.kernel.tables import lookup
from pixconnect.kernel.tables.charge import CHARGE
from pixconnect.platform.pool import Pool

find_charges: Final = lookup.by_pairs(CHARGE, "id")


class Found(Struct, frozen=True, kw_only=True):
    """A resource with the id, as any of its ids."""

    kind: str
    id: str  # our id; for a client or key, its stand-in
    holder_id: int | None
    external_id: str | None  # of a payment, that of the charge that it pays, if it was not found by an id
    name: str | None  # the txid, end-to-end id or return id; for others the most informative field
    status: str | None
    amount_cents: int | None
    created_at: datetime
    asked_cents: int | None  # a charge's requested amount, if it was paid with another
    direction: Literal["IN", "OUT"] | None = None
    open_infraction: int | None = None  # the id of a payer's undecided contest of it, or of its payment
    # What was returned of a charge or transfer, where the search reads it; ``None`` is nothing.
    returned_cents: int | None = None
    # The name of the other one: a transfer's, that of the transfer that a refund returns, or of the one who paid a charge.
    party: str | None = None
    party_tax_id: str | None = None
    named_payer: str | None = None  # the payer that a charge names; anyone may pay it
    payment: Found | None = None  # what has paid a charge, if the viewer may see it
    of_id: int | None = None  # the charge that a transfer has paid, or the transfer that a refund returns
    # When a payment settled, at the institution if it said so; for a charge, when it was paid.
    settled_at: datetime | None = None
    outcome: str | None = None  # why a transfer or refund failed: its code and reason
    reason: str | None = None  # a refund's, as the scheme's code
    message: str | None = None  # the payer's, of a transfer
    waits_for: Literal["operator", "institution"] | None = None  # the institution holds a suspect credit
    held_as_suspect_until: datetime | None = None

    @property
    def at(self) -> datetime:
        """Return when it was paid, or else made."""
        return self.settled_at or self.created_at

    @property
    def first_at(self) -> datetime:
        """Return when its payer was debited, if the institution held it as suspect."""
        return min(self.at, self.created_at)


_OF_FEATURES: Final[LiteralString] = "".join(
    f"""
    (select '{each.kind}', id::text, holder_id, {each.shown} from {each.kind}
    where ({" or ".join(each.match("$1", "$2"))}) and ($5 is null or holder_id = $5) limit $4)
    union all
    """
    for each in list_lookups()
    if each.shown
)
# $1 is the text, $2 the same as a number, $3 the same in the form of Pix keys, $4 the maximum per kind, $5 the only holder.
_EACH: Final[LiteralString] = f"""
    (select 'holder' as kind, id::text, id as holder_id, null as external_id, name,
        case when disabled_at is null then 'enabled' else 'disabled' end as status, null::bigint as amount_cents, created_at
    from holder where (id = $2 or account_number = $1) and ($5::bigint is null or id = $5) limit $4)
    union all
    (select 'key', key, holder_id, null, key_type, null, null, created_at from pix_key
    where key = $3 and ($5 is null or holder_id = $5) limit $4)
    union all
    (select 'client', client_id, holder_id, null, name, case when disabled_at is null then 'enabled' else 'disabled' end,
        null, created_at
    from client where client_id = $1 and ($5 is null or holder_id = $5))
    union all
    (select 'charge', id::text, holder_id, external_id, txid, status, amount_cents, created_at
    from charge where (id = $2 or external_id = $1 or txid = $1) and ($5 is null or holder_id = $5) limit $4)
    union all
    (select 'charge', charge.id::text, charge.holder_id, charge.external_id, charge.txid, status, amount_cents,
        charge.created_at
    from charge_opening join charge on charge.id = charge_id and charge.holder_id = charge_opening.holder_id
    where reference = $1 and charge_opening.institution_id in (select id from institution_account)
        and ($5 is null or charge.holder_id = $5))
    union all
    (select 'charge', charge.id::text, charge.holder_id, charge.external_id, charge.txid, status, amount_cents,
        charge.created_at
    from charge_opening join charge on charge.id = charge_id and charge.holder_id = charge_opening.holder_id
    where network_txid = $1 and charge.txid <> $1 and ($5 is null or charge.holder_id = $5) limit $4)
    union all
    (select 'transfer', id::text, holder_id, external_id, coalesce(network_id, end_to_end_id), status, amount_cents, created_at
    from transfer where (id = $2 or external_id = $1 or end_to_end_id = $1 or network_id = $1)
        and ($5 is null or holder_id = $5) limit $4)
    union all
    (select 'transfer', transfer.id::text, transfer.holder_id, transfer.external_id,
        coalesce(network_id, end_to_end_id), status, amount_cents, transfer.created_at
    from charge_opening as opening
    join transfer on transfer.charge_id = opening.charge_id and transfer.holder_id = opening.holder_id
        and settled_at is not null
    where reference = $1 and opening.institution_id in (select id from institution_account)
        and ($5 is null or opening.holder_id = $5))
    union all
    (select 'transfer', transfer.id::text, transfer.holder_id, transfer.external_id,
        coalesce(network_id, end_to_end_id), status, amount_cents, transfer.created_at
    from charge_opening as opening
    join transfer on transfer.holder_id + 0 = opening.holder_id and transfer.txid = $1 and direction = 'IN'
        and settled_at is not null and transfer.charge_id is null
    where reference = $1 and opening.institution_id in (select id from institution_account)
        and ($5 is null or opening.holder_id = $5)
    order by transfer.id limit $4)
    union all
    (select 'refund', id::text, holder_id, external_id, coalesce(network_id, return_id), status, amount_cents, created_at
    from refund where (id = $2 or external_id = $1 or return_id = $1 or network_id = $1)
        and ($5 is null or holder_id = $5) limit $4)
    union all
    {_OF_FEATURES}
    (select 'ledger entry', id::text, holder_id, null, debit_account || ' to ' || credit_account, null, amount_cents, created_at
    from ledger_entry where id = $2 and ($5 is null or holder_id = $5) limit $4)
    union all
    (select 'event', id::text, holder_id, null, name, null, null, created_at from event
    where id = $2 and ($5 is null or holder_id = $5) limit $4)
    union all
    (select 'delivery', id::text, holder_id, null, 'event ' || event_id || ' to endpoint ' || endpoint_id, status, null,
        created_at
    from delivery where id = $2 and ($5 is null or holder_id = $5) limit $4)
    union all
    (select 'endpoint', id::text, holder_id, null, url, status, null, created_at from webhook_endpoint
    where id = $2 and ($5 is null or holder_id = $5))
    union all
    (select 'report', id::text, null, null, name, case when closed_at is null then 'open' else 'closed' end, null, first_seen_at
    from kept_report
    where id = $2 and $5 is null)
"""
_WITH_PARTIES: Final[LiteralString] = """
    select found.*, asked_cents, direction, party, party_tax_id, named_payer, of_id, settled_at, outcome, reason,
        message
    from (select *, case when kind in ('charge', 'transfer', 'refund') then id::bigint end as number from ({}) as one) as found
    left join lateral (
        select asked_cents, null as direction, null as party, null as party_tax_id, payer_name as named_payer,
            null::bigint as of_id, null::timestamptz as settled_at, null as outcome, null as reason,
            null as message
        from charge where kind = 'charge' and charge.id = number and charge.holder_id = found.holder_id
        union all
        select null, transfer.direction, counterparty ->> 'name', counterparty ->> 'tax_id', null, charge_id,
            coalesce(network_settled_at, settled_at), nullif(concat_ws(': ', outcome_code, outcome_reason), ''), null,
            payer_message
        from transfer where kind = 'transfer' and transfer.id = number and transfer.holder_id = found.holder_id
        union all
        select null, flow, counterparty ->> 'name', counterparty ->> 'tax_id', null, transfer_id,
            coalesce(refund.network_settled_at, refund.settled_at),
            nullif(concat_ws(': ', refund.outcome_code, refund.outcome_reason), ''), refund.reason, null
        from refund left join transfer on transfer.id = transfer_id and transfer.holder_id = refund.holder_id
        where kind = 'refund' and refund.id = number and refund.holder_id = found.holder_id
    ) as its on true
"""
_FIND: Final = _WITH_PARTIES.format(_EACH)


# By ranges of the same indexes, whose texts are in the order of their octets; "~" sorts after all characters of such a name.
_FIND_BEGINNING: Final = _WITH_PARTIES.format("""
    (select 'transfer' as kind, id::text, holder_id, external_id, coalesce(network_id, end_to_end_id) as name, status,
        amount_cents, created_at
    from transfer where end_to_end_id >= $1 and end_to_end_id < $1 || '~' and ($3::bigint is null or holder_id = $3)
    order by end_to_end_id limit $2)
    union
    (select 'transfer', id::text, holder_id, external_id, network_id, status, amount_cents, created_at
    from transfer where network_id is not null and network_id >= $1 and network_id < $1 || '~'
        and ($3 is null or holder_id = $3)
    order by network_id limit $2)
    union
    (select 'refund', id::text, holder_id, external_id, coalesce(network_id, return_id), status, amount_cents, created_at
    from refund where return_id >= $1 and return_id < $1 || '~' and ($3 is null or holder_id = $3)
    order by return_id limit $2)
    union
    (select 'refund', id::text, holder_id, external_id, network_id, status, amount_cents, created_at
    from refund where network_id is not null and network_id >= $1 and network_id < $1 || '~'
        and ($3 is null or holder_id = $3)
    order by network_id limit $2)
""")


async def find_by_beginning(pool: Pool, beginning: str, each_max: int, holder_id: int | None = None) -> list[Found]:
    """Find transfers and refunds whose name on the network has this beginning, of one holder or of all."""
    return [convert(dict(row), Found) for row in await pool.fetch(_FIND_BEGINNING, beginning, each_max, holder_id)]


# Callers of all holders begin their names alike: one holder's are those among the first of them.
_LOOKED_AT: Final[LiteralString] = """
    (select '{0}' as kind, id::text, holder_id, external_id, {1} as name, status, amount_cents, created_at
    from (select * from {0} where external_id >= $1 and external_id < $1 || '~' order by external_id limit 500) as begun
    where $3::bigint is null or holder_id = $3 limit $2)
"""
_FIND_EXTERNAL_BEGINNING: Final = _WITH_PARTIES.format(
    _LOOKED_AT.format("charge", "txid")
    + "union all"
    + _LOOKED_AT.format("transfer", "end_to_end_id")
    + "union all"
    + _LOOKED_AT.format("refund", "return_id")
)


async def find_by_external_beginning(pool: Pool, beginning: str, each_max: int, holder_id: int | None = None) -> list[Found]:
    """Charges, transfers and refunds whose external id begins like this, of one holder or of all; not all of them."""
    rows = await pool.fetch(_FIND_EXTERNAL_BEGINNING, beginning, each_max, holder_id)
    return [convert(dict(row), Found) for row in rows]


async def find_by_any_id(
    pool: Pool, text: str, number: int | None, key: str, each_max: int, holder_id: int | None = None
) -> list[Found]:
    """Find everything with this id, of one holder or of all.

    Args:
        text: Unchanged.
        number: The same, if it can be one of our own ids.
        key: The same in the form of Pix keys.
        each_max: The maximum per kind.
    """
    return [convert(dict(row), Found) for row in await pool.fetch(_FIND, text, number, key, each_max, holder_id)]


# Holders have an index of their tax ids; by a part of the name the newest of them are scanned.
_FIND_HOLDERS: Final[LiteralString] = f"""
    select 'holder' as kind, id::text, id as holder_id, null as external_id, name,
        case when disabled_at is null then 'enabled' else 'disabled' end as status, null::bigint as amount_cents, created_at,
        null::bigint as asked_cents
    from (
        (select * from holder where tax_id = $2 limit $3)
        union all
        (
            select * from (select * from holder where $2 is null order by id desc limit $4) as newest
            where {FOLDED.format("name")} like all ($1)
        )
    ) as holder
    order by id limit $3
"""


async def find_holders(pool: Pool, text: str, tax_id: str | None, each_max: int, looked_at_max: int) -> list[Found]:
    """Find the holders with this tax id or, for any other text, the newest ones whose name contains it."""
    rows = await pool.fetch(_FIND_HOLDERS, fold_words(text), tax_id, each_max, looked_at_max)
    return [convert(dict(row), Found) for row in rows]


_MARK_CONTESTED: Final[LiteralString] = f"""
    select kind, wanted.id, wanted.holder_id, min(infraction.id) as infraction_id
    from unnest($1::text[], $2::bigint[], $3::bigint[]) as wanted (kind, id, holder_id)
    join infraction on infraction.holder_id + 0 = wanted.holder_id and {IS_CONTESTED}
        and wanted.id = case kind when 'charge' then charge_id else transfer_id end
    group by 1, 2, 3
"""


async def find_contested(pool: Pool, wanted: Sequence[tuple[str, int, int]]) -> dict[tuple[str, str], int]:
    """Find the contests of charges and transfers, named by kind, id and holder, that are undecided or claim a rest."""
    rows = await pool.fetch(_MARK_CONTESTED, *zip(*wanted, strict=True)) if wanted else ()
    return {(row["kind"], str(row["id"])): row["infraction_id"] for row in rows}
