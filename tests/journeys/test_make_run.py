import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import asyncpg
import msgspec
import pytest

from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from pixconnect.platform.local.postgres_placement import Placement
from pixconnect.running import stack
from support import installation, postgres
from support.installation import Installation, running
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long]

HEAD = (
    b"POST /v1/iam/users/login HTTP/1.1\r\nHost: here\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n"
)
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
STOP_TIMEOUT_S = 60


@pytest.mark.each_change
def test_from_nothing_to_serving_and_again(home_folder: Path) -> None:
    home = home_folder / "a long path, with spaces" / ("x" * 150)
    with running(home) as first:
        assert first.is_healthy()
        with urlopen(f"{first.base_url}/readyz", timeout=60) as answer:  # noqa: S310 - our own
            assert json.load(answer) == {"status": "ready"}
        said = "".join(first.said)
        for words in ("PostgreSQL runs", "tables are up to date", "worker is ready", "Ready in", "/v1/connect/charge"):
            assert words in said
        assert not [line for line in first.said if line.startswith("{")], "a person reads it, also in a file"
        sandbox = first.sandbox
        assert list(sandbox) == [
            "base_url", "auth_url", "client_id", "client_secret", "holder_id", "pix_keys", "console_url",
        ]  # fmt: skip
        assert (first.home / "sandbox.json").stat().st_mode & 0o777 == 0o600
        pasted = said.split("to paste into another terminal:\n\n")[1].split("\n\nCtrl-C")[0]
        assert max(map(len, pasted.splitlines())) <= 80
        answer = subprocess.run(["sh", "-c", pasted], capture_output=True, text=True, check=True).stdout
        assert answer.endswith("}\n")
        [alias] = [line for line in said.splitlines() if line.startswith("alias pixconnect=")]
        verb = f"{alias}\npixconnect holder show --holder-id 1"
        shown = subprocess.run(["sh", "-c", verb], capture_output=True, text=True, check=True, cwd="/").stdout
        assert shown.startswith("holder_id: 1\n")
        assert json.loads(answer)["data"]["status"] == "PENDING"
        assert (first.home / "running.json").stat().st_mode & 0o777 == 0o600
    with running(home) as second:
        assert second.is_healthy()
        assert second.sandbox["client_id"] == sandbox["client_id"]
        assert second.sandbox["client_secret"] == sandbox["client_secret"]
        assert second.sandbox["holder_id"] == sandbox["holder_id"]


def test_no_serving_process_is_given_the_owners_login(home_folder: Path) -> None:
    with running(home_folder) as one:
        assert one.is_healthy()
        # Its first visitor starts the console.
        with urlopen(one.sandbox["console_url"], timeout=60) as answer:  # noqa: S310 - our own
            assert answer.status == 200
        placement = msgspec.json.decode((one.home / "postgres.json").read_bytes(), type=Placement)
        for part in ("serve", "work", "sandbox", "console"):
            for pid in one.children(part):
                # A forked part gets its environment by a message, so all its writable memory is searched.
                memory = _read_memory(pid)
                assert placement.login_password.encode() in memory
                assert placement.owner_password.encode() not in memory
                assert (placement.console_password.encode() in memory) == (part == "console")


