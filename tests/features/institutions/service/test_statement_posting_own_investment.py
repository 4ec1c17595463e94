"""Overnight the bank invests the balance: the money stays its holders', and the books agree with each balance."""

from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import AsyncMock

import pytest

from features.cases.service.test_answer import answer, look, moved, read, waiting
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import day as investment_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.kernel.flows import ledger as ledger_usecases
from support.account_shop import Shop, open_in_july
from support.attacker import refuse
from support.books import check_books
from support.postgres import Addresses


@pytest.fixture
def options() -> dict[str, Any]:
    return {}


@pytest.fixture
async def shop(database: Addresses, options: dict[str, Any]) -> AsyncIterator[Shop]:
    async with open_in_july(database, days=30, options=options) as shop:
        yield shop


async def read_day(shop: Shop, day: int, *lines: tuple[str, ...], closing: str | None, **told: Any) -> None:
    on = f"202607{day:02}"
    dated = [(*line, f"{day:02}") for line in lines]
    await read(shop, *dated, **dict(first=on, last=on, opening=None, closing=closing) | told)


async def funds(shop: Shop) -> tuple[int, int, int]:
    """The house's funds, the account's balance by the books, and the invested money."""
    await check_books(shop.live)
    balance = await ledger_usecases.read_balance(shop.live.context, shop.house)
    here_cents = await account_store.sum_balance_here(shop.live.context.pool, shop.account.id)
    invested_cents = await investment_store.read_position(shop.live.context.pool, shop.account.id)
    assert balance.deficit_cents == 0
    return balance.available_cents, here_cents, invested_cents


async def states(shop: Shop) -> list[str]:
    rows = await shop.live.fetch("select state from institution_day order by day")
    return [row["state"] for row in rows]


async def test_what_is_invested_overnight_stays_its_holders(shop: Shop) -> None:
    await read_day(shop, 1, ("A1", "-99.00", "APLICACAO AUTOMATICA"), closing="1.00", opening="100.00")
    assert await funds(shop) == (100_00, 1_00, 99_00)
    for _ in range(2):
        await read_day(
            shop, 2, ("R2", "99.05", "RESGATE AUTOMATICO"), ("T2", "50.00", "TED RECEBIDA"), ("I2", "-0.01", "IRRF RESGATE"),
            ("A2", "-149.00", "APLICACAO AUTOMATICA"), closing="1.04",
        )  # fmt: skip
        assert await funds(shop) == (150_04, 1_04, 149_00)
    await read_day(shop, 3, ("R3", "149.00", "RESGATE AUTOMATICO"), ("Y3", "0.02", "REND PAGO"), closing="150.06")
    assert await funds(shop) == (150_06, 150_06, 0)
    assert await moved(shop) == [-1, 2, 5, 50_00]
    assert (await states(shop), await look(shop), await waiting(shop)) == (["closed"] * 3, [], {})
    # A tax whose text begins like a redemption's is the bank's; a redemption that goes out waits.
    lines = ("T4", "-0.06", "RESGATE IR RETIDO"), ("C4", "-1.00", "RESGATE AUTOMATICO")
    await read_day(shop, 4, *lines, closing="149.00")
    assert (await funds(shop), await waiting(shop)) == ((149_00, 150_00, 0), {"C4": "could_be_ours"})


async def test_a_line_of_a_weekend_without_a_file_holds_no_redemption_back(shop: Shop) -> None:
    await read_day(shop, 1, ("A1", "-99.00", "APLICACAO AUTOMATICA"), closing="1.00", opening="100.00", last="20260703")
    fee, monday = ("F4", "-1.00", "TARIFA", "04"), dict(first="20260706", last="20260706", opening=None)
    await read(shop, fee, ("R6", "99.05", "RESGATE AUTOMATICO", "06"), closing="99.05", **monday)
    assert (await waiting(shop), await funds(shop)) == ({}, (99_05, 99_05, 0))


async def test_a_redemption_of_what_no_line_applied_waits_until_the_day_before_is_read(shop: Shop) -> None:
    await read_day(shop, 2, ("R2", "99.00", "RESGATE AUTOMATICO"), closing="100.00")
    assert (await funds(shop), await waiting(shop)) == ((100_00, 100_00, 0), {"R2": "not_yet_read"})
    await read_day(shop, 1, ("A1", "-99.00", "APLICACAO AUTOMATICA"), closing="1.00", opening="100.00")
    assert (await funds(shop), await waiting(shop)) == ((100_00, 100_00, 0), {})
    # Money invested before the books began is new to them.
    await read_day(shop, 3, ("R3", "500.00", "RESGATE CDB"), closing="600.00")
    assert (await funds(shop), await moved(shop)) == ((600_00, 600_00, 0), [500_00])


