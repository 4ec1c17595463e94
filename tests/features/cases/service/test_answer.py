"""The question about a day is answered by two operators: a line counts, is no money, or was taken out by the bank."""

import json
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.cases.rules import Case
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service.adjustment import WantedAdjustment, propose_adjustment
from pixconnect.features.cases.service.answer import PossibleAnswer, WantedAnswer, propose_answer
from pixconnect.features.institutions.rules.joining import BookLine
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.features.institutions.service.proposals import propose_closing
from pixconnect.features.institutions.service.succession import move_holder
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import statement_file as line_store
from pixconnect.platform.base import errors
from support.account_shop import Shop, make_owner
from support.books import check_books
from support.fixtures.accounts import shop_in_july
from support.operators import as_operator
from support.proposals import confirm_waiting
from support.records import own_key
from support.statement_files import make_camt, make_camt_entry, make_ofx, make_ofx_line

FEE, TED = ("F1", "-1.00", "TARIFA"), ("T1", "300.00", "TED RECEBIDA")
shop = shop_in_july("KEY")


async def read(shop: Shop, *lines: tuple[str, ...], **told: Any) -> None:
    """Read a file of the first of July, or of more days; a line is its id, amount, text, and its day if that is another."""
    written = [make_ofx_line(item_id=line[0], amount=line[1], memo=line[2], at=f"202607{(*line, '01')[3]}") for line in lines]
    content = make_ofx(*written, **dict[str, Any](first="20260701", last="20260701", opening="100.00") | told)
    recorded = await statement_usecases.record_file(
        as_operator(shop.live.context), "loja", content, file_name=f"{len(lines)} lines.ofx"
    )
    await statement_usecases.settle_items(shop.live.context, shop.account, recorded.first_on)


async def look(shop: Shop) -> list[Case]:
    await case_usecases.look_for_cases(shop.live.context)
    return [one.case for one in await case_usecases.list_cases(shop.live.context)]


async def answer(shop: Shop, case_id: int, **lines: Any) -> dict[str, Any]:
    proposed = await propose_answer(as_operator(shop.live.context, "ana"), WantedAnswer(case_id=case_id, **lines))
    with pytest.raises(errors.Forbidden):
        await confirm_waiting(as_operator(shop.live.context, "ana"), shop.live.context, "loja", "answer", proposed.code)
    await confirm_waiting(as_operator(shop.live.context, "bia"), shop.live.context, "loja", "answer", proposed.code)
    return dict(proposed.contents)


async def moved(shop: Shop) -> list[int]:
    rows = await shop.live.fetch("select direction, amount_cents from movement where kind <> 'opening_balance'")
    await check_books(shop.live)
    return sorted(row["amount_cents"] * (1 if row["direction"] == "IN" else -1) for row in rows)


async def find_received(shop: Shop) -> str:
    (row,) = await shop.live.fetch("select id from transfer where direction = 'IN'")
    return f"transfer:{row['id']}"


async def list_all_lines(connection: Any, institution_id: int, days: Any, amounts: Any = None) -> list[BookLine]:
    rows = await connection.fetch("select end_to_end_id from transfer")
    return await line_store.find_named(connection, institution_id, [row["end_to_end_id"] for row in rows], [])


async def waiting(shop: Shop) -> dict[str, str]:
    rows = await shop.live.fetch("select item_id, waits from institution_item where waits is not null")
    return {row["item_id"]: row["waits"] for row in rows}


async def test_nothing_is_answered_while_lines_are_settled(shop: Shop) -> None:
    await read(shop, ("S1", "300.00", "SALDO"), closing="399.00")
    (case,) = await look(shop)
    bia = as_operator(shop.live.context, "bia")
    await propose_answer(as_operator(shop.live.context, "ana"), WantedAnswer(case_id=case.id, counts=["S1"]))
    async with shop.live.context.pool.keep() as locking, day_store.working_on(locking, shop.account.id):
        with pytest.raises(errors.ServiceUnavailable, match="loja is being worked on"):
            await confirm_waiting(bia, shop.live.context, "loja")
        assert await moved(shop) == []
    await confirm_waiting(bia, shop.live.context, "loja")
    assert await moved(shop) == [300_00]


