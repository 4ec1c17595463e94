"""A run: the machines fail one after the other while callers pay, and everything is judged at the end."""

import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct

from support.chaos.judging import judge
from support.chaos.load import Book, read_book
from support.chaos.run import hear_out, keep_logs, rest_here
from support.chaos.there import judge_both, rest
from support.failover.failing import Failure, fail
from support.failover.serving import Serving, open_serving, start_callers
from support.failover.told import AT_ONCE_S, WRITES, Round, see_round
from support.ha.cluster import Cluster, open_cluster, pin
from support.ha.network import NAMES, choose_loopback, lay_cables, may_lay_cables
from support.waiting import PATIENCE_S

_AFTER_S: Final = 1.0
_CALM_S: Final = 4.0  # seconds of healthy operation before each failure
_STARVED: Final = re.compile("failed to send out heartbeat on time|leader is overloaded|took too long|slow fdatasync")
_NETWORKS: Final = 250


class Options(Struct, frozen=True, kw_only=True):
    """The settings of a run; ``pause_s`` is the mean pause of a caller, ``is_pinned`` gives each machine a core in turn."""

    seed: int
    failures: Sequence[Failure]
    pause_s: float = 0.2
    is_pinned: bool = True


class Outcome(Struct, frozen=True, kw_only=True):
    """The result: with the rate of acknowledged payments while everything was healthy, and the machine's load."""

    lasted_s: float
    rounds: list[Round]
    findings: list[str]
    not_made: list[str]
    payments_a_second: float
    payments_count: int
    payments_there_count: int
    load: tuple[float, float]
    folder: Path

    def says(self) -> str:
        silent = [each.silent_s for each in self.rounds] or [0.0]
        starved = [each.silent_s for each in self.rounds if each.starved]
        return (
            f"{self.lasted_s / 60:.0f} minutes, load {self.load[0]:.0f} at the beginning and {self.load[1]:.0f} at the end; "
            f"{self.payments_a_second:.0f} payments a second without failures; {self.payments_count} writes acknowledged, and "
            f"{self.payments_there_count} at the account; seconds without writes: p50 {median(silent):.1f}, max "
            f"{max(silent):.1f}; {len(starved)} of them while etcd lacked CPU or a disk, max {max(starved, default=0.0):.1f}; "
            f"not made: {', '.join(self.not_made) or 'none'}; {len(self.findings)} findings"
        )


def run(options: Options, tell: Callable[[str], None] = lambda _: None) -> Outcome:
    folder = Path(tempfile.mkdtemp(prefix="pixconnect-failover-"))
    began_s, load_before = time.monotonic(), os.getloadavg()[0]
    files = folder / "here.jsonl", folder / "there.jsonl"
    cables = lay_cables(1 + os.getpid() % _NETWORKS) if may_lay_cables() else nullcontext(choose_loopback())
    with cables as network:
        cores = pin(NAMES) if options.is_pinned else (None,) * 3
        with open_cluster(network, cores) as cluster, open_serving(cluster, folder) as serving:
            books = Book(files[0]), Book(files[1])
            is_over = threading.Event()
            try:
                callers = start_callers(serving, books, options.seed, options.pause_s, is_over)
                time.sleep(_CALM_S)
                calm_s, pids = time.monotonic(), serving.pids()
                time.sleep(2 * _CALM_S)
                pace = _count_writes(files[0], calm_s) + _count_writes(files[1], calm_s)
                tell(f"{pace / (2 * _CALM_S):.0f} payments a second are acknowledged")
                rounds, not_made = _fail_all(cluster, options, files, tell)
                is_over.set()
                findings = [] if serving.pids() == pids else [f"processes were started again: {pids}, {serving.pids()}"]
                findings += _judge(serving, callers, files, tell)
            finally:
                is_over.set()
                for book in books:
                    book.close()
                _keep(cluster, serving, folder)
    calls = read_book(files[0]), read_book(files[1])
    done = [sum(call.kind in WRITES and call.status in {200, 201} for call in each) for each in calls]
    return Outcome(
        lasted_s=time.monotonic() - began_s,
        rounds=rounds,
        findings=findings,
        not_made=not_made,
        payments_a_second=pace / (2 * _CALM_S),
        payments_count=done[0],
        payments_there_count=done[1],
        load=(load_before, os.getloadavg()[0]),
        folder=folder,
    )


def _fail_all(
    cluster: Cluster, options: Options, files: tuple[Path, Path], tell: Callable[[str], None]
) -> tuple[list[Round], list[str]]:
    rounds: list[Round] = []
    not_made: list[str] = []
    for number, failure in enumerate(options.failures, 1):
        if failure.kind == "cut off" and not cluster.network.cables:
            not_made.append("cut off: this user may lay no cables")
            continue
        time.sleep(_CALM_S)
        starved = _count_starved(cluster)
        began_s = time.monotonic()
        fail(cluster, failure)
        cluster.wait_until_whole(PATIENCE_S)
        time.sleep(_AFTER_S)
        ended_s = time.monotonic()
        calls = read_book(files[0])
        found = see_round(
            failure.kind, calls, began_s, ended_s, ended_s - began_s - _AFTER_S, _count_starved(cluster) - starved
        )
        rounds.append(found)
        late = sorted(found.late_s)
        tell(
            f"{number}. {failure.kind}: {found.silent_s:.1f} s without writes, whole after {found.whole_after_s:.0f} s, "
            f"answers {dict(sorted(found.answers.items()))}, slowest refusal {found.slowest_refusal_s:.1f} s, "
            f"{sum(each > AT_ONCE_S for each in late)} of {len(late)} late refusals above 0.1 s, {found.starved} etcd warnings"
        )
    return rounds, not_made


def _count_starved(cluster: Cluster) -> int:
    return sum(
        len(_STARVED.findall((machine.folder / "etcd.log").read_text(errors="replace")))
        for machine in cluster.machines.values()
    )


def _count_writes(file: Path, since_s: float) -> int:
    return sum(call.kind in WRITES and call.status in {200, 201} and call.ended_s >= since_s for call in read_book(file))


def _judge(
    serving: Serving, callers: list[threading.Thread], files: tuple[Path, Path], tell: Callable[[str], None]
) -> list[str]:
    tell("everything comes to rest")
    findings = hear_out(serving.here, serving.accounts, callers, PATIENCE_S)
    findings += rest_here(serving.here, serving.accounts, PATIENCE_S)
    seen = serving.here.see(serving.accounts)
    findings += judge(serving.here, serving.accounts, read_book(files[0]), seen)
    findings += rest(serving.sides, [], PATIENCE_S)
    here, there = serving.sides.read_things()
    findings += judge_both(serving.sides, read_book(files[1]), here, there)
    return findings


def _keep(cluster: Cluster, serving: Serving, folder: Path) -> None:
    for name, service in (("here-", serving.here), ("there-", serving.sides.live), ("bank-", serving.sides.bank)):
        keep_logs(service, folder, name)
    for log in (cluster.home / "haproxy.log", *cluster.home.glob("*/*.log")):
        shutil.copyfile(log, folder / f"{log.parent.name}-{log.name}")
