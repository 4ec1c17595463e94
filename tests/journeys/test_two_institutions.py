"""Two installations, each with an account at its own bank, pay each other and outsiders for days, or for a month.

Each morning an operator imports each bank's file of the days before. Every day is proved, both banks together hold what came
from outsiders, ``verify`` finds nothing, and an operator is asked only about the planted lines: Inter lists no returns of Pix
that it has sent, so two operators record them. For the same reason the other installation returns none of Inter's Pix.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final, get_args

import pytest
from msgspec import Struct, structs

from pixconnect.doors.api.operation import Services
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service.adjustment import WantedAdjustment, propose_adjustment
from pixconnect.features.cases.service.proposal import confirm_proposal
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service.statement import record_file, settle_items
from pixconnect.features.proof.service.verify import ProofRequest, verify
from pixconnect.kernel.rules.rail import DirectoryEntry
from support import postgres
from support.bank_simulator import Bank, Form, Month, Movement, Request, at_hour, export, make_movement, to_day
from support.damage import NEVER_RIGHT
from support.faces import Control, open_bank
from support.operators import as_operator
from support.records import outside_party
from support.service import read_funds
from support.true_months import KINDS
from support.two_books import MonthClock, TwoBooks, list_statement, open_two_books
from support.verifier import open_book_reader

pytestmark = pytest.mark.journey

DAY: Final = timedelta(days=1)
OPENING_CENTS: Final = 1_000_000
PLANTED_CENTS: Final = 7_301
QUIET_DAYS: Final = 4
"""In the end: an operator is asked about a line that no reading explains within two days."""
SENT: Final = """
    select end_to_end_id, amount_cents, counterparty ->> 'key' from transfer
    where direction = 'OUT' and status in ('CONFIRMED', 'RETURNED') order by id
"""
RETURNED: Final = """
    select return_id, refund.amount_cents, end_to_end_id
    from refund join transfer on transfer.id = transfer_id and transfer.holder_id = refund.holder_id
    where flow = 'OUT' and refund.status = 'RETURNED' order by refund.id