async def test_what_the_bank_has_struck_is_taken_out_by_two_operators(shop: Shop) -> None:
    await read(shop, FEE, TED, closing="399.00")
    assert await look(shop) == []
    # The fee is gone; nothing moves by that alone.
    for _ in range(2):
        await read(shop, TED, closing="400.00")
        assert (await moved(shop), await waiting(shop)) == ([-100, 300_00], {"F1": "perhaps_struck"})
    (case,) = await look(shop)
    assert (case.name, case.amount_cents) == ("2026-07-01", 100)
    assert "line F1 of -R$ 1,00, fee, perhaps_struck" in case.facts
    shown = await case_usecases.read_case(shop.live.context, case.id)
    assert [item.item_id for item in shown.lines] == ["F1"]
    # The evidence for a person: the files, the newest first, the balance after each line, and the postings of the
    # answer.
    assert [file.name for file in shown.files] == ["1 lines.ofx", "2 lines.ofx"]
    assert [(point.item.item_id, point.balance_cents) for point in shown.balances] == [("F1", 9_900), ("T1", 39_900)]
    (possible,) = shown.answers
    assert possible == PossibleAnswer(
        item_id="F1", answer="out", posts_cents=100, kind="reversal", holder_id=shop.house.holder_id
    )
    said = await answer(shop, case.id, out=["F1"])
    assert (said["change_cents"], said["lacking_cents"], json.loads(said["out"])) == (100, 0, ["F1"])
    assert (await moved(shop), await waiting(shop), await look(shop)) == ([-100, 100, 300_00], {"F1": "struck"}, [])
    (opposite,) = await shop.live.fetch(
        "select kind, description, opposite_of, network_settled_at = created_at as is_of_now from movement"
        " where opposite_of is not null"
    )
    assert tuple(opposite) == ("reversal", "The bank has taken out F1 of 2026-07-01", "F1", True)
    rows = await as_operator(shop.live.context).pool.fetch("select verb from audit order by id desc limit 2")
    assert [row["verb"] for row in rows] == ["proposal confirm", "case answer"]
    # A later file that lists it again brings it back as a question alone, however often it comes.
    for _ in range(2):
        await read(shop, FEE, TED, closing="399.00")
        assert await waiting(shop) == {"F1": "struck", "F1~20260701.2": "perhaps_back"}
    (again,) = await look(shop)
    await answer(shop, again.id, counts=["F1~20260701.2"])
    assert (await moved(shop), await look(shop)) == ([-100, -100, 100, 300_00], [])


async def test_a_line_that_a_dead_process_posted_and_did_not_join_is_taken_out_with_its_movement(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*given: Any) -> None:
        if given[-1]:
            raise ConnectionError

    with monkeypatch.context() as dying:
        dying.setattr(item_store, "join", die)
        with pytest.raises(ConnectionError):
            await read(shop, FEE, TED, closing="399.00")
    await read(shop, TED, closing="400.00")
    (case,) = await look(shop)
    assert (await case_usecases.read_case(shop.live.context, case.id)).answers[0].posts_cents == 100
    assert (await answer(shop, case.id, out=["F1"]))["change_cents"] == 100
    assert (await moved(shop), await waiting(shop), await look(shop)) == ([-100, 100, 300_00], {"F1": "struck"}, [])


async def test_a_line_of_a_closed_day_before_its_file_is_asked_about_on_that_day(shop: Shop) -> None:
    await read(shop, FEE, closing="99.00")
    await read(shop, ("F2", "-2.00", "COMPRA", "01"), first="20260702", last="20260702", opening="99.00", closing="97.00")
    cases = {case.name: case.id for case in await look(shop)}
    assert [*cases] == ["2026-07-01", "2026-07-02"]
    shown = await case_usecases.read_case(shop.live.context, cases["2026-07-01"])
    assert [(one.item_id, one.answer) for one in shown.answers] == [("F2", "counts"), ("F2", "aside")]
    await answer(shop, cases["2026-07-01"], counts=["F2"])
    assert await moved(shop) == [-200, -100]


async def test_a_struck_line_is_replaced_by_its_correction_in_one_answer(shop: Shop) -> None:
    await read(shop, FEE, closing="99.00")
    await read(shop, ("F2", "-2.00", "TARIFA"), closing="98.00")
    assert await waiting(shop) == {"F1": "perhaps_struck", "F2": "contradicts"}
    (case,) = await look(shop)
    said = await answer(shop, case.id, out=["F1"], counts=["F2"])
    assert said["change_cents"] == -100
    assert (await moved(shop), await look(shop)) == ([-200, -100, 100], [])


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([TED], dict(closing="399.00")),  # The balances have the fee.
        ([TED], dict(closing="400.00", opening="101.00")),  # The day before ended otherwise.
        ([], dict(closing="100.00")),  # The transfer that was received is missing too: the file is filtered.
    ],
)
async def test_absence_alone_takes_nothing_out(shop: Shop, lines: list[tuple[str, ...]], told: dict[str, str]) -> None:
    shop.live.clock.advance(days=-2)
    pix = shop.pay(30_000)
    await shop.read()
    shop.live.clock.advance(days=2)
    received = ("T1", "300.00", f"PIX RECEBIDO {pix.end_to_end_id}")
    await read(shop, FEE, received, closing="399.00")
    await read(shop, *[received if line is TED else line for line in lines], **told)
    assert (await moved(shop), await waiting(shop)) == ([-100], {})


