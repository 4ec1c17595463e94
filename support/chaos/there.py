"""A run of chaos with the money at an institution: a live installation, and a sandbox with the bank of its account.

Both sides fail, each by its own schedule. At the end both books must agree on each Pix and refund.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from pixconnect.kernel.rules.access import SCOPES
from support.account_at_face import KEY, LIVE, NAME, insist, open_account
from support.both_sides import Thing
from support.chaos.breaking import Breaker
from support.chaos.history import NO_ANSWER, Call, History, find_contradictions
from support.chaos.judging import read_broken, read_refusals, verify
from support.chaos.load import Book, Caller, Purse, read_book
from support.chaos.run import UNREST, Options, Outcome, keep_logs
from support.chaos.schedule import TARGETS_HERE, TARGETS_THERE, Fault, plan_of
from support.ports import reserved_port
from support.waiting import wait_until
from support.whole_installation import Account, WholeInstallation, open_whole_installation

FACE: Final = "efi"
_REFUNDS_CENTS: Final = 10**10
_TIMEOUT_S: Final = 20.0
_OPENED_BEFORE_S: Final = 600.0
_AMOUNTS_FROM_CENTS: Final = 1000  # high, so that much of the received money can be refunded in several parts
_WEIGHTS: Final = dict(
    transfer=0, transfer_by_account=0, transfer_by_book=0, deposit=0, look=0, be_paid=4, charge=3, cob=1, pay=5, refund=6,
)  # fmt: skip
"""The acts, without transfers over the account."""


class Sides(Struct, frozen=True):
    """Both installations: the bank's controls and its holder, and our house of the account."""

    bank: WholeInstallation
    live: WholeInstallation
    teller: Account
    client: Account
    house: Account

    def read_things(self) -> tuple[list[Thing], list[Thing]]:
        return self.live.read_things([self.house]), self.bank.read_things([self.client])

    @property
    def is_at_rest(self) -> bool:
        here, there = self.read_things()
        return not any(thing.is_open for thing in (*here, *there)) and _settled(here) == _settled(there)


class ThereCaller(Caller):
    """A caller of the holder. It pays by the bank; when our side has the payment depends on when it reads the bank."""

    def __init__(self, sides: Sides, purse: Purse, book: Book, chance: Random, amounts: count[int], **weights: int) -> None:
        super().__init__(sides.live.installation.base_url, purse, book, chance, amounts, _WEIGHTS | weights)
        self._sides = sides

    def _deposit(self) -> bool:
        return True

    def _pay(self) -> None:
        """Pay a charge once, because the bank's handling of a second payment is not under test here."""
        if (code := self._purse.take_code()) is not None:
            emv, amount_cents = code
            self._pay_with(0, dict(emv=emv, amount=amount_cents), amount_cents)

    def _pay_with(self, client: int, body: dict[str, Any], amount_cents: int) -> None:
        call = Call(
            holder_id=self._account.holder_id, kind="payment", amount_cents=amount_cents, began_s=time.monotonic(),
            ended_s=1e12, status=NO_ANSWER,
        )  # fmt: skip
        said = self._sides.bank.ask(self._sides.client, "POST", "/sandbox/v1/payments", body, timeout_s=_TIMEOUT_S)
        self._book.add(call)
        if said is not None and said.status == 200 and said.data["status"] == "CONFIRMED":
            self._purse.received.append((said.data["end_to_end_id"], amount_cents))


def run_there(options: Options, tell: Callable[[str], None] = lambda _: None) -> Outcome:
    folder = Path(tempfile.mkdtemp(prefix="pixconnect-chaos-"))
    file = folder / f"seed-{options.seed}-there.jsonl"
    book = Book(file)
    began_s = time.monotonic()
    with _open(options, folder, book) as (sides, breakers):
        is_over = threading.Event()
        try:
            callers = _start_callers(sides, book, options, is_over)
            _break(breakers, options, tell)
            is_over.set()
            findings = rest(sides, callers, options.patience_s)
            here, there = sides.read_things()
            findings += judge_both(sides, read_book(file), here, there)
        finally:
            is_over.set()
            book.close()
            keep_logs(sides.bank, folder, "bank-")
            keep_logs(sides.live, folder, "live-")
    return Outcome(
        seed=options.seed,
        lasted_s=time.monotonic() - began_s,
        findings=findings,
        book=file,
        calls=book.counts,
        faults=sum((breaker.counts for breaker in breakers), Counter[str]()),
        acts=Counter(f"{name[0]}s settled" for name in _settled(here).elements()),
        not_made=sum((breaker.not_made for breaker in breakers), Counter[str]()),
        things_count=len(here),
    )