"""
TEXTS: Final = dict(fee="TARIFA PIX", wire="TED ENVIADA JOAO LIMA", boleto="BOLETO PAGO ENERGIA")


class Side(Struct, kw_only=True):
    """One installation and its bank."""

    books: TwoBooks
    writes: Bank
    """How its bank writes files."""
    database: postgres.Addresses
    begins_on: date
    read_on: date
    """The last day of the imported files."""
    paid: list[tuple[str, int]] = []
    """Pix that may be returned, and their cents."""
    planted: dict[date, str] = {}
    """Returned Pix whose returns an operator must record, by day."""
    recorded: set[date] = set()
    """Days of which that is done."""

    @property
    def key(self) -> str:
        return self.books.there.bank.key

    async def read_morning(self, chance: Random, yesterday: date) -> None:
        """The worker reads the bank's Pix; an operator imports a file of some days, except on some mornings."""
        here, clock = self.books.here, self.books.clock
        for _ in range(2):
            await here.work()
            clock.advance(minutes=2)
        if self.read_on < yesterday - DAY or chance.random() < 0.8:
            first_on = max(self.begins_on, min(self.read_on + DAY, yesterday - DAY * chance.randrange(3)))
            form = chance.choice(get_args(Form))
            request = Request(at=clock.real, first_on=first_on, last_on=yesterday, form=form)
            content = export(await self.make_month(), self.writes, request)
            recorded = await record_file(as_operator(here.live.context), here.account.name, content)
            await settle_items(here.live.context, here.account, recorded.first_on)
            self.read_on = yesterday
        await self.record_returns()

    async def make_month(self) -> Month:
        movements = await self.list_movements(self.books.there)
        return Month(last_on=self.read_on, movements=movements, opening_cents=OPENING_CENTS)

    async def list_movements(self, book: Any) -> list[Movement]:
        """Those of a book since the first day; of lines written at one instant, each is a microsecond later."""
        self.books.clock.advance(seconds=1)
        context, caller = (book.context, book.caller) if book is self.books.there else (book.live.context, book.house)
        return [make_movement(line) for line in await list_statement(context, caller, at_hour(self.begins_on, 0))]

    async def record_returns(self) -> None:
        """Two operators record the planted returns, and nothing else waits for an operator."""
        here = self.books.here
        await case_usecases.look_for_cases(here.live.context)
        for shown in await case_usecases.list_cases(here.live.context):
            assert shown.case.kind == "day", shown.case
            day = date.fromisoformat(shown.case.name)
            waiting = [one for one in await self.list_items(day) if one.waits is not None]
            assert [one.signed_cents for one in waiting] == [PLANTED_CENTS], waiting
            line, returns = waiting[0].item_id, self.planted[day]
            wanted = WantedAdjustment(case_id=shown.case.id, kind="found", line=line, returns=returns)
            proposal = await propose_adjustment(as_operator(here.live.context, "ana"), wanted)
            await confirm_proposal(as_operator(here.live.context, "bia"), here.live.context, proposal.code)
            self.recorded.add(day)

    async def list_items(self, day: date) -> Sequence[Any]:
        return (await day_usecases.read_day(self.books.here.context, self.books.here.account, day)).items

    async def check(self) -> dict[date, int]:
        """Each day of the files is proved and has the bank's lines; returns the balances at their ends."""
        there, here = await self.make_month(), await self.list_movements(self.books.here)
        days = [one.judged for one in await self.books.here.list_days(self.read_on) if one.judged.day >= self.begins_on]
        open_days = {day.day: await self.list_items(day.day) for day in days if day.state != "closed"}
        waiting = {day: [one.signed_cents for one in items if one.waits] for day, items in open_days.items()}
        expected = {day for day in self.planted.keys() - self.recorded if day <= self.read_on}
        assert waiting == {day: [PLANTED_CENTS] for day in expected}, open_days
        books = [Counter(one.effect for one in book if one.day <= self.read_on) for book in (there.movements, here)]
        # A planted return is dated when operators record it.
        alone = [Counter(effect for effect in book.elements() if effect[1] != PLANTED_CENTS) for book in books]
        assert (alone[0] - alone[1], alone[1] - alone[0]) == ({}, {}), "only at the bank, only here"
        assert [one.cents for one in here].count(PLANTED_CENTS) == len(self.recorded)
        balances = {day.day: there.read_balance(day.day, self.books.clock.real) for day in days}
        assert {day.day: day.closing_cents for day in days if day.closing_cents is not None}.items() <= balances.items()
        async with open_book_reader(self.books.here.live, self.database) as reader:
            proved = await verify(reader, ProofRequest(extent="whole", again_after_s=0), lambda *_: None)
        assert [each for each in proved.findings if each.rule not in NEVER_RIGHT] == []
        return balances


class Network(Struct, kw_only=True):
    """Both banks and outsiders, whose acts are drawn by a seed."""

    sides: tuple[Side, Side]
    clock: MonthClock
    chance: Random
    carried: set[str] = set()
    count: int = 0
    cents: int = 2 * OPENING_CENTS
    """What both banks hold: it changes only by outsiders' payments, and by payments to them."""
    at_midnight: dict[date, int] = {}
    met: Counter[str] = Counter()
    """How often the installations paid each other, and returned that."""

    async def live_a_day(self, number: int) -> None:
        today = to_day(self.clock.real)
        for hour in (12, 16, 20):
            self.clock.real = at_hour(today, hour)
            if number % 7 == 0 and hour == 12:
                assert await self.sides[0].books.here.send(PLANTED_CENTS, f"planted-{number}")
            for side, other in (self.sides, self.sides[::-1]):
                for _ in range(self.chance.randrange(1, 5)):
                    await self._act(side, other)
                await side.books.here.work()
            await self._carry()
        await self._carry()
        self.at_midnight[today] = self.cents
        self.clock.real = at_hour(today, 32)
        for side in self.sides:
            await side.read_morning(self.chance, today)
            await side.check()

    async def _act(self, side: Side, other: Side) -> None:
        self.count += 1
        name, cents = f"act-{self.count}", self.chance.randrange(1, 50) * 100
        there, here = side.books.there, side.books.here
        match self.chance.choice(("paid", "charge", "give back", "send", "app", *TEXTS)):
            case "paid":
                await self._be_paid(side, None, cents)
            case "charge":
                charge = await here.charge(cents, name)
                assert charge is not None
                await self._be_paid(side, charge.txid, cents)
            case "give back" if side.paid:
                paid, whole = self.chance.choice(side.paid)
                await here.give_back(paid, self.chance.randrange(1, whole + 1))
            case "give back" | "send":
                assert await here.send(cents, name, other.key)
            case "app":
                assert await there.send(cents)
            case kind:
                said: dict[str, Any] = dict(direction="OUT", description=TEXTS[kind], settled_at=self.clock.real)
                await there.move(name, kind, cents, **said)
                self.cents -= cents

    async def _be_paid(self, side: Side, txid: str | None, cents: int) -> None:
        side.paid.append((await side.books.there.bank.be_paid(txid, cents), cents))
        self.cents += cents

    async def _carry(self) -> None:
        """What has left one bank arrives at the other, or at an outsider; so do returns."""
        for payer, payee in (self.sides, self.sides[::-1]):
            await payer.books.there.end(self.chance, share_rejected=0)
            for name, cents, key in await self._list_new(payer, SENT):
                if key == payee.key:
                    await payee.books.there.bank.be_paid(None, cents, name)
                    payee.paid += [(name, cents)] if payee is self.sides[0] else []
                    self.met["paid"] += 1
                elif cents == PLANTED_CENTS:
                    await payer.books.there.return_sent(name, cents)
                    payer.planted[to_day(self.clock.real)] = name
                else:
                    self.cents -= cents
        for payee, payer in (self.sides, self.sides[::-1]):
            for return_id, cents, name in await self._list_new(payee, RETURNED):
                if name in self.carried:
                    await payer.books.there.return_sent(name, cents, return_id)
                    self.met["returned"] += 1
                else:
                    self.cents -= cents

    async def _list_new(self, side: Side, query: str) -> Sequence[Any]:
        rows = await side.books.there.bank.service.fetch(query)
        new = [row for row in rows if row[0] not in self.carried]
        self.carried |= {row[0] for row in new}
        return new


