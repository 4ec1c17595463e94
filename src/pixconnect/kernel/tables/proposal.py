"""The table of proposals."""

from datetime import datetime
from typing import Final, LiteralString

import msgspec

from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.tables.lookup import AdvisoryLocks, Value
from pixconnect.kernel.tables.table import Table
from pixconnect.platform.pool import Connection, Pool

_decode = msgspec.json.Decoder(dict[str, str | int]).decode
_encode = msgspec.json.Encoder().encode

PROPOSAL: Final = Table(
    "proposal",
    Proposal,
    """
    act text, institution_id smallint, holder_id bigint, contents jsonb, proposed_by text, proposed_at timestamptz,
    confirmable_at timestamptz, acts_at timestamptz
    """,
    key=("institution_id", "holder_id", "act"),
    read={"contents": (_decode, "contents")},
    write={"contents": lambda proposal: _encode(proposal.contents).decode()},
)

# Not its row: in the console, operators propose under a role that may change no account.
lock_account: Final = AdvisoryLocks(0x1D58_9A0B).lock
"""Lock an account's proposals until the transaction ends."""

# A null is compared as any value: a proposal is about an account or a holder.
_WAITS: Final[LiteralString] = """
    act = $1 and institution_id is not distinct from $2 and holder_id is not distinct from $3 and done_at is null
"""
_FORGET: Final[LiteralString] = f"delete from proposal where {_WAITS}"


async def forget(connection: Connection, act: str, *, institution_id: int | None = None, holder_id: int | None = None) -> None:
    """Delete a kind's pending proposal; the caller has locked the account or the holder."""
    await connection.execute(_FORGET, act, institution_id, holder_id)


async def replace(connection: Connection, proposal: Proposal) -> None:
    """Store a proposal, replacing a pending one of the same kind; the caller has locked the account or the holder."""
    await connection.execute(_FORGET, *_name(proposal))
    await PROPOSAL.insert(connection, proposal)


async def list_waiting(
    connection: Connection | Pool, *, institution_id: int | None = None, holder_id: int | None = None
) -> list[Proposal]:
    """List pending proposals of an account, of a holder, or all, oldest first."""
    where: LiteralString = """
        where done_at is null and ($1::smallint is null or institution_id = $1) and ($2::bigint is null or holder_id = $2)
        order by id
    """
    return await PROPOSAL.find_all(connection, where, institution_id, holder_id)


async def find_login_conflict(connection: Connection | Pool, proposal: Proposal) -> str | None:
    """Find why this database login may not confirm a proposal; the schema refuses for the same reason."""
    return await connection.fetchval(f"select find_login_conflict(id) from proposal where {_WAITS}", *_name(proposal))


async def confirm(connection: Connection, proposal: Proposal, operator: str, confirmed_at: datetime) -> None:
    await connection.execute(
        f"update proposal set confirmed_by = $4, done_at = $5 where {_WAITS}", *_name(proposal), operator, confirmed_at
    )


def _name(proposal: Proposal) -> tuple[str, int | None, int | None]:
    return proposal.act, proposal.institution_id, proposal.holder_id


act_on_due_limits: Final = Value[int]("select act_on_due_limits()")
"""Apply pending limits whose waiting time is over, and return their number."""
