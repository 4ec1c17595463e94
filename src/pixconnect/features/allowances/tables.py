"""The tables of permitted outgoing money of accounts at institutions, and of its daily sums."""

from collections.abc import Sequence
from datetime import date
from typing import Final, LiteralString

from pixconnect.features.allowances.rules import Allowance, TransferAllowance
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.rail import InitiationType
from pixconnect.kernel.tables.table import Table, fetch_row
from pixconnect.platform.pool import Connection, Pool

ALLOWANCE: Final = Table(
    "institution_allowance",
    Allowance,
    """
    institution_id smallint, refunds_day_cents bigint, allowed_by text, transfer_cents bigint, transfers_day_cents bigint,
    payees text
    """,
    key=("institution_id",),
)

_READ: Final[LiteralString] = f"select {ALLOWANCE.select} from institution_allowance where institution_id = $1"


async def read(connection: Connection | Pool, institution_id: int) -> Allowance:
    return ALLOWANCE.read(await fetch_row(connection, _READ, institution_id))


async def lock(connection: Connection, institution_id: int) -> Allowance:
    return ALLOWANCE.read(await fetch_row(connection, f"{_READ} for no key update", institution_id))


_WRITE: Final[LiteralString] = """
    update institution_allowance
    set refunds_day_cents = $2, allowed_by = $3, transfer_cents = $4, transfers_day_cents = $5, payees = $6
    where institution_id = $1
"""


async def write(connection: Connection, allowance: Allowance) -> None:
    """Write it; a raise after its confirmation, in the same transaction."""
    await connection.execute(_WRITE, *ALLOWANCE.values(allowance))


_HOLD_DAYS: Final[LiteralString] = "select institution_id, left_cents from hold_refund_days($1, $2)"


async def hold_refund_days(connection: Connection, institution_ids: Sequence[int], day: date) -> dict[int, int]:
    """The remaining refund allowance of accounts on a day, in cents, locked until the end; taken after balances."""
    rows = await connection.fetch(_HOLD_DAYS, institution_ids, day)
    return {row["institution_id"]: row["left_cents"] for row in rows}


async def hold_transfer_days(
    connection: Connection, institution_ids: Sequence[int], day: date
) -> dict[int, TransferAllowance]:
    """The remaining transfer allowance of accounts on a day, locked until the transaction ends; taken after balances."""
    rows = await connection.fetch("select * from hold_transfer_days($1, $2)", institution_ids, day)
    return {
        row["institution_id"]: TransferAllowance(
            owner_tax_id=row["tax_id"],
            transfer_cents=row["transfer_cents"],
            left_cents=row["left_cents"],
            payees=row["payees"],
        )
        for row in rows
    }


# Matches the index `transfer_paid_there`. An account is identified by itself, not by the key that the caller used.
_FIND_KNOWN: Final[LiteralString] = """
    select exists (
        select from transfer
        where institution_id = $1 and direction = 'OUT' and settled_at is not null
            and case initiation_type when 'MANUAL' then
                (counterparty ->> 'ispb') || '/' || (counterparty ->> 'branch') || '/' || (counterparty ->> 'account_number')
            else counterparty ->> 'key' end = $2
    )
"""


async def is_known_payee(
    connection: Connection | Pool, institution_id: int, initiation_type: InitiationType, payee: Party
) -> bool:
    """Whether a transfer to this key, by itself or by a code, or to this account, has settled over the account."""
    by_account = f"{payee.ispb}/{payee.branch}/{payee.account_number}"
    name = by_account if initiation_type == "MANUAL" else payee.key
    return await connection.fetchval(_FIND_KNOWN, institution_id, name)