async def test_what_came_in_and_is_spent_becomes_a_debt_when_it_is_taken_out(shop: Shop) -> None:
    await read(shop, TED, closing="400.00")
    await read(shop, TED, ("B1", "-399.00", "BOLETO", "02"), last="20260702", closing="1.00")
    await read(shop, ("B1", "-399.00", "BOLETO", "02"), last="20260702", closing="-299.00")
    (case,) = [one for one in await look(shop) if "perhaps_struck" in one.facts]
    (possible,) = (await case_usecases.read_case(shop.live.context, case.id)).answers
    assert (possible.posts_cents, possible.lacking_cents) == (-300_00, 299_00)
    said = await answer(shop, case.id, out=["T1"])
    assert (said["change_cents"], said["lacking_cents"]) == (-300_00, 299_00)
    assert said[f"lacking_cents_of_holder_{shop.house.holder_id}"] == 299_00
    (row,) = await shop.live.fetch("select available_cents, deficit_cents from balance")
    assert (*row, await moved(shop)) == (0, 299_00, [-399_00, -300_00, 300_00])


async def test_a_line_is_answered_to_be_money_or_none_and_is_not_asked_about_again(shop: Shop) -> None:
    lines = [("S1", "50.00", "SALDO A"), ("S2", "50.00", "SALDO B")]
    await read(shop, *lines, closing="150.00")
    (case,) = await look(shop)
    for wrong, match in (
        (dict(out=["S1"]), "out: is no answer about line S1"),
        (dict(counts=["S9"]), "counts: no line S9 waits"),
        (dict(counts=["S1"], aside=["S1"]), "lines: name 1 to 100 lines, each once"),
        ({}, "lines: name 1 to 100 lines"),
    ):
        with pytest.raises(errors.BadRequest, match=match):
            await answer(shop, case.id, **wrong)
    await answer(shop, case.id, counts=["S1"], aside=["S2"])
    assert (await moved(shop), await waiting(shop), await look(shop)) == ([50_00], {"S2": "no_money"}, [])
    for closing in ("150.00", "149.00", "150.00"):
        await read(shop, *lines, closing=closing)
        assert await waiting(shop) == {"S2": "no_money"}
    with pytest.raises(errors.BadRequest, match="whose case is open"):
        await answer(shop, case.id, aside=["S2"])


async def test_an_answer_is_not_given_to_another_question(shop: Shop) -> None:
    line = ("S1", "50.00", "TRANSF SALDO A")
    await read(shop, line, closing=None)
    (case,) = await look(shop)
    ana, bia = (as_operator(shop.live.context, name) for name in ("ana", "bia"))
    await propose_answer(ana, WantedAnswer(case_id=case.id, counts=["S1"]))
    # Meanwhile balances prove that it is money, and a payment comes that it may be.
    await shop.receive(50_00)
    await read(shop, line, closing="150.00")
    assert await waiting(shop) == {"S1": "could_be_ours"}
    with pytest.raises(errors.BadRequest, match="S1 waits as could_be_ours by now, and not as perhaps_balance"):
        await confirm_waiting(bia, shop.live.context, "loja", "answer")
    assert await moved(shop) == []
    await answer(shop, case.id, counts=["S1"])
    assert await moved(shop) == [50_00]


async def test_one_answer_is_given_for_a_pattern_of_many_days(shop: Shop) -> None:
    days = ("01", "02")
    for day in days:
        span = f"202607{day}"
        lines = [(f"{kind}{day}", "50.00", f"SALDO {kind} {day}/07", day) for kind in "AB"]
        await read(shop, *lines, first=span, last=span, opening=None, closing=None)
    cases = await look(shop)
    assert [case.name for case in cases] == ["2026-07-01", "2026-07-02"]
    said = await answer(shop, cases[0].id, aside=["A01"], counts=["B01"], with_alike=True)
    assert (json.loads(said["aside"]), json.loads(said["counts"])) == (["A01", "A02"], ["B01", "B02"])
    assert (await moved(shop), await look(shop)) == ([50_00, 50_00], [])


