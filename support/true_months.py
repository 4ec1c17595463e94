"""Random months at simulated banks, schedules by which their files arrive, and an oracle that judges a reader's books.

A reader is correct if its books never hold anything that the bank did not make, if true answers to its questions make
the books equal to the bank's to the cent, and if it asks at most one question about a day. The oracle compares days and
amounts alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final, Literal, get_args

from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from support.bank_simulator import FIRST_ON, Bank, Form, Month, Movement, Request, Shown, at_hour, export, list_lines, to_day

Effect = tuple[date, int]  # a day, and signed cents


Check = Literal[
    "holds only what the bank made", "closes days truly", "asks once about a day", "equals the bank after the answers"
]
CHECKS: Final[tuple[Check, ...]] = get_args(Check)


class Kind(Struct, frozen=True, kw_only=True):
    """A kind of bank: its format, and its habits on the account."""

    bank: Bank = Bank()
    sweeps: bool = False  # each evening the balance is invested, and returns in the night
    corrects: bool = False  # past days change: movements are added, removed and replaced
    is_intraday: bool = False  # files are exported during their last day
    rolls_weekends: bool = False  # Pix of a weekend are booked on Monday
    forms: Sequence[Form] = ("ofx",)
    knows_orders: bool = True  # some of the sent Pix are orders of the service
    shares_amounts: bool = True  # Pix and other movements can have the same amount


KINDS: Final[Mapping[str, Kind]] = {
    "stable ids": Kind(),
    "ids per export": Kind(bank=Bank(ids="per_export", names_pix=False)),
    "ids by position": Kind(bank=Bank(ids="by_day", newest_first=True)),
    "balances as lines": Kind(bank=Bank(writes_balances=True, tells_opening=False)),
    "scheduled lines": Kind(bank=Bank(lists_scheduled=True, spans_scheduled=True)),
    "intraday exports": Kind(bank=Bank(completes_texts=True), is_intraday=True),
    "overnight sweeps": Kind(sweeps=True),
    "sums of many Pix": Kind(bank=Bank(sums_pix=True, names_pix=False)),
    "backdated corrections": Kind(corrects=True),
}

_OTHERS_IN: Final = (
    "TED RECEBIDA",
    "TED RECEBIDA JOAO LIMA",
    "RESGATE SALDO INVESTIMENTO",
    "RENDIMENTO APLICACAO",
    "ESTORNO TARIFA",
    "DESBLOQUEIO JUDICIAL",
)
_OTHERS_OUT: Final = (
    "TARIFA",
    "TARIFA PIX RECEBIDO",
    "BOLETO PAGO ENERGIA",
    "TED ENVIADA JOAO LIMA",
    "APLICACAO SALDO CONTA",
    "IOF",
    "BLOQUEIO JUDICIAL",
)
# Payers choose the texts of Pix.
_PAYERS: Final = ("ANA SOUZA", "JOSE DIAS", "SALDO DO DIA", "TARIFA")
# Few amounts, so that many coincide; the last is the opening balance.
_CENTS: Final = (100, 200, 300, 1_000, 9_700, 10_000)


class Delivery(Struct, frozen=True, kw_only=True):
    """A file that an operator imports, at once or later."""

    request: Request
    read_at: datetime


class Step(Struct, frozen=True, kw_only=True):
    """An input of a reader: a Pix from the network, a file, or only passing time."""

    at: datetime
    learned: Movement | None = None
    file: bytes | None = None


class Question(Struct, frozen=True, kw_only=True):
    """A reader's question to a person about a day, and the effects of the answers."""

    about: date
    may_book: Sequence[Effect] = ()
    may_strike: Sequence[Effect] = ()


class Books(Struct, frozen=True, kw_only=True):
    """A reader's result: movements that it booked from statements and did not undo, and its open questions."""

    booked: Counter[Effect]
    questions: Sequence[Question] = ()
    proven: Mapping[date, int] = {}  # the closing balances of its closed days


