"""A statement's line moves money only as far as the files prove it: each habit of banks in its smallest form."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.features.institutions.tables import item as item_store
from support.account_shop import open_books
from support.books import check_books
from support.cnab import CnabLine, CnabLot, make_cnab
from support.operators import as_operator
from support.postgres import Addresses
from support.service import Service
from support.statement_files import make_camt, make_camt_entry, make_july_camt, make_ofx, make_ofx_line

DAY = date(2026, 7, 1)
FEE = ("F1", "-1.00", "TARIFA")


class Bank:
    """An account whose books began with 100.00 on the evening of 30 June, with files that are read a day late."""

    def __init__(self, service: Service, account: InstitutionAccount) -> None:
        self.service, self.account, self.context = service, account, service.context

    async def read(self, *lines: tuple[str, ...], day: int = 1, last: int | None = None, **changes: Any) -> None:
        """Read the file of a day or of several; a line is its id, amount and text, and its day if that is another one."""
        written = [
            make_ofx_line(item_id=line[0], amount=line[1], memo=line[2], at=f"202607{line[3] if line[3:] else f'{day:02}'}")
            for line in lines
        ]
        await self.read_file(make_ofx(*written, **dict(first=f"202607{day:02}", last=f"202607{last or day:02}") | changes))

    async def read_file(self, content: bytes) -> None:
        recorded = await statement_usecases.record_file(as_operator(self.context), "loja", content)
        await statement_usecases.settle_items(self.context, self.account, recorded.first_on)

    async def moved(self) -> list[int]:
        rows = await self.service.fetch("select direction, amount_cents from movement where kind <> 'opening_balance'")
        await check_books(self.service)
        return sorted(row["amount_cents"] * (1 if row["direction"] == "IN" else -1) for row in rows)

    async def waiting(self) -> dict[str, str]:
        rows = await self.service.fetch("select item_id, waits from institution_item where waits is not null")
        return {row["item_id"]: row["waits"] for row in rows}

    async def states(self, count: int = 1) -> list[str]:
        """Of days from the first of July on."""
        days = await day_usecases.list_days(self.context, self.account, date(2026, 7, count), count)
        return [shown.state for shown in days]

    async def asked(self) -> list[str]:
        """The cases: lines by their ids, days by their dates."""
        async with self.context.pool.acquire() as connection:
            span = await day_usecases.find_unmatched(connection, self.account, self.context.clock.now())
        return [*(item.item_id for item in span.items), *(str(day.day) for day in span.days)]


@pytest.fixture
async def bank(database: Addresses) -> AsyncIterator[Bank]:
    async with open_books(database, days=7) as (service, account):
        yield Bank(service, account)


async def test_a_balance_among_the_lines_is_set_aside_where_the_balances_agree_without_it(bank: Bank) -> None:
    await bank.read(("2", "300.00", "TED RECEBIDA"), ("1", "400.00", "SALDO TOTAL DISPONIVEL DIA"), closing="400.00")
    assert (await bank.moved(), await bank.waiting()) == ([300_00], {"1": "balance_line"})
    assert await bank.asked() == []


@pytest.mark.parametrize(
    ("text", "closing", "waits"),
    [
        *((text, "99.00", "balance_line") for text in ("LIMITE DISPONIVEL", "DISPONIVEL PARA SAQUE", "POSICAO APLICACAO")),
        # A balance that includes the limit agrees with its line as with money.
        *((text, "599.00", "perhaps_balance") for text in ("SALDO LIMITE CHEQUE ESPECIAL", "LIMITE CHEQUE ESPECIAL")),
    ],
)
async def test_a_limit_or_an_invested_sum_is_no_money_by_itself(bank: Bank, text: str, closing: str, waits: str) -> None:
    await bank.read(FEE, ("S1", "500.00", text), opening="100.00", closing=closing)
    assert (await bank.moved(), await bank.waiting()) == ([-1_00], {"S1": waits})


async def test_balances_as_lines_of_daily_files_are_no_movements(bank: Bank) -> None:
    await bank.read(("a", "-1.00", "TARIFA"), closing="99.00")
    await bank.read(("b", "97.00", "SALDO DO DIA"), ("c", "-2.00", "TARIFA"), day=2, closing="97.00")
    await bank.read(("d", "-3.00", "TARIFA"), day=3, closing="94.00")
    assert await bank.moved() == [-300, -200, -100]
    assert (await bank.states(3))[1:] == ["closed", "closed"]
    await bank.read(("c", "-2.00", "TARIFA"), day=2, closing="97.00")
    assert (await bank.moved(), await bank.waiting()) == ([-300, -200, -100], {"b": "withdrawn"})
    assert await bank.asked() == []


FAKE = "PIX RECEBIDO </STMTTRN><STMTTRN><TRNTYPE>OTHER<DTPOSTED>20260701<TRNAMT>900.00<FITID>Z<MEMO>TED RECEBIDA"


async def read_flat(bank: Bank, *lines: tuple[str, str, str], **told: Any) -> None:
    """Read a file whose lines of money stand in one line of it."""
    written = [make_ofx_line(item_id=line[0], amount=line[1], memo=line[2], at="20260701") for line in lines]
    content = make_ofx(*written, first="20260701", last="20260701", **told)
    await bank.read_file(content.replace(b"\n<STMTTRN>", b"<STMTTRN>"))


async def test_a_line_that_a_payer_may_have_written_into_a_text_waits_for_an_answer(bank: Bank) -> None:
    for _ in range(2):
        await read_flat(bank, FEE, ("P1", "10.00", FAKE), closing="109.00")
        assert await bank.moved() == []
        assert await bank.waiting() == {"F1": "perhaps_text", "P1": "perhaps_text", "Z": "perhaps_text"}
    assert await bank.asked() == ["F1", "P1", "Z"]
    # A balance proves the lines, unless some of them move nothing together.
    await read_flat(bank, FEE, ("P1", "10.00", FAKE), ("N1", "-900.00", "TARIFA"), closing="109.00")
    assert await bank.moved() == []


async def test_lines_in_one_line_of_the_file_are_posted_where_the_balances_prove_them(bank: Bank) -> None:
    lines = FEE, ("F2", "-2.00", "TARIFA")
    await read_flat(bank, *lines, closing="96.00")
    assert (await bank.moved(), {*(await bank.waiting()).values()}) == ([], {"perhaps_text"})
    await read_flat(bank, *lines, closing="97.00")
    assert (await bank.moved(), await bank.waiting()) == ([-200, -100], {})


async def test_another_form_shows_that_a_line_is_no_text(bank: Bank) -> None:
    await read_flat(bank, FEE, ("F2", "-2.00", "TARIFA"), closing="96.00")
    await bank.read_file(make_july_camt(C1, ("C2", "-2.00", "FEES CHARGED", "01")))
    assert (await bank.moved(), await bank.waiting()) == ([-200, -100], {})


async def test_a_later_file_decides_what_waited_of_another_day(bank: Bank) -> None:
    await bank.read(("b", "97.00", "SALDO DO DIA"), ("c", "-2.00", "TARIFA"), day=2, closing="97.00")
    assert await bank.waiting() == {"b": "perhaps_balance"}
    await bank.read(("a", "-1.00", "TARIFA"), closing="99.00")
    assert (await bank.moved(), await bank.waiting()) == ([-200, -100], {"b": "balance_line"})


async def test_a_question_about_a_day_without_a_file_is_asked(bank: Bank) -> None:
    await bank.read(("S1", "-50.00", "SALDO ANTERIOR", "01"), (*FEE, "02"), day=2, last=3, closing="549.00")
    assert (await bank.moved(), await bank.asked()) == ([-100], ["S1"])


@pytest.mark.parametrize("opening", ["100.00", None])
async def test_the_same_day_under_other_ids_is_nothing_new(bank: Bank, opening: str | None) -> None:
    for ids in ("Ax", "Ay"):
        lines = [(f"{ids}1", "-1.00", "TARIFA"), (f"{ids}2", "300.00", "TED RECEBIDA")]
        await bank.read(*lines, opening=opening, closing="399.00")
    assert await bank.moved() == [-100, 300_00]
    assert (await bank.states(), await bank.asked()) == (["closed" if opening else "provisional"], [])


async def test_a_scheduled_line_inside_the_span_is_announced_by_the_instant_of_its_file(bank: Bank) -> None:
    # Read late, and again. By DTSERVER; without it, by the day of the balance, whenever it is read.
    for made in ("20260702080000[-3:BRT]", "20260702"):
        scheduled = make_ofx(
            make_ofx_line(item_id="AG1", amount="-1.00", memo="TARIFA AGENDADO", at="20260704"),
            **dict(first="20260701", last="20260704", closing="100.00", made=made),
        ).replace(b"<DTASOF>20260704", b"<DTASOF>20260701")
        for _ in range(2):
            await bank.read_file(scheduled)
            assert (await bank.moved(), await bank.waiting(), await bank.asked()) == ([], {"AG1": "announced"}, [])
    await bank.read(("F1", "-1.00", "TARIFA"), day=4, closing="99.00", made="20260705080000[-3:BRT]")
    await bank.read_file(scheduled)
    assert await bank.moved() == [-100]


async def test_a_balance_told_during_its_day_closes_no_day(bank: Bank) -> None:
    noon: dict[str, Any] = dict(opening="100.00", closing="101.00", made="20260701120000[-3:BRT]")
    await bank.read(("L1", "1.00", "TED RECEBIDA"), **noon)
    assert (await bank.moved(), await bank.states()) == ([100], ["provisional"])
    lines = [("L1", "1.00", "TED RECEBIDA"), FEE]
    await bank.read(*lines, opening="100.00", closing="100.00", made="20260702080000[-3:BRT]")
    assert (await bank.moved(), await bank.states()) == ([-100, 100], ["closed"])
    # The older one says nothing about the end of the day, and removes no later line.
    await bank.read(lines[0], **noon)
    assert (await bank.moved(), await bank.states(), await bank.asked()) == ([-100, 100], ["closed"], [])


async def test_an_older_file_read_later_adds_nothing_to_a_proved_day(bank: Bank) -> None:
    await bank.read(FEE, opening="100.00", closing="99.00", made="20260702080000[-3:BRT]")
    struck = ("L1", "5.00", "TED RECEBIDA")
    await bank.read(FEE, struck, opening="100.00", closing="104.00", made="20260701200000[-3:BRT]")
    assert (await bank.moved(), await bank.waiting()) == ([-100], {"L1": "contradicts"})
    await bank.read(FEE, struck, opening="100.00", closing="104.00", made="20260702070000[-3:BRT]")
    assert (await bank.moved(), await bank.states()) == ([-100], ["closed_with_cases"])


async def test_a_debit_under_another_day_and_id_is_known_by_its_network_name(bank: Bank) -> None:
    for item_id, day in (("A1", 4), ("B1", 6)):
        await bank.read((item_id, "-5.00", "PIX ENVIADO E9999900420260704150000000000001"), day=day, closing="95.00")
    assert (await bank.moved(), await bank.waiting()) == ([-500], {})


async def test_a_reference_that_is_unique_in_its_statement_alone_is_no_identity(bank: Bank) -> None:
    for day in (1, 2):
        entry = make_camt_entry(amount=f"{day}.00", indicator="DBIT", at=f"2026-07-0{day}", item_id="1")
        entry = entry.replace("AcctSvcrRef", "NtryRef")
        file = make_camt(entry, first=f"2026-07-0{day}", last=f"2026-07-0{day}")
        for _ in range(2):
            await bank.read_file(file)
    assert (await bank.moved(), await bank.waiting()) == ([-200, -100], {})


async def test_a_proof_is_replaced_only_where_the_next_days_agree(bank: Bank) -> None:
    await bank.read(FEE, opening="100.00", closing="99.00")
    await bank.read(("F2", "-2.00", "TARIFA"), day=2, opening="99.00", closing="97.00")
    late = ("L1", "-5.00", "IOF", "01")
    await bank.read(FEE, late, opening="100.00", closing="94.00")
    assert (await bank.moved(), await bank.waiting()) == ([-200, -100], {"L1": "contradicts"})
    assert await bank.states(2) == ["closed_with_cases", "closed"]
    await bank.read((*FEE, "01"), late, ("F2", "-2.00", "TARIFA", "02"), last=2, opening="100.00", closing="92.00")
    assert (await bank.moved(), await bank.waiting()) == ([-500, -200, -100], {})
    assert await bank.states(2) == ["closed", "closed"]


async def test_a_day_that_balances_close_without_a_file_is_proved_as_others(bank: Bank) -> None:
    lines = ("R3", "-5.00", "TARIFA", "03"), ("F4", "-2.00", "TARIFA", "04")
    late = ("L2", "50.00", "TED", "02"), ("L3", "20.00", "TED", "03")
    await bank.read(FEE, opening="100.00", closing="99.00")
    await bank.read(*lines, day=4, closing="92.00")
    assert await bank.states(4) == ["closed"] * 4
    await bank.read(*lines, *late, day=4, closing="92.00")
    assert (await bank.waiting(), await bank.asked()) == (dict.fromkeys(("L2", "L3"), "contradicts"), ["L2", "L3"])
    await bank.read(*late, *lines, day=2, last=4, closing="162.00")
    assert (await bank.states(4), await bank.moved()) == (["closed"] * 4, [-500, -200, -100, 20_00, 50_00])


@pytest.mark.parametrize("back", [0, 1_00])
async def test_a_late_line_of_the_day_of_a_cnab_balance_is_outside_its_file(bank: Bank, back: int) -> None:
    fee, late = CnabLine(amount_cents=-1_00, day=DAY), CnabLine(amount_cents=-5_00, day=DAY, history="DEBITO")
    first = CnabLot(lines=[fee, replace(fee, amount_cents=back)], opening_on=date(2026, 6, 30), closing_on=DAY)
    for lot in (first, CnabLot(lines=[late], opening_cents=99_00 + back, opening_on=DAY, closing_on=date(2026, 7, 2))):
        await bank.read_file(make_cnab(lot))
    assert ([*(await bank.waiting()).values()], await bank.states()) == (["contradicts"], ["closed_with_cases"])


async def test_a_whole_file_replaces_older_balances_within_its_days_until_a_later_one(bank: Bank) -> None:
    fee = ("F2", "-2.00", "TARIFA", "02")
    await bank.read(fee, day=2, opening="99.00", closing="97.00")
    # The bank has dated a line back to a day without a file.
    await bank.read(("F1", "-6.00", "TARIFA", "01"), fee, last=2, opening="100.00", closing="92.00")
    assert (await bank.states(2), await bank.asked()) == (["closed", "closed"], [])
    await bank.read(fee, day=2, opening="99.00", closing="97.00", made="20260703080000[-3:BRT]")
    assert (await bank.states(2), await bank.asked()) == (["closed", "closed"], [])


async def test_a_whole_file_replaces_an_older_balance_before_a_day(bank: Bank) -> None:
    await bank.read(FEE, opening="100.00", closing="99.00")
    # By this file the first day had one more line.
    await bank.read(("T1", "10.00", "TED"), day=2, opening="98.00", closing="109.00")
    await bank.read(FEE, ("T1", "10.00", "TED", "02"), last=2, opening="100.00", closing="109.00")
    assert (await bank.states(2), await bank.asked()) == (["closed"] * 2, [])


async def test_two_who_read_one_day_at_once_record_its_lines_once(bank: Bank) -> None:
    span = dict(first="20260701", last="20260701")
    files = [make_ofx(make_ofx_line(item_id=name, amount="-1.00", at="20260701"), **span) for name in ("A", "B")]
    reading, maria = list[asyncio.Task[Any]](), as_operator(bank.context)
    async with bank.context.pool.acquire() as connection, connection.transaction():
        await item_store.lock_recording(connection, bank.account.id)
        for file in (*files, make_july_camt(C1, ("C2", "-6.00", "FEES", "01"))):
            reading.append(asyncio.create_task(statement_usecases.record_file(maria, "loja", file)))
            await asyncio.sleep(0.1)
    await asyncio.gather(*reading)
    await statement_usecases.settle_items(bank.context, bank.account, DAY)
    assert (await bank.moved(), await bank.waiting()) == ([-100], {"camt.053:C2": "contradicts"})


async def test_a_line_gets_no_id_that_another_form_has_given(bank: Bank) -> None:
    await bank.read(FEE, ("F1", "104.00", "SALDO DIA"), day=7, closing="104.00", made="20260707121000[-3:BRT]")
    bank.service.clock.advance(days=1)
    await bank.read_file(make_july_camt(("F1", "-1.00", "FEES", "07"), ("F1", "-5.00", "FEES", "07"), first="07", last="07"))
    assert (await bank.moved(), await bank.waiting()) == ([-500, -100], {"F1~20260707.2": "perhaps_balance"})


C1 = ("C1", "-1.00", "FEES CHARGED", "01")


@pytest.mark.parametrize("order", [["ofx", "camt", "ofx 1-2"], ["camt", "ofx", "ofx 1-2"], ["camt", "ofx 1-2", "ofx"]])
async def test_two_forms_of_a_day_are_one_day(bank: Bank, order: list[str]) -> None:
    for form in order:
        if form == "camt":
            await bank.read_file(make_july_camt(C1, last="02", closing="99.00"))
        else:
            await bank.read((*FEE, "01"), last=2 if form == "ofx 1-2" else 1, opening="100.00", closing="99.00")
    assert (await bank.moved(), await bank.waiting(), await bank.asked()) == ([-100], {}, [])
    assert await bank.states(2) == ["closed", "closed"]


async def test_what_one_form_alone_has_waits_until_the_other_has_it(bank: Bank) -> None:
    lines = FEE, ("F2", "-1.00", "CARTAO"), ("F3", "-5.00", "TED ENVIADA")
    camt = make_july_camt(("C2", "-1.00", "FEES CHARGED", "01"), ("C1", "-1.00", "CARD", "01"), ("C3", "-5.00", "TED", "01"))
    for moved, closing, alone in (([], "100.00", "123"), ([-100], "99.00", "13"), ([-500, -100, -100], "93.00", "")):
        await bank.read(*lines[: len(moved)], opening="100.00", closing=closing)
        for _ in range(2):
            await bank.read_file(camt)
            assert (await bank.moved(), await bank.asked()) == (moved, [f"camt.053:C{name}" for name in alone])


async def test_what_a_second_form_lacks_and_another_balance_are_the_days_case(bank: Bank) -> None:
    await bank.read(FEE, ("F2", "-2.00", "TARIFA"), opening="100.00", closing="97.00")
    await bank.read_file(make_july_camt(C1, closing="99.00"))
    (shown,) = await day_usecases.list_days(bank.context, bank.account, DAY, 1)
    assert (shown.state, shown.cases.disagreements_count) == ("closed_with_cases", 2)
    assert (await bank.moved(), await bank.asked()) == ([-200, -100], ["2026-07-01"])
    await case_usecases.look_for_cases(bank.context)
    (case,) = await case_usecases.list_cases(bank.context, kind="day")
    assert "a second form of its statement contradicts 2 of its lines and balances" in case.case.facts
    await bank.read_file(make_july_camt(C1, ("C2", "-2.00", "FEES", "01"), closing="97.00"))
    assert (await bank.states(), await bank.asked()) == (["closed"], [])


async def test_a_difference_of_a_second_form_that_stays_is_the_case_of_its_first_day(bank: Bank) -> None:
    counts = list[int]()
    for day, second in ((1, "149.00"), (2, "148.00"), (3, "146.00"), (4, "145.00")):
        fee = (f"F{day}", "-1.00", "TARIFA")
        await bank.read(fee, day=day, opening=f"{101 - day}.00", closing=f"{100 - day}.00")
        for _ in range(2):
            entry = (f"C{day}", "-1.00", "FEES", f"0{day}")
            await bank.read_file(make_july_camt(entry, first=f"0{day}", last=f"0{day}", closing=second))
        (shown,) = await day_usecases.list_days(bank.context, bank.account, date(2026, 7, day), 1)
        counts.append(shown.cases.disagreements_count)
    assert counts == [1, 0, 1, 0]
    assert (await bank.moved(), await bank.asked()) == ([-100] * 4, ["2026-07-01", "2026-07-03"])


async def test_a_form_that_tells_a_day_whole_takes_it_from_one_that_did_not(bank: Bank) -> None:
    bank.service.clock.advance(days=-7)
    await bank.read(FEE)
    bank.service.clock.advance(days=7)
    await bank.read_file(make_july_camt(C1, ("C2", "-2.00", "FEES", "01"), closing="97.00"))
    assert (await bank.moved(), await bank.waiting(), await bank.asked()) == ([-200, -100], {}, [])
    await bank.read(FEE, ("F2", "-2.00", "TARIFA"), opening="100.00", closing="97.00")
    assert (await bank.moved(), await bank.waiting(), await bank.asked()) == ([-200, -100], {}, [])


async def test_lines_that_name_two_pix_are_two_in_two_forms(bank: Bank) -> None:
    one, other = (f"E99999004202607011500{letter * 11}" for letter in "xy")
    await bank.read(("F1", "-3.00", f"PIX ENVIADO {one}"), opening="100.00", closing="97.00")
    await bank.read_file(make_july_camt(("C1", "-3.00", f"PIX {other}", "01")))
    assert (await bank.moved(), await bank.waiting()) == ([-300], {"camt.053:C1": "contradicts"})
    # Only a file whose balances show that it is complete settles the question.
    for closing, waits in (("", "contradicts"), ("97.00", "withdrawn")):
        await bank.read_file(make_july_camt(("C1", "-3.00", f"PIX {one}", "01"), closing=closing))
        assert (await bank.moved(), await bank.waiting()) == ([-300], {"camt.053:C1": waits})


@pytest.mark.parametrize("last", ["20260629", "20260701"])
async def test_days_before_the_books_began_are_no_cases_and_reserve_nothing(bank: Bank, last: str) -> None:
    old = [("O1", "-10.00", "TARIFA"), ("O2", "7.00", "SALDO DO DIA")], [("O1", "-30.00", "BOLETO"), ("O3", "-10.00", "TED")]
    for lines, old_closing in zip(old, ("500.00", "70.00"), strict=True):
        written = [make_ofx_line(item_id=line[0], amount=line[1], memo=line[2], at="20260628") for line in lines]
        closing = "99.00" if last == "20260701" else old_closing
        if last == "20260701":
            written.append(make_ofx_line(item_id=FEE[0], amount=FEE[1], memo=FEE[2], at="20260701"))
        await bank.read_file(make_ofx(*written, first="20260628", last=last, opening="90.00", closing=closing))
        assert await bank.asked() == []
    assert await bank.moved() == ([-1_00] if last == "20260701" else [])
    assert not await bank.service.fetch("select from block")
    assert {item_id for item_id, waits in (await bank.waiting()).items() if waits == "before_opening"} >= {"O1", "O3"}
    if last == "20260629":
        await bank.read(FEE, closing="99.00", opening="100.00")
    assert await bank.states() == ["closed"]
    first = (await day_usecases.list_days(bank.context, bank.account, date(2026, 6, 29), 2))[0]
    assert (first.state, first.difference_cents) == ("open", None)
