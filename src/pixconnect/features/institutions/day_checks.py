"""Proof rules of accounts at institutions: statement lines, and the days closed over them."""

from __future__ import annotations

from datetime import date, datetime
from functools import partial
from typing import Final

from pixconnect.features.institutions.service.day import LOOKED_BACK, judge_anew
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables.books import DEBITS
from pixconnect.features.institutions.tables.statement_file import RESERVED, WAITING
from pixconnect.kernel.rules.proof import Finding, Judgement, Rule, Verdict
from pixconnect.platform.base.clock import to_day
from pixconnect.platform.pool import Connection

_rule: Final = partial(
    Rule, is_of_whole_runs=True, todo="read a statement file of the days again; if nothing changes, compare with a backup"
)

STATEMENT_LINES: Final = (
    _rule(
        name="waiting_debits_are_reserved",
        says="each debit of a statement that waits has a block of its holder, of its amount; no other line has one",
        broken=f"""
            select coalesce(item.holder_id, block.holder_id) as holder_id,
                array['account ' || account.name, 'line ' || coalesce(item.item_id, block.line_id)] as ids,
                format('%s of %s', item.amount_cents, item.holder_id) as expected,
                format('%s of %s', block.held_cents, block.holder_id) as found,
                greatest(item.recorded_at, block.modified_at) as since
            from ({WAITING}) as item
            full join ({RESERVED}) as block
                on block.line_id = item.item_id and block.institution_id = item.institution_id
            join institution_account as account on account.id = coalesce(item.institution_id, block.institution_id)
            where coalesce(item.holder_id, block.holder_id) between $1 and $2
                and (item.amount_cents, item.holder_id) is distinct from (block.held_cents, block.holder_id)
        """,
        meaning="money that the bank may have taken could be spent here, or money is kept from the house for nothing",
    ),
    _rule(
        name="investment_is_of_its_line",
        says="an own investment's principal is its line's amount, less the yield",
        broken="""
            select account.house_id as holder_id, array['account ' || account.name, 'line ' || item.item_id] as ids,
                format('%s %s', item.direction, item.amount_cents - coalesce(yield.amount_cents, 0)) as expected,
                format('%s %s', own.direction, own.principal_cents) as found, item.recorded_at as since
            from institution_item as item
            join institution_account as account on account.id = item.institution_id
            left join own_investment as own on own.institution_id = item.institution_id and own.item_id = item.item_id
            left join movement as yield on yield.holder_id = account.house_id and yield.direction = 'IN' and yield.item_id
                = 'yield:' || left(encode(sha256(convert_to(item.item_id, 'UTF8')), 'hex'), 48)
            where account.house_id between $1 and $2 and (own.item_id is not null or item.joined_kind = 'investment') and (
                own.item_id is null or item.joined_kind is distinct from 'investment' or own.direction <> item.direction
                or own.principal_cents + coalesce(yield.amount_cents, 0) <> item.amount_cents
            )
        """,
        meaning="the invested sum was written by hand, or the yield was lost: the account and the books do not agree",
    ),
    _rule(
        name="part_of_a_line_is_left_of_it",
        says="a kept part of a block's debits, and a yield, is what is left of its lines",
        broken=f"""
            select movement.holder_id, array['movement ' || movement.item_id] as ids, part.cents::text as expected,
                movement.amount_cents::text as found, movement.created_at as since
            from movement left join (
                select debit.institution_id, 'kept:' || left(encode(sha256(convert_to(item_id, 'UTF8')), 'hex'), 48) as name,
                    debited_cents - taken_cents - credited_cents as cents
                from ({DEBITS}) as debit
                union all
                select own.institution_id, 'yield:' || left(encode(sha256(convert_to(own.item_id, 'UTF8')), 'hex'), 48),
                    item.amount_cents - own.principal_cents
                from own_investment as own join institution_item as item using (institution_id, item_id)
            ) as part on part.institution_id = movement.institution_id and part.name = movement.item_id
            where movement.holder_id between $1 and $2 and movement.institution_id is not null
                and (movement.item_id like 'kept:%' or movement.item_id like 'yield:%')
                and part.cents is distinct from movement.amount_cents
        """,
        meaning="the movement was written by hand, or its line was: no line shows that the institution moved this money",
    ),
)


