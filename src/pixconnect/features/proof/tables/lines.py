"""The rules of statement lines that move no holder's money: those that wait, and own investments."""

from __future__ import annotations

from functools import partial
from typing import Final

from pixconnect.features.institutions.tables.statement_file import RESERVED, WAITING
from pixconnect.features.proof.rules import Rule

_rule: Final = partial(
    Rule,
    is_of_whole_runs=True,
    todo="read a statement file of the days again; if nothing changes, compare with a backup",
)

STATEMENT_LINES: Final = (
    _rule(
        name="waiting_debits_are_reserved",
        says="each debit of a statement that waits has a block of the account's house, of its amount; no other line has one",
        broken=f"""
            select account.house_id as holder_id,
                array['account ' || account.name, 'line ' || coalesce(item.item_id, block.line_id)] as ids,
                format('%s of %s', item.amount_cents, account.house_id) as expected,
                format('%s of %s', block.held_cents, block.holder_id) as found,
                greatest(item.recorded_at, block.modified_at) as since
            from ({WAITING}) as item
            full join ({RESERVED}) as block
                on block.line_id = item.item_id and block.institution_id = item.institution_id
            join institution_account as account on account.id = coalesce(item.institution_id, block.institution_id)
            where account.house_id between $1 and $2
                and (item.amount_cents, account.house_id) is distinct from (block.held_cents, block.holder_id)
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
)