async def test_a_debit_is_the_transfer_that_two_operators_name_and_another_one_is_none(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.allow_sending()
    pix = await shop.receive(10_00)
    sent = await shop.send(4_00)
    await shop.move_orders()
    shop.live.clock.advance(days=1)
    await shop.read()
    received = ("P1", "10.00", f"PIX RECEBIDO {pix.end_to_end_id}", "03")
    await read(
        shop, received, ("D1", "-4.00", "DEBITO", "03"), ("D2", "-4.00", "DEBITO", "03"), ("C1", "4.00", "CREDITO", "03"),
        first="20260703", last="20260703", closing="106.00",
    )  # fmt: skip
    assert await waiting(shop) == {"D1": "could_be_ours", "D2": "could_be_ours"}
    (case,) = [one for one in await look(shop) if one.kind == "day"]
    own = f"transfer:{sent.id}"
    possible = (await case_usecases.read_case(shop.live.context, case.id)).answers
    assert [(one.item_id, one.answer, one.own, one.posts_cents, one.kind) for one in possible] == [
        each for name in ("D1", "D2") for each in ((name, "counts", None, -400, "other"), (name, "ours", own, 0, None))
    ]
    for wrong, match in (
        ({"D1": "transfer:1"}, "ours: no transfer:1 is settled within 35 days of line D1"),
        ({"D1": "movement:C1"}, "ours: no movement:C1"),
        ({"D1": "sum"}, "ours: line D1 is not the sum"),
        ({"D1": own, "D2": own}, "ours: one transfer or refund matches at most one line"),
        ({"C1": own}, "ours: no line C1 waits"),
    ):
        with pytest.raises(errors.BadRequest, match=match):
            await answer(shop, case.id, ours=wrong)
    with pytest.raises(errors.BadRequest, match="each once"):
        await answer(shop, case.id, ours={"D1": own}, counts=["D1"])
    with monkeypatch.context() as patched:
        # The schema refuses another amount or direction too.
        patched.setattr("pixconnect.features.institutions.rules.joining.fits", lambda item, line: True)
        patched.setattr(line_store, "list_unmatched", list_all_lines)
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="have not answered so"):
            await answer(shop, case.id, ours={"D1": await find_received(shop)})
    said = await answer(shop, case.id, ours={"D1": own}, counts=["D2"])
    assert (json.loads(said["ours"]), said["change_cents"]) == ({"D1": own}, -400)
    assert (await moved(shop), await waiting(shop)) == ([-400, 400], {})
    (row,) = await shop.live.fetch("select joined_kind, joined_id, joined_by from institution_item where item_id = 'D1'")
    assert tuple(row) == ("transfer", str(sent.id), "answer")
    assert await look(shop) == []
    # A line that names the transfer is joined to it in spite of the answer; the other line does not change.
    named = ("D3", "-4.00", f"PIX ENVIADO {sent.end_to_end_id}", "03")
    await read(
        shop, received, *((name, "-4.00", "DEBITO", "03") for name in ("D1", "D2")), ("C1", "4.00", "CREDITO", "03"), named,
        first="20260703", last="20260703", closing="102.00",
    )  # fmt: skip
    (row,) = await shop.live.fetch("select joined_kind, joined_by from institution_item where item_id = 'D3'")
    assert tuple(row) == ("transfer", "name")


async def test_a_line_that_names_a_pix_with_another_amount_counts_by_an_answer(shop: Shop) -> None:
    text = f"RETENCAO PIX {shop.pay(300_00).end_to_end_id}"
    await shop.read()
    lines = ("P1", "300.00", text), ("R1", "-0.99", text), ("R2", "0.10", text), ("P2", "300.00", text)
    await read(shop, *lines, closing="699.11")
    shop.live.clock.advance(days=2)
    await shop.read()
    await statement_usecases.settle_waiting(shop.live.context, shop.account, is_deep=True)
    (case,) = await look(shop)
    await answer(shop, case.id, counts=["R1", "R2"])
    assert (await moved(shop), await waiting(shop)) == ([-99, 10], {"P2": "could_be_ours"})


