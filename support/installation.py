"""A whole installation for a journey: ``pixconnect run`` with real processes, on a home and a free port."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

from support import postgres
from support.verbs import run_forked

ROOT = Path(__file__).resolve().parents[1]
PIXCONNECT = (sys.executable, "-P", "-m", "pixconnect")
READY_TIMEOUT_S = 180  # the machine may be busy with other tests; the real bound is measured by the bench


class Installation:
    """A running ``pixconnect run``; ``settings`` have no ``PIXCONNECT_`` before their names."""

    def __init__(self, home: Path, command: Sequence[str] = (*PIXCONNECT, "run"), **settings: str) -> None:
        self.home = home
        self.environment = environment(home, **settings)
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Most tests stop reading once it is ready, and a full pipe would block the writer.
            pipesize=1 << 19,
        )
        self.said: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it in any state, as kill -9 does."""
        if self.process.poll() is None:
            self.process.kill()
        if self.process.stdout is not None and not self.process.stdout.closed:
            self.process.communicate()

    def wait_until_ready(self) -> Self:
        self.wait_for("Ready in")
        self.wait_for("Ctrl-C stops.")
        return self

    def wait_for(self, words: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if words in line:
                return line
        raise AssertionError(f"it never said {words!r}: {''.join(self.said)}")

    @property
    def sandbox(self) -> dict[str, Any]:
        return json.loads((self.home / "sandbox.json").read_text())

    @property
    def base_url(self) -> str:
        if self.environment.get("PIXCONNECT_MODE") == "live":
            # Its own name for itself is the name of a proxy.
            return f"http://127.0.0.1:{self.environment['PIXCONNECT_PORT']}"
        return self.sandbox["base_url"]

    @property
    def database_pid(self) -> int:
        folder = Path(json.loads((self.home / "postgres.json").read_text())["folder"])
        return int((self.home / folder / "data" / "postmaster.pid").read_text().split()[0])

    def is_healthy(self) -> bool:
        try:
            with urlopen(f"{self.base_url}/v1/connect/health", timeout=60) as answer:  # noqa: S310 - our own
                return answer.status == 200
        except (OSError, HTTPException):
            return False

    def health(self) -> str:
        return self.health_report()["status"]

    def health_report(self) -> dict[str, Any]:
        try:
            with urlopen(f"{self.base_url}/v1/connect/health", timeout=60) as answer:  # noqa: S310 - our own
                return json.load(answer)["data"]
        except (OSError, HTTPException):  # a process may die while it answers
            return {"status": "unreachable"}

    def children(self, part: str) -> list[int]:
        command = f" -m pixconnect.running.part {part} "
        found = [pid for pid in descendants(self.process.pid) if command in command_line(pid)]
        assert found, f"there is no {part} process"
        return found

    def stop(self, stop_signal: signal.Signals = signal.SIGTERM) -> float:
        """Stop it, and return the seconds that it took."""
        started_at = time.monotonic()
        self.process.send_signal(stop_signal)
        rest, _ = self.process.communicate(timeout=120)
        self.said.append(rest)
        return time.monotonic() - started_at


@contextmanager
def running(home: Path, **settings: str) -> Iterator[Installation]:
    with Installation(home, **settings) as installation:
        yield installation.wait_until_ready()
        if installation.process.poll() is None:
            installation.stop()


@contextmanager
def running_in_new_home() -> Iterator[Installation]:
    """The same on a home that the server's own user can enter, unlike the folders of pytest."""
    home = Path(tempfile.mkdtemp(prefix="pixconnect-home-"))
    home.chmod(0o711)
    with running(home) as installation:
        yield installation
    postgres.remove_home(home)


def environment(home: Path, **settings: str) -> dict[str, str]:
    """The environment without the developer's settings, with those given, and a free port unless one is given."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PIXCONNECT_")}
    own = {name: value for name, value in own.items() if name not in {"PORT", "DATABASE_URL"}}
    named = {f"PIXCONNECT_{name.upper()}": value for name, value in {"port": "0", **settings}.items()}
    return {**own, "PIXCONNECT_HOME": str(home), **named}


def run_verb(home: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return run_forked(words, environment(home, **settings), timeout_s=READY_TIMEOUT_S)


@contextmanager
def standing_still(*pids: int) -> Iterator[None]:
    """Suspended processes, as on a machine that swaps or hangs."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def descendants(pid: int) -> list[int]:
    """All descendants of a process that have not ended."""
    parents: dict[int, int] = {}
    # A glob for `*/stat` would fail if a process ends meanwhile.
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (process / "stat").read_text().rpartition(")")
        except OSError:
            continue
        state, parent, *_ = rest.split()
        if state != "Z":
            parents[int(name.split(" ", 1)[0])] = int(parent)
    found = [pid]
    for parent in found:
        found += [child for child, above in parents.items() if above == parent]
    return found[1:]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
