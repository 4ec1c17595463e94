import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from pixconnect.platform.http import listening
from pixconnect.platform.local.child_process import ChildFailedError, ChildProcess
from pixconnect.platform.local.supervisor import PartKeepsFailingError, Supervisor
from support.installation import is_alive
from support.waiting import wait_until

PREAMBLE = """
import os, signal, sys, time
from pixconnect.platform.local.child_process import Lifeline
fds = dict(word.removeprefix("--").split("=") for word in sys.argv[1:])
lifeline = Lifeline(parent_fd=int(fds["parent-fd"]), ready_fd=int(fds["ready-fd"]))
"""


def make_child(script: str, sockets: Sequence[listening.socket.socket] = ()) -> ChildProcess:
    return ChildProcess("child", [sys.executable, "-c", PREAMBLE + script], dict(os.environ), sockets)


async def test_a_child_works_only_after_the_word_to_go(tmp_path: Path) -> None:
    mark = tmp_path / "went"
    child = make_child(f"lifeline.wait_for_start(); open({str(mark)!r}, 'w').close(); lifeline.report_ready(b'hello')")
    await child.spawn()
    await asyncio.sleep(0.5)
    assert not mark.exists()
    child.signal_start()
    assert await child.wait_until_ready() == b"hello"
    assert mark.exists()
    assert await child.wait_for_end() == "exit status 0"
    await child.stop(1)


@pytest.mark.parametrize(
    ("script", "lacked_database"),
    [
        ("lifeline.report_database_away('it recovers'); sys.exit(75)", True),
        ("lifeline.report_failure('it recovers'); sys.exit(1)", False),
    ],
)
async def test_a_child_says_if_only_the_database_hinders_it(script: str, *, lacked_database: bool) -> None:
    child = make_child(script)
    with pytest.raises(ChildFailedError, match=r"^it recovers$"):
        await child.start()
    assert child.lacked_database == lacked_database
    await child.stop(1)


async def test_a_child_that_no_restart_helps_ends_the_supervisor() -> None:
    child, supervisor = make_child("lifeline.report_end('of another version'); sys.exit(78)"), Supervisor(lambda _: None)
    with pytest.raises(ChildFailedError):
        await child.start()
    supervisor.watch(child)
    with pytest.raises(PartKeepsFailingError, match=r"^of another version$"):
        await supervisor.run_until(asyncio.Event())
    await child.stop(1)


async def test_a_child_that_loses_the_database_ends_with_a_status_of_its_own() -> None:
    child = make_child("lifeline.wait_for_start(); lifeline.report_ready(); sys.exit(75)")
    await child.start()
    assert (await child.wait_for_end(), child.lacked_database) == ("the database was away", True)
    await child.stop(1)


async def test_a_child_that_dies_without_a_word_is_named() -> None:
    child = make_child("os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(ChildFailedError, match=r"child ended before it was ready .SIGKILL."):
        await child.start()
    await child.stop(1)


async def test_a_child_that_never_gets_ready_is_given_up() -> None:
    child = make_child("time.sleep(60)")
    await child.spawn()
    child.signal_start()
    with pytest.raises(ChildFailedError, match=r"child is not ready after 0\.2 s"):
        await child.wait_until_ready(timeout_s=0.2)
    await child.stop(0.1)


async def test_who_is_cancelled_at_the_moment_of_readiness_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    # A stopping supervisor cancels the restart of a part; a restart that continued would keep it from ending for ever.
    report: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    child = make_child("")
    monkeypatch.setattr(child, "_read_report", lambda: asyncio.ensure_future(report))
    waiting = asyncio.create_task(child.wait_until_ready())
    await asyncio.sleep(0)
    report.set_result(b"+")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_child_that_does_not_stop_is_ended() -> None:
    child = make_child("signal.signal(signal.SIGTERM, signal.SIG_IGN); lifeline.report_ready(); time.sleep(600)")
    await child.start()
    started_at = time.monotonic()
    await child.stop(0.2)
    assert time.monotonic() - started_at < 120, "by itself it would live for 600 s"
    assert child.process is not None
    assert child.process.returncode == -signal.SIGKILL


SERVER = """
import socket
listening = socket.socket(fileno=int(fds["socket-fd"]))
listening.setblocking(True)
lifeline.wait_for_start()
lifeline.report_ready()
while True:
    connection, _ = listening.accept()
    connection.sendall(str(os.getpid()).encode())
    connection.close()
"""


async def test_connections_wait_in_the_socket_while_a_process_is_started_again() -> None:
    [listening_socket] = listening.open_listening("127.0.0.1", 0, 1, port_setting="PORT")
    child = make_child(SERVER, sockets=[listening_socket])
    await child.start()
    assert child.process is not None
    first_pid = child.process.pid
    child.process.kill()
    await child.wait_for_end()
    reader, writer = await asyncio.open_connection(*listening_socket.getsockname())
    await child.start()
    async with asyncio.timeout(60):
        assert int(await reader.read()) not in {0, first_pid}
    writer.close()
    await writer.wait_closed()
    await child.stop(0.2)
    listening_socket.close()


PARENT = """
import asyncio, os, sys
from pixconnect.platform.local.child_process import ChildProcess

async def main():
    child = ChildProcess("child", [sys.executable, "-c", sys.argv[1]], dict(os.environ))
    await child.start()
    print(child.process.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("trick", ["pass", "import ctypes; ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)"])
async def test_no_child_outlives_a_killed_parent(trick: str) -> None:
    """The second time without the kernel's help, by the pipe alone."""
    script = PREAMBLE + f"lifeline.wait_for_start(); {trick}; lifeline.report_ready(); time.sleep(600)"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, script], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        child_pid = int(parent.stdout.readline())
    finally:
        parent.kill()
        parent.communicate()
    # By itself it would live for 600 s.
    wait_until(lambda: not is_alive(child_pid))
