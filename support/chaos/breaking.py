"""Break an installation by a schedule, each fault for its duration, and repair everything at the end."""

import json
import os
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final, cast
from urllib.parse import parse_qs, urlsplit

import asyncpg

from support import postgres
from support.chaos.schedule import Fault
from support.chaos.wires import Wires
from support.cut_connections import Cut
from support.installation import PIXCONNECT, ROOT, command_line, descendants
from support.killed_process import SITE_FOLDER, WIRES_FILE_NAME
from support.whole_installation import Account, WholeInstallation

_AT_ONCE_MAX: Final = 6
_ASKED_FOR_S: Final = 15.0
_ASK_TIMEOUT_S: Final = 3.0
_SLOW_S: Final = 0.08
_FLUSH_US: Final = 100_000  # microseconds that a slow disk takes for each flush: the longest that PostgreSQL allows
_ORDERS: Final = b"POST /rail/orders "
_SLOW_DISK: Final = (
    "alter system set commit_delay = {}",
    "alter system set commit_siblings = 0",
    "select pg_reload_conf()",
)
_QUICK_DISK: Final = (
    "alter system reset commit_delay",
    "alter system reset commit_siblings",
    "select pg_reload_conf()",
)
_AWAY = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, TimeoutError)


class Breaker:
    """Breaks one installation.

    Args:
        account: Sets its clock and the faults of the sandbox's rail.
        disk: A small file system that holds its home and can be filled.
        institution: Where it has its accounts; then the wire called ``rail`` leads there.
    """

    def __init__(
        self,
        service: WholeInstallation,
        account: Account,
        disk: Path | None,
        chance: Random,
        *,
        institution: tuple[str, int] | None = None,
    ) -> None:
        self._service, self._account, self._disk, self._chance = service, account, disk, chance
        self._lock, self._replacing = threading.Lock(), threading.Lock()
        self._stopped: set[int] = set()
        self.counts: Counter[str] = Counter()
        self.not_made: Counter[str] = Counter()
        if disk is not None:
            # With a larger limit, WAL alone would fill the small disk.
            self._execute("alter system set max_wal_size = '192MB'", "select pg_reload_conf()")
        self._wires = self._wire(institution)
        self._second = self._start_second()

    def run(self, faults: Sequence[Fault], seconds: float, tell: Callable[[str], None]) -> None:
        began_s = time.monotonic()

        def say(words: str) -> None:
            tell(f"[{time.monotonic() - began_s:.1f} s] {words}")

        with ThreadPoolExecutor(_AT_ONCE_MAX) as pool:
            for fault in faults:
                time.sleep(max(0.0, began_s + fault.at_s - time.monotonic()))
                self._revive_second()
                pool.submit(self._break, fault, say)
            # Callers must make progress even if nothing fails.
            time.sleep(max(0.0, began_s + seconds - time.monotonic()))
        self.mend()
        say("all is mended")

    def mend(self) -> None:
        self._wires.mend()
        self._service.points.disarm_all()
        self._service.listener.is_deaf = False
        for pid in list(self._stopped) + self._standing_still():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._stopped.clear()
        self._fill(is_full=False)
        self._insist("alter system reset default_transaction_read_only", *_QUICK_DISK)
        self._revive_second()

    def end(self) -> None:
        self._second.kill()
        self._second.wait()
        self._wires.end()

    def _break(self, fault: Fault, tell: Callable[[str], None]) -> None:
        wires = self._wires.by_name
        act: Callable[[Fault], object] = {
            "kill": self._kill, "stop": self._stop, "die": self._die, "freeze": self._freeze, "cut": self._cut,
            "half_open": self._be_half_open, "vanish": lambda fault: wires[fault.target].vanish(),
            "away": self._be_away, "held": self._hold,
            "commit": lambda fault: wires["database"].cuts.append(cast("Cut", fault.target)),
            "slow": self._be_slow, "read_only": self._be_read_only,
            "disk_full": self._fill_disk, "disk_slow": self._slow_disk, "memory": self._lack_memory,
            "clock": lambda fault: self._ask("POST", "/sandbox/v1/clock", {"advance_s": int(fault.target)}),
            "rail": self._break_rail, "deaf": self._be_deaf,
        }[fault.kind]  # fmt: skip
        tell(fault.says())
        try:
            act(fault)
        except (*_AWAY, LookupError, AssertionError) as error:
            # The target is not running now, or the fault is not possible on this machine.
            self.not_made[fault.kind] += 1
            tell(f"{fault.says()}: not made: {error!r:.200}")
        else:
            self.counts[fault.kind] += 1
            if fault.lasts_s:
                tell(f"{fault.says()}: over")

    def _kill(self, fault: Fault) -> None:
        if fault.target == "second":
            self._replace_second()
            return
        os.kill(self._pid_of(fault.target), signal.SIGKILL)

    def _stop(self, fault: Fault) -> None:
        # A database without its supervisor would stay stopped for ever, so its processes are stopped one at a time.
        pid = self._pid_of("backend" if fault.target == "database" else fault.target)
        self._stopped.add(pid)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(fault.lasts_s)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        self._stopped.discard(pid)

    def _die(self, fault: Fault) -> None:
        """Kill the next process that reaches this point. Many points are rarely reached unless something else fails."""
        self._service.points.arm(fault.target)

    def _freeze(self, fault: Fault) -> None:
        """As ``_die``, and the process is only stopped: also past its lease, just before it acts."""
        points = self._service.points
        points.arm(fault.target, stops=True)
        until_s = time.monotonic() + fault.lasts_s
        while not points.has_killed(fault.target):
            if time.monotonic() > until_s and points.disarm(fault.target):
                raise LookupError("nobody came there")
            time.sleep(0.02)
        pids = set(self._standing_still()) - self._stopped
        time.sleep(fault.lasts_s)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _standing_still(self) -> list[int]:
        pids = [*descendants(self._service.installation.process.pid), self._second.pid]
        return [pid for pid in pids if _is_stopped(pid)]

    def _cut(self, fault: Fault) -> None:
        self._wires.ask(self._wires.by_name[fault.target].end())

    def _be_half_open(self, fault: Fault) -> None:
        wire = self._wires.by_name[fault.target]
        wire.is_still = True
        time.sleep(fault.lasts_s)
        self._cut(fault)
        wire.is_still = False

    def _be_away(self, fault: Fault) -> None:
        wire = self._wires.by_name[fault.target]
        wire.is_away = True
        self._cut(fault)
        time.sleep(fault.lasts_s)
        wire.is_away = False

    def _hold(self, fault: Fault) -> None:
        """Deliver the next submission after its sender has given up waiting."""
        self._wires.by_name["rail"].held.append((_ORDERS, fault.lasts_s))

    def _be_slow(self, fault: Fault) -> None:
        wire = self._wires.by_name[fault.target]
        wire.delay_s = _SLOW_S
        time.sleep(fault.lasts_s)
        wire.delay_s = 0.0

    def _be_read_only(self, fault: Fault) -> None:
        """Make new transactions read-only, as on a server that has become a standby."""
        self._execute("alter system set default_transaction_read_only = on", "select pg_reload_conf()")
        time.sleep(fault.lasts_s)
        self._insist("alter system reset default_transaction_read_only", "select pg_reload_conf()")

    def _insist(self, *statements: str) -> None:
        for _ in range(600):
            with suppress(*_AWAY):
                self._execute(*statements)
                return
            time.sleep(0.5)
        raise AssertionError("the database does not come back")

    def _slow_disk(self, fault: Fault) -> None:
        """Slow every flush and stop the background writers, because no device can be slowed without root."""
        words = ("walwriter", "checkpointer", "background writer")
        writers = [
            pid
            for pid in descendants(self._service.installation.database_pid)
            if any(word in command_line(pid) for word in words)
        ]
        self._execute(*(statement.format(_FLUSH_US) for statement in _SLOW_DISK))
        for pid in writers:
            self._stopped.add(pid)
            os.kill(pid, signal.SIGSTOP)
        time.sleep(fault.lasts_s)
        for pid in writers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
            self._stopped.discard(pid)
        self._insist(*_QUICK_DISK)

    def _be_deaf(self, fault: Fault) -> None:
        self._service.listener.is_deaf = True
        time.sleep(fault.lasts_s)
        self._service.listener.is_deaf = False

    def _fill_disk(self, fault: Fault) -> None:
        if self._disk is None:
            raise LookupError("its home is no file system of its own")
        self._fill(is_full=True)
        time.sleep(fault.lasts_s)
        self._fill(is_full=False)

    def _fill(self, *, is_full: bool) -> None:
        if self._disk is None:
            return
        file = self._disk / "ballast"
        if not is_full:
            file.unlink(missing_ok=True)
            return
        with suppress(OSError), file.open("wb", buffering=0) as ballast:  # until the disk is full
            while True:
                ballast.write(bytes(65536))

    def _lack_memory(self, fault: Fault) -> None:
        """Limit a process to its current memory, so that allocations fail as on a machine without free memory."""
        pid = self._pid_of(fault.target)
        before = resource.prlimit(pid, resource.RLIMIT_AS)
        has = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
        resource.prlimit(pid, resource.RLIMIT_AS, (has + 65536, before[1]))
        time.sleep(fault.lasts_s)
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_AS, before)

    def _break_rail(self, fault: Fault) -> None:
        operation, _, effect = fault.target.partition(" ")
        rules = [{"match": {"operation": operation}, "effect": effect, "times": self._chance.randint(1, 6)}]
        self._ask("PUT", "/sandbox/v1/faults", {"rules": rules})

    def _ask(self, method: str, path: str, body: object) -> None:
        """Repeat until it succeeds, within a time limit: other faults may interfere for a moment."""
        until_s = time.monotonic() + _ASKED_FOR_S
        while True:
            with self._lock:
                answer = self._service.ask(self._account, method, path, body, timeout_s=_ASK_TIMEOUT_S)
            if answer is not None and answer.status == 200:
                return
            if time.monotonic() > until_s:
                raise LookupError(f"{path} answers {answer}")
            time.sleep(0.2)

    def _pid_of(self, target: str) -> int:
        running = self._service.installation
        if target == "second":
            return self._second.pid
        if target == "database":
            return running.database_pid
        if target == "backend":
            words = ("postgres: pixconnect_login", "walwriter", "checkpointer", "autovacuum")
            pids = [pid for pid in descendants(running.database_pid) if any(w in command_line(pid) for w in words)]
            return self._chance.choice(pids)
        return self._chance.choice(running.children(target))

    @property
    def rail_port(self) -> int:
        """The near end of the wire to the rail or the institution."""
        return self._wires.rail_port

    def _wire(self, institution: tuple[str, int] | None) -> Wires:
        """Install the wires, and restart every process so that it uses them."""
        running = self._service.installation
        lines = Path(f"/proc/{running.children('work')[0]}/environ").read_text().split("\0")
        settings = dict(line.split("=", 1) for line in lines if "=" in line)
        folder = parse_qs(urlsplit(settings["PIXCONNECT_DATABASE_URL"]).query)["host"][0]
        socket = f"{folder}/.s.PGSQL.5432"
        if institution is None:
            rail_url = settings["PIXCONNECT_RAIL_URL"]
            rail = urlsplit(rail_url)
            assert rail.port is not None
            wires = Wires(socket, ("127.0.0.1", rail.port))
            changed = {rail_url: f"http://127.0.0.1:{wires.rail_port}"}
        else:
            # A client that opens an account there is given the near end of the wire.
            wires, changed = Wires(socket, institution), dict[str, str]()
        changed[folder] = str(wires.folder)
        (running.home / WIRES_FILE_NAME).write_text(json.dumps(changed))
        self._settings = settings | {"PYTHONPATH": settings.get("PYTHONPATH", str(SITE_FOLDER))}
        for part in ("sandbox", "work", "serve") if institution is None else ("work", "serve"):
            for pid in running.children(part):
                os.kill(pid, signal.SIGKILL)
        return wires

    def _revive_second(self) -> None:
        if self._second.poll() is not None:
            self._replace_second()

    def _replace_second(self) -> None:
        with self._replacing:  # two faults may require the same worker
            self._second.kill()
            self._second.wait()
            self._second = self._start_second()

    def _start_second(self) -> subprocess.Popen[bytes]:
        """Start a worker outside of the supervisor."""
        log = self._service.installation.home / "second.log"
        with log.open("ab") as said:
            return subprocess.Popen((*PIXCONNECT, "work"), cwd=ROOT, env=self._settings, stdout=said, stderr=subprocess.STDOUT)

    def _execute(self, *statements: str) -> None:
        running = json.loads((self._service.installation.home / "running.json").read_text())
        for statement in statements:
            postgres.execute(running["owner_database_url"], statement)


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


@contextmanager
def open_small_disk(mib: int) -> Iterator[Path | None]:
    """Mount a small file system in memory; None if this user may not mount."""
    folder = Path(tempfile.mkdtemp(prefix="pixconnect-disk-"))
    options = f"size={mib}m,mode=0711"
    mounted = subprocess.run(("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)), capture_output=True, check=False)
    if mounted.returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(("umount", "--lazy", str(folder)), capture_output=True, check=False)