async def test_a_redemption_whose_day_begins_with_less_waits_for_its_application(shop: Shop) -> None:
    # The export of day 1 is older than the sweep that the bank dates on it.
    await read_day(shop, 1, ("F1", "-1.00", "TARIFA"), opening="100.00", closing="99.00")
    redeemed = ("R2", "98.05", "RESGATE AUTOMATICO")
    await read_day(shop, 2, redeemed, opening="1.00", closing="99.05")
    assert (await funds(shop), await waiting(shop)) == ((99_00, 99_00, 0), {"R2": "not_yet_read"})
    both = ("F1", "-1.00", "TARIFA", "01"), ("A1", "-98.00", "APLICACAO AUTOMATICA", "01"), (*redeemed, "02")
    await read(shop, *both, first="20260701", last="20260702", opening="100.00", closing="99.05")
    assert (await funds(shop), await states(shop)) == ((99_05, 99_05, 0), ["closed"] * 2)


@pytest.mark.parametrize(("opening", "before"), [("0.00", 0), (None, 0), ("0.00", 100)])
async def test_sweeps_yield_what_they_do_if_a_day_is_read_last(shop: Shop, opening: str | None, before: int) -> None:
    lines = [("A1", f"-{before}.00", "APLICACAO AUTOMATICA")] if before else []
    await read_day(shop, 1, *lines, closing=f"{100 - before}.00", opening="100.00")
    for day in (3, 6, 7, 8):
        cents = max(day - 4, 1) + before // 100
        lines = [(f"R{day}", f"100.0{cents}", "RESGATE AUTOMATICO"), (f"A{day}", f"-100.0{cents}", "APLICACAO AUTOMATICA")]
        await read_day(shop, day, *lines[: 9 - day], closing=f"100.0{cents}" if day == 8 else "0.00", opening=opening)
    # Without its application the first redemption looks like income, and the others like those of their evenings.
    assert (await moved(shop), set((await waiting(shop)).values())) == ([], {"not_yet_read"})
    shop.live.clock.advance(days=5)
    (case,) = await look(shop)
    assert (case.kind, case.name, "overnight" in case.facts) == ("file", "2026-07-02", before > 0)
    lines = [("R2", "100.01", "RESGATE AUTOMATICO")] * (before > 0) + [("A2", f"-100.0{before // 100}", "APLICACAO AUTOMATICA")]
    await read_day(shop, 2, *lines, closing="0.00", opening=f"{100 - before}.00")
    cents = 100_04 + before // 100
    assert (await funds(shop), await waiting(shop), await look(shop)) == ((cents, cents, 0), {}, [])


async def test_old_files_yield_what_they_do_in_any_order(shop: Shop) -> None:
    shop.live.clock.advance(days=20)
    swept = {
        1: ("100.00", None, "-140.00", "0.00"), 2: ("0.00", "140.03", None, "180.03"), 3: ("180.03", None, "-180.03", "0.00"),
        6: ("0.00", "180.06", "-220.06", "0.00"), 7: ("0.00", "220.09", None, "260.09"),
    }  # fmt: skip
    for day in (1, 3, 7, 2, 6):
        opening, redeemed, applied, closing = swept[day]
        lines = ("R", redeemed, "RESGATE AUT"), ("A", applied, "APLICACAO AUT"), ("T", None if day == 3 else "40.00", "TED")
        await read_day(shop, day, *((f"{name}{day}", cents, text) for name, cents, text in lines if cents),
                       opening=opening, closing=closing)  # fmt: skip
    assert (await funds(shop), await waiting(shop)) == ((260_09, 260_09, 0), {})


@pytest.mark.parametrize(("opening", "redeemed", "waits"), [("50.00", "99.05", set[str]()), ("1.00", "148.05", {"R6"})])
async def test_a_pix_of_an_unread_weekend_is_in_the_next_balance_or_invested(
    database: Addresses, opening: str, redeemed: str, waits: set[str]
) -> None:
    async with open_in_july(database, days=3) as shop:
        await read_day(shop, 1, ("A1", "-99.00", "APLICACAO AUT"), closing="1.00", opening="100.00", last="20260703")
        await shop.receive(49_00)
        shop.live.clock.advance(days=3)
        await shop.read()
        await read_day(shop, 6, ("R6", redeemed, "RESGATE AUT"), closing="149.05", opening=opening)
        assert ({*await waiting(shop)}, await moved(shop)) == (waits, [] if waits else [5])


