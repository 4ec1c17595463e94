"""The rail's settled items are compared with ours, item by item and in sum."""

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime, timedelta
from typing import cast

import pytest
from msgspec import Struct, structs

from pixconnect.features.proof.service.rule_group import compare_with_rail
from pixconnect.features.proof.service.verify import ProofRequest, verify
from pixconnect.features.proof.tables.reports import ITEMS, SUM
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.rail import Position, Rail, RailUnavailable, Settled, SettledItem
from support.all_books import open_all_books
from support.postgres import Addresses
from support.service import STARTED_AT, Service, credit_report, send_out
from support.verifier import open_book_reader

OF_RAIL = ProofRequest(rules=("rail_settled_the_same", "rail_holds_the_same"), again_after_s=0)


class ToldRail(Struct):
    """A rail with prepared answers."""

    settled: list[SettledItem]
    position_cents: int
    as_of: datetime = STARTED_AT + timedelta(minutes=30)
    is_there: bool = True

    async def statement(self, since: datetime, until: datetime) -> AsyncGenerator[Sequence[SettledItem]]:
        for item in sorted(self.settled, key=lambda item: (item.settled_at, item.id)):
            if since <= item.settled_at < until:
                yield [item]

    async def position(self) -> Position:
        if not self.is_there:
            raise RailUnavailable("connection refused")
        return Position(amount_cents=self.position_cents, as_of=self.as_of)


@pytest.fixture
async def told(service: Service, caller: Caller) -> ToldRail:
    """Two payments of 500 and 700, and a transfer of 200, on both sides."""
    items = list[SettledItem]()
    for amount_cents in (500, 700):
        report = credit_report(service, amount_cents=amount_cents)
        await receive_credit(service.context, report)
        items.append(SettledItem(id=report.end_to_end_id, kind="credit", amount_cents=amount_cents, settled_at=STARTED_AT))
    transfer = await send_out(service, caller, 200)
    await end_orders(service.context, [(transfer.end_to_end_id, Settled(settled_at=STARTED_AT))])
    items.append(SettledItem(id=transfer.end_to_end_id, kind="order", amount_cents=200, settled_at=STARTED_AT))
    return ToldRail(items, 1000)


async def test_both_sides_agree(service: Service, database: Addresses, told: ToldRail) -> None:
    assert await _find(service, database, told) == []
    # However few items are compared at once.
    told.settled = [
        structs.replace(item, settled_at=STARTED_AT + timedelta(hours=number)) for number, item in enumerate(told.settled)
    ]
    told.as_of = STARTED_AT + timedelta(days=1)
    async with open_book_reader(service, database) as reader:
        found = await compare_with_rail(reader.connection, cast("Rail", told), None, OF_RAIL.rules, items_at_once=1)
    assert found == []


async def test_no_table_is_read_for_each_item_before_it_was_analyzed(service: Service, database: Addresses) -> None:
    async with open_book_reader(service, database) as reader:
        for broken, position in ((ITEMS.broken, []), (SUM.broken, [1000])):
            plan = await reader.connection.fetch(f"explain {broken}", "[]", STARTED_AT, STARTED_AT, *position)
            assert sum("Full Join" in line for (line,) in plan) == 2


async def test_each_unequal_item_is_found(service: Service, database: Addresses, told: ToldRail) -> None:
    first, second, order = told.settled
    unknown = SettledItem(id="E1", kind="credit", amount_cents=900, settled_at=STARTED_AT)
    told.settled = [structs.replace(first, amount_cents=501), order, unknown]
    # The sums are compared without the items.
    told.position_cents += 1 - 700 + 900
    assert Counter(await _find(service, database, told)) == Counter([
        ("rail_settled_the_same", f"credit {first.id}", "501", "500"),
        ("rail_settled_the_same", f"credit {second.id}", None, "700"),
        ("rail_settled_the_same", "credit E1", "900", None),
    ])  # fmt: skip


async def test_a_sum_of_a_cent_more_is_found(service: Service, database: Addresses, told: ToldRail) -> None:
    told.position_cents += 1
    assert await _find(service, database, told) == [("rail_holds_the_same", "position", "1001", "1000")]


async def test_both_sides_may_differ_by_minutes(service: Service, database: Addresses, told: ToldRail) -> None:
    # By our instant within the hour that is looked at item by item, by theirs before it.
    told.as_of = STARTED_AT + timedelta(minutes=55)
    told.settled = [structs.replace(item, settled_at=STARTED_AT - timedelta(minutes=10)) for item in told.settled]
    assert await _find(service, database, told) == []


async def test_a_date_ahead_of_the_rails_clock_is_fine(service: Service, database: Addresses, told: ToldRail) -> None:
    # As after setting back the sandbox's clock: its position has what it reported.
    told.as_of = STARTED_AT - timedelta(minutes=10)
    assert await _find(service, database, told) == []
    # The worker took the reports once the clock was back.
    told.as_of = STARTED_AT + timedelta(minutes=10)
    told.settled = [structs.replace(item, settled_at=STARTED_AT + timedelta(hours=13)) for item in told.settled]
    assert await _find(service, database, told) == []


async def test_money_at_institutions_is_no_part_of_the_sum(database: Addresses) -> None:
    async with open_all_books(database) as books:
        of_rail = "select -sum(settlement_cents) from whole_balance where holder_id = any($1)"
        held_cents = await books.live.context.pool.fetchval(of_rail, books.holder_ids)
        assert held_cents != await books.live.context.pool.fetchval("select -sum(settlement_cents) from whole_balance")
        told = ToldRail([], int(held_cents), as_of=books.live.clock.now() + timedelta(days=1))
        async with open_book_reader(books.live, database) as reader:
            found = await compare_with_rail(reader.connection, cast("Rail", told), None, ["rail_holds_the_same"])
    assert found == []


async def test_a_silent_rail_breaks_no_rule(service: Service, database: Addresses, told: ToldRail) -> None:
    told.is_there = False
    async with open_book_reader(service, database) as reader:
        found = await verify(structs.replace(reader, rail=cast("Rail", told)), OF_RAIL, lambda *_: None)
    assert found.findings == []
    reason = "the rail does not answer: connection refused"
    assert {(each.verdict, each.reason) for each in found.judgements} == {("not_checkable", reason)}


async def _find(service: Service, database: Addresses, told: ToldRail) -> list[tuple[str, str, str | None, str | None]]:
    async with open_book_reader(service, database) as reader:
        found = await verify(structs.replace(reader, rail=cast("Rail", told)), OF_RAIL, lambda *_: None)
    assert {each.verdict for each in found.judgements} == {"checked"}
    return [(each.rule, each.ids[0], each.expected, each.found) for each in found.findings]
