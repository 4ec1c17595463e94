"""Runs the service of a test run, and stops it when the run ends in any way.

It is a separate program because the run may be killed. The run's first process holds a file lock, which the system releases
when the process dies; the keeper waits for that lock. It imports only the standard library, so that it starts quickly.

Usage: ``python keeper.py FOLDER RUN DESCRIPTOR COMMAND...``. It writes the address of the service, or the reason why there
is none, to ``service.json``. Then it closes the descriptor, which is a lock that other processes wait for.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import BinaryIO

STOP_TIMEOUT_S = 15
_LINES_TOLD = 20


def lock(path: Path) -> BinaryIO:
    """Wait for the lock on this file. It is released when the file is closed or the process ends."""
    file = path.open("ab")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


class Keeper:
    def __init__(self, folder: Path, run: str, others: int, command: list[str]) -> None:
        self._folder = folder
        self._run = run
        self._others = others
        self._command = command
        self._home = folder / "home"
        self._notice = folder / "service.json"
        self._last_lines: deque[str] = deque(maxlen=_LINES_TOLD)
        self._is_ready = threading.Event()
        self._is_over = False

    def keep(self) -> None:
        # An earlier run in this folder may still be stopping its service.
        with lock(self._folder / "keeper.lock"):
            self._notice.unlink(missing_ok=True)
            if (self._folder / "worn").exists():
                self._forget_home()
            was_there = self._home.exists()
            service = self._start()
            # The home is kept only for a fast start: delete it if it does not work.
            if not self._is_ready.is_set() and was_there:
                self._forget_home()
                service = self._start()
            if not self._is_ready.is_set():
                self._write_notice({"failed": "".join(self._last_lines) or "it said nothing"})
                return
            self._write_notice(json.loads((self._home / "sandbox.json").read_bytes()))
            os.close(self._others)
            try:
                lock(self._folder / f"run-{self._run}" / "run.lock").close()
            finally:
                self._stop(service)

    def _start(self) -> subprocess.Popen[str]:
        self._last_lines.clear()
        service = subprocess.Popen(
            [*self._command, "run", "--end-with-parent"],
            env=os.environ | {"PIXCONNECT_HOME": str(self._home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        reading = threading.Thread(target=self._read, args=(service,), daemon=True)
        reading.start()
        # Also set if the service ends before it is ready.
        while reading.is_alive() and not self._is_ready.wait(0.1):
            pass
        return service

    def _read(self, service: subprocess.Popen[str]) -> None:
        assert service.stdout is not None
        with (self._folder / "service.log").open("w", encoding="utf-8") as log:
            for line in service.stdout:
                log.write(line)
                log.flush()
                self._last_lines.append(line)
                if line.startswith("Ready in "):
                    self._is_ready.set()
        service.wait()
        # The service ended by itself: record that for processes that look for it later.
        if self._is_ready.is_set() and not self._is_over:
            self._notice.unlink(missing_ok=True)
            os._exit(1)

    def _write_notice(self, what: dict[str, object]) -> None:
        unfinished = self._notice.with_suffix(".unfinished")
        unfinished.touch(mode=0o600)
        unfinished.write_text(json.dumps(what | {"run": self._run}), encoding="utf-8")
        unfinished.replace(self._notice)

    def _stop(self, service: subprocess.Popen[str]) -> None:
        self._is_over = True
        self._notice.unlink(missing_ok=True)
        service.terminate()
        try:
            service.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()
        shutil.rmtree(self._folder / f"run-{self._run}", ignore_errors=True)

    def _forget_home(self) -> None:
        shutil.rmtree(self._home, ignore_errors=True)
        (self._folder / "worn").unlink(missing_ok=True)


def _leave_behind() -> None:
    """Detach into a separate session, so that Ctrl-C interrupts the tests first and the keeper ends after them."""
    if os.fork():
        os._exit(0)
    os.setsid()


if __name__ == "__main__":
    _leave_behind()
    Keeper(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]).keep()
