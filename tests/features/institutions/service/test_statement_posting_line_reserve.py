"""A debit of the statement that waits keeps its sum from being paid out, until it is explained or answered."""

from typing import Any
from unittest.mock import AsyncMock

import pytest

from features.cases.service.test_answer import answer, look, read
from pixconnect.features.cases.service import answer as answer_usecases
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.features.institutions.rules.unmatched import OUTCOMES
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.features.institutions.service.statement_posting import reserve_lines
from pixconnect.features.institutions.tables import statement_file as reserved_store
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.platform.base import errors
from support.account_shop import Shop, begin_in_july
from support.attacker import attempt, entry, refuse
from support.books import check_books
from support.cut_connections import open_wire
from support.fake_institution import FakeInstitution
from support.fixtures.accounts import shop_in_july
from support.operators import as_operator
from support.postgres import Addresses, make_live
from support.service import open_service
from support.statement_files import make_ofx, make_ofx_line

TRAITS = InstitutionTraits(sends=("KEY", "MANUAL"))
DOUBTFUL = ("B1", "-30.00", "SALDO")  # the bank's balances agree neither with this line nor without it
shop = shop_in_july("KEY", "MANUAL")


async def funds(shop: Shop) -> tuple[int, int, int]:
    """Available, blocked and owed."""
    await check_books(shop.live)
    balance = await ledger_usecases.read_balance(shop.live.context, shop.house)
    return balance.available_cents, balance.blocked_cents, balance.deficit_cents


async def reserved(shop: Shop) -> dict[str, int]:
    (case,) = await look(shop)
    return dict((await case_usecases.read_case(shop.live.context, case.id)).reserved_cents)


async def read_second(shop: Shop, *lines: tuple[str, ...], **told: Any) -> None:
    await read(shop, *[(*line, "02") for line in lines], first="20260702", last="20260702", opening=None, **told)


async def test_a_debit_that_waits_cannot_be_paid_out_and_goes_with_its_movement(shop: Shop) -> None:
    await shop.allow_sending()
    for _ in range(2):
        await read(shop, DOUBTFUL, closing="50.00")
        assert await funds(shop) == (70_00, 30_00, 0)
    with pytest.raises(errors.InsufficientFunds):
        await shop.send(70_01)
    assert await reserved(shop) == {"B1": 30_00}
    (case,) = await look(shop)
    said = await answer(shop, case.id, counts=["B1"])
    assert (said["change_cents"], said["lacking_cents"]) == (-30_00, 0)
    assert await funds(shop) == (70_00, 0, 0)
    states = await shop.live.fetch("select state, covered_cents from block")
    assert [tuple(row) for row in states] == [("ended", 0)]


async def test_a_debit_that_is_no_money_gives_its_sum_back(shop: Shop) -> None:
    await read(shop, DOUBTFUL, closing="50.00")
    (case,) = await look(shop)
    await answer(shop, case.id, aside=["B1"])
    assert await funds(shop) == (100_00, 0, 0)
    await read(shop, DOUBTFUL, closing="50.00")
    assert await funds(shop) == (100_00, 0, 0)


