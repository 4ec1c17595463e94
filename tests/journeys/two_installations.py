"""Two installations, each with an account at its own bank: what happens there in a day, and what must be true of it."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final, get_args

from msgspec import Struct, structs

from pixconnect.doors.api.operation import Services
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service.adjustment import WantedAdjustment, propose_adjustment
from pixconnect.features.cases.service.answer import SUM, WantedAnswer, propose_answer
from pixconnect.features.cases.service.proposal import confirm_proposal
from pixconnect.features.institutions.rules.unmatched import OUTCOMES
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service.account import rotate_account
from pixconnect.features.institutions.service.statement import record_file, settle_items
from pixconnect.features.proof.service.verify import ProofRequest, verify
from pixconnect.kernel.flows.holder import add_pix_key, remove_pix_key
from pixconnect.kernel.rules.block_report import InfractionReport
from support import postgres
from support.bank_simulator import Bank, Form, Month, Movement, Request, at_hour, export, make_movement, to_day
from support.damage import NEVER_RIGHT
from support.faces import Control, open_bank
from support.operators import as_operator
from support.service import read_funds
from support.true_months import KINDS, Kind
from support.two_books import MonthClock, TwoBooks, list_statement, open_two_books
from support.verifier import open_book_reader

DAY: Final = timedelta(days=1)
OPENING_CENTS: Final = 1_000_000
PLANTED_CENTS: Final = 7_301
KEY: Final = "moved@test.example"
KEY_DAYS: Final = 5
SENT: Final = """
    select end_to_end_id, amount_cents, counterparty ->> 'key' from transfer
    where direction = 'OUT' and status in ('CONFIRMED', 'RETURNED') order by id
"""
RETURNED: Final = """
    select return_id, refund.amount_cents, end_to_end_id
    from refund join transfer on transfer.id = transfer_id and transfer.holder_id = refund.holder_id
    where flow = 'OUT' and refund.status = 'RETURNED' order by refund.id
