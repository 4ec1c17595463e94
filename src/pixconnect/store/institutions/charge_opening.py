"""The table of charges that are being opened at institutions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from pixconnect.domain.institutions.charge_opening import ChargeOpening, OpeningState, decode_wanted, encode_wanted
from pixconnect.domain.money.charge import Charge
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.frame.table import Table
from pixconnect.store.money.charge import CHARGE

OPENING: Final = Table(
    "charge_opening",
    ChargeOpening,
    """
    charge_id bigint, holder_id bigint, institution_id smallint, external_id text, txid text, state text, wanted text,
    fingerprint bytea, refusal_code text, refusal_reason text, reference text, network_txid text, calls_count integer,
    due_at timestamptz, created_at timestamptz
    """,
    key=("charge_id", "holder_id"),
    read={"wanted": (decode_wanted, "wanted")},
    write={"wanted": lambda opening: encode_wanted(opening.wanted).decode()},
)

_INSERT: Final[LiteralString] = f"""
    insert into charge_opening ({OPENING.names}) values ({OPENING.parameters}) on conflict do nothing returning charge_id
"""


async def insert(connection: Connection, opening: ChargeOpening) -> bool:
    """Remember it before it is asked for; ``False`` if its txid or external id is taken."""
    return await connection.fetchval(_INSERT, *OPENING.values(opening)) is not None


# One that somebody has paused still opens charges, since a pause keeps money from leaving; after a loss nobody knows what is
# open there.
_MAY_BEGIN: Final[LiteralString] = """
    select exists (
        select from holder join institution_account as account on account.id = holder.institution_id
        where holder.id = $1 and account.id = $2 and account.state <> 'closed' and account.lost_at is null
    )
"""


async def may_begin(connection: Connection, opening: ChargeOpening) -> bool:
    """Whether its holder is on the account, and the account is neither closed nor paused by a loss."""
    return await connection.fetchval(_MAY_BEGIN, opening.holder_id, opening.institution_id)


_FIND: Final[LiteralString] = f"""
    select {OPENING.select} from charge_opening where external_id = $2 and holder_id = $1 and state in ('opening', 'opened')
"""
_FIND_TXID: Final[LiteralString] = f"""
    select {OPENING.select} from charge_opening where institution_id = $1 and txid = $2 and state in ('opening', 'opened')
"""
_FIND_REFUSED: Final[LiteralString] = """
    select txid from charge_opening where external_id = $2 and holder_id = $1 and state = 'refused' and refusal_code <> 'txid'
    order by created_at desc limit 1
"""
_LOCK: Final[LiteralString] = f"""
    select {OPENING.select} from charge_opening where charge_id = $1 and holder_id = $2 for update
"""
_READ: Final[LiteralString] = f"select {OPENING.select} from charge_opening where charge_id = $1 and holder_id = $2"


async def find(connection: Connection | Pool, holder_id: int, external_id: str) -> ChargeOpening | None:
    """The one that has this name now, refused ones apart."""
    return OPENING.read_found(await connection.fetchrow(_FIND, holder_id, external_id))


async def find_txid(connection: Connection | Pool, institution_id: int, txid: str) -> ChargeOpening | None:
    """The one that has this txid on the account, whoever's it is."""
    return OPENING.read_found(await connection.fetchrow(_FIND_TXID, institution_id, txid))


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
    """The charge of the account with this txid, txid of the institution, or reference of a static code."""
    return CHARGE.read_found(await connection.fetchrow(_FIND_CHARGES, institution_id, name))


async def find_refused_txid(pool: Pool, holder_id: int, external_id: str) -> str | None:
    """The txid under which the last one of this name was refused, unless another charge has it there."""
    return await pool.fetchval(_FIND_REFUSED, holder_id, external_id)


async def lock(connection: Connection, charge_id: int, holder_id: int) -> ChargeOpening | None:
    return OPENING.read_found(await connection.fetchrow(_LOCK, charge_id, holder_id))


async def read(connection: Connection | Pool, charge_id: int, holder_id: int) -> ChargeOpening | None:
    return OPENING.read_found(await connection.fetchrow(_READ, charge_id, holder_id))


_GIVE_UP_ALL: Final[LiteralString] = """
    update charge_opening set state = 'given_up' where institution_id = $1 and state = 'opening'
"""


async def give_up_all(connection: Connection, institution_id: int) -> None:
    """Of an account that is being closed: nobody will be asked any more."""
    await connection.execute(_GIVE_UP_ALL, institution_id)


# That it was opened counts whoever has heard it, for there is a charge then. That it was not, only who asked last may say.
_END: Final[LiteralString] = """
    update charge_opening set state = $3, refusal_code = $4, refusal_reason = left($5, 1000), reference = $6,
        network_txid = $7, code_digest = (
            select sha256(convert_to(br_code, 'UTF8')) from charge
            where id = $1 and charge.holder_id = $2 and $3 = 'opened'
        )
    where charge_id = $1 and holder_id = $2 and state = 'opening' and (calls_count = $8 or $3 = 'opened')
    returning charge_id
"""


async def end(
    connection: Connection,
    opening: ChargeOpening,
    state: OpeningState,
    *,
    refusal_code: str | None = None,
    refusal_reason: str | None = None,
    reference: str | None = None,
    network_txid: str | None = None,
) -> bool:
    """End one that is still open; ``False`` if it has ended, or, unless it is opened, somebody has begun to ask since."""
    found = await connection.fetchval(
        _END,
        opening.charge_id,
        opening.holder_id,
        state,
        refusal_code,
        refusal_reason,
        reference,
        network_txid,
        opening.calls_count,
    )
    return found is not None


# One worker at a time looks after an account; should two, the institution keeps one charge under a txid.
_TAKE_DUE: Final[LiteralString] = f"""
    with due as (
        select charge_id, holder_id from charge_opening
        where state = 'opening' and due_at <= $2 and institution_id = $1 order by due_at limit 1
    )
    update charge_opening set due_at = $3, calls_count = calls_count + 1 from due
    where charge_opening.charge_id = due.charge_id and charge_opening.holder_id = due.holder_id
    returning {OPENING.select}
"""


async def take_due(pool: Pool, institution_id: int, now: datetime, again_at: datetime) -> ChargeOpening | None:
    """The one that has been due for longest at an account, put off for everybody else."""
    return OPENING.read_found(await pool.fetchrow(_TAKE_DUE, institution_id, now, again_at))


_PUT_OFF: Final[LiteralString] = """
    update charge_opening set due_at = $3, refusal_reason = left($4, 1000)
    where charge_id = $1 and holder_id = $2 and state = 'opening'
"""


async def put_off(pool: Pool, charge_id: int, holder_id: int, until: datetime, reason: str) -> None:
    """Let it be asked about again later; ``reason`` is what the institution said last."""
    await pool.execute(_PUT_OFF, charge_id, holder_id, until, reason)


_TAKE_NAMED: Final[LiteralString] = f"""
    update charge_opening set due_at = $3, calls_count = calls_count + 1
    where institution_id = $1 and txid = any($2::text[]) and state = 'opening' returning {OPENING.select}
"""


async def take_named(
    pool: Pool, institution_id: int, txids: Sequence[str], again_at: datetime
) -> Sequence[ChargeOpening]:
    """Those of these txids of which nobody knows yet whether they are open, put off for everybody else."""
    return [OPENING.read(row) for row in await pool.fetch(_TAKE_NAMED, institution_id, txids, again_at)]