@pytest.mark.parametrize(("named", "is_early"), [("D", False), ("B", False), ("", False), ("", True)])
async def test_what_gives_back_a_counted_debit_is_its_holders(shop: Shop, named: str, *, is_early: bool) -> None:
    holder_id = await make_owner(shop.live, "2")
    await move_holder(as_operator(shop.live.context), holder_id, "loja")
    await shop.receive(50_00, key=own_key("2"))
    await shop.allow_sending()
    await shop.send(30_00)
    await shop.move_orders(seconds=5)
    shop.there.send_status = "refused"
    sent = await structs.replace(shop, house=structs.replace(shop.house, holder_id=holder_id)).send(30_00)
    await shop.move_orders(seconds=5)
    debit, back = (sent.end_to_end_id if named == name else "" for name in ("D", "B"))
    lines = [("D", "-30.00", f"PIX ENVIADO {debit}", "03"), ("E", "-30.00", "PIX ENVIADO", "03")]
    gives_back = [("B", "30.00", f"ESTORNO PIX {back}", "03" if is_early else "06")]
    await read(shop, *lines, *gives_back[not is_early :], last="20260703", closing=None)
    await shop.move_orders(days=6)
    await shop.read()
    await statement_usecases.settle_waiting(shop.live.context, shop.account, is_deep=True)
    case = next(one for one in await look(shop) if one.kind == "day")
    await answer(shop, case.id, counts=["D"], holder_id=holder_id)
    # A purchase of the house, of the same amount, is none of the holder's.
    lines = [*gives_back[is_early:], ("C", "-30.00", "COMPRA CARTAO", "06")]
    await read(shop, *lines, first="20260704", last="20260706", opening=None, closing=None)
    await statement_usecases.settle_waiting(shop.live.context, shop.account, is_deep=True)
    if named == "B":
        case = next(one for one in await look(shop) if one.kind == "day")
        await answer(shop, case.id, counts=["B"])
    rows = await shop.live.fetch("select item_id from movement where holder_id = $1 order by item_id", holder_id)
    assert [row["item_id"] for row in rows] == ["B", "D"]


async def test_a_reversal_after_days_without_a_file_is_of_no_order_that_was_not_debited(shop: Shop) -> None:
    await shop.allow_sending()
    shop.there.send_status = "refused"
    await shop.send(30_00)
    await shop.move_orders(days=1)
    await read(shop, last="20260703", closing="100.00")
    shop.live.clock.advance(days=5)
    await shop.read()
    back = ("B", "30.00", "ESTORNO", "06")
    await read(shop, back, first="20260706", last="20260706", closing="130.00")
    assert (await moved(shop), await waiting(shop)) == ([30_00], {})


async def test_a_line_that_sums_refunds_waits_and_is_their_sum_by_an_answer(shop: Shop) -> None:
    await shop.allow()
    pixes = [await shop.receive(cents) for cents in (10_00, 15_00)]
    for pix in pixes:
        await shop.give_back(pix)
    await shop.move_orders(seconds=5)
    received = [(f"P{pix.amount_cents}", f"{pix.amount_cents / 100}", f"PIX {pix.end_to_end_id}", "03") for pix in pixes]
    debit = ("D", "-25.00", "DEVOLUCOES PIX DO DIA", "03")
    await shop.move_orders(days=1)
    await read(shop, *received, debit, first="20260703", last="20260703", closing="100.00")
    assert (await moved(shop), await waiting(shop)) == ([], {"D": "could_be_ours"})
    (case,) = await look(shop)
    await answer(shop, case.id, ours={"D": "sum"})
    assert (await moved(shop), await waiting(shop), await look(shop)) == ([], {}, [])


async def test_a_reversal_takes_no_sum_of_orders_for_the_debit_of_a_failed_one(shop: Shop) -> None:
    await shop.allow_sending()
    for cents in (10_00, 20_00, 30_00):
        shop.there.send_status = "refused" if cents == 30_00 else "settled"
        await shop.send(cents)
        await shop.move_orders(seconds=5)
    shop.live.clock.advance(days=1)
    await read(shop, ("L", "-30.00", "LIQUIDACAO", "03"), ("B", "30.00", "ESTORNO", "03"), last="20260703", closing=None)
    assert await waiting(shop) == {"L": "could_be_ours", "B": "order_unknown"}


@pytest.mark.parametrize("open_for", [4, 40])
async def test_two_operators_name_the_credit_that_gives_back_a_failed_order(shop: Shop, open_for: int) -> None:
    await shop.allow_sending()
    shop.there.send_status = "under_way"
    sent = await shop.send(30_00)
    await shop.move_orders()
    debit, days = ("D", "-30.00", f"PIX ENVIADO {sent.end_to_end_id}", "03"), dict(first="20260703", last="20260703")
    await read(shop, debit, closing=None, **days)
    assert await waiting(shop) == {}
    shop.there.end_sent("refused")
    await shop.move_orders(days=open_for)
    await shop.read()
    await read(shop, debit, ("R", "30.00", "CREDITO", "03"), closing="100.00", **days)
    assert await waiting(shop) == dict.fromkeys("DR", "could_be_ours")
    await answer(shop, (await look(shop))[0].id, ours={"R": f"transfer:{sent.id}"})
    assert (await moved(shop), await waiting(shop), await look(shop)) == ([], {}, [])


