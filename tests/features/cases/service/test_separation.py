"""Two operators separate lines from records that are not theirs; no money moves, but for a movement that is reversed."""

from datetime import date
from typing import Any

import asyncpg
import pytest

from features.cases.service.test_answer import answer, find_received, look, moved, read, waiting
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service import separation
from pixconnect.features.cases.service.adjustment import WantedAdjustment, propose_adjustment
from pixconnect.features.cases.service.answer import SUM
from pixconnect.features.cases.service.separation import propose_separation
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.platform.base import errors
from support.account_shop import Shop
from support.fixtures.accounts import shop_in_july
from support.operators import as_operator
from support.proposals import confirm_waiting

TOTAL = ("S1", "7.00", "PIX RECEBIDOS QTD 2")
shop = shop_in_july("KEY")


async def separate(shop: Shop, *lines: str) -> None:
    proposed = await propose_separation(as_operator(shop.live.context, "ana"), "loja", lines)
    with pytest.raises(errors.Forbidden):
        await confirm_waiting(as_operator(shop.live.context, "ana"), shop.live.context, "loja", "separate")
    await confirm_waiting(as_operator(shop.live.context, "bia"), shop.live.context, "loja", "separate", proposed.code)


async def receive(shop: Shop, *cents: int, days: int = 2) -> None:
    shop.live.clock.advance(days=-days)
    for each in cents:
        shop.pay(each)
    await shop.read()
    shop.live.clock.advance(days=days)


async def join_sum(shop: Shop) -> None:
    """A line is joined as the sum of two payments, by an answer."""
    await receive(shop, 3_00, 4_00)
    await read(shop, TOTAL, closing="107.00")
    (case,) = await look(shop)
    await answer(shop, case.id, ours={"S1": SUM})
    assert (await look(shop), await waiting(shop)) == ([], {})


async def joins(shop: Shop) -> dict[str, str]:
    rows = await shop.live.fetch("select item_id, joined_kind from institution_item where joined_kind is not null")
    return {row["item_id"]: row["joined_kind"] for row in rows}


async def state(shop: Shop, day: int = 1) -> str:
    (shown,) = await day_usecases.list_days(shop.live.context, shop.account, date(2026, 7, day), 1)
    return shown.state


async def funds(shop: Shop) -> tuple[int, ...]:
    (row,) = await shop.live.fetch("select available_cents, blocked_cents, deficit_cents from balance")
    return tuple(row)


async def test_a_sum_that_is_separated_moves_nothing_and_waits_for_an_answer(shop: Shop) -> None:
    await join_sum(shop)
    assert (await state(shop), before := await funds(shop)) == ("closed", (107_00, 0, 0))
    await separate(shop, "S1")
    for _ in range(2):
        # No file and no look joins it again.
        assert (await joins(shop), await waiting(shop), await moved(shop)) == ({}, {"S1": "separated"}, [])
        assert (await state(shop), await funds(shop)) == ("closed_with_cases", before)
        await read(shop, TOTAL, closing="107.00")
        await statement_usecases.settle_waiting(shop.live.context, shop.account, is_deep=True)
    (case,) = await look(shop)
    assert "line S1 of +R$ 7,00, pix, separated" in case.facts
    # Its payments are joined to lines of their own, and another answer says what it was.
    names = [row["end_to_end_id"] for row in await shop.live.fetch("select end_to_end_id from transfer order by 1")]
    cents = [row["amount_cents"] for row in await shop.live.fetch("select * from transfer order by end_to_end_id")]
    own = [(f"P{n}", f"{cents[n] / 100:.2f}", f"PIX RECEBIDO {name}") for n, name in enumerate(names)]
    await read(shop, TOTAL, *own, closing="114.00")
    await answer(shop, case.id, counts=["S1"])
    assert await joins(shop) == {"S1": "movement", "P0": "transfer", "P1": "transfer"}
    assert (await moved(shop), await look(shop), await state(shop)) == ([7_00], [], "closed")


async def test_no_later_sum_of_a_separated_text_is_joined_by_itself(shop: Shop) -> None:
    await join_sum(shop)
    await separate(shop, "S1")
    await receive(shop, 5_00, 6_00, days=1)
    await read(shop, ("S2", "11.00", TOTAL[2], "02"), first="20260702", last="20260702", opening="107.00", closing="118.00")
    assert await waiting(shop) == {"S1": "separated", "S2": "could_be_ours"}
    first, second = await look(shop)
    await answer(shop, first.id, ours={"S1": SUM})
    # The text is one of sums again.
    assert (await joins(shop), await waiting(shop)) == ({"S1": "sum", "S2": "sum"}, {})
    assert (second.name, await look(shop), await moved(shop)) == ("2026-07-02", [], [])


