"""The table of charges that are being opened at institutions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct, convert

from pixconnect.features.institutions.rules.pending_call import ChargeOpening
from pixconnect.features.institutions.tables.pending_call import PendingCalls
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.charge_contents import decode_contents, encode_contents
from pixconnect.kernel.tables.charge import CHARGE
from pixconnect.platform.pool import Connection, Pool

OPENINGS: Final = PendingCalls(
    "charge_opening",
    ChargeOpening,
    """
    charge_id bigint, holder_id bigint, institution_id smallint, external_id text, txid text, state text, wanted text,
    asked_by text, fingerprint bytea, refusal_code text, refusal_reason text, reference text, network_txid text,
    calls_count integer, due_at timestamptz, created_at timestamptz
    """,
    key=("charge_id", "holder_id"),
    open_state="opening",
    words="refusal_reason",
    read={"contents": (decode_contents, "wanted")},
    write={"wanted": lambda opening: encode_contents(opening.contents)},
)

_INSERT: Final[LiteralString] = f"""
    insert into charge_opening ({OPENINGS.names}) values ({OPENINGS.parameters}) on conflict do nothing returning charge_id
"""


async def insert(connection: Connection, opening: ChargeOpening) -> bool:
    """Store it before the call; ``False`` if its txid or external id is taken."""
    return await connection.fetchval(_INSERT, *OPENINGS.values(opening)) is not None


# A paused account still opens charges, since a pause only stops outgoing money. After a loss, the charges open at the
# institution are unknown.
_MAY_BEGIN: Final[LiteralString] = """
    select exists (
        select from holder join institution_account as account on account.id = holder.institution_id
        where holder.id = $1 and account.id = $2 and account.state <> 'closed' and account.lost_at is null
    )
"""


async def may_begin(connection: Connection, opening: ChargeOpening) -> bool:
    """Whether its holder is on the account, and the account is neither closed nor paused by a loss."""
    return await connection.fetchval(_MAY_BEGIN, opening.holder_id, opening.institution_id)


_FIND_REFUSED: Final[LiteralString] = """
    select txid from charge_opening where external_id = $2 and holder_id = $1 and state = 'refused' and refusal_code <> 'txid'
    order by created_at desc limit 1
"""


async def find(connection: Connection | Pool, holder_id: int, external_id: str) -> ChargeOpening | None:
    """Find the opening that has this name now, except refused ones."""
    which: LiteralString = "where external_id = $2 and holder_id = $1 and state in ('opening', 'opened')"
    return await OPENINGS.find(connection, which, holder_id, external_id)


async def find_txid(connection: Connection | Pool, institution_id: int, txid: str) -> ChargeOpening | None:
    """Find the opening that has this txid on the account, of any holder."""
    which: LiteralString = "where institution_id = $1 and txid = $2 and state in ('opening', 'opened')"
    return await OPENINGS.find(connection, which, institution_id, txid)


async def find_of_charge(connection: Connection | Pool, charge: Charge) -> ChargeOpening | None:
    return await OPENINGS.find(connection, "where charge_id = $1 and holder_id = $2", charge.id, charge.holder_id)


_FIND_CHARGES: Final[LiteralString] = f"""
    with named as materialized (
        select charge_id as id, holder_id from charge_opening where institution_id = $1 and reference = $2
        union
        select charge_id, holder_id from charge_opening where institution_id = $1 and network_txid = $2
        union
        select id, holder_id from charge where institution_id = $1 and txid = $2
    )
    select {CHARGE.select} from named join charge using (id, holder_id) order by charge.txid = $2 desc, charge.id desc limit 1
"""


async def find_charge(connection: Connection | Pool, institution_id: int, name: str) -> Charge | None:
    """Find the charge of the account with this txid, txid of the institution, or reference of a static code."""
    return CHARGE.read_found(await connection.fetchrow(_FIND_CHARGES, institution_id, name))


async def find_refused_txid(pool: Pool, holder_id: int, external_id: str) -> str | None:
    """Find the txid of the last refused opening of this name, unless another charge uses it at the institution."""
    return await pool.fetchval(_FIND_REFUSED, holder_id, external_id)


# Without the fence: once any process has read that it is open, the charge exists.
_NOTE_OPENED: Final[LiteralString] = """
    update charge_opening set state = 'opened', refusal_reason = null, reference = $3, network_txid = $4, code_digest = (
        select sha256(convert_to(br_code, 'UTF8')) from charge where id = $1 and charge.holder_id = $2
    )
    where charge_id = $1 and holder_id = $2 and state = 'opening'
"""


async def note_opened(
    connection: Connection, opening: ChargeOpening, *, reference: str | None = None, network_txid: str | None = None
) -> None:
    await connection.execute(_NOTE_OPENED, opening.charge_id, opening.holder_id, reference, network_txid)


_REFUSE: Final[LiteralString] = """
    update charge_opening set state = 'refused', refusal_code = $4, refusal_reason = left($5, 1000)
    where charge_id = $1 and holder_id = $2 and calls_count = $3 and state = 'opening'
"""


async def refuse(connection: Connection, opening: ChargeOpening, code: str, reason: str) -> None:
    """End it as refused, unless another process has called since."""
    keys = opening.charge_id, opening.holder_id, opening.calls_count
    await connection.execute(_REFUSE, *keys, code, reason)


_TAKE_NAMED: Final[LiteralString] = f"""
    update charge_opening set due_at = $3, calls_count = calls_count + 1
    where institution_id = $1 and txid = any($2::text[]) and state = 'opening' returning {OPENINGS.select}
"""


async def take_named(
    pool: Pool, institution_id: int, txids: Sequence[str], again_at: datetime
) -> Sequence[ChargeOpening]:
    """Take openings of these txids with an unknown outcome, postponed for all other workers."""
    return [OPENINGS.read(row) for row in await pool.fetch(_TAKE_NAMED, institution_id, txids, again_at)]


# Charges at institutions whose opening or change has an unknown outcome, for monitoring.


class WaitingCharge(Struct, frozen=True, kw_only=True):
    """A charge that is being opened, revised, removed or withdrawn."""

    institution: str
    """The account's name."""
    holder_id: int
    txid: str
    wanted: str
    """``open``, or the kind of its change."""
    asked_count: int
    said: str | None
    """The institution's last answer, in its words or ours."""
    since: datetime
    """Real time."""


# Few wait at any time, and each table has an index of those alone.
_LIST: Final[LiteralString] = """
    select name as institution, holder_id, txid, wanted, asked_count, said, waiting.created_at as since from (
        select institution_id, holder_id, txid, 'open' as wanted, calls_count as asked_count, refusal_reason as said, created_at
        from charge_opening where state = 'opening' and created_at < $1
        union all
        select institution_id, holder_id, txid, kind, calls_count, reason, created_at
        from charge_change where state = 'asked' and created_at < $1
    ) as waiting
    join institution_account on institution_account.id = institution_id
    order by waiting.created_at, txid limit $2
"""


async def list_begun(connection: Connection | Pool, begun_before: datetime, count_max: int) -> Sequence[WaitingCharge]:
    """List those that began before an instant, longest waiting first."""
    return [convert(dict(row), WaitingCharge) for row in await connection.fetch(_LIST, begun_before, count_max)]
