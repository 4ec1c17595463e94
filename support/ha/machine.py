"""One machine of three: etcd, Patroni and PostgreSQL, all with its folder as their working directory."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from support.ha.network import NAMES, Network
from support.ha.programs import Programs
from support.installation import ROOT, command_line

DEPLOYED: Final = ROOT / "deploy" / "ha"
_STOP_TIMEOUT_S: Final = 20

Part = Literal["etcd", "patroni", "postgres"]
PARTS: Final[tuple[Part, ...]] = ("etcd", "patroni", "postgres")


class Machine:
    """Starts, ends and suspends the programs of a machine; ``secrets`` are passwords by their place in ``machine.env``."""

    def __init__(
        self, name: str, home: Path, network: Network, programs: Programs, secrets: Mapping[str, str], cores: str | None = None
    ) -> None:
        self.name, self.address = name, network.address_of(name)
        self.folder = home / name
        self._network, self._programs, self._cores = network, programs, cores
        self._started: list[subprocess.Popen[bytes]] = []
        self.folder.mkdir(exist_ok=True)
        if programs.user is not None:
            os.chown(self.folder, programs.user.uid, programs.user.gid)
        places = {
            "NAME": name,
            "ADDRESS": self.address,
            "FOLDER": str(self.folder),
            "PROGRAMS": str(programs.postgres),
            **{other.upper(): network.address_of(other) for other in NAMES},
            **secrets,
        }
        self._environment = fill(DEPLOYED / "machine.env", places)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of its programs and of ``patronictl``."""
        base = dict(PATH="/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL="C.UTF-8", PYTHONPATH=str(self._programs.packages))
        return base | self._environment

    def start(self, *parts: Part) -> None:
        for part in parts or ("etcd", "patroni"):
            if part == "etcd":
                self._run("etcd", self._programs.etcd)
            elif part == "patroni":
                self._run("patroni", self._programs.python, "-m", "patroni", str(DEPLOYED / "patroni.yml"))

    def _run(self, name: str, *command: str) -> None:
        pinned = ["taskset", "--cpu-list", self._cores] if self._cores else []
        words = [*self._network.enter(self.name), *self._programs.run_as_user(), *pinned, *command]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                words, cwd=self.folder, env=dict(self.environment), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        self._started.append(process)

    def pids(self, *parts: Part) -> list[int]:
        """The processes of the machine, or of some parts, found by their working directory."""
        wanted = parts or PARTS
        found: list[int] = []
        for process in Path("/proc").glob("[0-9]*"):
            pid = int(process.name)
            with suppress(OSError):
                if Path(os.readlink(process / "cwd")).is_relative_to(self.folder) and _part_of(pid) in wanted:
                    found.append(pid)
        return found

    def kill(self, *parts: Part) -> None:
        killed = self.pids(*parts)
        self.send(signal.SIGKILL, *parts)
        for process in self._started:
            # A killed process takes a moment to disappear, and no other process waits for it.
            if process.pid in killed or not parts:
                process.wait(_STOP_TIMEOUT_S)
        self._reap()

    def send(self, number: signal.Signals, *parts: Part) -> None:
        for pid in self.pids(*parts):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def end(self, *parts: Part) -> None:
        self.send(signal.SIGCONT, *parts)
        self.send(signal.SIGTERM, *(part for part in (parts or ("patroni", "etcd")) if part != "postgres"))
        until_s = time.monotonic() + _STOP_TIMEOUT_S
        while self.pids(*parts) and time.monotonic() < until_s:
            time.sleep(0.05)
            self._reap()
        self.kill(*parts)

    def _reap(self) -> None:
        self._started = [process for process in self._started if process.poll() is None]


def _part_of(pid: int) -> Part | None:
    words = command_line(pid)
    if "-m patroni" in words or "patroni" in words.split(" ")[0]:
        return "patroni"
    if words.split(" ")[0].endswith("etcd"):
        return "etcd"
    return "postgres" if "postgres" in words or "pg_" in words else None


def fill(file: Path, places: Mapping[str, str]) -> dict[str, str]:
    text = file.read_text(encoding="utf-8")
    for name, value in places.items():
        text = text.replace(f"@{name}@", value)
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)