@asynccontextmanager
async def open_side(
    databases: Sequence[postgres.Addresses], services: Services, clock: MonthClock, folder: Path, face: str, kind: str
) -> AsyncIterator[Side]:
    account = {"inter": "1001", "efi": "1002"}[face]
    (folder / face).mkdir()
    async with (
        open_bank(databases[0], services, clock, Control(), account) as bank,
        open_two_books(bank, clock, databases[1], face, folder / face) as books,
    ):
        books.here.has_statements = False
        await books.here.work()
        today, writes = to_day(clock.real), structs.replace(KINDS[kind].bank, number=account)
        yield Side(books=books, writes=writes, database=databases[1], begins_on=today + DAY, read_on=today)


@pytest.fixture
async def databases(_copies: Any) -> AsyncIterator[list[postgres.Addresses]]:
    copies = [await _copies.take(is_new=True) for _ in range(4)]
    yield [copy.addresses for copy in copies]
    for copy in copies:
        await _copies.give_back(copy)


@pytest.mark.parametrize(("days_count", "seed"), [(3, 1), pytest.param(31, 2, marks=pytest.mark.long)])
async def test_every_day_closes_at_both(
    databases: list[postgres.Addresses], services: Services, tmp_path: Path, days_count: int, seed: int
) -> None:
    clock, chance = MonthClock(), Random(seed)  # noqa: S311  what fails must fail again
    # Shortly before midnight, on a day without movements.
    clock.advance(hours=35, minutes=50)
    async with (
        open_side(databases[:2], services, clock, tmp_path, "inter", "ids by position") as inter,
        open_side(databases[2:], services, clock, tmp_path, "efi", "stable ids") as efi,
    ):
        for side, other in ((inter, efi), (efi, inter)):
            entry = DirectoryEntry(key=other.key, key_type="EMAIL", party=outside_party(key=other.key))
            side.books.there.bank.service.rail.entries[other.key] = entry
        network = Network(sides=(inter, efi), clock=clock, chance=chance)
        clock.advance(minutes=15)
        for number in range(days_count):
            await network.live_a_day(number)
        for _ in range(QUIET_DAYS):
            clock.real += DAY
            for side in network.sides:
                await side.read_morning(chance, to_day(clock.real) - DAY)
        ends = [await side.check() for side in network.sides]
        assert network.at_midnight == {day: ends[0][day] + ends[1][day] for day in network.at_midnight}
        for side, there in zip(network.sides, ends, strict=True):
            assert side.books.here.house is not None
            assert await read_funds(side.books.here.live, side.books.here.house) == (max(there.items())[1], 0)
        assert inter.recorded == inter.planted.keys()
        assert network.met.keys() == {"paid", "returned"}