@pytest.mark.parametrize("options", [dict(balance="with_investments")])
async def test_days_close_by_balances_that_have_the_investments(shop: Shop) -> None:
    lines = ("A1", "-99.00", "APLICACAO AUTOMATICA"), ("S1", "99.00", "SALDO APLICADO")
    await read_day(shop, 1, *lines, closing="100.00", opening="100.00")
    await read_day(shop, 2, ("R2", "99.05", "RESGATE AUTOMATICO"), closing="100.05")
    assert (await funds(shop), await states(shop)) == ((100_05, 100_05, 0), ["closed"] * 2)
    # Such a balance included what was invested before the books began.
    await read_day(shop, 3, ("R3", "40.00", "RESGATE CDB"), closing="100.05")
    assert (await funds(shop), await waiting(shop)) == ((100_05, 100_05, 0), {"S1": "balance_line", "R3": "could_be_ours"})
    assert [case.amount_cents for case in await look(shop)] == [None]


async def test_the_next_run_does_what_one_left_that_died(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    await read_day(shop, 1, ("A1", "-99.00", "APLICACAO AUTOMATICA"), closing="1.00", opening="100.00")
    with monkeypatch.context() as patch:
        patch.setattr(item_store, "join", AsyncMock(side_effect=ConnectionResetError))
        with pytest.raises(ConnectionResetError):
            await read_day(shop, 2, ("R2", "99.05", "RESGATE AUTOMATICO"), closing="100.05")
    await read_day(shop, 2, ("R2", "99.05", "RESGATE AUTOMATICO"), closing="100.05")
    assert (await funds(shop), await moved(shop)) == ((100_05, 100_05, 0), [5])


async def test_what_is_invested_is_that_of_its_lines(shop: Shop) -> None:
    lines = ("A1", "-99.00", "APLICACAO AUTOMATICA"), ("F1", "-1.00", "TARIFA"), ("T1", "3.00", "TED")
    await read_day(shop, 1, *lines, closing="3.00", opening="100.00")
    invested = "insert into own_investment (institution_id, item_id, direction, principal_cents) values (1, '{}', '{}', {})"
    joined = "update institution_item set joined_kind = 'investment', joined_id = item_id, joined_by = 'words' where {}"
    async with shop.live.context.pool.acquire() as attacker:
        for odd in (
            *(invested.format(*one) for one in (("A1", "OUT", 1), ("F1", "OUT", 100), ("T1", "IN", 300))),
            "update own_investment set principal_cents = 1",
            "delete from own_investment",
            joined.format("item_id = 'F1'"),
            "update institution_item set joined_kind = null, joined_id = null, joined_by = null where item_id = 'A1'",
        ):
            await refuse(attacker, odd, "set constraints all immediate")


@pytest.mark.parametrize("applied", ["0.03", "0.05", "1.00"])
async def test_a_posted_yield_stays_what_its_line_yielded(shop: Shop, monkeypatch: pytest.MonkeyPatch, applied: str) -> None:
    await read_day(shop, 1, ("A1", "-99.00", "APLICACAO AUTOMATICA"), closing="1.00", opening="100.00")
    await read_day(shop, 2, closing=None)
    with monkeypatch.context() as patch:
        patch.setattr(investment_store, "add", AsyncMock(side_effect=ConnectionResetError))
        with pytest.raises(ConnectionResetError):
            await read_day(shop, 3, ("R3", "99.05", "RESGATE AUTOMATICO"), closing=None)
    # What was applied before the yield contradicts it: an answer that it counts takes the money back.
    shop.live.clock.advance(seconds=1)
    await read_day(shop, 2, ("A2", f"-{applied}", "APLICACAO AUTOMATICA"), closing=None)
    await read_day(shop, 3, ("R3", "99.05", "RESGATE AUTOMATICO"), closing=None)
    assert (await moved(shop), await waiting(shop)) == ([5], {"A2": "could_be_ours"})
    (case,) = await look(shop)
    await answer(shop, case.id, counts=["A2"])
    left_cents = 100_05 - int(float(applied) * 100 + 0.5)
    assert (await funds(shop), await moved(shop)) == ((left_cents, left_cents, 0), [left_cents - 100_05, 5])