@contextmanager
def _open(options: Options, folder: Path, book: Book) -> Iterator[tuple[Sides, tuple[Breaker, Breaker]]]:
    # Nothing expires however long a restart takes, because the clock of a live installation cannot be advanced.
    policy = {"handover_timeout_s": 36_000} | dict(options.policy)
    with (
        open_whole_installation(faces=f"{FACE}:0") as bank,
        reserved_port() as port,
        open_whole_installation(source=options.source, policy=policy, **_settings(port)) as live,
        ExitStack() as ended,
    ):
        teller = bank.open_account()
        face = urlsplit(insist(bank.installation, "face", "show", FACE, "--json")["url"])
        assert face.hostname is not None
        assert face.port is not None
        house = Account(holder_id=1, key=KEY, client_id="", client_secret="")
        here = Breaker(live, house, None, Random(f"{options.seed} here"), institution=(face.hostname, face.port))
        ended.callback(here.end)
        there = Breaker(bank, teller, None, Random(f"{options.seed} there"))
        ended.callback(there.end)
        wait_until(lambda: live.installation.is_healthy() and bank.installation.is_healthy(), "both are there again")
        url = f"https://127.0.0.1:{here.rail_port}"
        sides = open_sides(bank, live, folder, teller, url)
        note_opening(sides, book)
        yield sides, (here, there)


def open_sides(bank: WholeInstallation, live: WholeInstallation, folder: Path, teller: Account, url: str = "") -> Sides:
    """Open the account at the bank's face, by default at its own address."""
    open_account(bank.installation, live.installation, folder, FACE, _REFUNDS_CENTS, url)
    insist(live.installation, "institution", "webhook", "set", NAME)
    scopes = [word for scope in SCOPES for word in ("--scope", scope)]
    made = insist(live.installation, "client", "create", "--holder-id", "1", *scopes, "--json")
    client, house = (
        Account(holder_id=holder_id, key=KEY, client_id=whose["client_id"], client_secret=whose["client_secret"])
        for holder_id, whose in ((int(bank.installation.sandbox["holder_id"]), bank.installation.sandbox), (1, made))
    )
    return Sides(bank=bank, live=live, teller=teller, client=client, house=house)


def note_opening(sides: Sides, book: Book) -> None:
    """Enter the opening balance of the account into the book, as a deposit before the first request."""
    shown = insist(sides.live.installation, "institution", "show", NAME, "--json")
    now_s = time.monotonic()
    book.add(
        Call(
            holder_id=sides.house.holder_id,
            kind="deposit",
            amount_cents=shown["balance_here_cents"],
            began_s=now_s - _OPENED_BEFORE_S,
            ended_s=now_s,
            status=200,
        )
    )


def _settings(port: int) -> dict[str, Any]:
    return LIVE | dict(PORT=str(port), CALLBACK_BASE_URL=f"http://127.0.0.1:{port}")


def _start_callers(sides: Sides, book: Book, options: Options, is_over: threading.Event) -> list[threading.Thread]:
    amounts = count(_AMOUNTS_FROM_CENTS)
    purse = Purse(account=sides.house, others=(), is_poor=False)
    found: list[threading.Thread] = []
    for number in range(2 * options.callers_count):
        caller = ThereCaller(sides, purse, book, Random(f"{options.seed} caller {number}"), amounts, **options.weights)
        thread = threading.Thread(target=caller.run, args=(is_over.is_set, options.pause_s), daemon=True)
        thread.start()
        found.append(thread)
    return found