class Story(Struct, frozen=True, kw_only=True):
    month: Month
    bank: Bank
    deliveries: Sequence[Delivery]
    is_complete: bool  # the last file is a full export of the whole month, after everything in it

    def __repr__(self) -> str:
        """A description for a person who examines a failure."""
        parts = [f"{self.bank}"]
        for one in self.month.movements:
            changes = [
                f"{what} {at:%d %H:%M}"
                for what, at in (("booked", one.booked_at), ("struck", one.struck_at), ("learned", one.learned_at))
                if at
            ]
            parts.append(f"true: {one.day:%d} {one.cents:+} {one.text} {' '.join(changes)}")
        for read in self.deliveries:
            lines = "; ".join(
                f"{one.day:%d} {one.cents:+} {one.text}" for one in list_lines(self.month, self.bank, read.request)
            )
            span = f"{read.request.first_on:%d}-{read.request.last_on:%d}"
            parts.append(f"read {read.read_at:%d %H:%M}: {span} made {read.request.at:%d %H:%M} {read.request.form}: {lines}")
        return "\n".join(parts)[:20_000]

    @property
    def ends_at(self) -> datetime:
        return max([at_hour(self.month.last_on, 40), *(one.read_at + timedelta(hours=1) for one in self.deliveries)])

    def list_steps(self) -> Iterator[Step]:
        steps = [Step(at=one.learned_at, learned=one) for one in self.month.movements if one.learned_at is not None]
        steps += [Step(at=one.read_at, file=export(self.month, self.bank, one.request)) for one in self.deliveries]
        mornings = range((to_day(self.ends_at) - FIRST_ON).days + 1)
        steps += [Step(at=at_hour(FIRST_ON, 24 * number + 9)) for number in mornings]
        yield from sorted(steps, key=lambda step: step.at)

    def find_faults(self, at: datetime, books: Books) -> dict[Check, str]:
        """What is wrong with the books at the instant of a step."""
        is_end = self.is_complete and at >= self.deliveries[-1].read_at
        made = Counter(one.effect for one in self.month.movements if one.was_made(at))
        asked = Counter(one.about for one in books.questions)
        found: dict[Check, Sequence[object]] = {
            "holds only what the bank made": sorted((books.booked + self._list_learned(at) - made).elements()),
            "closes days truly": self.find_false(at, books),
            "asks once about a day": [day for day, count in asked.items() if count > 1],
            "equals the bank after the answers": sorted(self.find_left(at, books).elements()) if is_end else (),
        }
        return {check: f"{at:%d %H:%M}: {faults}" for check, faults in found.items() if faults}

    def find_false(self, at: datetime, books: Books) -> list[date]:
        """Closed days with a balance that the bank never had at their end; without a file, lines that cancel do not show."""
        read = [one.request for one in self.deliveries if one.read_at <= at]
        changes = [change for one in self.month.movements for change in (one.booked_at, one.struck_at) if change]
        instants = [at, at_hour(FIRST_ON, 0), *(change for change in changes if change <= at)]
        return [
            day
            for day, cents in books.proven.items()
            if any(one.first_on <= day <= one.last_on for one in read)
            and not any(self.month.read_balance(day, max(one, at_hour(day, 24))) == cents for one in instants)
        ]

    def find_left(self, at: datetime, books: Books) -> Counter[Effect]:
        """Differences that remain after true answers to all questions: missing, and too much."""
        true = Counter(one.effect for one in self.month.list_standing(at))
        held = books.booked + self._list_learned(at)
        may_book = Counter(effect for one in books.questions for effect in one.may_book)
        may_strike = Counter(effect for one in books.questions for effect in one.may_strike)
        return (true - held - may_book) + (held - true - may_strike)

    def _list_learned(self, at: datetime) -> Counter[Effect]:
        return Counter(
            one.effect
            for one in self.month.movements
            if one.learned_at is not None and one.learned_at <= at and one.was_made(at)
        )


@st.composite
def stories(draw: st.DrawFn, kind: Kind, *, days_max: int = 31, is_plain: bool = False) -> Story:
    """A month at a kind of bank, and its files.

    Plain files come each morning, in order and once, so the reader has all the evidence.
    """
    days_count = draw(st.integers(1, days_max))
    month = draw(_months(kind, days_count))
    assume(not is_plain or _is_certain(month, kind.bank))
    known_at = [at for one in month.movements for at in (one.booked_at, one.struck_at, one.learned_at) if at]
    ends_at = max([at_hour(month.last_on, 32), *(at + timedelta(days=1) for at in known_at)])
    last = Request(at=ends_at, first_on=FIRST_ON, last_on=month.last_on, form=kind.forms[0])
    is_complete = is_plain or draw(st.sampled_from([True, True, True, False]))
    requests = _list_mornings(month, kind, days_back=draw(st.integers(1, 3)))
    delays = dict[int, int]()
    if not is_plain:
        lost = draw(st.just(set[int]()) | st.sets(st.integers(0, len(requests) - 1)))
        requests = [request for number, request in enumerate(requests) if number not in lost]
        requests += draw(st.lists(_requests(days_count, kind), max_size=6))
        delays = draw(st.dictionaries(st.integers(0, 20), st.integers(1, 8), max_size=3))
    deliveries = [
        Delivery(request=request, read_at=request.at + timedelta(days=delays.get(number, 0), minutes=5))
        for number, request in enumerate(requests)
    ]
    if deliveries and not is_plain:
        again = draw(st.lists(st.tuples(st.sampled_from(deliveries), st.integers(1, 8)), max_size=3))
        deliveries += [structs.replace(one, read_at=one.read_at + timedelta(days=days, minutes=1)) for one, days in again]
    if is_complete:
        read_at = max([last.at, *(one.read_at for one in deliveries)]) + timedelta(hours=1)
        deliveries.append(Delivery(request=last, read_at=read_at))
    return Story(month=month, bank=kind.bank, deliveries=deliveries, is_complete=is_complete)


