"""A difference between the institution and the books is one case, until the missing fact is there."""

import asyncio
import json
from datetime import date

import asyncpg
import pytest

from pixconnect.features.cases.rules import Case, CaseKind
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.institutions.day_checks import judge_closed_days
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS
from pixconnect.kernel.rules.rail import SettledReport
from pixconnect.platform.base import errors
from support.account_shop import Shop
from support.fixtures.accounts import shop_in_july
from support.operators import as_operator
from support.postgres import Addresses, as_owner
from support.service import Service
from support.statement_files import make_ofx, make_ofx_line

DAY = date(2026, 7, 1)
shop = shop_in_july(days=1)


async def read(
    shop: Shop, *lines: str, closing: str = "100.00", opening: str | None = "100.00", day: str = "20260701", last: str = ""
) -> None:
    content = make_ofx(*lines, first=day, last=last or day, opening=opening, closing=closing)
    await statement_usecases.record_file(as_operator(shop.live.context), "loja", content)
    # As if the reader had been killed: the worker settles the lines.
    await statement_usecases.settle_waiting(shop.live.context, shop.account, is_deep=False)


async def look(shop: Shop, *, with_ended: bool = False) -> list[Case]:
    await case_usecases.look_for_cases(shop.live.context)
    return [one.case for one in await case_usecases.list_cases(shop.live.context, with_ended=with_ended)]


def told(cases: list[Case]) -> list[tuple[CaseKind, str, int | None, str | None]]:
    return [(case.kind, case.name, case.amount_cents, case.ended_as) for case in cases]


async def test_a_day_that_does_not_add_up_is_a_case_until_its_missing_line_is_read(shop: Shop) -> None:
    await read(shop, closing="99.00")
    assert told(await look(shop)) == [("day", "2026-07-01", -100, None)]
    (again,) = await look(shop)
    assert (again.opened_count, again.holder_id) == (1, shop.house.holder_id)
    fee = make_ofx_line(item_id="F1", at="20260701", amount="-1.00", memo="TARIFA")
    await read(shop, fee, closing="99.00")
    assert told(await look(shop, with_ended=True)) == [("day", "2026-07-01", -100, "recorded")]
    # It is opened again when it comes back.
    await read(shop, fee, closing="95.00")
    (back,) = await look(shop)
    assert (back.id, back.amount_cents, back.opened_count) == (again.id, -400, 2)
    # A balance beyond all amounts is the case's largest.
    await read(shop, fee, closing="-9999999999.99")
    assert told(await look(shop)) == [("day", "2026-07-01", -AMOUNT_MAX_CENTS, None)]


@pytest.mark.parametrize(("first", "opening"), [(1, "600.00"), (2, "605.00"), (2, None), (3, "605.00"), (3, None)])
async def test_a_constant_difference_is_one_case_of_the_first_day(shop: Shop, first: int, opening: str | None) -> None:
    """The institution's balances include a credit limit of 500.00; on the first day a Pix of 5.00 came in."""
    shop.live.clock.advance(days=-1)
    pix = await shop.receive(500)
    if first == 3:
        # A file of the present day has no final balance.
        await read(shop, opening=None)
    shop.live.clock.advance(days=3)
    came = [make_ofx_line(item_id="P1", at="20260701", amount="5.00", memo=f"PIX {pix.end_to_end_id}")] * (first == 1)
    if first < 3:
        await read(shop, *came, opening=opening, closing="605.00", day=f"2026070{first}")
    fee = make_ofx_line(item_id="F1", at="20260703", amount="-1.00", memo="TARIFA")
    await read(shop, fee, opening=opening and "605.00", closing="604.00", day="20260703")
    (case,) = await look(shop)
    assert told([case]) == [("day", f"2026-07-0{first}", 50_000, None)]
    assert case.facts == "the balance before this first day differs from the books by +R$ 500,00"
    await case_usecases.close_cases(as_operator(shop.live.context), [case.id], "a limit")
    assert (await look(shop), await shop.live.fetch("select from institution_day where state = 'open'")) == ([], [])


