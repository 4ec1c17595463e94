"""A service of its own to measure: durable, in a home of its own, stopped at the end."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STARTUP_TIMEOUT_S = 60


class Installation:
    """A running ``pixconnect run``."""

    def __init__(self, home: Path, process: subprocess.Popen[bytes], ready_s: float) -> None:
        self.home = home
        self.process = process
        self.ready_s = ready_s
        self.sandbox: dict[str, Any] = json.loads((home / "sandbox.json").read_text())
        self.running: dict[str, Any] = json.loads((home / "running.json").read_text())

    @property
    def base_url(self) -> str:
        """Where the API answers."""
        return self.sandbox["base_url"]

    def log_in(self) -> str:
        """An access token of the demonstration's client."""
        form = urllib.parse.urlencode(
            {
                "grant_type": "client_credentials",
                "client_id": self.sandbox["client_id"],
                "client_secret": self.sandbox["client_secret"],
            }
        ).encode()
        with urllib.request.urlopen(self.sandbox["auth_url"] + "/v1/iam/users/login", form) as answer:  # noqa: S310
            return json.load(answer)["data"]["access_token"]


@contextmanager
def installed(home: Path | None = None, **settings: str) -> Iterator[Installation]:
    """Start a service and stop it afterwards.

    Args:
        home: An existing home; by default a new one.
        settings: As in the environment.
    """
    with tempfile.TemporaryDirectory(prefix="pixconnect-bench-") as folder:
        os.chmod(folder, 0o711)
        where = home or Path(folder) / "home"
        environment = {
            **os.environ,
            "PIXCONNECT_HOME": str(where),
            "PORT": "0",
            "PIXCONNECT_LOG_LEVEL": "warning",
            **settings,
        }
        started_s = time.monotonic()
        (where / "sandbox.json").unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "pixconnect", "run"], env=environment, stdout=subprocess.DEVNULL
        )
        try:
            while not (where / "sandbox.json").exists():
                if process.poll() is not None or time.monotonic() - started_s > STARTUP_TIMEOUT_S:
                    raise SystemExit("the service did not start")
                time.sleep(0.01)
            yield Installation(where, process, time.monotonic() - started_s)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


def cpu_seconds(pid: int) -> dict[str, float]:
    """CPU seconds of a service's processes so far, by what they are; ended children of theirs included."""
    found: dict[str, float] = {}
    for child in descendants(pid):
        try:
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        seconds = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
        kind = kind_of(child)
        found[kind] = found.get(kind, 0) + seconds
    return found


def resident_mib(pid: int) -> dict[str, float]:
    """Resident memory of a service's processes; PostgreSQL's shared memory is counted once a process that touched it."""
    found: dict[str, float] = {}
    for child in [pid, *descendants(pid)]:
        try:
            pss = Path(f"/proc/{child}/smaps_rollup").read_text()
        except OSError:
            continue
        kib = next(int(line.split()[1]) for line in pss.splitlines() if line.startswith("Pss:"))
        kind = "supervisor" if child == pid else kind_of(child)
        found[kind] = found.get(kind, 0) + kib / 1024
    return found


def descendants(pid: int) -> list[int]:
    """Every process below this one."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text().split()
        except OSError:  # it has ended meanwhile
            continue
        for child in children:
            found += [int(child), *descendants(int(child))]
    return found


def kind_of(pid: int) -> str:
    """Which part of the service a process is."""
    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    for word, kind in {" serve ": "api", " work ": "worker", " sandbox ": "sandbox", "postgres": "postgres"}.items():
        if word in command:
            return kind
    return "other"


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What was used between two readings."""
    return {name: value - before.get(name, 0.0) for name, value in after.items()}
