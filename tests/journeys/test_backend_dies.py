"""PostgreSQL loses one of its processes, as when memory runs out, and recovers; no other process ends."""

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pixconnect.platform.local.supervisor import RESTARTS_MAX
from support.installation import Installation, command_line, descendants
from support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.long


def _backends(one: Installation) -> list[int]:
    return [pid for pid in descendants(one.database_pid) if "postgres: pixconnect_login" in command_line(pid)]


def _kill_a_backend(one: Installation) -> bool:
    with suppress(ProcessLookupError):  # it has ended by itself
        for pid in _backends(one):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def _wait_until_healthy(one: Installation) -> None:
    wait_until(lambda: one.process.poll() is not None or one.health() == "healthy", "it is healthy again")


def test_an_installation_outlives_any_number_of_killed_backends(home_folder: Path) -> None:
    with Installation(home_folder) as one:
        one.wait_until_ready()
        # Its output must be read, because the pipe would be full before the test ends.
        listener = threading.Thread(target=_listen, args=[one])
        listener.start()
        for _ in range(RESTARTS_MAX + 2):
            wait_until(lambda: _kill_a_backend(one), "there is a backend to kill")
            time.sleep(1)
            _wait_until_healthy(one)
            assert one.process.poll() is None, "".join(one.said)
        one.process.terminate()
        assert one.process.wait(PATIENCE_S) == 0
        listener.join()
    said = "".join(one.said)
    assert "sandbox waits for the database" in said
    assert "keeps failing" not in said


def _listen(one: Installation) -> None:
    assert one.process.stdout is not None
    one.said.extend(one.process.stdout)