@pytest.mark.parametrize("opening", ["70.00", None])
async def test_a_line_before_the_first_day_explains_its_part_of_the_difference(shop: Shop, opening: str | None) -> None:
    shop.live.clock.advance(days=2)
    fee = make_ofx_line(item_id="F1", at="20260702", amount="-10.00", memo="TARIFA")
    await read(shop, fee, opening=opening, closing="70.00", day="20260703")
    assert told(await look(shop)) == [("day", "2026-07-03", -2000, None)]
    # A doubtful one may be a part of it.
    doubtful = make_ofx_line(item_id="B1", at="20260702", amount="-20.00", memo="SALDO B1")
    await read(shop, fee, doubtful, opening=opening, closing="70.00", day="20260703")
    assert [case.name for case in await look(shop)] == ["2026-07-02"]
    await read(shop, fee, opening="90.00", closing="90.00", day="20260703")
    assert await look(shop) == []


@pytest.mark.parametrize("opening", ["70.00", None])
async def test_days_without_a_file_are_one_case_until_one_covers_them(shop: Shop, opening: str | None) -> None:
    await read(shop)
    shop.live.clock.advance(days=5)
    await read(shop, opening=opening, closing="70.00", day="20260706")
    shop.live.clock.advance(days=2)
    assert told(await look(shop)) == []
    shop.live.clock.advance(days=1)
    await asyncio.gather(look(shop), look(shop))
    (case,) = await look(shop)
    assert (told([case]), case.opened_count) == ([("file", "2026-07-05", -3000, None)], 1)
    assert "all of 2026-07-02 to 2026-07-05: the balance was R$ 100,00 at the end of 2026-07-01, and R$ 70,00 at" in case.facts
    assert "2026-07-06, a difference of -R$ 30,00; read a file of 2026-07-02 to 2026-07-05: `institution" in case.facts
    assert await shop.live.fetch("select from movement where kind <> 'opening_balance'") == []
    # An operator's closing holds until the difference changes, also if some of the days are read.
    await case_usecases.close_cases(as_operator(shop.live.context), [case.id], "the bank has no such file")
    await read(shop, day="20260702")
    shop.live.clock.advance(days=6)
    assert await look(shop) == []
    wires = [make_ofx_line(item_id=f"W{day}", at=f"2026070{day}", amount="-15.00", memo="TED ENVIADA") for day in (3, 4)]
    await read(shop, wires[0], closing="85.00", day="20260703")
    shop.live.clock.advance(days=6)
    assert told(await look(shop)) == [("file", "2026-07-05", -1500, None)]
    await read(shop, wires[1], opening="85.00", closing="70.00", day="20260704", last="20260705")
    assert told(await look(shop, with_ended=True)) == [("file", "2026-07-05", -1500, "recorded")]


async def test_lines_that_explain_the_balances_close_days_without_a_file(shop: Shop) -> None:
    await read(shop)
    shop.live.clock.advance(days=8)
    wire = make_ofx_line(item_id="W1", at="20260703", amount="-30.00", memo="TED ENVIADA")
    await read(shop, wire, opening=None, closing="70.00", day="20260706")
    day = await day_usecases.read_day(shop.live.context, shop.account, date(2026, 7, 4))
    assert (await look(shop), day.shown.state) == ([], "closed")
    async with shop.live.context.pool.acquire() as connection:
        ((judgement,), _) = await judge_closed_days(connection, shop.live.clock.now())
    assert judgement.reason == "closed until 2026-07-06"
    # A file of one of the days has one line more, another explains the rest, and a later balance contradicts them.
    steps = (("3", 10, "80.00", -1000, None), ("4", -10, "70.00", -1000, "recorded"), ("4", -10, "60.00", -1000, None))
    for day, reais, closing, cents, ended_as in steps:
        line = make_ofx_line(item_id=day, at=f"2026070{day}", amount=f"{reais}.00", memo="TED")
        await read(shop, wire, line, opening=None, closing=closing, day="20260703" if day == "3" else "20260706")
        shop.live.clock.advance(days=6)
        assert told(await look(shop, with_ended=True)) == [("file", "2026-07-05", cents, ended_as)]


async def test_an_account_that_cannot_be_looked_at_waits_and_keeps_nobody_else(shop: Shop, database: Addresses) -> None:
    await read(shop, closing="99.00")
    async with as_owner(database) as owner:
        await owner.execute("alter table kept_case add constraint fits_nowhere check (amount_cents <> -100)")
        assert await look(shop) == []
        await owner.execute("alter table kept_case drop constraint fits_nowhere")
    assert told(await look(shop)) == [("day", "2026-07-01", -100, None)]