@pytest.mark.parametrize("text", ["PIX RECEBIDOS", "CREDITO"])
async def test_several_sums_of_a_day_are_answered_together(shop: Shop, text: str) -> None:
    await receive(shop, 1_00, 2_00, 3_00, 4_00)
    await shop.read()
    await read(shop, *((name, "5.00", text) for name in ("S1", "S2")), ("D", "0.50", "DEPOSITO"), closing="110.50")
    (case,) = await look(shop)
    possible = (await case_usecases.read_case(shop.live.context, case.id)).answers
    assert [(one.item_id, one.own) for one in possible if one.answer == "ours"] == [("S1", SUM), ("S2", SUM)]
    with pytest.raises(errors.BadRequest, match="name all sums of the day at once"):
        await answer(shop, case.id, ours={"S1": SUM})
    await answer(shop, case.id, ours={"S1": SUM, "S2": SUM})
    assert (await joins(shop), await look(shop), await moved(shop)) == ({"D": "movement", "S1": SUM, "S2": SUM}, [], [50])


async def test_a_sum_has_no_transfer_that_the_same_answer_names(shop: Shop) -> None:
    await receive(shop, 1_00, 1_00, 2_00)
    await read(shop, ("S", "3.00", "PIX RECEBIDOS", "01"), ("L", "1.00", "CREDITO", "01"), closing="104.00")
    one = await shop.live.fetchval("select max(id) from transfer where amount_cents = 100")
    await answer(shop, (await look(shop))[0].id, ours={"S": SUM, "L": f"transfer:{one}"})
    assert (len(await joins(shop)), await look(shop), await moved(shop)) == (2, [], [])


async def test_an_answer_that_named_the_wrong_payment_is_taken_back(shop: Shop) -> None:
    await receive(shop, 3_00)
    await read(shop, ("D1", "3.00", "CREDITO"), ("D2", "3.00", "CREDITO"), closing="106.00")
    (case,) = await look(shop)
    own = await find_received(shop)
    await answer(shop, case.id, ours={"D1": own}, counts=["D2"])
    assert (await joins(shop), await moved(shop)) == ({"D1": "transfer", "D2": "movement"}, [3_00])
    await separate(shop, "D1", "D2")
    # The movement is reversed; a later file that lists its line asks again.
    assert (await joins(shop), await moved(shop)) == ({}, [-3_00, 3_00])
    assert await waiting(shop) == {"D1": "separated", "D2": "struck"}
    (said,) = await shop.live.fetch("select description from movement where opposite_of is not null")
    assert said["description"] == "Two operators have taken back the answer about D2 of 2026-07-01"
    (case,) = await look(shop)
    await answer(shop, case.id, counts=["D1"])
    await read(shop, ("D1", "3.00", "CREDITO"), ("D2", "3.00", "CREDITO"), closing="106.00")
    assert await waiting(shop) == {"D2": "struck", "D2~20260701.2": "perhaps_back"}
    (case,) = await look(shop)
    await answer(shop, case.id, counts=["D2~20260701.2"])
    assert await joins(shop) == {"D1": "movement", "D2~20260701.2": "transfer"}
    assert (await moved(shop), await look(shop), await funds(shop)) == ([-3_00, 3_00, 3_00], [], (106_00, 0, 0))


async def test_a_separated_debit_reserves_its_sum(shop: Shop) -> None:
    await shop.allow_sending()
    await receive(shop, 10_00)
    sent = await shop.send(4_00)
    await shop.move_orders()
    shop.live.clock.advance(days=1)
    await shop.read()
    lines = [("D1", "-4.00", "DEBITO", "03"), ("D2", "-4.00", "DEBITO", "03")]
    await read(shop, *lines, first="20260703", last="20260703", closing="102.00")
    case = next(one for one in await look(shop) if one.name == "2026-07-03")
    await answer(shop, case.id, ours={"D1": f"transfer:{sent.id}"}, counts=["D2"])
    assert await funds(shop) == (102_00, 0, 0)
    await separate(shop, "D1")
    assert (await funds(shop), await waiting(shop)) == ((98_00, 4_00, 0), {"D1": "separated"})
    case = next(one for one in await look(shop) if one.name == "2026-07-03")
    await answer(shop, case.id, ours={"D1": f"transfer:{sent.id}"})
    assert (await funds(shop), await waiting(shop)) == ((102_00, 0, 0), {})


