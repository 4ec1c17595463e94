"""Disk space of a life: ``disk_transfer_life`` and ``disk_charge_paid``, octets of each table with its indexes.

A new service has many lives of a holder with one endpoint for all events. When their entries are chained, everything is
vacuumed, and the growth of each table is divided by the lives. Tables with temporary rows (open orders, changes of
tallies) are left out. ``wal_octets_each`` is the WAL of the lives, with full pages after a checkpoint.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import uvloop

from bench.figures import Row
from bench.harness.installation import Installation, installed
from bench.measures.end_to_end import (
    CHARGE_TOLD_TWICE,
    TRANSFER_TOLD,
    Story,
    pay_charge_told_twice,
    repeat_story,
    settle_transfer,
)

_IN_FLIGHT: Final = 64
_WARM_SECONDS: Final = 2.0
_LOOK_EVERY_S: Final = 1.0
STORIES: Final[Mapping[str, tuple[Story, Sequence[str]]]] = {
    "transfer_life": (settle_transfer, TRANSFER_TOLD),
    "charge_paid": (pay_charge_told_twice, CHARGE_TOLD_TWICE),
}
_PASSING: Final = frozenset({"open_order", "tally_change", "webhook_tally_change"})
_CHAINED_WITHIN_S: Final = 300
_IS_CHAINED: Final = "select chained_id >= (select coalesce(max(id), 0) from ledger_entry) from entry_chain_state"
# Partitions count as part of their table.
_SIZES: Final = """
    select coalesce(parent.relname, child.relname) as name, sum(pg_total_relation_size(child.oid))::bigint as octets
    from pg_class as child left join pg_inherits on inhrelid = child.oid left join pg_class as parent on parent.oid = inhparent
    where child.relnamespace = 'pixconnect'::regnamespace and child.relkind = 'r' group by 1
"""


def measure_disk(seconds: float, kinds: Sequence[str]) -> Iterator[Row]:
    """Measure these stories or all, each on a new service."""
    for name in kinds or STORIES:
        story, told = STORIES[name]
        with installed(is_proved=True) as service:
            # Space that is only needed once, such as partitions and first pages, is not counted.
            uvloop.run(repeat_story(service, story, told, _WARM_SECONDS, _IN_FLIGHT))
            before, written_before = asyncio.run(_read_sizes(service))
            lives = uvloop.run(repeat_story(service, story, told, seconds, _IN_FLIGHT))["lives"]
            after, written = asyncio.run(_read_sizes(service))
            each = {table: (octets - before.get(table, 0)) / lives for table, octets in after.items()}
            yield {
                "name": f"disk_{name}",
                "seconds": seconds,
                "lives": lives,
                "octets_each": {
                    table: octets for table, octets in sorted(each.items()) if octets >= 1 and table not in _PASSING
                },
                "wal_octets_each": (written - written_before) / lives,
            }


async def _read_sizes(service: Installation) -> tuple[dict[str, int], int]:
    connection = await service.connect()
    try:
        written = await connection.fetchval("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")
        async with asyncio.timeout(_CHAINED_WITHIN_S):
            while not await connection.fetchval(_IS_CHAINED):  # noqa: ASYNC110 - another process chains
                await asyncio.sleep(_LOOK_EVERY_S)
        await connection.execute("vacuum (analyze)", timeout=None)
        return {row["name"]: row["octets"] for row in await connection.fetch(_SIZES)}, written
    finally:
        await connection.close()
