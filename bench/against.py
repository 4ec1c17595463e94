"""The cost of hot rows compared with another commit: both services run at once and are loaded in turn, pair by pair.

    make bench-against COMMIT=02138cc                                  every row, eleven pairs each: about ten minutes
    .venv/bin/python -m bench.against 02138cc --only charge --pairs 5    a try

A row's figure is the CPU of all processes of the service for one request or life, until everything accepted is settled;
in ``transfer_accepted`` the worker is suspended. Each pair gives a ratio, new by old, in alternating order, so that a
change of the machine's speed affects both. The result is the median of the ratios with an interval that holds in at
least 95 of 100 such runs for any distribution: the order statistics of a sign test. A row is too expensive only if the
interval's lower bound is above the limit; then the exit status is 1.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from math import comb
from pathlib import Path

import uvloop

from bench.harness.installation import Installation, installed
from bench.harness.processes import CpuMeter, stopped_processes
from bench.load.generators import wrk
from bench.measures.accepting import CHARGE, PUT_COB, TRANSFER, TRANSFER_BODY, charge_body, cob_body
from bench.measures.end_to_end import (
    CHARGE_TOLD_TWICE,
    TRANSFER_TOLD,
    Story,
    pay_charge_told_twice,
    repeat_story,
    settle_transfer,
)

ROOT = Path(__file__).parents[1]
CONFIDENCE = 0.95
CONNECTIONS = 64

Slice = Callable[[Installation, float], float]
"""Loads a service for so many seconds; CPU microseconds of each request or life."""


def main() -> int:
    """Compare, and report whether a row became too expensive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="to compare with")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each slice")
    parser.add_argument("--limit", type=float, default=2.0, help="in per cent: how much dearer a row may be")
    options = parser.parse_args()
    dearer: list[str] = []
    with other_tree(options.commit) as (python, path):
        for name in options.only:
            with installed(python=python, is_proved=False, PYTHONPATH=path) as old, installed() as new:
                low, median, high = interval(compare(ROWS[name], old, new, options.pairs, options.seconds))
            print(f"{name}: {median:.3f} of {options.commit} ({low:.3f} to {high:.3f})", flush=True)
            if low > 1 + options.limit / 100:
                dearer.append(name)
    print(f"dearer by more than {options.limit:g} %: {', '.join(dearer) or 'none'}")
    return 1 if dearer else 0


def compare(load: Slice, old: Installation, new: Installation, pairs: int, seconds: float) -> list[float]:
    """The ratios of all pairs, new by old; the very first pair only warms both up."""
    ratios: list[float] = []
    for number in range(pairs + 1):
        first, second = (old, new) if number % 2 else (new, old)
        costs = {id(service): load(service, seconds) for service in (first, second)}
        ratios.append(costs[id(new)] / costs[id(old)])
        print(f"  {costs[id(old)]:8.1f} {costs[id(new)]:8.1f} us  {ratios[-1]:.3f}", file=sys.stderr, flush=True)
    return ratios[1:]


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """The lower bound of the median, the median, and its upper bound; with too few ratios all of them are inside."""
    ordered, count = sorted(ratios), len(ratios)
    left_out = 0
    # So many can be left out at each end with the median of the distribution still inside.
    while 2 * sum(comb(count, low) for low in range(left_out + 1)) / 2**count <= 1 - CONFIDENCE:
        left_out += 1
    outermost = max(left_out - 1, 0)
    return ordered[outermost], statistics.median(ordered), ordered[count - 1 - outermost]


def _accept(path: str, body: Callable[[Installation], object], *, method: str = "POST", is_settled: bool = True) -> Slice:
    def load(service: Installation, seconds: float) -> float:
        meter = CpuMeter(service.process.pid)
        token = service.demonstration().token
        with nullcontext() if is_settled else stopped_processes(service.process.pid, "worker"):
            done = wrk(
                *(service.base_url, path, body(service), [token]), connections=CONNECTIONS, seconds=seconds, method=method
            )
            cost = meter.cost(round(done.per_second * seconds))
        service.wait_until_quiet()
        if is_settled:
            cost = meter.cost(round(done.per_second * seconds))
        if done.errors_count:
            raise SystemExit(f"bench: {done.errors_count} of {path} were refused")
        return float(cost["cpu_us_each_in_all"])

    return load


def _live(story: Story, told: Sequence[str]) -> Slice:
    def load(service: Installation, seconds: float) -> float:
        row = uvloop.run(repeat_story(service, story, told, seconds, CONNECTIONS))
        return float(row["cpu_us_each_in_all"])

    return load


ROWS: dict[str, Slice] = {
    "charge": _accept(CHARGE, charge_body),
    "cob": _accept(PUT_COB, cob_body, method="PUT"),
    "transfer_accepted": _accept(TRANSFER, lambda _: TRANSFER_BODY, is_settled=False),
    "transfer_settled": _accept(TRANSFER, lambda _: TRANSFER_BODY),
    "charge_paid": _live(pay_charge_told_twice, CHARGE_TOLD_TWICE),
    "transfer_life": _live(settle_transfer, TRANSFER_TOLD),
}


@contextmanager
def other_tree(commit: str) -> Iterator[tuple[str, str]]:
    """A worktree of another commit: its Python, and the folder of its packages.

    It shares this tree's environment if both lock the same packages; otherwise it makes its own.
    """
    with tempfile.TemporaryDirectory(prefix="pixconnect-against-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)
        tree = Path(folder) / "tree"
        _git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            locks = [(root / "requirements" / "run.txt").read_bytes() for root in (ROOT, tree)]
            python = sys.executable
            if locks[0] != locks[1]:
                subprocess.run(["make", "environment"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
                python = str(tree / ".venv" / "bin" / "python")
            yield python, os.pathsep.join(str(tree / name) for name in ("src", "clients/python/src", "faces/src"))
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*words: str) -> None:
    subprocess.run(["git", *words], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
