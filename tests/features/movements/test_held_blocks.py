"""The blocks of a batch: those that are not covered, and the others once they are read."""

from datetime import UTC, datetime

import asyncpg
import pytest
from msgspec import structs

from features.movements.test_reported_blocks import block_report, terms
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.blocks import open_block
from pixconnect.features.movements.held_blocks import OpenBlocks
from pixconnect.kernel.flows.report import take_reports
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.block_report import BlockTerms
from pixconnect.platform.base.errors import InvariantBroken
from support.service import Service

AT = datetime(2026, 7, 1, 15, tzinfo=UTC)


def test_of_whom_not_all_is_read_nothing_is_looked_for_but_what_is_not_covered() -> None:
    told = BlockTerms(reference="J1", kind="judicial", wanted_cents=5, held_cents=5)
    block = open_block(told, 1, 7, None, "r1", AT, AT)
    part, whole = OpenBlocks([block], has_more_of={7}), OpenBlocks([block])
    assert part.find_uncovered(7) == whole.find_uncovered(7) == whole.find(7, "J1") == block
    for look in (part.list_of, lambda holder_id: part.find(holder_id, "J1")):
        with pytest.raises(InvariantBroken):
            look(7)
        assert not look(8), "who has no blocks has no others"
    covered = structs.replace(block, covered_cents=5)
    part.put(covered)
    assert part.find_uncovered(7) is None


async def test_what_is_covered_is_not_read_with_the_lock(service: Service, caller: Caller) -> None:
    covered = [terms(1, reference=f"J{number}") for number in range(3)]
    much = terms(10**9, reference="J9")
    assert await take_reports(service.context, [block_report(service, *covered, much)]) == 1
    async with service.context.pool.acquire() as connection:
        (read,) = await movement_store.list_uncovered_blocks(connection, [caller.holder_id])
    assert read.reference == "J9"
    owner = await asyncpg.connect(service.database.owner_url)
    await owner.execute("set search_path = pixconnect; set enable_seqscan = off; begin; drop index block_open")
    plan = await owner.fetch(f"explain {movement_store.LIST_UNCOVERED}", [caller.holder_id])
    await owner.close()
    assert any("block_uncovered" in row[0] for row in plan), plan
