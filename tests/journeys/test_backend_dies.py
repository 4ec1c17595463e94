"""PostgreSQL loses one of its processes, as to a system out of memory, and recovers: nothing else ends by that."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from pixconnect.local.supervisor import RESTARTS_MAX
from support.installation import Installation, command_line, descendants, wait_until

pytestmark = pytest.mark.long


def _backends(one: Installation) -> list[int]:
    return [pid for pid in descendants(one.database_pid) if "postgres: pixconnect_login" in command_line(pid)]


def _wait_until_healthy(one: Installation) -> None:
    give_up_at = time.monotonic() + 60
    while one.process.poll() is None and one.health() != "healthy" and time.monotonic() < give_up_at:
        time.sleep(0.2)


def test_an_installation_outlives_any_number_of_killed_backends(home_folder: Path) -> None:
    with Installation(home_folder) as one:
        one.wait_until_ready()
        # Whoever does not listen to it stops it: the pipe is full sooner than this is over.
        listener = threading.Thread(target=_listen, args=[one])
        listener.start()
        for _ in range(RESTARTS_MAX + 2):
            wait_until(lambda: bool(_backends(one)))
            os.kill(_backends(one)[0], signal.SIGKILL)
            time.sleep(1)
            _wait_until_healthy(one)
            assert one.process.poll() is None, "".join(one.said)
        assert one.health() == "healthy"
        one.process.terminate()
        assert one.process.wait(60) == 0
        listener.join()
    said = "".join(one.said)
    assert "sandbox waits for the database" in said
    assert "keeps failing" not in said


def _listen(one: Installation) -> None:
    assert one.process.stdout is not None
    one.said.extend(one.process.stdout)