"""
TWO_FORMS: Final = ("stable ids", "ids by position")  # kinds of banks whose files operators export as either form
INVESTED: Final = ("APLICACAO", "RESGATE")
BACKDATED_DAYS: Final = 3
TEXTS: Final = dict(fee="TARIFA PIX", wire="TED ENVIADA JOAO LIMA", boleto="BOLETO PAGO ENERGIA")


class Side(Struct, kw_only=True):
    """One installation and its bank."""

    books: TwoBooks
    kind: Kind
    writes: Bank  # how its bank writes files
    forms: Sequence[Form]
    database: postgres.Addresses
    begins_on: date
    read_on: date  # the last day of the imported files
    paid: list[tuple[str, int]] = []  # Pix that may be returned, and their cents
    planted: dict[date, str] = {}  # returned Pix whose returns an operator must record, by day
    recorded: set[date] = set()  # days of which that is done
    contested: list[tuple[InfractionReport, int]] = []  # undecided contests, with the contested cents
    scheduled: list[Movement] = []
    has_key: bool = False  # whether the key is at this bank that moves between both
    sums_count: int = 0  # of those that operators were asked about

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
            await self.read_file(chance, yesterday)
            self.read_on = yesterday
        await self.answer()

    async def read_file(self, chance: Random, last_on: date) -> None:
        here, days_back = self.books.here, BACKDATED_DAYS if self.kind.corrects else chance.randrange(3)
        first_on = max(self.begins_on, min(self.read_on + DAY, last_on - DAY * days_back))
        form = chance.choice(self.forms)
        request = Request(at=self.books.clock.real, first_on=first_on, last_on=last_on, form=form)
        content = export(await self.make_month(), self.writes, request)
        recorded = await record_file(as_operator(here.live.context), here.account.name, content)
        await settle_items(here.live.context, here.account, recorded.first_on)

    async def make_month(self) -> Month:
        movements = await self.list_movements(self.books.there)
        return Month(last_on=self.read_on, movements=[*movements, *self.scheduled], opening_cents=OPENING_CENTS)

    @property
    def files_at(self) -> datetime:
        """Until when the imported files have what the bank has booked, on whatever day."""
        return at_hour(self.read_on, 24)

    async def list_movements(self, book: Any) -> list[Movement]:
        """Those of a book since the first day; of lines written at one instant, each is a microsecond later."""
        self.books.clock.advance(seconds=1)
        context, caller = (book.context, book.caller) if book is self.books.there else (book.live.context, book.house)
        return [make_movement(line) for line in await list_statement(context, caller, at_hour(self.begins_on, 0))]

    async def answer(self) -> None:
        """Two operators record the planted returns and the first sum, and nothing else waits for an operator."""
        here = self.books.here
        ana, bia = (as_operator(here.live.context, name) for name in ("ana", "bia"))
        # A machine under load may lose a call before it reaches the bank.
        assert (await self.books.let_people_end()).keys() <= {"ended by people: never"}
        for shown in await case_usecases.list_cases(here.live.context):
            assert shown.case.kind == "day", shown.case
            day = date.fromisoformat(shown.case.name)
            waiting = await self.list_waiting(day)
            sums = [one for one in waiting if one.text.startswith("PIX RECEBIDOS")]
            # Until it is known what the first sum is, other lines of its day wait too.
            (line,) = sums or waiting
            if sums:
                assert not self.sums_count, "the text of its sums is known"
                self.sums_count += 1
                proposal = await propose_answer(ana, WantedAnswer(case_id=shown.case.id, ours={line.item_id: SUM}))
            else:
                assert line.signed_cents == PLANTED_CENTS, line
                wanted = WantedAdjustment(case_id=shown.case.id, kind="found", line=line.item_id, returns=self.planted[day])
                proposal = await propose_adjustment(ana, wanted)
                self.recorded.add(day)
            await confirm_proposal(bia, here.live.context, proposal.code)

    async def list_waiting(self, day: date) -> list[Any]:
        """The lines that somebody has to explain."""
        items = (await day_usecases.read_day(self.books.here.context, self.books.here.account, day)).items
        return [one for one in items if one.waits is not None and OUTCOMES[one.waits].asks != "nobody"]

    async def check(self) -> dict[date, int]:
        """Each day of the files is proved and has the bank's lines; returns the balances at their ends."""
        there, here = await self.make_month(), await self.list_movements(self.books.here)
        # Nobody tells the balance before the first file of a bank that writes no opening.
        since = self.begins_on + DAY * (not self.writes.tells_opening)
        days = [one for one in await self.books.here.list_days(self.read_on) if one.day >= self.begins_on]
        open_days = {day.day: await self.list_waiting(day.day) for day in days if day.state != "closed" and day.day >= since}
        waiting = {day: [one.signed_cents for one in items] for day, items in open_days.items()}
        expected = {day for day in self.planted.keys() - self.recorded if day <= self.read_on}
        assert waiting == {day: [PLANTED_CENTS] for day in expected}, open_days
        made = [one for one in there.list_standing(self.files_at) if not one.text.startswith(INVESTED)]
        books = [Counter(one.effect for one in book if one.day <= self.read_on) for book in (made, here)]
        # A planted return is dated when operators record it.
        alone = [Counter(effect for effect in book.elements() if effect[1] != PLANTED_CENTS) for book in books]
        assert (alone[0] - alone[1], alone[1] - alone[0]) == ({}, {}), "only at the bank, only here"
        assert [one.cents for one in here].count(PLANTED_CENTS) == len(self.recorded)
        balances = {day.day: there.read_balance(day.day, self.files_at) for day in days}
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
    """How often each rare act was done."""

    async def live_a_day(self, number: int) -> None:
        today = to_day(self.clock.real)
        if number % KEY_DAYS == KEY_DAYS - 1:
            await self._move_key(self.sides[number // KEY_DAYS % 2])
        for side in self.sides:
            await self._book_scheduled(side, today)
        await self._live_until_evening(number, today)
        await self._pass_night(today)
        for side in self.sides:
            await side.read_morning(self.chance, today)
            await side.check()

    async def _live_until_evening(self, number: int, today: date) -> None:
        for hour in (12, 16, 20):
            self.clock.real = at_hour(today, hour)
            if number % 7 == 0 and hour == 12:
                assert await self.sides[0].books.here.send(PLANTED_CENTS, f"planted-{number}")
            for side, other in (self.sides, self.sides[::-1]):
                for _ in range(self.chance.randrange(1, 5)):
                    await self._act(side, other)
                await side.books.here.work()
            await self._carry()
            for side in self.sides:
                if side.kind.is_intraday and hour == 16:
                    await side.read_file(self.chance, today)
        await self._carry()

    async def _pass_night(self, today: date) -> None:
        invested = {number: await self._invest(side, today) for number, side in enumerate(self.sides) if side.kind.sweeps}
        self.at_midnight[today] = self.cents - sum(invested.values())
        for place, cents in invested.items():
            await self._redeem(self.sides[place], today, cents)
        self.clock.real = at_hour(today, 32)

    async def _act(self, side: Side, other: Side) -> None:
        self.count += 1
        # Each amount once: lines of some banks have no names.
        name, cents = f"act-{self.count}", self.chance.randrange(1, 5) * 1000 + self.count
        there, here = side.books.there, side.books.here
        match self.chance.choice(("paid", "paid", "charge", "give back", "send", "app", "contest", "decide", *TEXTS)):
            case "paid":
                await self._be_paid(side, None, cents)
            case "charge":
                charge = await here.charge(cents, name)
                assert charge is not None
                await self._be_paid(side, charge.txid, cents)
            case "give back" if side.paid:
                paid, whole = self.chance.choice(side.paid)
                await here.give_back(paid, self.chance.choice((whole, whole // 2)))
            case "contest" if side.paid and here.follows_contests:
                await self._contest(side, name)
            case "decide" if side.contested:
                await self.decide(side)
            case "boleto" if side.writes.lists_scheduled:
                booked_on = to_day(self.clock.real) + DAY * self.chance.randrange(1, 6)
                told: dict[str, Any] = dict(serial=self.count, day=booked_on, announced_at=self.clock.real)
                side.scheduled.append(Movement(**told, booked_at=None, cents=-cents, text=TEXTS["boleto"]))
            case "give back" | "send" | "contest" | "decide":
                assert await here.send(cents, name, other.key)
            case "app":
                assert await there.send(cents)
            case kind:
                days_late = self.chance.randrange(BACKDATED_DAYS) if side.kind.corrects else 0
                booked_at = max(self.clock.real - DAY * days_late, at_hour(side.begins_on, 12))
                await self._move(side, name, kind, -cents, TEXTS[kind], booked_at)

    async def _move(self, side: Side, name: str, kind: str, cents: int, text: str, booked_at: datetime) -> None:
        said: dict[str, Any] = dict(direction="IN" if cents > 0 else "OUT", description=text, settled_at=booked_at)
        await side.books.there.move(name, kind, abs(cents), **said)
        self.cents += cents
        for day in self.at_midnight:
            self.at_midnight[day] += cents if day >= to_day(booked_at) else 0

    async def _move_key(self, to: Side) -> None:
        """The owner of a key moves it to the other bank, and tells both installations."""
        moved = [side for side in self.sides if side.has_key]
        for side in (*moved, to):
            side.has_key = side is to
            change = add_pix_key if side.has_key else remove_pix_key
            here, bank = side.books.here, side.books.there.bank.service
            assert here.house is not None
            for service, holder_id in ((bank, bank.caller.holder_id), (here.live, here.house.holder_id)):
                told: list[Any] = ["EMAIL", KEY] if side.has_key else [KEY]
                await change(as_operator(service.context), holder_id, *told)
            said = structs.replace(side.books.said, keys=[side.key, KEY][: 1 + side.has_key])
            await rotate_account(as_operator(here.live.context), here.account.name, said)

    async def _book_scheduled(self, side: Side, today: date) -> None:
        for one in [one for one in side.scheduled if one.day == today]:
            side.scheduled.remove(one)
            # One of them was cancelled.
            if self.chance.random() < 0.8:
                await self._move(side, f"booked-{one.serial}", "boleto", one.cents, one.text, self.clock.real)

    async def _invest(self, side: Side, today: date) -> int:
        self.clock.real = at_hour(today, 23.5)
        cents, _ = await read_funds(side.books.there.bank.service, side.books.there.caller)
        await self._move(side, f"invested-{today}", "other", -cents, "APLICACAO AUTOMATICA", self.clock.real)
        self.cents += cents
        return cents

    async def _redeem(self, side: Side, today: date, cents: int) -> None:
        self.clock.real = at_hour(today, 24.5)
        await self._move(side, f"redeemed-{today}", "other", cents, "RESGATE AUTOMATICO", self.clock.real)
        self.cents -= cents
        await self._move(side, f"yield-{today}", "other", 1, "RENDIMENTO APLIC AUTOMATICA", self.clock.real)

    async def _contest(self, side: Side, name: str) -> None:
        paid, _ = self.chance.choice(side.paid)
        left_cents, is_going = await side.books.there.find_left(paid)
        if left_cents and not is_going and paid not in {contest.end_to_end_id for contest, _ in side.contested}:
            side.contested.append((await side.books.there.contest(name, paid, left_cents), left_cents))
            self.met["contested"] += 1

    async def decide(self, side: Side) -> None:
        contest, cents = side.contested.pop(0)
        self.clock.advance(seconds=1)
        assert await side.books.there.decide(contest, self.chance.choice((cents, 0)))

    async def _be_paid(self, side: Side, txid: str | None, cents: int) -> None:
        key = KEY if txid is None and side.has_key else None
        side.paid.append((await side.books.there.bank.be_paid(txid, cents, key=key), cents))
        self.met["paid by the moved key"] += key is not None
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
        books.here.has_statements, books.here.follows_contests = False, face == "efi"
        await books.here.work()
        today, writes = to_day(clock.real), structs.replace(KINDS[kind].bank, number=account)
        yield Side(
            books=books,
            kind=KINDS[kind],
            writes=writes,
            forms=get_args(Form) if kind in TWO_FORMS else KINDS[kind].forms,
            database=databases[1],
            begins_on=today + DAY,
            read_on=today,
        )
