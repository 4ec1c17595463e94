"""CPU and memory of a service's processes, by kind, and of the processes that measure it."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.figures import Row
from support.installation import descendants, standing_still

_KINDS = {" serve ": "api", " work ": "worker", " sandbox ": "sandbox", " forks ": "forks", "postgres": "postgres"}


class CpuMeter:
    """Counts CPU of the service below its supervisor, and of ``others`` outside of it, from its construction on."""

    def __init__(self, service_pid: int, **others: int) -> None:
        self._service_pid = service_pid
        self._others = others
        self._service_s, self._others_s = self._read()

    def used_s(self) -> dict[str, float]:
        """CPU seconds of the service so far, by kind of process."""
        service_s, _ = self._read()
        return {kind: value - self._service_s.get(kind, 0.0) for kind, value in service_s.items()}

    def cost(self, count: int) -> Row:
        """CPU microseconds for each of so many things until now; other processes are not in the sum."""
        used_s = self.used_s()
        _, others_s = self._read()
        row: Row = {
            "cpu_us_each": {kind: 1e6 * value / count for kind, value in used_s.items()},
            "cpu_us_each_in_all": 1e6 * sum(used_s.values()) / count,
        }
        if others_s:
            row["others_cpu_us_each"] = {name: 1e6 * (value - self._others_s[name]) / count for name, value in others_s.items()}
        return row

    def _read(self) -> tuple[dict[str, float], dict[str, float]]:
        others_s = {name: cpu_seconds(pid) for name, pid in self._others.items()}
        service_s: dict[str, float] = {}
        for child in descendants(self._service_pid):
            try:
                kind, used_s = kind_of(child), cpu_seconds(child)
            except OSError:  # it has ended meanwhile
                continue
            service_s[kind] = service_s.get(kind, 0.0) + used_s
        return service_s, others_s


def cpu_seconds(pid: int) -> float:
    """So far, with ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own_s, children_s = (sum(map(int, part)) / os.sysconf("SC_CLK_TCK") for part in (fields[11:13], fields[13:15]))
    # The scheduler counts nanoseconds, but only of live threads; the total of a process is rounded to ticks.
    return max(own_s, _of_threads_s(pid)) + children_s


def _of_threads_s(pid: int) -> float:
    used_ns = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            used_ns += int(path.read_text().split()[0])
        except (OSError, IndexError):  # the thread has ended meanwhile
            continue
    return used_ns / 1e9


def resident_mib(pid: int, part: str = "Pss") -> dict[str, float]:
    """Resident memory of a service's processes, with shared memory divided among them; by default all of it."""
    found: dict[str, float] = {}
    for child in [pid, *descendants(pid)]:
        try:
            shares = Path(f"/proc/{child}/smaps_rollup").read_text()
        except OSError:
            continue
        kib = next(int(line.split()[1]) for line in shares.splitlines() if line.startswith(f"{part}:"))
        kind = "supervisor" if child == pid else kind_of(child)
        found[kind] = found.get(kind, 0) + kib / 1024
    return found


@contextmanager
def stopped_processes(service_pid: int, kind: str) -> Iterator[None]:
    """Suspend a service's processes of one kind while the block runs."""
    with standing_still(*(pid for pid in descendants(service_pid) if kind_of(pid) == kind)):
        yield


@contextmanager
def on_cores(cores: Iterable[int]) -> Iterator[None]:
    """Pin this process and its new children to these cores while the block runs."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def kind_of(pid: int) -> str:
    """The part of the service that a process belongs or belonged to."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:  # it has ended meanwhile
        return "ended"
    return next((kind for word, kind in _KINDS.items() if word in command), "other")
