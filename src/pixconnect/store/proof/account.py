"""The rules of accounts at institutions: lines of their statements, and the days that closed over them."""

from __future__ import annotations

from typing import Final

from pixconnect.domain.proof.rule import Rule

_ASK: Final = "look at the day in the console, and ask the institution for its statement of it once more"

LINES: Final = Rule(
    name="line_agrees_with_what_it_is",
    says="each line of a statement is joined to something of its account, of its amount and direction, that has settled",
    broken="""
        select fact.holder_id, array['account ' || account.name, 'line ' || item.item_id] as ids,
            format('%s %s %s: %s %s', item.joined_kind, item.joined_id, account.name, direction_there, item.amount_cents)
                as expected,
            case when fact.holder_id is not null
                then format('%s %s on %s', fact.direction, fact.amount_cents, fact.institution_id)
            end as found,
            item.recorded_at as since
        from (
            select *, case when is_reversal then case direction when 'IN' then 'OUT' else 'IN' end else direction end
                as direction_there,
                -- Whatever somebody has written there can be compared.
                case when joined_id ~ '^[0-9]{1,18}$' then joined_id::bigint end as fact_id
            from institution_item where joined_kind is not null
        ) as item
        join institution_account as account on account.id = item.institution_id
        left join lateral (
            select holder_id, direction, amount_cents, institution_id, settled_at is not null or item.is_reversal as is_over
            from transfer where item.joined_kind = 'transfer' and transfer.id = item.fact_id
            union all
            select refund.holder_id, flow, refund.amount_cents, institution_id, refund.settled_at is not null
            from refund join transfer on transfer.id = transfer_id and transfer.holder_id = refund.holder_id
            where item.joined_kind = 'refund' and refund.id = item.fact_id
            union all
            select holder_id, direction, amount_cents, institution_id, true
            from movement where item.joined_kind = 'movement' and movement.item_id = item.joined_id
                and movement.institution_id = item.institution_id
        ) as fact on true
        where (fact.direction, fact.amount_cents, fact.institution_id)
            is distinct from (item.direction_there, item.amount_cents, item.institution_id)
    """,
    of="installation",
    is_of_whole_runs=True,
    meaning="what the line says was written by hand, or lost, here",
    todo=_ASK,
)
CLOSED_DAYS: Final = Rule(
    name="closed_days_close",
    says="each day of an account that has closed would close again",
    of="accounts",
    meaning="a line of it, or what it is here, has changed since, and nobody judged the day anew",
    todo=_ASK,
)
ACCOUNTS: Final = (LINES, CLOSED_DAYS)
