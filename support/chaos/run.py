"""A run of chaos, from an empty home to its verdict."""

import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

from msgspec import Struct

from support.chaos.breaking import Breaker, open_small_disk
from support.chaos.judging import judge, judge_history, judge_planted
from support.chaos.load import Book, Caller, Purse, read_book
from support.chaos.operators import Operators
from support.chaos.schedule import Fault, plan
from support.waiting import PATIENCE_S
from support.whole_installation import Account, WholeInstallation, open_whole_installation

UNREST: Final = "it never came to rest"
_DISK_MIB: Final = 1024
_STEPS_PAST_THE_WINDOW: Final = 13  # hours, since an order's name is valid for half a day
_POLICY: Final = {"handover_timeout_s": 10}
"""Short hand-over deadlines, so that many orders expire, and in another worker than the one that took them."""


class Options(Struct, frozen=True, kw_only=True):
    """The settings of a run.

    Attributes:
        callers_count: The callers of each holder.
        source: The folder with the ``pixconnect`` to run, if not this one.
        pause_s: The mean pause between two requests of a caller.
        policy: Further settings of the service.
        weights: How often callers choose their acts.
        faults: Faults that replace those of the seed.
        is_brief: Run no commands, plant no damage, and stop at the first contradiction.
        patience_s: How long the installation may take to come to rest.
    """

    seed: int
    seconds: float
    holders_count: int = 4
    callers_count: int = 3
    pause_s: float = 0.1
    source: Path | None = None
    policy: Mapping[str, int] = {}
    weights: Mapping[str, int] = {}
    faults: Sequence[Fault] | None = None
    is_brief: bool = False
    patience_s: float = PATIENCE_S


class Outcome(Struct, frozen=True, kw_only=True):
    seed: int
    lasted_s: float
    findings: list[str]
    book: Path
    calls: Counter[str]
    faults: Counter[str]
    acts: Counter[str]  # findings of operators and of the console
    not_made: Counter[str]
    things_count: int

    def says(self) -> str:
        return (
            f"chaos, seed {self.seed}: {self.lasted_s:.0f} s, {sum(self.calls.values())} requests, {self.things_count} "
            f"charges, transfers and refunds, {sum(self.faults.values())} faults ({_tell(self.faults)}; "
            f"not made: {_tell(self.not_made) or 'none'}), "
            f"beside: {_tell(self.acts)}; {len(self.findings)} findings"
        )


def run(options: Options, tell: Callable[[str], None] = lambda _: None) -> Outcome:
    file = Path(tempfile.mkdtemp(prefix="pixconnect-chaos-")) / f"seed-{options.seed}.jsonl"
    book = Book(file)
    began_s = time.monotonic()
    with _open(options) as (service, disk):
        accounts = [service.open_account() for _ in range(options.holders_count)]
        breaker = Breaker(service, accounts[0], disk, Random(f"{options.seed} breaking"))
        is_over = threading.Event()
        try:
            operators = Operators(service.installation, Random(f"{options.seed} operators"))
            if options.is_brief:
                operators.stop()
            callers = _start_callers(service, accounts, book, options, is_over)
            faults = plan(options.seed, options.seconds) if options.faults is None else options.faults
            breaker.run(faults, options.seconds, tell)
            is_over.set()
            operators.stop()
            findings = hear_out(service, accounts, callers, options.patience_s)
            seen = service.see(accounts)
            soon = judge_history(service, accounts, read_book(file), seen) if options.is_brief else []
            findings += soon
            if not soon:
                findings += rest_here(service, accounts, options.patience_s)
                seen = service.see(accounts)
                findings += judge(service, accounts, read_book(file), seen)
            findings += operators.end()
            # A ``verify`` that finds nothing must be able to find damage.
            findings += [] if findings or options.is_brief else judge_planted(service, accounts)
        finally:
            is_over.set()
            breaker.end()
            book.close()
            keep_logs(service, file.parent)
    return Outcome(
        seed=options.seed, lasted_s=time.monotonic() - began_s, findings=findings, book=file, calls=book.counts,
        faults=breaker.counts, acts=operators.counts, not_made=breaker.not_made, things_count=len(seen.things),
    )  # fmt: skip


def _start_callers(
    service: WholeInstallation, accounts: list[Account], book: Book, options: Options, is_over: threading.Event
) -> list[threading.Thread]:
    amounts = count(1)
    purses = [
        Purse(account=account, others=[each for each in accounts if each is not account], is_poor=account is accounts[-1])
        for account in accounts
    ]
    found: list[threading.Thread] = []
    for number, purse in enumerate(purses * options.callers_count):
        chance = Random(f"{options.seed} caller {number}")
        caller = Caller(service.installation.base_url, purse, book, chance, amounts, options.weights)
        thread = threading.Thread(target=caller.run, args=(is_over.is_set, options.pause_s), daemon=True)
        thread.start()
        found.append(thread)
    return found


def hear_out(
    service: WholeInstallation, accounts: list[Account], callers: list[threading.Thread], patience_s: float
) -> list[str]:
    """Repair everything, and wait for the last answer of each caller."""
    until_s = time.monotonic() + patience_s
    # A rule that hides the rail would keep callers waiting.
    service.insist(accounts[0], "DELETE", "/sandbox/v1/faults")
    for caller in callers:
        caller.join(max(0.0, until_s - time.monotonic()))
    return [f"{UNREST}: a caller got no answer in {patience_s:.0f} s" for caller in callers if caller.is_alive()]


def rest_here(service: WholeInstallation, accounts: list[Account], patience_s: float) -> list[str]:
    try:
        # The network no longer accepts orders that never arrived: after an hour there are many, and they end at once.
        for _ in range(_STEPS_PAST_THE_WINDOW):
            service.advance_clock(accounts[0], 3600)
        service.settle(accounts, patience_s)
        service.insist(accounts[0], "POST", "/sandbox/v1/clock", {"reset": True})
        service.settle(accounts, patience_s)
    except AssertionError as error:
        return [f"{UNREST}: {str(error)[:2000]}"]
    return []


@contextmanager
def _open(options: Options) -> Iterator[tuple[WholeInstallation, Path | None]]:
    with open_small_disk(_DISK_MIB) as disk:
        home = None
        if disk is not None:
            home = disk / "home"
            home.mkdir()
        policy = _POLICY | dict(options.policy)
        opening = open_whole_installation(home=home, source=options.source, policy=policy, api_processes_count="2")
        with opening as service:
            yield service, disk


def keep_logs(service: WholeInstallation, folder: Path, prefix: str = "") -> None:
    """Save the service's logs beside the book, because its home is deleted before anyone reads the findings."""
    home = service.installation.home
    (folder / f"{prefix}run.log").write_text("".join(service.installation.said))
    for log in home.rglob("*.log"):
        shutil.copyfile(log, folder / f"{prefix}{log.name}")


def _tell(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))