async def test_the_worker_releases_what_an_answer_left_that_died(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    await read(shop, DOUBTFUL, closing="50.00")
    (case,) = await look(shop)
    with monkeypatch.context() as patch:
        patch.setattr(answer_usecases, "settle_if_free", AsyncMock(side_effect=ConnectionResetError))
        with pytest.raises(ConnectionResetError):
            await answer(shop, case.id, aside=["B1"])
    balance = await ledger_usecases.read_balance(shop.live.context, shop.house)
    assert balance.blocked_cents == 30_00
    await statement_usecases.settle_waiting(shop.live.context, shop.account, is_deep=False)
    assert await funds(shop) == (100_00, 0, 0)


async def test_what_a_later_file_sets_aside_is_free_again(shop: Shop) -> None:
    await read(shop, DOUBTFUL, closing="50.00")
    # The fees that were missing: without the line the balances agree.
    await read(shop, DOUBTFUL, ("F1", "-50.00", "TARIFA"), closing="50.00")
    assert await funds(shop) == (50_00, 0, 0)


async def test_of_less_than_the_sum_what_is_there_is_reserved_and_what_comes_in(shop: Shop) -> None:
    await read(shop, ("B1", "-130.00", "SALDO"), closing="50.00")
    assert (await funds(shop), await reserved(shop)) == ((0, 100_00, 0), {"B1": 100_00})
    await read_second(shop, ("T1", "20.00", "TED RECEBIDA"), closing="70.00")
    assert (await funds(shop), await reserved(shop)) == ((0, 120_00, 0), {"B1": 120_00})
    (case,) = await look(shop)
    said = await answer(shop, case.id, counts=["B1"])
    assert said["lacking_cents"] == 10_00
    assert await funds(shop) == (0, 0, 10_00)


async def test_a_movement_takes_what_was_reserved_for_its_own_line_and_for_no_other(shop: Shop) -> None:
    await read(shop, ("B1", "-90.00", "SALDO"), ("B2", "-40.00", "SALDO TOTAL"), closing="50.00")
    assert await reserved(shop) == {"B1": 90_00, "B2": 10_00}
    (case,) = await look(shop)
    await answer(shop, case.id, counts=["B1"])
    assert (await funds(shop), await reserved(shop)) == ((0, 10_00, 0), {"B2": 10_00})


async def test_the_next_run_reserves_for_lines_of_one_that_died(shop: Shop) -> None:
    lines = [make_ofx_line(item_id=f"B{n}", amount=f"-0.{n:02}", memo="SALDO", at="20260701") for n in range(1, 100)]
    content = make_ofx(*lines, first="20260701", last="20260701", opening="100.00", closing="7.13")
    await statement_usecases.record_file(as_operator(shop.live.context), "loja", content)
    assert (await ledger_usecases.read_balance(shop.live.context, shop.house)).blocked_cents == 0
    for _ in range(2):
        await statement_usecases.settle_items(shop.live.context, shop.account)
        # More than one transaction changes.
        assert await funds(shop) == (100_00 - 49_50, 49_50, 0)


async def test_a_lost_commit_reserves_once(database: Addresses) -> None:
    await make_live(database)
    async with open_wire(database) as (wire, near), open_service(near, is_sandbox=False, has_rail=False) as live:
        shop = await begin_in_july(live, FakeInstitution(live.clock, TRAITS))
        line = make_ofx_line(item_id="B1", amount="-30.00", memo="SALDO", at="20260701")
        content = make_ofx(line, first="20260701", last="20260701", opening="100.00", closing="50.00")
        await statement_usecases.record_file(as_operator(live.context), "loja", content)
        wire.cuts = ["after"]
        await reserve_lines(live.context, shop.account)
        assert not wire.cuts
        assert await funds(shop) == (70_00, 30_00, 0)


async def test_only_what_waits_is_reserved_for(shop: Shop) -> None:
    asked = {name for name, traits in OUTCOMES.items() if traits.asks != "nobody"}
    assert {name for name in OUTCOMES if f"'{name}'" in reserved_store.WAITING} == asked
    await read(shop, DOUBTFUL, ("F1", "-1.00", "TARIFA"), ("C1", "7.00", "SALDO TOTAL"), closing="50.00")
    assert await funds(shop) == (69_00, 30_00, 0), "a credit that waits gives nothing to spend"
    house_id, account_id = shop.house.holder_id, shop.account.id

    def block(line_id: str | None, cents: int, kind: str = "statement_line", holder_id: int = house_id) -> str:
        line = "null" if line_id is None else f"'{line_id}'"
        return f"""
            insert into block (id, holder_id, institution_id, kind, reference, line_id, wanted_cents, held_cents, covered_cents,
                source, state, reported_at, created_at, modified_at)
            values (7, {holder_id}, {account_id}, '{kind}', 'r', {line}, {cents}, {cents}, 0, 'r', 'open', now(), now(), now())
        """

    posted = f"""
        with part as (
            insert into movement (holder_id, item_id, kind, direction, amount_cents, status, entry_id, network_settled_at,
                created_at) values ({house_id}, 'B1', 'other', 'OUT', 100, 'POSTED', 1000000000, now(), now())
        ) {entry("available", "settlement", 100, id=10**9, holder_id=house_id)}
    """
    async with shop.live.context.pool.acquire() as attacker:
        for odd in (
            block("B1", 30_00),  # It has one.
            block("F1", 1_00),  # It is a movement.
            block("C1", 7_00),  # It came in.
            block("Z1", 7_00),
            block(None, 7_00),
            block("F1", 1_00, kind="judicial"),
            "update block set line_id = 'F1'",
            posted,
        ):
            await refuse(attacker, odd)
        await attempt(attacker, posted.replace("'B1'", "'B7'"))