async def test_a_debit_is_the_refund_that_two_operators_name(shop: Shop) -> None:
    await shop.allow()
    pix = await shop.receive(10_00)
    refund = await shop.give_back(pix)
    await shop.move_orders()
    shop.live.clock.advance(days=1)
    received = ("P1", "10.00", f"PIX RECEBIDO {pix.end_to_end_id}", "03")
    debits = [(name, "-10.00", "DEBITO", "03") for name in ("D1", "D2")]
    await read(shop, received, *debits, first="20260703", last="20260703", closing="90.00")
    (case,) = [one for one in await look(shop) if one.kind == "day"]
    await answer(shop, case.id, ours={"D2": f"refund:{refund.id}"})
    (row,) = await shop.live.fetch("select joined_kind, joined_id from institution_item where joined_by = 'answer'")
    assert tuple(row) == ("refund", str(refund.id))
    # No unmatched record is left for the other line.
    assert (await moved(shop), await waiting(shop), await look(shop)) == ([-10_00], {}, [])


@pytest.mark.parametrize(
    ("other", "lines", "left", "cents"),
    [
        (("F1", "-2.00", "TARIFA"), dict(out=["F1"], counts=["F1~20260701.2"]), {"F1": "struck"}, [-200, -100, 100]),
        (("F1", "-2.00", "TARIFA"), dict(counts=["F1~20260701.2"]), {}, [-200, -100]),
        (("F1", "-1.00", "TARIFA DE JULHO"), dict(aside=["F1~20260701.2"]), {"F1~20260701.2": "no_money"}, [-100]),
    ],
)
async def test_two_operators_answer_what_a_line_is_that_was_told_again_with_other_contents(
    shop: Shop, other: tuple[str, ...], lines: dict[str, Any], left: dict[str, str], cents: list[int]
) -> None:
    await read(shop, FEE, TED, closing=None)
    for _ in range(2):
        await read(shop, other, TED, closing=None)
        assert (await waiting(shop), await moved(shop)) == ({"F1~20260701.2": "changed"}, [-100, 300_00])
    (case,) = await look(shop)
    assert f"line F1~20260701.2 of -R$ {other[1][1:].replace('.', ',')}, fee, changed" in case.facts
    with pytest.raises(errors.BadRequest, match="out: no line T1 waits"):
        await answer(shop, case.id, out=["T1"], counts=["F1~20260701.2"])
    await answer(shop, case.id, **lines)
    assert (await waiting(shop), await moved(shop)) == (left, [*cents, 300_00])
    assert await look(shop) == []
    await read(shop, other, TED, closing=None)
    assert (await waiting(shop), await moved(shop), await look(shop)) == (left, [*cents, 300_00], [])


async def test_nobody_answers_alone_by_the_tables(shop: Shop) -> None:
    await read(shop, FEE, TED, closing="399.00")
    await read(shop, TED, closing="400.00")
    for statement in (
        "update institution_item set waits = 'no_money' where item_id = 'F1'",
        "update institution_item set waits = 'struck', joined_kind = null, joined_id = null, joined_by = null"
        " where item_id = 'F1'",
        "update institution_item set joined_by = 'answer' where item_id = 'T1'",
    ):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await shop.live.execute_as_owner(statement)


async def test_a_line_that_was_posted_is_never_alone_again(shop: Shop) -> None:
    await read(shop, FEE, TED, closing="399.00")
    await shop.live.execute_as_owner(
        "set session_replication_role = replica; update institution_item set joined_by = 'answer' where item_id = 'T1'"
    )
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="stays so"):
        await shop.live.execute_as_owner(
            "update institution_item set joined_kind = null, joined_id = null, joined_by = null where item_id = 'T1'"
        )