def _break(breakers: tuple[Breaker, Breaker], options: Options, tell: Callable[[str], None]) -> None:
    """Break both by their own schedules. Given faults of the rail are injected at the bank."""
    given = options.faults
    plans = [
        plan_of(side, targets, options.seed, options.seconds)
        if given is None
        else [fault for fault in given if (fault.kind == "rail") == (side == "there")]
        for side, targets in (("here", TARGETS_HERE), ("there", TARGETS_THERE))
    ]

    def break_one(breaker: Breaker, faults: Sequence[Fault], side: str) -> None:
        breaker.run(faults, options.seconds, lambda words: tell(f"{side}: {words}"))

    beside = threading.Thread(target=break_one, args=(breakers[1], plans[1], "there"), daemon=True)
    beside.start()
    break_one(breakers[0], plans[0], "here")
    beside.join()


def rest(sides: Sides, callers: Sequence[threading.Thread], patience_s: float) -> list[str]:
    """Wait for the last answer of each caller, and until everything has ended on both sides."""
    until_s = time.monotonic() + patience_s
    sides.bank.insist(sides.teller, "DELETE", "/sandbox/v1/faults")
    for caller in callers:
        caller.join(max(0.0, until_s - time.monotonic()))
    found = [f"{UNREST}: a caller got no answer in {patience_s:.0f} s" for caller in callers if caller.is_alive()]
    while not sides.is_at_rest and time.monotonic() < until_s + patience_s:
        _, there = sides.read_things()
        # A payment that settles at a later time of the day is read at that time. Only refunds can be hastened by a
        # clock.
        if any(thing.is_open for thing in there) and not any(t.is_open and t.direction == "IN" for t in there):
            try:
                sides.bank.settle([sides.teller, sides.client], patience_s)
            except AssertionError as error:
                found.append(f"{UNREST}: the bank, {str(error)[:1000]}")
                break
            sides.bank.insist(sides.teller, "POST", "/sandbox/v1/clock", dict(reset=True))
        time.sleep(0.5)
    return found


def judge_both(sides: Sides, calls: Sequence[Call], here: Sequence[Thing], there: Sequence[Thing]) -> list[str]:
    found = [f"{UNREST}: {thing}" for thing in (*here, *there) if thing.is_open]
    ours, theirs = _settled(here), _settled(there)
    found += [f"both books: lost here: {item}" for item in theirs - ours]
    found += [f"both books: only here: {item}" for item in ours - theirs]
    found += [f"both books: twice there: {item}" for item, number in theirs.items() if number > 1]
    found += _judge_charges(here, there)
    history = History(calls=calls, things=here, entries=sides.live.read_entries([sides.house]))
    found += [f"history: {each}" for each in find_contradictions(history)]
    for service in (sides.live, sides.bank):
        found += [*read_refusals(service.installation.home), *read_broken(service), *verify(service)]
    shown = insist(sides.live.installation, "institution", "show", NAME, "--json")
    if shown["balance_here_cents"] != shown["balance_there_cents"]:
        found.append(f"balances: {shown['balance_here_cents']} here, {shown['balance_there_cents']} there")
    kept = insist(sides.live.installation, "report", "list", "--json")["reports"]
    return found + [f"kept report: {report}" for report in kept]


def _judge_charges(here: Iterable[Thing], there: Iterable[Thing]) -> list[str]:
    """Check that each answered charge is the same on both sides, and paid on both or on neither."""
    theirs = {thing.name: thing for thing in there if thing.kind == "charge"}
    found: list[str] = []
    for charge in here:
        if charge.kind == "charge" and charge.status != "OPENING":
            other = theirs.get(charge.name)
            if other is None or other.amount_cents != charge.amount_cents:
                found.append(f"both books: a charge is {charge} here, {other} there")
            elif (charge.status == "APPROVED") != (other.status == "APPROVED"):
                found.append(f"both books: a charge is paid on one side alone: {charge}, {other}")
    return found


def _settled(things: Iterable[Thing]) -> Counter[tuple[str, str | None, str, str | None, int]]:
    """The movements: kind, direction, network id, id of the returned movement, cents."""
    return Counter(
        (thing.kind, thing.direction, thing.network_id or thing.name, thing.original, thing.amount_cents)
        for thing in things
        if thing.is_settled
    )
