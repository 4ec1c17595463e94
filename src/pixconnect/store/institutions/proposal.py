"""The table of proposals that wait for a second operator."""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString

import msgspec

from pixconnect.domain.institutions.proposal import Proposal, ProposedAct
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import Table

_decode = msgspec.json.Decoder(dict[str, str | int]).decode
_encode = msgspec.json.Encoder().encode

PROPOSAL: Final = Table(
    "institution_proposal",
    Proposal,
    """
    institution_id smallint, act text, proposal jsonb, proposed_by text, proposed_at timestamptz,
    confirmable_at timestamptz
    """,
    key=("institution_id", "act"),
    read={"proposal": (_decode, "proposal")},
    write={"proposal": lambda proposal: _encode(proposal.proposal).decode()},
)

_LOCKED: Final = 0x1D58_9A0B


async def lock(connection: Connection, institution_id: int) -> None:
    """Lock proposals and confirmations of the account's adjustments until the transaction ends."""
    # By the account, and not by its row: in the console people propose whose role may change no account.
    await connection.execute("select pg_advisory_xact_lock($1, $2)", _LOCKED, institution_id)


_FORGET: Final[LiteralString] = """
    delete from institution_proposal where institution_id = $1 and act = $2 and confirmed_at is null
"""


async def forget(connection: Connection, institution_id: int, act: ProposedAct) -> None:
    """Forget what waits of a kind; the caller has locked the account."""
    await connection.execute(_FORGET, institution_id, act)


async def propose(connection: Connection, proposal: Proposal) -> None:
    """Keep it, in the place of one of the same kind that waits; the caller has locked the account."""
    await forget(connection, proposal.institution_id, proposal.act)
    await PROPOSAL.insert(connection, proposal)


async def list_waiting(connection: Connection | Pool, institution_id: int) -> list[Proposal]:
    return await PROPOSAL.find_all(
        connection, "where institution_id = $1 and confirmed_at is null order by id", institution_id
    )


_READ_LOGINS: Final[LiteralString] = """
    select session_user::text as own, proposed_login as proposed from institution_proposal
    where institution_id = $1 and act = $2 and confirmed_at is null
"""


async def read_logins(connection: Connection | Pool, institution_id: int, act: ProposedAct) -> tuple[str, str] | None:
    """This login of the database, and that by which what waits of a kind was proposed."""
    row = await connection.fetchrow(_READ_LOGINS, institution_id, act)
    return None if row is None else (row["own"], row["proposed"])


_CONFIRM: Final[LiteralString] = """
    update institution_proposal set confirmed_by = $3, confirmed_at = $4
    where institution_id = $1 and act = $2 and confirmed_at is null
"""


async def confirm(
    connection: Connection, institution_id: int, act: ProposedAct, operator: str, confirmed_at: datetime
) -> None:
    await connection.execute(_CONFIRM, institution_id, act, operator, confirmed_at)