async def test_no_line_is_settled_while_an_answer_about_it_is_confirmed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.live.clock.advance(days=-2)
    shop.pay(5_000)
    await shop.read()
    shop.live.clock.advance(days=2)
    await read(shop, ("X0", "50.00", "CREDITO"), ("X1", "50.00", "CREDITO"), closing="200.00")
    (case,) = await look(shop)
    operator = as_operator(shop.live.context, "ana")
    proposed = await propose_answer(operator, WantedAnswer(case_id=case.id, counts=["X0"]))
    shop.live.clock.advance(days=-2)
    shop.pay(5_000)
    shop.live.clock.advance(days=2)
    await shop.read()
    lock = item_store.lock_alone

    async def settle_first(*arguments: Any) -> bool:
        with pytest.raises(errors.ServiceUnavailable, match="being worked on"):
            await statement_usecases.settle_items(shop.live.context, shop.account)
        return await lock(*arguments)

    monkeypatch.setattr(item_store, "lock_alone", settle_first)
    other, code = as_operator(shop.live.context, "bia"), proposed.code
    await confirm_waiting(other, shop.live.context, "loja", "answer", code)
    assert (await moved(shop), await waiting(shop)) == ([50_00], {})


async def test_a_second_form_that_reaches_further_strikes_no_line_of_the_first(shop: Shop) -> None:
    await read(shop, TED, ("B1", "-300.00", "BOLETO PAGO"), closing="100.00")
    entries = [
        make_camt_entry(item_id=name, amount=amount, indicator=indicator, at=f"2026-07-0{day}")
        for name, amount, indicator, day in (
            *(("a", "300.00", "CRDT", 1), ("b", "300.00", "DBIT", 1)), ("c", "1.00", "DBIT", 2),
        )
    ]  # fmt: skip
    balances = "".join(
        f'<Bal><Tp><CdOrPrtry><Cd>{code}</Cd></CdOrPrtry></Tp><Amt Ccy="BRL">{amount}</Amt>'
        f"<CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>{day}</Dt></Dt></Bal>"
        for code, amount, day in (("OPBD", "100.00", "2026-07-01"), ("CLBD", "99.00", "2026-07-02"))
    )
    content = make_camt(*entries, account="12345-6", first="2026-07-01", last="2026-07-02", balances=balances)
    recorded = await statement_usecases.record_file(as_operator(shop.live.context), "loja", content)
    await statement_usecases.settle_items(shop.live.context, shop.account, recorded.first_on)
    waits = await shop.live.fetch("select item_id from institution_item where waits is not null")
    assert [row["item_id"] for row in waits] == []
    assert await moved(shop) == [-30_000, -100, 30_000]
    assert await look(shop) == []


async def test_a_reference_of_a_second_form_may_come_again_on_another_day(shop: Shop) -> None:
    await read(shop, FEE, closing="99.00")
    await read(shop, ("F2", "-1.00", "TARIFA", "02"), first="20260702", last="20260702", opening="99.00", closing="98.00")
    for day, amount in ((1, "7.00"), (2, "9.00")):
        at = f"2026-07-0{day}"
        entries = (
            make_camt_entry(item_id=name, amount=cents, indicator="DBIT", at=at)
            for name, cents in (("a", "1.00"), ("DOC", amount))
        )
        content = make_camt(*entries, account="12345-6", first=at, last=at)
        for _ in range(2):
            await statement_usecases.record_file(as_operator(shop.live.context), "loja", content)
    await statement_usecases.settle_items(shop.live.context, shop.account)
    rows = await shop.live.fetch("select item_id, amount_cents from institution_item where source = 'camt.053' order by day")
    assert [(row["item_id"], row["amount_cents"]) for row in rows] == [("camt.053:DOC", 700), ("camt.053:DOC~20260702.2", 900)]
    assert await moved(shop) == [-100, -100]


async def test_what_a_second_form_of_a_closed_day_calls_its_balance_is_no_question(shop: Shop) -> None:
    await read(shop, FEE, closing="99.00")
    entries = [
        make_camt_entry(
            item_id=name, amount=cents, indicator=indicator, at="2026-07-01", details=f"<AddtlNtryInf>{text}</AddtlNtryInf>"
        )
        for name, cents, indicator, text in (("a", "1.00", "DBIT", "TARIFA"), ("b", "99.00", "CRDT", "SALDO DO DIA"))
    ]
    content = make_camt(*entries, account="12345-6", first="2026-07-01", last="2026-07-01")
    for _ in range(2):
        await statement_usecases.record_file(as_operator(shop.live.context), "loja", content)
        await statement_usecases.settle_items(shop.live.context, shop.account)
        assert (await moved(shop), await look(shop), await waiting(shop)) == ([-100], [], {"camt.053:b": "balance_line"})


