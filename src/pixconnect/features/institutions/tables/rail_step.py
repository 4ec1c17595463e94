"""The table of calls to institutions for our orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.features.institutions.rules.rail_memory import Kind, RailStep
from pixconnect.kernel.rules.order import OpenOrder
from pixconnect.kernel.rules.rail import InitiationType
from pixconnect.kernel.tables import lease as lease_store
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.lookup import FindBy, ReadAll, Value
from pixconnect.kernel.tables.table import Part, Table
from pixconnect.platform.pool import Connection, Pool

STEP: Final = Table(
    "rail_step",
    RailStep,
    """
    order_name text, institution_id smallint, kind text, holder_id bigint, original_end_to_end_id text,
    amount_cents bigint, name_there text, state text, may_be_done boolean, called_at timestamptz, outcome text,
    refusal_code text, refusal_reason text, created_at timestamptz, only_asked boolean, payee text, code_there text,
    owner_tax_id text, owner_name text
    """,
    key=("order_name",),
)

find: Final = FindBy[str, RailStep, int, Sequence[str]](
    STEP, "order_name", "where order_name = any($2) and institution_id = $1"
)
"""Find an account's rows, by our name."""


class OrderNaming(Struct, frozen=True, kw_only=True):
    order_name: str
    kind: Kind
    holder_id: int
    named_holder_id: int
    """The holder that the request names at the institution: in a family the first, so that each finds the others' requests."""
    external_id: str
    original_end_to_end_id: str | None
    amount_cents: int
    initiation_type: InitiationType | None
    counterparty: str | None  # for a sent order: the payee as named, and as JSON
    naming_key: bytes
    outlived_loss: bool  # it was open at a loss of the database: requests under it may be lost


find_unended: Final = ReadAll[OrderNaming, int, Sequence[str]](
    OrderNaming,
    """
    select name as order_name, 'refund' as kind, refund.holder_id,
        first_id as named_holder_id,
        coalesce(refund.external_id, refund.return_id) as external_id,
        transfer.end_to_end_id as original_end_to_end_id, refund.amount_cents, null as initiation_type, null as counterparty,
        naming_key, exists (select from database_loss where last_refund_id >= resource_id) as outlived_loss
    from open_order
    join refund on refund.id = resource_id and refund.holder_id = open_order.holder_id and refund.return_id = name
    join transfer on transfer.id = refund.transfer_id and transfer.holder_id = refund.holder_id
    join holder_family on holder_family.holder_id = open_order.holder_id
    join institution_allowance on institution_allowance.institution_id = open_order.institution_id
    where name = any($2) and open_order.institution_id = $1
    union all
    select name, 'order', transfer.holder_id,
        first_id, coalesce(transfer.external_id, transfer.end_to_end_id), null,
        transfer.amount_cents, transfer.initiation_type, transfer.counterparty::text, naming_key,
        exists (select from database_loss where last_transfer_id >= resource_id)
    from open_order
    join transfer on transfer.id = resource_id and transfer.holder_id = open_order.holder_id and transfer.end_to_end_id = name
    join holder_family on holder_family.holder_id = open_order.holder_id
    join institution_allowance on institution_allowance.institution_id = open_order.institution_id
    where name = any($2) and open_order.institution_id = $1
""",
)
"""Find orders and refunds over an account that have not ended."""

# Matches the index `rail_step_in_flight`. A request refused by a text alone is not in flight at the institution, though the
# refusal is not final yet.
count_in_flight: Final = Value[int, int, datetime]("""
    select count(*) from rail_step
    where institution_id = $1 and called_at > $2 and kind = 'order' and state in ('calling', 'asked')
        and refusal_reason is null
""")
"""Count sent orders that were first called since then and have not ended."""

# Beside open orders, which are few: most rows here have ended.
find_loss: Final = Value[datetime | None, datetime]("""
    select min(coalesce(known_until, noticed_at - interval '1 day')) from database_loss where noticed_at > $1
""")
"""Find the beginning of the span that may be lost, by the losses detected since an instant."""

insert: Final = STEP.insert_new  # insert a new row; an existing one stays

# One statement with the fence in it, which locks the account's slot before the row. A worker that resumes after losing its slot
# begins no call, but records an earlier unrecorded one.
_TAKE: Final[LiteralString] = f"""
    with held as materialized ({lease_store.HOLD})
    update rail_step set state = $5, may_be_done = $6, called_at = $7, outcome = $8, refusal_code = $9, refusal_reason = $10,
        code_there = $11, owner_tax_id = $13, owner_name = $14
    where order_name = $3 and state = $4 and only_asked = $12 and (select count(*) from held) = cardinality($1)
        and ($5 <> 'calling' or ($4 = 'minted' and $6) or exists (
            select from institution_account as account
            where account.id = institution_id and account.state = 'active'
        ))
    returning order_name
"""


async def take(pool: Pool, epochs: Mapping[int, int], before: RailStep, after: RailStep) -> bool:
    """Change a row in a given state; ``False`` if it is in another, or the slot is another worker's."""
    changed = (after.state, after.may_be_done, after.called_at, after.outcome, after.refusal_code, after.refusal_reason)
    named = (after.code_there, before.only_asked, after.owner_tax_id, after.owner_name)
    taken = await pool.fetchval(_TAKE, list(epochs), list(epochs.values()), before.order_name, before.state, *changed, *named)
    return taken is not None


_END: Final = Part[OpenOrder](
    name="rail_step_end",
    sql="""
        update rail_step set state = 'closed', outcome = case when state in ('new', 'minted') then 'never' else 'answered' end
        where order_name = any({}::text[]) and state <> 'closed'
    """,
    arguments=lambda orders: [sorted(order.name for order in orders)],
)
ENDED_STEPS: Final = Fact(rank=90, inserts=(_END,), key=None)
"""Steps of orders that end by a list, or because no call was made in time."""


async def find_named(pool: Connection | Pool, institution_id: int, names_there: Sequence[str]) -> dict[str, RailStep]:
    """Find our own refunds among the names that an institution lists."""
    which: LiteralString = "where institution_id = $1 and name_there = any($2) and kind = 'refund'"
    found = await STEP.find_all(pool, which, institution_id, names_there)
    return {step.name_there: step for step in found if step.name_there is not None}