_ASK: Final = "look at the day in the console, and ask the institution for its statement of it once more"

LINES: Final = Rule(
    name="line_agrees_with_what_it_is",
    says="each line of a statement is joined to something of its account, of its amount and direction",
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
                -- Values written by hand must remain comparable.
                case when joined_id ~ '^[0-9]{1,18}$' then joined_id::bigint end as fact_id
            from institution_item where joined_kind is not null
        ) as item
        join institution_account as account on account.id = item.institution_id
        left join lateral (
            select min(holder_id) as holder_id, min(direction) as direction, sum(amount_cents)::bigint as amount_cents,
                min(institution_id) as institution_id
            from (
                select item.joined_kind as kind, item.fact_id as record_id
                union all
                select kind, record_id from institution_item_part as part
                where item.joined_kind = 'sum' and part.institution_id = item.institution_id and part.item_id = item.item_id
            ) as part cross join lateral (
                select holder_id, direction, amount_cents, institution_id
                from transfer where part.kind = 'transfer' and transfer.id = part.record_id
                union all
                select refund.holder_id, flow, refund.amount_cents, institution_id
                from refund join transfer on transfer.id = transfer_id and transfer.holder_id = refund.holder_id
                where part.kind = 'refund' and refund.id = part.record_id
            ) as record having count(*) > 0
            union all
            select block.holder_id, 'OUT', item.amount_cents, block.institution_id
            from block where item.joined_kind = 'block' and block.id = item.fact_id
            union all
            select account.house_id, own.direction, item.amount_cents, own.institution_id
            from own_investment as own
            where item.joined_kind = 'investment' and own.institution_id = item.institution_id and own.item_id = item.item_id
            union all
            select holder_id, direction, amount_cents, institution_id
            from movement where item.joined_kind = 'movement' and movement.item_id = item.joined_id
                and movement.institution_id = item.institution_id
        ) as fact on true
        where (fact.direction, fact.amount_cents, fact.institution_id)
            is distinct from (item.direction_there, item.amount_cents, item.institution_id)
    """,
    of="installation",
    is_of_whole_runs=True,
    meaning="the line's contents were written by hand, or lost, here",
    todo=_ASK,
)
CLOSED: Final = "closed_days_close"


async def judge_closed_days(connection: Connection, now: datetime) -> tuple[list[Judgement], list[Finding]]:
    """Return until when each account's days are closed, and each closed day that would not close now, by recorded facts."""
    judgements, found = list[Judgement](), list[Finding]()
    for account in await account_store.list_all(connection):
        days = await judge_anew(connection, account, to_day(now) - LOOKED_BACK, now)
        found += [
            Finding(
                rule=CLOSED,
                ids=(f"account {account.name}", f"day {recorded.day}"),
                expected=recorded.state,
                found=judged.state,
                since=recorded.closed_at,
            )
            for recorded, judged in days
            if recorded.state.startswith("closed") and judged.state != recorded.state
        ]
        # Up to the first gap: a later closed day proves nothing about earlier ones, nor of days without a file.
        closed, ends_cents = list[date](), days[0][1].opening_cents if days else None
        for recorded, judged in days:
            if not recorded.state.startswith("closed") or judged.opening_cents != ends_cents:
                break
            closed.append(recorded.day)
            ends_cents = judged.closing_cents
        verdict: Verdict = "not_checkable"
        reason = "no day of it has closed: its statement has no balance, or not yet"
        if closed:
            verdict = "checked" if closed[-1] == days[-1][0].day else "provisional"
            reason = f"closed until {closed[-1]}"
        judgements.append(Judgement(rule=CLOSED, verdict=verdict, account=account.name, reason=reason))
    return judgements, found


CLOSED_DAYS: Final = Rule(
    name=CLOSED,
    says="each day of an account that has closed would close again",
    of="accounts",
    judge_accounts=judge_closed_days,
    meaning="a line of it, or its matched record, has changed since, and the day was not judged again",
    todo=_ASK,
)
ACCOUNTS: Final = (LINES, CLOSED_DAYS)
