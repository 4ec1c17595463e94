"""Folding totals changes no total."""

import asyncio

from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import partition
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.listing import Span
from support.service import Service, make_charge


async def total(service: Service, caller: Caller) -> int:
    return (await charge_usecases.list_charges(service.context, caller, "PENDING", Span())).total_count


async def test_totals_are_the_same_before_and_after(service: Service, caller: Caller) -> None:
    for _ in range(5):
        await make_charge(service, caller, amount_cents=1)
        service.clock.advance(minutes=40)
    assert await total(service, caller) == 5
    assert await partition.fold_tallies(service.context) == 5 + 5  # charges, and their events
    assert await total(service, caller) == 5
    await make_charge(service, caller, amount_cents=1)
    await partition.fold_tallies(service.context)
    assert await total(service, caller) == 6
    assert await service.context.pool.fetchval("select count(*) from tally_change") == 0


async def test_only_one_process_folds_at_a_time(service: Service, caller: Caller) -> None:
    await make_charge(service, caller, amount_cents=1)
    counts = await asyncio.gather(*(partition.fold_tallies(service.context) for _ in range(4)))
    assert sum(counts) == 1 + 1  # the charge, and its event
    assert await total(service, caller) == 1
