"""The table of refunds."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final, LiteralString, NamedTuple

from pixconnect.kernel.rules.block_report import InfractionReason
from pixconnect.kernel.rules.refund import Flow, Refund
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables import lookup, tally
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.table import Table, insert_of, list_columns, split_pairs, update_of
from pixconnect.platform.pool import Connection, Pool

REFUND: Final = Table("refund", Refund, list_columns(Refund, slot="smallint"))

# A new refund has not been handed over, so the columns' defaults need not be sent.
INSERT: Final = insert_of(REFUND, REFUND.without("handed_at, network_id, made_by"), name="refund_row")
# Few are made at an institution.
INSERT_THERE: Final = insert_of(REFUND, REFUND.without("handed_at, network_id"), name="refund_there_row")

_MOVED: Final = REFUND.only(
    "id, holder_id, status, outcome_code, outcome_reason, handed_at, settled_at, network_settled_at, modified_at"
)
UPDATE: Final = update_of(REFUND, _MOVED, name="refund_change")
REFUNDS: Final = Fact(
    rank=60,
    inserts=(INSERT, INSERT_THERE),
    find_insert=lambda refund: INSERT_THERE if refund.made_by == "institution" else INSERT,
    updates=(UPDATE,),
    sort_key=attrgetter("return_id"),
    follow=tally.count("refund"),
)

find_by_id: Final = lookup.one_by(REFUND, "id")
find_by_ids: Final = lookup.many_by_id(REFUND)
find_by_external_id: Final = lookup.one_by(REFUND, "external_id")
find_by_return_id: Final = lookup.one_by(REFUND, "return_id", "network_id")

_FIND_OF_TRANSFERS: Final[LiteralString] = f"""
    select {REFUND.select} from unnest($1::bigint[], $2::bigint[]) as wanted (transfer_id, holder_id)
    join refund using (transfer_id, holder_id) order by created_at, id
"""


async def find_of_transfers(pool: Connection | Pool, wanted: Sequence[tuple[int, int]]) -> dict[tuple[int, int], list[Refund]]:
    """The refunds of transfers, by the transfer's id and holder, each in the order of request."""
    found: dict[tuple[int, int], list[Refund]] = {}
    for row in await pool.fetch(_FIND_OF_TRANSFERS, *split_pairs(wanted)):
        refund = REFUND.read(row)
        found.setdefault((refund.transfer_id, refund.holder_id), []).append(refund)
    return found


record_network_name: Final = lookup.Command[int, int, str](
    "update refund set network_id = $3 where id = $1 and holder_id = $2 and network_id is null"
)
"""Record the network's name of a refund that was recorded without it."""

read_page: Final = lookup.page_of(REFUND, listing_store.source("refund", REFUND.select))
find_external: Final = lookup.by_external_ids(REFUND)
find_named: Final = lookup.named(REFUND, "return_id", "flow")
# Taken after the balances of their holders.
lock_by_id: Final = lookup.by_pairs(REFUND, "id", locks=True)

# Other holders' rows are filtered by an expression without an index: names alone find the rows.
_LOCK: Final[LiteralString] = f"""
    select {REFUND.select} from refund where return_id = any($1) and flow = $2 and holder_id + 0 = any($3)
    order by id, holder_id for no key update
"""


async def lock(connection: Connection, wanted: Sequence[tuple[str, int]], flow: Flow) -> dict[tuple[str, int], Refund]:
    """Refunds by return id and holder as they are now, held until the transaction ends; taken after their transfers."""
    names, holder_ids = split_pairs(wanted)
    found = map(REFUND.read, await connection.fetch(_LOCK, names, flow, holder_ids))
    return {(refund.return_id, refund.holder_id): refund for refund in found}


_FIND_LINKS: Final[LiteralString] = """
    select wanted.refund_id, wanted.holder_id, infraction.id as infraction_id, infraction.reason
    from unnest($1::bigint[], $2::bigint[]) as wanted (refund_id, holder_id)
    join infraction_return as given using (refund_id, holder_id)
    join infraction on infraction.id = given.infraction_id and infraction.holder_id = given.holder_id
"""


class TakenReturn(NamedTuple):
    """The infraction that caused a refund."""

    infraction_id: int
    reason: InfractionReason


async def find_links(connection: Connection | Pool, refunds: Sequence[tuple[int, int]]) -> dict[tuple[int, int], TakenReturn]:
    """Find the infractions that caused some refunds, by the refund's id and holder."""
    rows = await connection.fetch(_FIND_LINKS, *split_pairs(refunds)) if refunds else []
    return {(row["refund_id"], row["holder_id"]): TakenReturn(row["infraction_id"], row["reason"]) for row in rows}