def _is_certain(month: Month, bank: Bank) -> bool:
    """Whether no movement equals a balance among the lines, and no Pix by hand an order, unless their lines have names."""
    balances = {month.read_balance(one.day, at_hour(one.day, 24)) for one in month.movements if bank.writes_balances}
    unnamed = [one for one in month.movements if one.name is not None and not bank.names_pix]
    ordered = {one.cents for one in unnamed if one.learned_at is not None}
    by_hand = {one.cents for one in unnamed if one.learned_at is None}
    return balances.isdisjoint(one.cents for one in month.movements) and ordered.isdisjoint(by_hand)


@st.composite
def kinds(draw: st.DrawFn) -> Kind:
    """A bank with a mixture of habits."""
    bank = Bank(
        ids=draw(st.sampled_from(["stable", "per_export", "by_day", "by_row", "document"])),
        newest_first=draw(st.booleans()),
        names_pix=draw(st.booleans()),
        sums_pix=draw(st.booleans()),
        writes_balances=draw(st.booleans()),
        balance_words=draw(st.sampled_from(["SALDO DO DIA", "S A L D O", "SALDO TOTAL DISPONIVEL DIA"])),
        lists_scheduled=draw(st.booleans()),
        spans_scheduled=draw(st.booleans()),
        completes_texts=draw(st.booleans()),
        tells_opening=draw(st.booleans()),
        tells_closing=draw(st.sampled_from(["of_span", "of_now", "never"])),
    )
    sweeps, corrects, is_intraday, rolls_weekends = draw(st.tuples(*[st.booleans()] * 4))
    if corrects:
        # Without balances nothing shows that a line was removed.
        bank = structs.replace(bank, tells_closing="of_span")
    return Kind(
        bank=bank,
        sweeps=sweeps,
        corrects=corrects,
        is_intraday=is_intraday,
        rolls_weekends=rolls_weekends,
        forms=draw(st.sampled_from([("ofx",), ("camt.053",), ("ofx", "camt.053")])),
    )


def _list_mornings(month: Month, kind: Kind, *, days_back: int) -> list[Request]:
    """A full file each morning, of the last days up to yesterday; and one at noon of the day itself."""
    requests: list[Request] = []
    for number in range((month.last_on - FIRST_ON).days + 1):
        day = FIRST_ON + timedelta(days=number)
        first_on = max(FIRST_ON, day - timedelta(days=days_back - 1))
        requests += [
            Request(at=at_hour(day, hour), first_on=first_on, last_on=day, form=kind.forms[number % len(kind.forms)])
            for hour in ([12, 32] if kind.is_intraday else [32])
        ]
    return requests


@st.composite
def _requests(draw: st.DrawFn, days_count: int, kind: Kind) -> Request:
    first, last = sorted(draw(st.tuples(*[st.integers(0, days_count - 1)] * 2)))
    last_on = FIRST_ON + timedelta(days=last)
    hours = [32, 56, 32 + 24 * 6] + ([12, 18] if kind.is_intraday else [])
    shown: Shown = draw(st.sampled_from(["all", "all", "in", "out"]))
    at = at_hour(last_on, draw(st.sampled_from(hours)) + draw(st.integers(0, 5)) / 6)
    form = draw(st.sampled_from(kind.forms))
    return Request(at=at, first_on=FIRST_ON + timedelta(days=first), last_on=last_on, shown=shown, form=form)


