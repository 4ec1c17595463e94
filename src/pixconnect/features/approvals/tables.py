"""The tables of transfers that wait for approval, and of operators' decisions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.order import OpenOrder
from pixconnect.kernel.rules.rail import InitiationType
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.lookup import FindAll, FindBy, FindOne, Value
from pixconnect.kernel.tables.order import ORDER
from pixconnect.kernel.tables.table import Table, fetch_row, insert_of
from pixconnect.platform.pool import Connection, Pool


class PendingApproval(Struct, frozen=True, kw_only=True):
    """Why a transfer had to wait for an operator's approval."""

    order_name: str
    transfer_id: int
    holder_id: int
    is_above: bool  # its amount exceeds the limit without approval
    is_new_payee: bool  # none of its holder's transfers had settled to the payee
    since: datetime  # in service time


class ApprovalAnswer(Struct, frozen=True, kw_only=True):
    """An operator's decision on it, made once."""

    order_name: str
    is_approved: bool
    decided_by: str
    decided_at: datetime  # in service time


PENDING_APPROVAL: Final = Table(
    "pending_approval",
    PendingApproval,
    "order_name text, transfer_id bigint, holder_id bigint, is_above boolean, is_new_payee boolean, since timestamptz",
    key=("order_name",),
)
APPROVAL_ANSWER: Final = Table(
    "approval_answer",
    ApprovalAnswer,
    "order_name text, is_approved boolean, decided_by text, decided_at timestamptz",
    key=("order_name",),
)

INSERT: Final = insert_of(PENDING_APPROVAL, PENDING_APPROVAL, name="pending_approval_row")
PENDING_APPROVALS: Final = Fact(rank=80, inserts=(INSERT,), key=None)

find: Final = FindOne[PendingApproval, int](PENDING_APPROVAL, "where transfer_id = $1")
"""Find whether a transfer ever needed approval."""

find_awaited: Final = FindOne[PendingApproval, str](
    PENDING_APPROVAL,
    "where order_name = $1 and exists (select from open_order where name = order_name and approval || '' = 'awaited')",
)

find_decision: Final = FindOne[ApprovalAnswer, str](APPROVAL_ANSWER, "where order_name = $1")

# Its order is locked.
_MOVE_ORDER: Final[LiteralString] = "update open_order set approval = $2, due_at = $3, give_up_at = $4 where name = $1"


async def decide(connection: Connection, decision: ApprovalAnswer, order: OpenOrder) -> None:
    # First the decision, whose key is the order: a second one fails before it moves anything.
    await APPROVAL_ANSWER.insert(connection, decision)
    await connection.execute(_MOVE_ORDER, order.name, order.approval, order.due_at, order.give_up_at)


# Matches the index `open_order_awaiting`.
list_awaited: Final = FindAll[OpenOrder, int | None, int](
    ORDER, "where approval = 'awaited' and ($1::bigint is null or holder_id = $1) order by give_up_at limit $2"
)

find_all: Final = FindBy[str, PendingApproval, Sequence[str]](PENDING_APPROVAL, "order_name", "where order_name = any($1)")

_MEASURE: Final[LiteralString] = """
    select count(*) as count, min(ordered_at) as oldest_at
    from (select ordered_at from open_order where approval = 'awaited' order by give_up_at limit $1) as awaited
"""


async def measure_awaited(pool: Connection | Pool, count_max: int) -> tuple[int, datetime | None]:
    """Count waiting transfers up to a maximum, and return since when the first one waits."""
    row = await fetch_row(pool, _MEASURE, count_max)
    return row["count"], row["oldest_at"]


count_awaited_since: Final = Value[int, datetime, int]("""
    select count(*) from (
        select from open_order where approval = 'awaited' and ordered_at <= $1 limit $2
    ) as awaited
""")
"""Count waiting transfers accepted before an instant, up to ``count_max``."""

# Matches the index `transfer_payee`. An account is identified by itself, not by the key that the caller used. A key whose owner
# has changed, as far as reported, is another payee.
_COUNT_PAID: Final[LiteralString] = """
    select count(*) from (
        select from transfer
        where holder_id = $1 and direction = 'OUT' and settled_at is not null and not is_book
            and case initiation_type when 'MANUAL' then
                (counterparty ->> 'ispb') || '/' || (counterparty ->> 'branch') || '/' || (counterparty ->> 'account_number')
            else coalesce(
                counterparty ->> 'key',
                (counterparty ->> 'ispb') || '/' || (counterparty ->> 'branch') || '/' || (counterparty ->> 'account_number')
            ) end = $2
            and counterparty ->> 'tax_id' = $3
        limit $4
    ) as paid
"""


async def count_paid(
    connection: Connection | Pool, holder_id: int, initiation_type: InitiationType, payee: Party, count_max: int
) -> int:
    """Count a holder's transfers that have settled to this key or account, up to ``count_max``."""
    by_account = f"{payee.ispb}/{payee.branch}/{payee.account_number}"
    name = by_account if initiation_type == "MANUAL" else payee.key or by_account
    return await connection.fetchval(_COUNT_PAID, holder_id, name, payee.tax_id, count_max)