async def test_what_has_no_wrong_record_is_not_separated(shop: Shop) -> None:
    await join_sum(shop)
    await read(shop, TOTAL, ("F1", "-1.00", "TARIFA"), closing="106.00")
    operator = as_operator(shop.live.context, "ana")
    for lines, match in (
        ([], "name 1 to 100 lines"),
        (["S1", "S1"], "each once"),
        (["S9"], "S9 is not joined"),
        (["F1"], "F1 is not joined by an answer"),
    ):
        with pytest.raises(errors.BadRequest, match=match):
            await propose_separation(operator, "loja", lines)
    with pytest.raises(errors.NotFound):
        await propose_separation(operator, "nobody", ["S1"])
    proposed = await propose_separation(operator, "loja", ["S1"])
    await separate(shop, "S1")
    with pytest.raises(errors.NotFound, match="no proposal with the code"):
        await confirm_waiting(as_operator(shop.live.context, "bia"), shop.live.context, "loja", "separate", proposed.code)


async def test_a_day_is_open_again_though_the_process_dies_after_the_confirmation(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await join_sum(shop)

    async def leave(*arguments: Any) -> None:
        pass

    with monkeypatch.context() as patched:
        patched.setattr(separation, "settle_if_free", leave)
        await separate(shop, "S1")
    (row,) = await shop.live.fetch("select state from institution_day")
    assert (row["state"], await waiting(shop)) == ("open", {"S1": "separated"})
    assert [case.name for case in await look(shop)] == ["2026-07-01"]


async def test_the_schema_separates_nothing_that_two_operators_have_not_named(shop: Shop) -> None:
    await join_sum(shop)
    apart = "joined_kind = null, joined_id = null, joined_by = null"
    for statement in (
        f"update institution_item set waits = 'separated', {apart} where item_id = 'S1'",
        f"update institution_item set {apart} where item_id = 'S1'",
        "delete from institution_item_part",
    ):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await shop.live.execute_as_owner(statement)
    await separate(shop, "S1")
    for statement in (
        "update institution_item set waits = null where item_id = 'S1'",
        "update institution_item set waits = 'could_be_ours' where item_id = 'S1'",
        "update institution_item set waits = null, joined_kind = 'sum', joined_id = 'S1', joined_by = 'sum'"
        " where item_id = 'S1'",
        "insert into institution_item_part select 1, 'S1', 'transfer', id from transfer",
    ):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await shop.live.execute_as_owner(statement)


async def test_a_line_that_was_set_aside_by_mistake_waits_again_until_its_day_was_adjusted(shop: Shop) -> None:
    await read(shop, ("S1", "50.00", "SALDO A"), ("T1", "1.00", "TARIFA"), closing="152.00")
    (case,) = await look(shop)
    await answer(shop, case.id, aside=["S1"])
    assert (await waiting(shop), await moved(shop)) == ({"S1": "no_money"}, [1_00])
    proposed = await propose_separation(as_operator(shop.live.context, "ana"), "loja", ["S1"])
    assert proposed.contents["lines"] == '{"S1":"aside"}'
    await separate(shop, "S1")
    for _ in range(2):
        assert (await waiting(shop), await moved(shop)) == ({"S1": "perhaps_balance"}, [1_00])
        await read(shop, ("S1", "50.00", "SALDO A"), ("T1", "1.00", "TARIFA"), closing="152.00")
    (case,) = await look(shop)
    assert "line S1 of +R$ 50,00, other, perhaps_balance" in case.facts
    await answer(shop, case.id, aside=["S1"])
    (case,) = await look(shop)
    wanted = WantedAdjustment(case_id=case.id, kind="bank_error")
    await propose_adjustment(as_operator(shop.live.context, "ana"), wanted)
    await confirm_waiting(as_operator(shop.live.context, "bia"), shop.live.context, "loja", "adjust")
    with pytest.raises(errors.BadRequest, match="2026-07-01 was adjusted without S1: undo the adjustment first"):
        await propose_separation(as_operator(shop.live.context), "loja", ["S1"])


async def test_a_line_that_was_counted_by_mistake_is_taken_back(shop: Shop) -> None:
    lines = [("S1", "50.00", "SALDO A"), ("T1", "1.00", "TARIFA")]
    await read(shop, *lines, closing="152.00")
    (case,) = await look(shop)
    await answer(shop, case.id, counts=["S1"])
    assert await moved(shop) == [1_00, 50_00]
    await separate(shop, "S1")
    assert (await moved(shop), await waiting(shop)) == ([-50_00, 1_00, 50_00], {"S1": "struck"})
    # Only the line that was answered about is joined by the answer.
    for statement in (
        "update institution_item set joined_kind = null, joined_id = null, joined_by = null where item_id = 'T1'",
        "update institution_item set joined_by = 'answer' where item_id = 'T1'",
    ):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await shop.live.execute_as_owner(statement)