@st.composite
def _months(draw: st.DrawFn, kind: Kind, days_count: int) -> Month:
    last_on = FIRST_ON + timedelta(days=days_count - 1)
    # Lists of a drawn length are longer than those that end by chance.
    count = draw(st.integers(0, 3 * days_count))
    drafts = [draw(_movements(kind, days_count)) for _ in range(count)]
    movements = [one for draft in drafts for one in draft if one.day <= last_on]
    if kind.sweeps:
        movements = [*movements, *_sweep(movements, last_on)]
    # The bank's booking order gives the serial.
    movements.sort(key=lambda one: one.booked_at or at_hour(one.day, 0))
    return Month(
        last_on=last_on,
        movements=[
            structs.replace(one, serial=serial, name=one.name and f"E99999004{one.day:%Y%m%d}1500{serial:011}")
            for serial, one in enumerate(movements, 1)
        ],
    )


@st.composite
def _movements(draw: st.DrawFn, kind: Kind, days_count: int) -> list[Movement]:
    """One movement, or two if the bank replaces the first by the second."""
    number = draw(st.integers(0, days_count - 1))
    day, cents = FIRST_ON + timedelta(days=number), draw(st.sampled_from(_CENTS))
    at = at_hour(day, draw(st.integers(4, 22)))
    nature = draw(st.sampled_from(["out", "in", "pix_in", "pix_in", "pix_out"]))
    if nature.startswith("pix"):
        is_in = nature == "pix_in"
        days_late = draw(st.sampled_from([0, 0, 0, 1, 3])) if is_in else 0
        is_learned = is_in or (kind.knows_orders and draw(st.booleans()))
        cents += 0 if kind.shares_amounts else 7
        is_rolled = kind.rolls_weekends and day.weekday() >= 5
        day_booked = day + timedelta(days=7 - day.weekday()) if is_rolled else day  # the Monday after a weekend
        return [
            Movement(
                serial=0,
                day=day_booked,
                booked_at=at if day == day_booked else at_hour(day_booked, 3),
                settled_at=at,
                learned_at=at + timedelta(days=days_late) if is_learned else None,
                cents=cents if is_in else -cents,
                text=f"PIX {'RECEBIDO' if is_in else 'ENVIADO'} {draw(st.sampled_from(_PAYERS))}",
                name="E",
            )
        ]
    signed = cents if nature == "in" else -cents
    text = draw(st.sampled_from(_OTHERS_IN if nature == "in" else _OTHERS_OUT))
    movement = Movement(serial=0, day=day, booked_at=at, cents=signed, text=text)
    if kind.bank.lists_scheduled and nature == "out" and draw(st.booleans()):
        announced_at = at - timedelta(days=draw(st.integers(1, 10)))
        is_cancelled = draw(st.sampled_from([False, False, True]))
        return [structs.replace(movement, announced_at=announced_at, booked_at=None if is_cancelled else at)]
    return _correct(draw, movement) if kind.corrects and draw(st.booleans()) else [movement]


def _correct(draw: st.DrawFn, movement: Movement) -> list[Movement]:
    corrected_at = at_hour(movement.day, 24 * draw(st.integers(1, 6)) + 10)
    match draw(st.sampled_from(["backdated", "struck", "replaced"])):
        case "backdated":
            return [structs.replace(movement, booked_at=corrected_at)]
        case "struck":
            return [structs.replace(movement, struck_at=corrected_at)]
        case _:
            second = structs.replace(movement, booked_at=corrected_at, cents=movement.cents * 2)
            return [structs.replace(movement, struck_at=corrected_at), second]


def _sweep(movements: Sequence[Movement], last_on: date) -> Iterator[Movement]:
    """Everything above 0 goes out at 23:30 and comes back at 0:30, with a cent of interest."""
    month, yields_count = Month(last_on=last_on, movements=movements), 0
    for number in range((last_on - FIRST_ON).days + 1):
        day = FIRST_ON + timedelta(days=number)
        # The earlier investments have come back with their cents.
        cents = month.read_balance(day, at_hour(day, 23.5)) + yields_count
        if cents <= 0:
            continue
        sweep = Movement(serial=0, day=day, booked_at=at_hour(day, 23.5), cents=-cents, text="APLICACAO AUTOMATICA")
        yield sweep
        if day < last_on:
            yields_count += 1
            back = structs.replace(sweep, day=day + timedelta(days=1), booked_at=at_hour(day, 24.5))
            yield structs.replace(back, cents=cents, text="RESGATE AUTOMATICO")
            yield structs.replace(back, cents=1, text="RENDIMENTO APLIC AUTOMATICA")


def choose_story(strategy: st.SearchStrategy[Story]) -> Story:
    """The longest of some stories, always the same."""
    found: list[Story] = []

    @settings(max_examples=30, derandomize=True, database=None, phases=[Phase.generate])
    @given(strategy)
    def collect(story: Story) -> None:
        found.append(story)

    collect()
    return max(found, key=lambda story: len(story.deliveries) + len(story.month.movements))