def _read_memory(pid: int) -> bytes:
    """The writable memory of a process, which is suspended so that nothing is freed before it is read."""
    os.kill(pid, signal.SIGSTOP)
    try:
        stat = Path(f"/proc/{pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        ranges = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
        found = bytearray()
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for bounds in [words[0] for words in ranges if words[1] == "rw-p"]:
                start, end = (int(bound, 16) for bound in bounds.split("-"))
                memory.seek(start)
                found += memory.read(end - start)
        return bytes(found)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_home_with_another_history_is_refused_in_one_line(home_folder: Path) -> None:
    with running(home_folder) as one:
        assert one.is_healthy()
        home = one.home
    asyncio.run(_change_history(home))
    environment = os.environ | {"PIXCONNECT_HOME": str(home), "PORT": "0", "NO_COLOR": "1"}
    refused = subprocess.run(
        [sys.executable, "-m", "pixconnect", "run"], env=environment, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert refused.returncode == 78
    [line] = [line for line in refused.stderr.splitlines() if line.startswith("pixconnect:")]
    assert "the tables of the schema pixconnect were made by another version" in line
    assert "nothing was changed" in line


async def _change_history(home: Path) -> None:
    server = EmbeddedPostgres(home, connections_max=50)
    await server.start()
    try:
        connection = await asyncpg.connect(server.owner_url)
        await connection.execute("update pixconnect.schema_version set checksum = 'another'")
        await connection.close()
    finally:
        await server.stop()


@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_cleanly_and_finishes_what_is_under_way(home_folder: Path, stop_signal: signal.Signals) -> None:
    with Installation(home_folder) as one:
        one.wait_until_ready()
        below = installation.descendants(one.process.pid)
        url = urlsplit(one.base_url)
        with socket.create_connection((url.hostname, url.port), timeout=60) as caller:
            caller.sendall(HEAD)
            assert caller.recv(len(GO_ON), socket.MSG_WAITALL) == GO_ON  # so it is under way
            caller.sendall(b"a=XY")
            one.process.send_signal(stop_signal)
            one.wait_for("stopping")
            time.sleep(0.2)
            caller.sendall(b"Z")
            assert caller.recv(100).startswith(b"HTTP/1.1 400 ")
            one.process.communicate(timeout=STOP_TIMEOUT_S)
        assert one.process.returncode == 0
        # A process that has closed its output is about to end.
        wait_until(lambda: not any(installation.is_alive(pid) for pid in below))
        assert not (home_folder / "running.json").exists()


def test_nobody_is_waited_for_longer_than_five_seconds_in_all() -> None:
    """So Ctrl-C is answered. The shown time depends on the machine; the time-outs do not."""
    assert stack._API_STOP_TIMEOUT_S + stack._BACK_STOP_TIMEOUT_S + stack._POSTGRES_STOP_TIMEOUT_S < 5


def test_a_taken_port_is_named(home_folder: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        refused = installation.run_verb(home_folder, "run", port=port)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"pixconnect: port {port} of 127.0.0.1 is taken: stop the program that listens there, or set PORT to another\n"
    )


def test_a_database_that_cannot_be_reached_is_named(home_folder: Path) -> None:
    refused = installation.run_verb(home_folder, "run", database_url="postgresql://x@127.0.0.1:1/x")
    assert refused.returncode == 1
    assert "the database cannot be reached" in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.each_change
def test_a_database_of_ones_own_is_used(home_folder: Path, database: postgres.Addresses) -> None:
    with running(home_folder, database_url=database.service_url, owner_database_url=database.owner_url) as one:
        assert one.is_healthy()
        assert not (home_folder / "postgres").exists()


def test_an_operators_verb_finds_the_running_service_by_its_home(home_folder: Path) -> None:
    with running(home_folder):
        done = installation.run_verb(home_folder, "migrate")
        assert (done.returncode, done.stdout) == (0, "the tables are up to date\n"), done.stderr
    missing = installation.run_verb(home_folder, "migrate")
    assert missing.returncode == 1
    assert f"nothing runs on {home_folder}: start `PORT=" in missing.stderr


@pytest.mark.each_change
def test_whatever_is_killed_is_started_again(home_folder: Path) -> None:
    with running(home_folder, api_processes_count="1") as one:
        [api] = one.children("serve")
        os.kill(api, signal.SIGKILL)
        assert one.is_healthy(), "the connection waited in the supervisor's socket"
        one.wait_for("API process 1 is back")
        for part, name in (("sandbox", "sandbox"), ("work", "worker")):
            [before] = one.children(part)
            os.kill(before, signal.SIGKILL)
            one.wait_for(f"{name} is back")
            assert one.children(part) != [before]
        os.kill(one.database_pid, signal.SIGKILL)
        one.wait_for("PostgreSQL is back")
        wait_until(lambda: one.health() == "healthy")


def test_nothing_survives_a_killed_supervisor_and_it_runs_again_at_once(home_folder: Path) -> None:
    with Installation(home_folder) as one:
        one.wait_until_ready()
        below = installation.descendants(one.process.pid)
        assert len(below) >= 5
        one.kill()
        with running(home_folder) as again:
            assert again.is_healthy()
        wait_until(lambda: not any(installation.is_alive(pid) for pid in below))


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_run_ends_with_make_however_that_ended(home_folder: Path) -> None:
    with Installation(home_folder, command=["make", "run"]) as one:
        one.wait_until_ready()
        below = installation.descendants(one.process.pid)
        assert one.is_healthy()
        one.process.kill()
        wait_until(lambda: not any(installation.is_alive(pid) for pid in below))
