"""Account statements, read from ledger entries query by query: no connection waits for a client that reads slowly."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

import asyncpg
from msgspec import structs

from pixconnect.features.movements.tables import MOVEMENT
from pixconnect.features.statements.rules import Counterparty, MovedItem, NumberRange, StatementLine
from pixconnect.kernel.tables.lookup import Column, Pairs
from pixconnect.kernel.tables.table import fetch_row
from pixconnect.platform.pool import Pool

# Numbers have no gaps and rise with instants: the entry before the span and its last one determine everything. One query is one
# snapshot.
_FIND_EXTENT: Final[LiteralString] = """
    select coalesce(before.number, 0) + 1 as first_number, coalesce(final.number, 0) as last_number,
        coalesce(before.running_balance_cents, 0) as opening_cents, final.running_balance_cents as final_cents,
        final.created_at as final_at
    from (select) as always
    left join (
        select number, running_balance_cents from ledger_entry
        where holder_id = $1 and number is not null and created_at < $2 order by created_at desc limit 1
    ) as before on true
    left join (
        select number, running_balance_cents, created_at from ledger_entry
        where holder_id = $1 and number is not null and created_at <= $3 order by created_at desc limit 1
    ) as final on true
"""


async def find_extent(pool: Pool, holder_id: int, initial_at: datetime, final_at: datetime) -> NumberRange:
    row = await fetch_row(pool, _FIND_EXTENT, holder_id, initial_at, final_at)
    is_empty = row["last_number"] < row["first_number"]
    return NumberRange(
        first_number=row["first_number"],
        last_number=row["last_number"],
        opening_cents=row["opening_cents"],
        closing_cents=row["opening_cents"] if is_empty else row["final_cents"],
        last_at=None if is_empty else row["final_at"],
    )


# ``lateral`` with a limit leaves PostgreSQL one plan only, row by row through the primary keys: with old statistics it would
# otherwise hash the whole history.
_READ_LINES: Final[LiteralString] = """
    select entry.id, entry.created_at, entry.amount_cents, entry.running_balance_cents,
        entry.credit_account in ('available', 'reserved', 'blocked') as is_in,
        original.shown_id, original.name, original.tax_id, original.ispb, returned.shown_id, returned.description,
        case when returned.id is null then coalesce(original.external_id, paid.external_id) else returned.external_id end,
        original.txid, case
            when coalesce(returned.network_settled_at, original.network_settled_at)
                not between entry.created_at - interval '1 minute' and entry.created_at + interval '1 minute'
            then coalesce(returned.network_settled_at, original.network_settled_at)
        end, case when returned.id is null then original.payer_message end
    from ledger_entry as entry
    left join lateral (
        select id, transfer_id, coalesce(network_id, return_id) as shown_id, description, external_id, network_settled_at
        from refund
        where refund.id = case entry.cause_kind when 'refund' then entry.cause_id end and refund.holder_id = $1 limit 1
    ) as returned on true
    left join lateral (
        select coalesce(network_id, end_to_end_id) as shown_id, counterparty ->> 'name' as name,
            counterparty ->> 'tax_id' as tax_id, counterparty ->> 'ispb' as ispb, external_id, txid, charge_id, payer_message,
            case when returned.id is null then network_settled_at end as network_settled_at
        from transfer
        where transfer.id = case entry.cause_kind when 'transfer' then entry.cause_id else returned.transfer_id end
            and transfer.holder_id = $1 limit 1
    ) as original on true
    left join lateral (
        select external_id from charge where charge.id = original.charge_id and charge.holder_id = $1 limit 1
    ) as paid on true
    where entry.holder_id = $1 and entry.number between $2 and $3
    order by entry.number
"""


async def read_lines(pool: Pool, holder_id: int, first_number: int, last_number: int) -> Sequence[StatementLine]:
    lines = [_line(row) for row in await pool.fetch(_READ_LINES, holder_id, first_number, last_number)]
    # Deposits, movements, repayments, adjustments and suspect credits alone have no such id; all are rare, and never change.
    others = [line.id for line in lines if line.end_to_end_id is None]
    if not others:
        return lines
    facts: dict[int, dict[str, object]] = {}
    facts |= {entry_id: dict(is_suspect=True) for entry_id in await _find_suspect(pool, holder_id, others)}
    facts |= {entry_id: dict(is_repayment=True) for entry_id in await _find_repaid(pool, holder_id, others)}
    facts |= {entry_id: dict(adjustment=kind) for entry_id, kind in (await _find_adjusted(pool, holder_id, others)).items()}
    for row in await pool.fetch(_FIND_MOVED, holder_id, others):
        movement = MOVEMENT.read(row)
        item = MovedItem(kind=movement.kind, item_id=movement.item_id, end_to_end_id=movement.end_to_end_id)
        facts[row["entry_id"]] = dict(
            movement=item, description=movement.description, network_settled_at=movement.network_settled_at
        )
    return [structs.replace(line, **facts[line.id]) if line.id in facts else line for line in lines]


_FIND_MOVED: Final[LiteralString] = f"select {MOVEMENT.select} from movement where holder_id = $1 and id = any($2)"
_find_repaid: Final = Column[int, int, Sequence[int]]("select id from repayment where holder_id = $1 and id = any($2)")
_find_suspect: Final = Column[int, int, Sequence[int]]("select id from block_step where holder_id = $1 and id = any($2)")
_find_adjusted: Final = Pairs[int, str, int, Sequence[int]](
    "select entry_id, kind from adjustment where holder_id = $1 and entry_id = any($2)"
)


def _line(row: asyncpg.Record) -> StatementLine:
    # Positions and not names, in the order of the query: a statement may have millions of lines.
    (
        entry_id,
        created_at,
        amount_cents,
        running_balance_cents,
        is_in,
        end_to_end_id,
        name,
        tax_id,
        ispb,
        return_id,
        text,
        external_id,
        txid,
        network_settled_at,
        payer_message,
    ) = row
    return StatementLine(
        id=entry_id,
        created_at=created_at,
        end_to_end_id=end_to_end_id,
        return_id=return_id,
        direction="IN" if is_in else "OUT",
        amount_cents=amount_cents,
        running_balance_cents=running_balance_cents,
        counterparty=None if name is None else Counterparty(name=name, tax_id=tax_id, ispb=ispb),
        description=text,
        external_id=external_id,
        txid=txid,
        network_settled_at=network_settled_at,
        payer_message=payer_message,
    )