async def test_what_only_one_side_has_is_a_case_that_says_how_much(shop: Shop) -> None:
    shop.live.clock.advance(days=-1)
    pix = await shop.receive(700)
    shop.live.clock.advance(days=1)
    await read(shop, closing="100.00")
    (missing,) = await look(shop)
    assert (missing.kind, missing.name, missing.amount_cents) == ("day", "2026-07-01", -700)
    day = await day_usecases.read_day(shop.live.context, shop.account, DAY)
    alone = [(line.amount_cents, line.direction) for line in day.lines_alone]
    assert (day.shown.state, day.shown.cases.lines_count, alone) == ("closed_with_cases", 1, [(700, "IN")])
    assert pix.end_to_end_id in missing.facts
    came = make_ofx_line(item_id="P1", at="20260701", amount="7.00", memo=f"PIX RECEBIDO {pix.end_to_end_id}")
    await read(shop, came, closing="107.00")
    assert told(await look(shop)) == []


async def test_our_line_between_equal_balances_asks_for_a_file(shop: Shop) -> None:
    await read(shop)
    pix = await shop.receive(700)
    shop.live.clock.advance(days=4)
    await read(shop, day="20260704")
    shop.live.clock.advance(days=3)
    assert told(await look(shop)) == [("file", "2026-07-03", -700, None)]
    came = make_ofx_line(item_id="P1", at="20260702", amount="7.00", memo=f"PIX RECEBIDO {pix.end_to_end_id}")
    await read(shop, came, make_ofx_line(item_id="F1", at="20260703", amount="-7.00"), day="20260702", last="20260703")
    assert told(await look(shop)) == []


async def test_the_evening_of_a_day_that_was_read_at_noon_is_no_difference_of_the_next(shop: Shop) -> None:
    await read(shop, last="20260702")
    await shop.receive(430)
    shop.live.clock.advance(days=2)
    await read(shop, opening="104.30", closing="104.30", day="20260703")
    assert told(await look(shop)) == []


async def test_all_of_a_day_is_one_case_that_names_each_line(shop: Shop) -> None:
    shop.live.clock.advance(days=-1)
    pix = shop.pay(700)
    await shop.read()
    shop.live.clock.advance(days=1)
    lines = [make_ofx_line(item_id=name, at="20260701", amount="300.00", memo=f"SALDO {name}") for name in ("B1", "B2")]
    await read(shop, *lines, closing="400.00")
    (case,) = await look(shop)
    # Two choices agree: the lines may be money or not, and the balance is 300.00 above the sum.
    assert (case.kind, case.name, case.amount_cents) == ("day", "2026-07-01", 300_00 - 700)
    for named in ("+R$ 300,00 beside", "line B1", "line B2", "perhaps_balance", "from ofx", pix.end_to_end_id):
        assert named in case.facts
    await case_usecases.close_cases(as_operator(shop.live.context), [case.id], "the bank writes its balances twice")
    assert await look(shop) == []
    # Another line is another question about the day, though the sum is the same.
    other = make_ofx_line(item_id="B3", at="20260701", amount="250.00", memo="SALDO B3")
    await read(shop, *lines, other, closing="400.00")
    (again,) = await look(shop)
    assert (again.id, again.amount_cents, again.opened_count) == (case.id, case.amount_cents, 2)


async def test_fewer_lines_than_payments_are_joined_and_one_case_has_the_rest(shop: Shop) -> None:
    shop.live.clock.advance(days=-1)
    for _ in range(5):
        shop.pay(700)
    await shop.read()
    shop.live.clock.advance(days=1)
    lines = [make_ofx_line(item_id=f"P{n}", at="20260701", amount="7.00", memo="PIX RECEBIDO") for n in range(3)]
    await read(shop, *lines, closing="121.00")
    joined = await shop.live.fetch("select from institution_item where joined_kind = 'transfer'")
    assert (told(await look(shop)), len(joined)) == ([("day", "2026-07-01", -1400, None)], 3)


async def test_a_line_whose_reader_was_killed_is_a_case(shop: Shop) -> None:
    await read(shop)
    await read(shop, make_ofx_line(item_id="N", at="20260701", amount="7.00", memo="CREDITO"), opening=None, closing="107.00")
    assert told(await look(shop)) == [("day", "2026-07-01", None, None)]


