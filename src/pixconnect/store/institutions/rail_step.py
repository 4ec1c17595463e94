"""The table of what is asked of institutions under orders of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.domain.institutions.rail_memory import Kind, RailStep
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import Table
from pixconnect.store.running import lease as lease_store

STEP: Final = Table(
    "rail_step",
    RailStep,
    """
    order_name text, institution_id smallint, kind text, holder_id bigint, original_end_to_end_id text,
    amount_cents bigint, name_there text, state text, may_be_done boolean, called_at timestamptz, outcome text,
    refusal_code text, refusal_reason text, created_at timestamptz
    """,
    key=("order_name",),
)

_FIND: Final[LiteralString] = f"select {STEP.select} from rail_step where order_name = any($1) and institution_id = $2"


async def find(pool: Connection | Pool, institution_id: int, order_names: Sequence[str]) -> dict[str, RailStep]:
    """Those of an account, by our name."""
    found = map(STEP.read, await pool.fetch(_FIND, order_names, institution_id))
    return {step.order_name: step for step in found}


class NamedRefund(Struct, frozen=True, kw_only=True):
    """What a row is made of."""

    order_name: str
    holder_id: int
    external_id: str
    original_end_to_end_id: str
    amount_cents: int
    naming_key: bytes


_FIND_OPEN: Final[LiteralString] = """
    select name as order_name, refund.holder_id, coalesce(refund.external_id, refund.return_id) as external_id,
        transfer.end_to_end_id as original_end_to_end_id, refund.amount_cents, naming_key
    from open_order
    join refund on refund.id = resource_id and refund.holder_id = open_order.holder_id and refund.return_id = name
    join transfer on transfer.id = refund.transfer_id and transfer.holder_id = refund.holder_id
    join institution_allowance on institution_allowance.institution_id = open_order.institution_id
    where name = any($1) and open_order.institution_id = $2
"""


async def find_open_refunds(pool: Pool, institution_id: int, order_names: Sequence[str]) -> list[NamedRefund]:
    """Refunds over an account that have not ended."""
    return [NamedRefund(**row) for row in await pool.fetch(_FIND_OPEN, order_names, institution_id)]


_INSERT: Final[LiteralString] = (
    f"insert into rail_step ({STEP.names}) values ({STEP.parameters}) on conflict do nothing"
)


async def insert(connection: Connection | Pool, step: RailStep) -> None:
    """Remember a new one; one that is there stays."""
    await connection.execute(_INSERT, *STEP.values(step))


# With the fence in it, it is one statement: it holds the account's slot before it touches the row.
_TAKE: Final[LiteralString] = f"""
    with held as materialized ({lease_store.HOLD})
    update rail_step set state = $5, may_be_done = $6, called_at = $7, outcome = $8, refusal_code = $9, refusal_reason = $10
    where order_name = $3 and state = $4 and (select count(*) from held) = cardinality($1)
    returning order_name
"""


async def take(pool: Pool, epochs: Mapping[int, int], before: RailStep, after: RailStep) -> bool:
    """Change one that is in the state that it was in; ``False`` if it is not, or the slot is another worker's."""
    changed = (after.state, after.may_be_done, after.called_at, after.outcome, after.refusal_code, after.refusal_reason)
    taken = await pool.fetchval(_TAKE, list(epochs), list(epochs.values()), before.order_name, before.state, *changed)
    return taken is not None


_FIND_NAMED: Final[LiteralString] = f"""
    select {STEP.select} from rail_step where institution_id = $1 and name_there = any($2) and kind = $3
"""


async def find_named(
    pool: Connection | Pool, institution_id: int, names_there: Sequence[str], kind: Kind = "refund"
) -> dict[str, RailStep]:
    """What we asked for, of the names that an institution lists; what others asked for is left out."""
    rows = await pool.fetch(_FIND_NAMED, institution_id, names_there, kind)
    return {row["name_there"]: STEP.read(row) for row in rows}
