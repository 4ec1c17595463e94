"""An account's statement: each line is joined with one of our records or posted, once, and the day closes."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service.answer import SUM, WantedAnswer, propose_answer
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.joining import RecordedItem
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service import statement as statement_usecases
from pixconnect.features.institutions.service import statement_account, statement_sweep
from pixconnect.features.institutions.service.statement import RecordedStatement, SettledStatement
from pixconnect.features.institutions.statement_files import ReadFormat
from pixconnect.features.institutions.statement_files.ofx import read_ofx
from pixconnect.features.institutions.statement_files.statement_file import StatementFile
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import statement_file as line_store
from pixconnect.kernel.flows import incoming
from pixconnect.platform.base import errors
from support.account_shop import open_books
from support.books import check_books
from support.operators import as_operator
from support.postgres import Addresses
from support.proposals import confirm_waiting
from support.service import Service, credit_report
from support.statement_files import make_camt, make_camt_entry, make_ofx, make_ofx_line

# The service's clock stands at noon of the first of July in Sao Paulo; files are of that day and the next ones.
DAY = date(2026, 7, 1)
OTHER_E2E = "E99999004202607011500zzzzzzzzzzz"


class Books:
    """A live service with one account, whose books begin with 100.00."""

    def __init__(self, service: Service, account: InstitutionAccount) -> None:
        self.service, self.account = service, account
        self.context = service.context

    async def read(self, *lines: str, **changes: Any) -> tuple[RecordedStatement, SettledStatement]:
        return await self.read_file(
            make_ofx(*lines, **dict(first="20260701", last="20260701", opening="100.00", closing="100.00") | changes)
        )

    async def read_file(self, content: bytes) -> tuple[RecordedStatement, SettledStatement]:
        recorded = await statement_usecases.record_file(as_operator(self.context), "loja", content)
        return recorded, await statement_usecases.settle_items(self.context, self.account)

    async def item(self, item_id: str) -> RecordedItem:
        async with self.context.pool.acquire() as connection:
            return (await item_store.find(connection, self.account.id, [item_id]))[item_id]

    async def day(self, day: date = DAY) -> day_usecases.DayLines:
        return await day_usecases.read_day(self.context, self.account, day)

    async def receive(self, **changes: Any) -> str:
        report = structs.replace(credit_report(self.service), **changes)
        assert (await incoming.receive_credit(self.context, report)).refusal_code is None
        # The records of an account's own rail.
        await self.service.execute_as_owner(
            f"update transfer set institution_id = {self.account.id} where institution_id is null"
        )
        return report.end_to_end_id

    async def movements(self) -> list[tuple[str, str, str, int]]:
        told = "select item_id, kind, direction, amount_cents from movement where kind <> 'opening_balance' order by item_id"
        return [tuple(row) for row in await self.service.fetch(told)]

    async def tomorrow(self, days: int = 1) -> None:
        self.service.clock.advance(days=days)


@pytest.fixture
async def books(database: Addresses) -> AsyncIterator[Books]:
    async with open_books(database) as (service, account):
        yield Books(service, account)


async def test_a_fee_a_wire_and_what_people_do_there_are_movements_once(books: Books) -> None:
    lines = [
        make_ofx_line(item_id="F1", at="20260701", amount="-1.00", memo="TARIFA PIX"),
        make_ofx_line(item_id="W1", at="20260701", amount="5.00", memo="TED RECEBIDA"),
        make_ofx_line(item_id="H1", at="20260701", amount="-3.00", memo=f"PIX ENVIADO {OTHER_E2E}"),
    ]
    recorded, settled = await books.read(*lines)
    assert (len(recorded.new), recorded.known_count) == (3, 0)
    # Today's received payments may still come as payments.
    assert (settled.posted_count, settled.waiting_count) == (2, 1)
    assert (await books.item("W1")).waits == "day_not_over"
    await books.tomorrow()
    recorded, settled = await books.read(*lines, closing="101.00")
    assert (len(recorded.new), recorded.known_count, settled.posted_count) == (0, 3, 1)
    assert await books.movements() == [("F1", "fee", "OUT", 100), ("H1", "by_hand", "OUT", 300), ("W1", "wire", "IN", 500)]
    for _ in range(2):
        assert (await books.read(*lines, closing="101.00"))[1] == SettledStatement()
    assert len(await books.movements()) == 3
    shown = (await books.day()).shown
    assert (shown.state, shown.opening_cents, shown.closing_cents) == ("closed", 10_000, 10_100)
    await check_books(books.service)


async def test_a_format_is_one_row_of_a_table(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(content: bytes) -> StatementFile:
        return structs.replace(read_ofx(content[1:]), format="mt940")

    monkeypatch.setattr(statement_account, "FORMATS", (ReadFormat("MT940", re.compile(b"{"), read),))
    await books.read_file(b"{" + make_ofx(make_ofx_line(at="20260701"), first="20260701", last="20260701"))
    assert ((await books.item("N1")).source, (await books.day()).shown.state) == ("mt940", "provisional")


async def test_a_line_is_a_payment_of_a_day_before_only_if_that_day_was_read_and_lacks_it(books: Books) -> None:
    await books.receive(amount_cents=300)
    await books.tomorrow(3)
    later = make_ofx_line(item_id="N2", at="20260702", amount="3.00", memo="PIX RECEBIDO ANA")
    await books.read(later, first="20260702", last="20260702", opening="103.00", closing="106.00")
    assert (await books.item("N2")).waits == "could_be_ours"
    own = make_ofx_line(item_id="N1", at="20260701", amount="3.00", memo="PIX RECEBIDO ANA")
    await books.read(own, later, last="20260702", closing="106.00")
    assert ((await books.item("N1")).joined_by, (await books.item("N2")).waits) == ("amount", "not_yet_read")


async def test_a_line_that_sums_many_pix_is_joined_by_a_persons_word_and_the_next_one_by_itself(books: Books) -> None:
    for _ in range(2):
        for cents in (300, 400):
            await books.receive(amount_cents=cents)
        await books.tomorrow()
    lines = [
        [
            make_ofx_line(item_id=f"S{day}", at=f"2026070{day}", amount="7.00", memo="PIX RECEBIDOS QTD 2"),
            make_ofx_line(item_id=f"R{day}", at=f"2026070{day}", amount="3.00", memo="RESGATE"),
        ]
        for day in (1, 2)
    ]
    await books.read(*lines[0], closing="110.00")
    assert [(await books.item(name)).waits for name in ("S1", "R1")] == ["could_be_ours", "could_be_ours"]
    await case_usecases.look_for_cases(books.context)
    (case,) = [one.case for one in await case_usecases.list_cases(books.context)]
    assert "it may be the sum of 2 Pix of the day, and `case answer --ours` confirms that" in case.facts
    operator, other = as_operator(books.context, "ana"), as_operator(books.context, "bia")
    for line, match in (("R1", "ours: line R1 is not the sum"), ("S2", "ours: no line S2 waits")):
        with pytest.raises(errors.BadRequest, match=match):
            await propose_answer(operator, WantedAnswer(case_id=case.id, ours={line: SUM}))
    proposed = await propose_answer(operator, WantedAnswer(case_id=case.id, ours={"S1": SUM}))
    await confirm_waiting(other, books.context, books.account.name, "answer", proposed.code)
    await books.read(*lines[1], first="20260702", last="20260702", opening="110.00", closing="120.00")
    for name in ("S1", "S2"):
        assert ((await books.item(name)).joined_kind, (await books.item(name)).joined_by) == ("sum", "sum")
    assert await books.movements() == [("R1", "other", "IN", 300), ("R2", "other", "IN", 300)]
    assert [(await books.day(DAY + timedelta(days=n))).shown.state for n in range(2)] == ["closed"] * 2
    await check_books(books.service)
    third = make_ofx_line(item_id="R3", at="20260703", amount="3.00", memo="PIX RECEBIDO")
    await books.read(third, first="20260703", last="20260703")
    for statement in (
        "update institution_item_part set record_id = 7",
        "update institution_item set joined_kind = null, joined_id = null, joined_by = null where item_id = 'S1'",
        "insert into institution_item_part values (1, 'S1', 'transfer', 7)",
        "update institution_item set waits = null, joined_kind = 'transfer', joined_by = 'name', joined_id = (select"
        " min(record_id)::text from institution_item_part) where item_id = 'R3'",
    ):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await books.service.execute_as_owner(statement)


async def test_a_sum_whose_words_do_not_say_so_is_joined_by_itself_once_answered(books: Books) -> None:
    for day in (1, 2):
        await books.receive(amount_cents=300)
        await books.receive(amount_cents=400)
        await books.tomorrow()
        line = make_ofx_line(item_id=f"S{day}", at=f"2026070{day}", amount="7.00", memo=f"VENDAS PERIODO 0{day}")
        balances = dict(opening=f"{93 + 7 * day}.00", closing=f"{100 + 7 * day}.00")
        await books.read(line, first=f"2026070{day}", last=f"2026070{day}", **balances)
        if day == 1:
            await case_usecases.look_for_cases(books.context)
            (case,) = [one.case for one in await case_usecases.list_cases(books.context)]
            operator, other = as_operator(books.context, "ana"), as_operator(books.context, "bia")
            proposed = await propose_answer(operator, WantedAnswer(case_id=case.id, ours={"S1": SUM}))
            await confirm_waiting(other, books.context, books.account.name, "answer", proposed.code)
        assert (await books.item(f"S{day}")).joined_by == "sum"
    await check_books(books.service)


@pytest.mark.parametrize(("text", "joined_by"), [("PIX RECEBIDO {}", "name"), ("PIX RECEBIDO", "amount")])
async def test_a_line_that_is_called_a_pix_takes_the_place_of_one_that_is_not(books: Books, text: str, joined_by: str) -> None:
    name = await books.receive(amount_cents=300)
    await books.tomorrow(3)
    other = make_ofx_line(item_id="R1", at="20260701", amount="3.00", memo="RESGATE")
    await books.read(other, closing="103.00")
    assert (await books.item("R1")).joined_by == "amount"
    pix = make_ofx_line(item_id="N1", at="20260701", amount="3.00", memo=text.format(name))
    for _ in range(2):
        await books.read(other, pix, closing="106.00")
        assert ((await books.item("N1")).joined_by, (await books.item("R1")).joined_kind) == (joined_by, "movement")
        assert await books.movements() == [("R1", "other", "IN", 300)]
    assert (await books.day()).shown.state == "closed"
    await check_books(books.service)


async def test_no_line_is_posted_while_our_lines_are_too_many_to_list(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_store, "ALONE_MAX", 2)
    lines = list[str]()
    for day in range(1, 6):
        await books.receive(amount_cents=100 * day)
        lines.append(make_ofx_line(item_id=f"N{day}", at=f"2026070{day}", amount=f"{day}.00", memo="CREDITO RECEBIDO"))
        await books.tomorrow()
    await books.read(*lines, last="20260705", closing="115.00")
    for _ in range(2):
        await statement_usecases.settle_items(books.context, books.account)
    assert await books.movements() == []
    assert {(await books.item(f"N{day}")).joined_kind for day in range(1, 6)} == {"transfer"}


async def test_a_received_pix_that_we_do_not_have_waits_for_the_reading(books: Books) -> None:
    await books.tomorrow()
    line = make_ofx_line(item_id="N1", at="20260701", amount="7.00", memo="PIX RECEBIDO")
    _, settled = await books.read(line, closing="107.00")
    assert (settled.waiting_count, (await books.item("N1")).waits) == (1, "not_yet_read")
    assert (await books.day()).shown.state == "closed_with_cases"
    # The reading has it late: it is joined, no movement was made of it, and the day closes.
    await books.receive(amount_cents=700, reported_at=books.service.clock.now() - timedelta(hours=20))
    assert await statement_usecases.settle_items(books.context, books.account) == SettledStatement(joined_count=1)
    assert (await books.item("N1")).joined_by in ("amount", "near")
    assert await books.movements() == []
    await check_books(books.service)


async def test_a_pix_of_a_day_that_is_not_proved_is_no_line_of_a_later_day(books: Books) -> None:
    await books.receive(amount_cents=700)
    await books.tomorrow(2)
    await books.read(closing="107.00")  # filtered
    later = make_ofx_line(item_id="N2", at="20260702", amount="7.00", memo="CREDITO EM CONTA")
    await books.read(later, first="20260702", last="20260702", opening="107.00", closing="114.00")
    assert ((item := await books.item("N2")).joined_kind, item.waits) == (None, "could_be_ours")


async def test_a_fee_that_names_a_pix_is_its_holders_and_told_with_it(books: Books) -> None:
    named = await books.receive(amount_cents=700)
    await books.tomorrow()
    lines = [
        make_ofx_line(item_id="N1", at="20260701", amount="7.00", memo=f"PIX RECEBIDO {named}"),
        make_ofx_line(item_id="F1", at="20260701", amount="-0.50", kind="FEE", memo=f"TARIFA {named}"),
    ]
    await books.read(*lines, closing="106.50")
    fee, pix = await books.item("F1"), await books.item("N1")
    assert (fee.fee_of_kind, fee.fee_of_id) == ("transfer", pix.joined_id)
    same = "select from transfer join movement using (holder_id, end_to_end_id) where item_id = 'F1' and end_to_end_id = $1"
    assert len(await books.service.fetch(same, named)) == 1
    judged = (await books.day()).shown
    assert (judged.state, judged.sums.fees_cents, judged.sums.net_cents) == ("closed", 50, 650)


async def test_a_file_of_another_account_is_refused(books: Books) -> None:
    await books.read_file(make_ofx().replace(b"<ACCTTYPE>CHECKING", b""))
    with pytest.raises(errors.BadRequest, match="the account type is savings, and loja's is checking"):
        await books.read_file(make_ofx().replace(b"CHECKING", b"SAVINGS"))
    with pytest.raises(errors.BadRequest, match=r"the number is 999, and loja's is 12345-6: export"):
        await books.read(number="999")
    await books.read(number="0001123456")
    with pytest.raises(errors.BadRequest, match=r"file: line 17: TRNAMT"):
        await books.read(make_ofx_line(amount="1.234"))
    with pytest.raises(errors.NotFound):
        await statement_usecases.record_file(as_operator(books.context), "other", make_ofx())
    with pytest.raises(errors.BadRequest, match="BookgDt: '9999-12-31' is no date"):
        await books.read_file(make_camt(make_camt_entry(at="9999-12-31"), account="12345-6"))
    with pytest.raises(errors.BadRequest, match="400 days"):
        await books.read(first="20240101")


async def test_two_who_settle_at_once_do_it_one_after_the_other(books: Books) -> None:
    async with books.context.pool.acquire() as other, day_store.working_on(other, books.account.id) as is_alone:
        assert is_alone
        with pytest.raises(errors.ServiceUnavailable, match="being worked on"):
            await statement_usecases.settle_items(books.context, books.account)
    assert await statement_usecases.settle_items(books.context, books.account) == SettledStatement()


async def test_who_died_after_posting_finds_the_movement(books: Books) -> None:
    await books.tomorrow()
    line = make_ofx_line(item_id="F1", at="20260701", amount="-1.00", memo="TARIFA")
    await books.read(line, closing="99.00")
    await books.service.execute_as_owner("alter table institution_item disable trigger keep_joined")
    await books.service.execute_as_owner("update institution_item set joined_kind = null, joined_id = null, joined_by = null")
    await books.service.execute_as_owner("alter table institution_item enable trigger keep_joined")
    assert await statement_usecases.settle_items(books.context, books.account) == SettledStatement(joined_count=1)
    assert len(await books.movements()) == 1
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await books.service.execute_as_owner("update institution_item set joined_id = 'x'")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await books.service.execute_as_owner("delete from institution_item")


async def test_the_last_days_are_listed_also_those_that_nothing_tells_of(books: Books) -> None:
    await books.tomorrow(days=2)
    await books.read(first="20260701", last="20260702", closing="100.00")
    days = await day_usecases.list_days(books.context, books.account)
    assert [(shown.day.day, shown.state) for shown in days] == [
        (27, "open"), (28, "open"), (29, "open"), (30, "open"), (1, "closed"), (2, "closed"), (3, "open"),
    ]  # fmt: skip
    assert days[4].closed_at == datetime(2026, 7, 3, 15, tzinfo=UTC)


async def test_what_the_api_lists_is_recorded_as_a_file_is(books: Books) -> None:
    await books.tomorrow()
    fee = InstitutionItem(item_id="F1", day=DAY, settled_at=None, direction="OUT", amount_cents=100, kind="fee", text="TARIFA")
    for new_count in (1, 0):
        assert await statement_sweep.record_listed(books.context, books.account, [fee, fee]) == new_count
        await statement_sweep.note_listed(books.context, books.account, (DAY, DAY))
        await statement_usecases.settle_items(books.context, books.account)
    assert await books.movements() == [("F1", "fee", "OUT", 100)]
    other = structs.replace(fee, amount_cents=150)
    for _ in range(2):
        await statement_sweep.record_listed(books.context, books.account, [other])
    items = (await books.day()).items
    assert [(item.amount_cents, item.waits) for item in items] == [(100, None), (150, "changed")]
    assert (await books.day()).shown.state == "provisional"  # a list has no balance
    # An announced line is no money: paid with other contents, it counts.
    due = DAY + timedelta(days=2)
    for cents, text in ((70, "AGENDADO"), (71, "AGENDADO"), (72, "PAGO"), (72, "PAGO"), (73, "PAGO")):
        await books.tomorrow(days=text == "PAGO")
        paid = structs.replace(fee, item_id="B1", day=due, amount_cents=cents, text=text)
        await statement_sweep.record_listed(books.context, books.account, [paid])
    items = (await books.day(due)).items
    waiting = [(70, "announced"), (71, "announced"), (72, None), (73, "changed")]
    assert [(item.amount_cents, item.waits) for item in items] == waiting
    # A name that comes later is added to an unmatched line, and stays.
    for name in (None, OTHER_E2E, None):
        pix = structs.replace(fee, item_id="P1", kind="pix", direction="IN", end_to_end_id=name)
        await statement_sweep.record_listed(books.context, books.account, [pix])
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await books.service.execute_as_owner("update institution_item set end_to_end_id = 'E1' where item_id = 'P1'")
    assert (await books.item("P1")).end_to_end_id == OTHER_E2E


async def test_of_many_accounts_at_once_none_waits_for_a_connection_that_another_keeps(books: Books) -> None:
    # More accounts than connections: each keeps one, whose lock reserves the account's lines, and takes another.
    accounts = [structs.replace(books.account, id=number) for number in range(1, 15)]
    async with asyncio.timeout(60):
        settled = await asyncio.gather(*[statement_usecases.settle_items(books.context, one) for one in accounts])
    assert settled == [SettledStatement()] * len(accounts)