async def test_a_kept_report_is_a_case_and_ends_with_it_whichever_is_closed(shop: Shop) -> None:
    context, maria = shop.live.context, as_operator(shop.live.context, "maria")
    for number in ("1", "2"):
        report = SettledReport(report_id=number, id=f"E999990042026070115{number:0>13}", settled_at=shop.live.clock.now())
        await kept_usecases.keep(context.pool, report, Misfit(reason="unknown_order", explanation="we know none"))
        await look(shop)
    first, second = await look(shop)
    assert (first.kind, first.amount_cents) == ("report", None)
    # Looks that find nothing new use no id up.
    assert second.id == first.id + 1
    await case_usecases.note_case(maria, first.id, "asked the institution")
    await kept_usecases.close_kept(maria, int(first.name), "booked by hand")
    (closed,) = await case_usecases.close_cases(maria, [second.id], "the same cause")
    assert (closed.case.ended_as, closed.case.ended_by) == ("closed", "maria")
    shown = await case_usecases.read_case(context, first.id)
    assert (shown.case.ended_as, shown.case.end_reason) == ("closed", "booked by hand")
    assert [(note.operator, note.note) for note in shown.notes] == [("maria", "asked the institution")]
    assert (await look(shop), await kept_usecases.count_open(context.pool)) == ([], {})


async def test_what_two_runs_of_verify_found_of_one_thing_is_one_case(shop: Shop) -> None:
    looked = json.dumps([dict(rule=f"rule {number}", verdict="checked") for number in range(20)])
    # First it was unknown here; then it was recorded, with another amount.
    for extent, holder_id, found in (("whole", "null", "null"), ("changes", shop.house.holder_id, "'70'")):
        await shop.live.execute_as_owner(f"""
            with run as (
                insert into verify.proof_run (extent, operator, read_until, state, looked, ended_at)
                values ('{extent}', 'maria', now(), 'ended', '{looked}', clock_timestamp()) returning id
            )
            insert into verify.proof_finding (run_id, number, rule, holder_id, ids, expected, found, state)
            select id, 1, 'rail_settled_the_same', {holder_id}, array['credit E1'], '100', {found}, 'there' from run
        """)
    await case_usecases.look_at_rail(shop.live.context)
    (case,) = await look(shop)
    assert (case.kind, case.holder_id, case.amount_cents) == ("rail", shop.house.holder_id, 30)


async def test_a_variable_that_is_not_set_takes_no_cases(shop: Shop) -> None:
    with pytest.raises(errors.BadRequest, match="facts: must not be empty"):
        await case_usecases.list_cases(shop.live.context, facts="")
    with pytest.raises(errors.NotFound, match="there is no account"):
        await case_usecases.list_cases(shop.live.context, institution="")


async def test_an_operators_word_holds_for_the_amount_that_it_was_about(shop: Shop) -> None:
    maria = as_operator(shop.live.context, "maria")
    await read(shop, closing="99.00")
    (case,) = await look(shop)
    with pytest.raises(errors.BadRequest, match="reason: must have"):
        await case_usecases.close_cases(maria, [case.id], " ")
    with pytest.raises(errors.NotFound, match="none with the id 77"):
        await case_usecases.close_cases(maria, [case.id, 77], "a fee that no line tells")
    await case_usecases.close_cases(maria, [case.id], "a fee that no line tells")
    with pytest.raises(errors.NotFound, match="ended"):
        await case_usecases.close_cases(maria, [case.id], "again")
    assert await look(shop) == []
    await read(shop, closing="98.00")
    assert told(await look(shop)) == [("day", "2026-07-01", -200, None)]
    for statement in (
        "update kept_case set name = 'x'",
        "update kept_case set opened_count = 9",
        "delete from case_note",
        "update kept_case set ended_as = 'closed', ended_at = now()",
    ):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await shop.live.execute_as_owner(statement)


async def test_a_kept_report_is_not_counted_again_as_a_case(service: Service) -> None:
    assert await case_usecases.count_cases(service.context) == 0
    kinds = "('rail', 'a', 'differs', now()), ('report', 'b', 'x', now())"
    assert await service.fetch(f"insert into kept_case (kind, name, facts, since) values {kinds} returning id")
    assert await case_usecases.count_cases(service.context) == 1
