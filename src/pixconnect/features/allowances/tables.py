"""The tables of permitted outgoing money of accounts at institutions, and of its daily sums."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final, LiteralString

from pixconnect.features.allowances.rules import Allowance, TransferAllowance
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.rail import InitiationType
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables.lookup import Pairs, Value
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


write: Final = ALLOWANCE.updating(ALLOWANCE)
"""Write it; a raise after its confirmation, in the same transaction."""

hold_refund_days: Final = Pairs[int, int, Sequence[int], date](
    "select institution_id, left_cents from hold_refund_days($1, $2)"
)
"""The remaining refund allowance of accounts on a day, in cents, locked until the end; taken after balances."""


async def hold_transfer_days(connection: Connection, institution_ids: Sequence[int], day: date) -> dict[int, TransferAllowance]:
    """The remaining transfer allowance of accounts on a day, locked until the transaction ends; taken after balances."""
    rows = await connection.fetch("select * from hold_transfer_days($1, $2)", institution_ids, day)
    return {
        row["institution_id"]: TransferAllowance(
            owner_tax_id=row["tax_id"], transfer_cents=row["transfer_cents"], left_cents=row["left_cents"], payees=row["payees"]
        )
        for row in rows
    }


# Matches the index `transfer_paid_there`; without the offset, PostgreSQL may read all transfers into a hash table. An account
# is identified by itself, not by the key that the caller used.
_IS_KNOWN: Final[LiteralString] = """
    exists (
        select from transfer
        where transfer.institution_id = wanted.institution_id and direction = 'OUT' and settled_at is not null
            and case initiation_type when 'MANUAL' then
                (counterparty ->> 'ispb') || '/' || (counterparty ->> 'branch') || '/' || (counterparty ->> 'account_number')
            else counterparty ->> 'key' end = wanted.payee
        offset 0
    )
"""


def name_payee(initiation_type: InitiationType, payee: Party) -> str | None:
    """Name a payee by its account, or by the key that was paid by itself or by a code."""
    by_account = f"{payee.ispb}/{payee.branch}/{payee.account_number}"
    return by_account if initiation_type == "MANUAL" else payee.key


is_known_payee: Final = Value[bool, int, str | None](
    f"select {_IS_KNOWN} from (values ($1::smallint, $2::text)) as wanted (institution_id, payee)"
)
"""Whether a transfer to this payee has settled over the account."""

# Each order counts on the day on which it was accepted.
_FIND_LEFT: Final[LiteralString] = f"""
    select wanted.name, tax_id, transfer_cents, payees, payees = 'known' and {_IS_KNOWN} as is_known,
        refunds_day_cents - coalesce(refunded.cents, 0) as refunds_left_cents,
        transfers_day_cents - coalesce(sent.cents, 0) as left_cents
    from (
        select name, payee, institution_id, (ordered_at at time zone 'America/Sao_Paulo')::date as day
        from unnest($1::text[], $2::text[]) as asked (name, payee) join open_order using (name)
    ) as wanted
    join institution_allowance using (institution_id) join institution_account on institution_account.id = institution_id
    left join refund_day as refunded using (institution_id, day) left join transfer_day as sent using (institution_id, day)
"""


async def find_left(
    connection: Connection | Pool, ordered: Mapping[str, Transfer | Refund]
) -> dict[str, tuple[int, TransferAllowance, bool]]:
    """The remaining allowances, without the order itself, for open orders at institutions, and whether a payee is known."""
    payees = [
        name_payee(each.initiation_type, each.counterparty) if isinstance(each, Transfer) else None for each in ordered.values()
    ]
    return {
        row["name"]: (
            max(row["refunds_left_cents"] + own_cents, 0),
            TransferAllowance(
                owner_tax_id=row["tax_id"],
                transfer_cents=row["transfer_cents"],
                left_cents=max(row["left_cents"] + own_cents, 0),
                payees=row["payees"],
            ),
            row["is_known"],
        )
        for row in await connection.fetch(_FIND_LEFT, list(ordered), payees)
        for own_cents in [ordered[row["name"]].amount_cents]
    }
