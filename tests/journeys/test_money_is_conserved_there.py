"""A state machine moves and contests money at an account of an institution, from both ends, with faults and kills.

Our service reads the money's bank over its simulated API and TLS. At the end each day closes, both books and the bank's
statement have the same lines and balance to the cent, and verify finds nothing. Transfers and refunds that the bank
never answers end as in production: two operators look into the bank's books.

A few examples here; ``make prove`` runs PIXCONNECT_PROVE_EXAMPLES, each of PIXCONNECT_PROVE_STEPS steps.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Coroutine
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final, TypeVar, cast

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.proof.service.verify import ProofRequest, verify
from pixconnect.features.sandbox.rules import FaultMatch, FaultRule
from pixconnect.kernel.rules.block_report import InfractionReport
from pixconnect.platform.base.clock import to_day
from support import dying_work, postgres
from support.dying_work import DayWork
from support.faces import Bank, Control
from support.killed_process import POINTS_OF_A_DAY, KillPoints
from support.service import read_funds
from support.state_machine import run_examples
from support.two_books import MonthClock, TwoBooks, open_two_books
from support.verifier import open_book_reader

pytestmark = [pytest.mark.journey, pytest.mark.long]

EXAMPLES_COUNT = int(os.environ.get("PIXCONNECT_PROVE_EXAMPLES", "6"))
STEPS_COUNT = int(os.environ.get("PIXCONNECT_PROVE_STEPS", "12"))
IS_PROOF = "PIXCONNECT_PROVE_EXAMPLES" in os.environ
DEATHS_MAX: Final = 6  # kills by ``kill -9`` of a process that takes seconds to start; unlimited under ``make prove``

FUNDS_CENTS: Final = 1_000_000
FAULTS: Final = ("unavailable", "no_answer", "html:before", "html:after", "too_many:1", "token_ended")
OF_READING: Final = ("lag:3600", "page_shift", "delay:200")
OF_WRITING: Final = ("duplicate_answer", "lost")
OF_THE_SERVER: Final = ("server_keeps_what_it_wrote", "live_has_no_play_money")
KINDS: Final = ("fee", "wire", "boleto", "by_hand")
ADVANCES_S: Final = (1, 60, 700, 4 * 3_600, 26 * 3_600)
"""...; past a charge's life; past the time in an order's name, and midnight."""

SENDS_AT_ONCE: Final = 40

cents = st.integers(min_value=1, max_value=5_000)
picks = st.integers(min_value=0, max_value=1_000)
Told = TypeVar("Told")


class Installations:
    """Both books, driven from the state machine's thread, with all waiting in the test's loop."""

    def __init__(self, books: TwoBooks, control: Control, folder: Path, database: postgres.Addresses) -> None:
        self.books, self.control, self.folder, self.database = books, control, folder, database
        self.points = KillPoints(folder)
        self.loop = asyncio.get_running_loop()
        self.kills: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.deaths_count = 0

    def run(self, doing: Coroutine[Any, Any, Told]) -> Told:
        return asyncio.run_coroutine_threadsafe(doing, self.loop).result()

    async def die_at(self, point: str) -> None:
        """Run a worker in a separate process, killed if it reaches the point."""
        books = self.books
        self.deaths_count += 1
        self.points.arm(point)
        points, account_id = str(self.folder / "kill_points"), books.here.account.id
        work = DayWork(database=self.database, now=books.clock.real, points=points, account_id=account_id)
        ended = await dying_work.run(work, self.folder)
        assert ended == (-signal.SIGKILL if self.points.has_killed(point) else 0)
        if self.points.has_killed(point):
            self.kills[point] += 1
        self.points.disarm_all()

    async def list_cases(self, last: date) -> list[object]:
        """The open days, each with its unmatched items."""
        here = self.books.here
        read = [
            await day_usecases.read_day(here.context, here.account, day.day)
            for day in await here.list_days(last)
            if day.state != "closed"
        ]
        return [(day.shown, [item for item in day.items if item.joined_kind is None], day.lines_alone) for day in read]

    async def find_wrong(self) -> list[Any]:
        """The findings of verify, except about the test server, which is not durable and has play money."""
        async with open_book_reader(self.books.here.live, self.database) as reader:
            proved = await verify(reader, ProofRequest(extent="whole", again_after_s=0), lambda *_: None)
        return [each for each in proved.findings if each.rule not in OF_THE_SERVER]


class MoneyThere(RuleBasedStateMachine):
    """Everyone who moves money on the account, and the expected result. Each example continues after the last one."""

    both: ClassVar[Installations]
    paid: ClassVar[dict[str, int]]
    """Received cents by end-to-end id."""
    moved_cents: ClassVar[int]
    """Movements by the institution itself."""
    unasked: ClassVar[list[tuple[str, int]]]
    """Charges that may or may not be open: requested again under their names."""
    unpaid: ClassVar[list[tuple[str, int]]]
    wanted: ClassVar[dict[str, int]]
    """Requested transfers: cents by our name."""
    accepted: ClassVar[dict[str, int]]
    """The transfer ids in the answers."""
    by_hand: ClassVar[Counter[int]]
    """A person's payments at the bank: how often each amount."""
    tells_contests: ClassVar[bool]
    contested: ClassVar[dict[str, InfractionReport]]
    """Undecided contests at the bank, as they were opened."""
    count: ClassVar[int] = 0
    examples_count: ClassVar[int] = 0

    @classmethod
    def begin(cls, both: Installations, *, tells_contests: bool) -> None:
        cls.tells_contests, cls.contested = tells_contests, {}
        cls.both, cls.paid, cls.moved_cents, cls.unasked, cls.unpaid = both, {}, 0, [], []
        cls.wanted, cls.accepted, cls.by_hand = {}, {}, Counter()

    @initialize()
    def draw(self) -> None:
        self.is_begun = True

    def number(self, done: str) -> int:
        type(self).count += 1
        self.both.done[done] += 1
        return self.count

    @rule(amount_cents=cents)
    def be_paid(self, amount_cents: int) -> None:
        self.number("paid")
        self.both.run(self.come_in(None, amount_cents))

    @rule(amount_cents=cents)
    def charge(self, amount_cents: int) -> None:
        self.unasked.append((f"order-{self.number('charge')}", amount_cents))
        self.ask_for_a_charge()

    @rule(pick=picks)
    def pay_a_charge(self, pick: int) -> None:
        """Some have ended here meanwhile, and their payments at the bank arrive all the same."""
        if self.unpaid:
            self.number("charge paid")
            txid, amount_cents = self.unpaid.pop(pick % len(self.unpaid))
            self.both.run(self.come_in(txid, amount_cents))

    @rule(pick=picks, part=st.integers(1, 3), is_here=st.booleans())
    def give_back(self, pick: int, part: int, is_here: bool) -> None:
        if not self.paid:
            return
        self.number("returned here" if is_here else "returned there")
        name = list(self.paid)[pick % len(self.paid)]
        side = self.both.books.here if is_here else self.both.books.there
        self.both.run(side.give_back(name, -(-self.paid[name] // part)))

    @rule(pick=picks, part=st.integers(1, 3))
    def be_contested(self, pick: int, part: int) -> None:
        """A payer contests a part of a Pix without a return under way; returns by people count as taken."""
        if self.tells_contests and self.paid:
            name = list(self.paid)[pick % len(self.paid)]
            self.both.run(self.contest(name, part))

    @rule(pick=picks, act=st.sampled_from(("take", "take", "take a part", "release", "answer", "answer")))
    def end_contest(self, pick: int, act: str) -> None:
        if self.contested:
            name = list(self.contested)[pick % len(self.contested)]
            if act == "answer":
                # The answering holder has read of it.
                self.advance_clock(400)
                is_heard = self.both.run(self.both.books.here.defend(name, "delivered"))
                self.both.done["contest answered"] += is_heard
            else:
                self.both.run(self.decide(name, act))

    @rule(kind=st.sampled_from(KINDS), amount_cents=cents, pick=picks)
    def move(self, kind: str, amount_cents: int, pick: int) -> None:
        about = list(self.paid)[pick % len(self.paid)] if kind == "fee" and self.paid and pick % 2 else None
        item_id = f"{kind}-{self.number('moved')}"
        self.both.run(self.both.books.there.move(item_id, kind, amount_cents, about=about))
        type(self).moved_cents += amount_cents

    @rule(amount_cents=cents)
    def send_by_hand(self, amount_cents: int) -> None:
        self.number("sent by hand")
        self.by_hand[amount_cents] += self.both.run(self.both.books.there.send(amount_cents))

    @rule(count=st.integers(1, SENDS_AT_ONCE), amount_cents=st.integers(1, 200))
    def send(self, count: int, amount_cents: int) -> None:
        asked = {f"send-{self.number('asked to send')}": amount_cents + place for place in range(count)}
        self.wanted.update(asked)
        self.both.run(self.ask_to_send(asked))

    @rule(pick=picks)
    def send_again(self, pick: int) -> None:
        """A caller repeats its last requests, answered or not."""
        self.number("asked again")
        names = list(self.wanted)[-1 - pick % SENDS_AT_ONCE :]
        self.both.run(self.ask_to_send({name: self.wanted[name] for name in names}))

    @rule(seed=picks)
    def end(self, seed: int) -> None:
        """Orders at the bank settle, or fail."""
        self.both.run(self.both.books.there.end(Random(seed)))  # noqa: S311  what fails must fail again

    @rule(effects=st.lists(st.tuples(st.booleans(), st.sampled_from(FAULTS + OF_READING + OF_WRITING)), max_size=3))
    def break_the_face(self, effects: list[tuple[bool, str]]) -> None:
        """No faults any more if none are drawn."""
        rules = [
            FaultRule(
                effect=effect,
                match=FaultMatch(operation=cast("Any", "face_read" if is_reading else "face_write")),
                probability=0.5,
            )
            for is_reading, effect in effects
            if effect not in (OF_WRITING if is_reading else OF_READING)
        ]
        self.both.control.faults.replace(rules)

    @rule()
    def work(self) -> None:
        self.both.run(self.both.books.here.work())

    @rule(turns_count=st.integers(1, 150))
    def die_at_work(self, turns_count: int) -> None:
        """The worker dies after so many turns, and another one continues."""
        self.both.kills["after turns"] += 1
        self.both.run(self.both.books.here.die_at_work(turns_count))

    @rule(point=st.sampled_from(POINTS_OF_A_DAY))
    def die_at_point(self, point: str) -> None:
        if IS_PROOF or self.both.deaths_count < DEATHS_MAX:
            self.both.run(self.both.die_at(point))

    @rule(seconds=st.sampled_from(ADVANCES_S))
    def advance_clock(self, seconds: int) -> None:
        self.both.books.clock.advance(seconds=seconds)
        self.work()

    @invariant()
    def nothing_is_there_twice_or_made_up(self) -> None:
        if hasattr(self, "is_begun"):
            self.both.run(self.check())

    def teardown(self) -> None:
        if hasattr(self, "is_begun"):
            type(self).examples_count += 1
            self.both.control.faults.replace([])
            for _ in range(len(self.unasked)):
                self.ask_for_a_charge()
            # Undecided contests block what each side believes, so the sums are only compared at the end.
            for number, name in enumerate(list(self.contested)):
                self.both.run(self.decide(name, ("take", "release")[number % 2]))
            # The default: another step each time.
            self.die_at_point(POINTS_OF_A_DAY[7 * self.examples_count % len(POINTS_OF_A_DAY)])
            self.both.run(self.check_at_rest())

    async def come_in(self, txid: str | None, amount_cents: int) -> None:
        bank = self.both.books.there.bank
        name = await bank.be_paid(txid, amount_cents)
        # The bank refuses payments of charges that have ended there: they are in no book.
        if await bank.service.fetch("select from transfer where end_to_end_id = $1 and status = 'CONFIRMED'", name):
            self.paid[name] = amount_cents

    async def contest(self, paid: str, part: int) -> None:
        there = self.both.books.there
        left_cents, is_going = await there.find_left(paid)
        if left_cents and not is_going:
            name = f"contest-{self.number('contested')}"
            self.contested[name] = await there.contest(name, paid, -(-left_cents // part))

    async def decide(self, name: str, act: str) -> None:
        there, contest = self.both.books.there, self.contested[name]
        left_cents, _ = await there.find_left(contest.end_to_end_id)
        cents = min(contest.amount_cents, left_cents) if act.startswith("take") else 0
        is_alone = [other.end_to_end_id for other in self.contested.values()].count(contest.end_to_end_id) == 1
        # No list shows from which of two contests a part was taken.
        if act == "take a part" and is_alone:
            cents = -(-cents // 2)
        # Each at a separate instant, which distinguishes two of them.
        self.both.books.clock.advance(seconds=1)
        if await there.decide(contest, cents):
            del self.contested[name]
            self.both.done[f"contest {'taken' if cents else 'released'}"] += 1

    async def ask_to_send(self, asked: dict[str, int]) -> None:
        here = self.both.books.here
        sent = await asyncio.gather(*(here.send(amount_cents, name) for name, amount_cents in asked.items()))
        for name, transfer in zip(asked, sent, strict=True):
            if transfer is not None:
                assert self.accepted.setdefault(name, transfer.id) == transfer.id

    def ask_for_a_charge(self) -> None:
        external_id, amount_cents = self.unasked.pop(0)
        charge = self.both.run(self.both.books.here.charge(amount_cents, external_id))
        if charge is None:
            self.unasked.append((external_id, amount_cents))
        else:
            self.unpaid.append((charge.txid, amount_cents))

    async def check(self) -> None:
        """At every instant each payment is credited once at most, and returns never exceed it."""
        here, there = self.both.books.here.live, self.both.books.there.bank.service
        credited = await here.fetch("select end_to_end_id, amount_cents from transfer where direction = 'IN'")
        assert len(dict(credited)) == len(credited)
        assert dict(credited).items() <= self.paid.items()
        for service in (here, there):
            returned = await service.fetch(
                "select end_to_end_id, sum(refund.amount_cents) from refund join transfer on transfer.id = transfer_id "
                "and transfer.holder_id = refund.holder_id where refund.status <> 'ERROR' group by 1"
            )
            for name, returned_cents in returned:
                assert returned_cents <= self.paid[name], name
        left = await there.fetch("select amount_cents from transfer where direction = 'OUT' and status <> 'ERROR'")
        assert Counter[int](row[0] for row in left) <= Counter(self.wanted.values()) + self.by_hand, "sent twice"

    async def check_at_rest(self) -> None:
        """Both books, all movements by the model's sums, the days, and verify."""
        books = self.both.books
        last = to_day(books.clock.real) - timedelta(days=1)
        self.both.done += await books.come_to_rest_with_people(last, Random(1))  # noqa: S311  nothing is drawn
        await self.check()
        there, here = await books.list_lines()
        assert (there - here, here - there) == ({}, {}), "lost, and doubled or invented"
        assert await books.here.list_contests() == await books.there.list_contests()
        cases = await self.both.list_cases(last)
        assert not cases, cases
        assert books.here.house is not None
        funds = await read_funds(books.here.live, books.here.house)
        assert funds == await read_funds(books.there.bank.service, books.there.caller)
        assert funds == (await self.expect_cents(), 0)
        opened = await books.here.accounts.find(books.here.account.id)
        assert opened is not None
        assert await opened.institution.read_balance() == sum(funds)
        assert await self.both.find_wrong() == []

    async def expect_cents(self) -> int:
        """The opening balance, and received and sent money; only the bank knows the outcome of a person's orders there."""
        left = await self.both.books.there.bank.service.fetch(
            "select amount_cents from refund where status = 'RETURNED' "
            "union all select amount_cents from transfer where direction = 'OUT' and status in ('CONFIRMED', 'RETURNED')"
        )
        return FUNDS_CENTS + sum(self.paid.values()) - self.moved_cents - sum(row[0] for row in left)


@pytest.mark.parametrize("face", ["inter", "efi"])
async def test_money_is_conserved_at_an_institution(
    bank: Bank,
    clock: MonthClock,
    control: Control,
    new_database: postgres.Addresses,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    face: str,
) -> None:
    # On a day without movements, since it is unknown whether the first balance includes a line without an hour.
    clock.advance(hours=35, minutes=50)
    several: dict[str, Any] = dict(in_flight=8)
    async with open_two_books(bank, clock, new_database, face, tmp_path, several, charge_lifetime_s=7200) as books:
        books.here.follows_contests = True
        await books.here.work()
        clock.advance(minutes=15)
        both = Installations(books, control, tmp_path, new_database)
        MoneyThere.begin(both, tells_contests=face == "efi")
        await asyncio.to_thread(run_examples, MoneyThere, EXAMPLES_COUNT, STEPS_COUNT, is_drawn_anew=IS_PROOF)
    with capsys.disabled():
        if IS_PROOF:
            print(f"\n{face}: {dict(both.done)}\nkills: {dict(both.kills)}")  # noqa: T201  the figures are what `make prove` is for