async def test_what_is_no_money_in_one_form_is_none_in_the_other(shop: Shop) -> None:
    await read(shop, FEE, closing="99.00")
    entries = [
        make_camt_entry(item_id=name, amount=cents, indicator="DBIT", at="2026-07-01")
        for name, cents in (("a", "1.00"), ("DOC", "7.00"))
    ]
    content = make_camt(*entries, account="12345-6", first="2026-07-01", last="2026-07-01")
    recorded = await statement_usecases.record_file(as_operator(shop.live.context), "loja", content)
    await statement_usecases.settle_items(shop.live.context, shop.account, recorded.first_on)
    (case,) = await look(shop)
    await answer(shop, case.id, aside=["camt.053:DOC"])
    for number in range(2):
        await read(shop, FEE, (f"F{number + 2}", "-7.00", "TARIFA X"), closing="99.00")
        assert (await moved(shop), await waiting(shop)) == ([-100], {"camt.053:DOC": "no_money"})
    # A second such line is another one.
    await read(shop, FEE, ("F2", "-7.00", "TARIFA X"), ("F5", "-7.00", "TARIFA X"), closing="92.00")
    assert (await moved(shop), await waiting(shop)) == ([-700, -100], {"camt.053:DOC": "no_money"})


async def test_no_case_is_adjusted_after_its_money_was_posted(shop: Shop) -> None:
    ana, bia = (as_operator(shop.live.context, name) for name in ("ana", "bia"))
    await read(shop, FEE, closing="399.00")
    (case,) = await look(shop)
    wanted = WantedAdjustment(case_id=case.id, kind="bank_error")
    await propose_adjustment(ana, wanted)
    # The worker has not compared the case with the file yet.
    await read(shop, FEE, TED, closing="399.00")
    with pytest.raises(errors.BadRequest, match="difference of 2026-07-01 has changed"):
        await confirm_waiting(bia, shop.live.context, "loja")
    with pytest.raises(errors.BadRequest, match="difference of 2026-07-01 has changed"):
        await propose_adjustment(ana, wanted)
    assert (await moved(shop), await look(shop)) == ([-100, 300_00], [])


async def test_no_return_is_recorded_of_a_balance_or_on_an_account_that_was_closed_meanwhile(shop: Shop) -> None:
    await shop.allow_sending()
    sent = await shop.send(30_00)
    for _ in range(2):
        await shop.move_orders()
        shop.live.clock.advance(minutes=1)
    shop.live.clock.advance(days=3)
    balance = ("B", "30.00", "SALDO", "03")
    await read(shop, balance, first="20260703", last="20260703", opening=None, closing="70.00", made="20260705090000")
    line = ("S", "30.00", f"PIX DEVOLVIDO {sent.end_to_end_id}", "04")
    await read(shop, line, first="20260704", last="20260704", opening=None, closing="100.00", made="20260706090000")
    shop.live.clock.advance(days=3)
    await statement_usecases.settle_waiting(shop.live.context, shop.account, is_deep=True)
    ana, bia = (as_operator(shop.live.context, name) for name in ("ana", "bia"))
    cases = {case.name: WantedAdjustment(case_id=case.id, kind="bank_error") for case in await look(shop)}
    wanted = structs.replace(cases["2026-07-03"], returns=sent.end_to_end_id, line="B")
    with pytest.raises(errors.BadRequest, match="line: 0 lines of 2026-07-03 came in and wait"):
        await propose_adjustment(ana, wanted)
    code = (await propose_adjustment(ana, structs.replace(cases["2026-07-04"], line="S"))).code
    last = make_ofx(first="20260705", last="20260705", closing="70.00", made="20260706090000")
    for day, name in (("2026-07-03", "B"), ("2026-07-04", "S")):
        with pytest.raises(errors.BadRequest, match=f"line {name} of {day} waits"):
            await propose_closing(ana, shop.live.context, "loja", last)
        await case_usecases.close_cases(ana, [cases[day].case_id], "it is another account's")
    await propose_closing(ana, shop.live.context, "loja", last)
    await confirm_waiting(bia, shop.live.context, "loja", "close")
    with pytest.raises(errors.BadRequest, match="loja is closed"):
        await confirm_waiting(bia, shop.live.context, "loja", "adjust", code)
    assert await moved(shop) == [-70_00]


async def test_an_adjustment_is_refused_once_its_difference_has_the_other_sign(shop: Shop) -> None:
    ana, bia = (as_operator(shop.live.context, name) for name in ("ana", "bia"))
    await read(shop, FEE, closing="399.00")
    (case,) = await look(shop)
    await propose_adjustment(ana, WantedAdjustment(case_id=case.id, kind="bank_error", amount_cents=50_00))
    await read(shop, FEE, ("T1", "600.00", "TED RECEBIDA"), closing="399.00")
    await look(shop)
    with pytest.raises(errors.BadRequest, match="the other sign since the proposal"):
        await confirm_waiting(bia, shop.live.context, "loja")
