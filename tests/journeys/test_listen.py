"""``pixconnect listen`` while each side is killed in turn: nothing is left out, and nothing comes in another order.

``PIXCONNECT_PROVE_KILLS`` and ``PIXCONNECT_PROVE_EVENTS`` make it longer.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pixconnect_client import Client, PixConnectError
from support import installation
from support.installation import PIXCONNECT, Installation, environment
from support.ports import reserved_port
from support.waiting import PATIENCE_S

pytestmark = [pytest.mark.journey, pytest.mark.long]

KILLS = int(os.environ.get("PIXCONNECT_PROVE_KILLS", "3"))
EVENTS = int(os.environ.get("PIXCONNECT_PROVE_EVENTS", "120"))

# It answers once the event is on the disk, as a program that keeps its promise does.
PROGRAM = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
kept = open(sys.argv[2], "ab", buffering=0)
class Program(BaseHTTPRequestHandler):
    def do_POST(self):
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kept.write(b"%d\\n" % event["id"])
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass
HTTPServer(("127.0.0.1", int(sys.argv[1])), Program).serve_forever()
"""


class Sides:
    """The program and the listener, each of which may be killed and is started again."""

    def __init__(self, service: Installation, port: int, folder: Path) -> None:
        self.kept = folder / "kept"
        self._program = [sys.executable, "-c", PROGRAM, str(port), str(self.kept)]
        self._listen = [*PIXCONNECT, "listen", "--forward-to", f"http://127.0.0.1:{port}/", "--start"]
        self._environment = environment(service.home) | {"XDG_STATE_HOME": str(folder)}
        self._service = service
        self.program = self._start(self._program)
        self.listener = self._start([*self._listen, "oldest"])

    def kill(self, number: int) -> None:
        match number % 3:
            case 0:
                self.listener.kill()
                self.listener.wait()
                self.listener = self._start(self._listen[:-1])
            case 1:
                self.program.kill()
                self.program.wait()
                self.program = self._start(self._program)
            case _:
                os.kill(self._service.children("serve")[0], signal.SIGKILL)

    def close(self) -> None:
        for process in (self.program, self.listener):
            process.kill()
            process.wait()

    def took(self) -> list[int]:
        return [int(line) for line in self.kept.read_text().splitlines()] if self.kept.exists() else []

    def wait_until_it_took(self, count: int) -> None:
        installation.wait_until(lambda: len({*self.took()}) >= count)

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_nothing_is_left_out_whoever_is_killed(
    home_folder: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with Installation(home_folder) as service, reserved_port() as port:
        service.wait_until_ready()
        # What it says is read, or it would wait for a reader.
        reading = threading.Thread(target=_drain, args=(service,), daemon=True)
        reading.start()
        found = service.sandbox
        sides = Sides(service, port, tmp_path)
        try:
            with Client(found["base_url"], found["client_id"], found["client_secret"], retries=20) as client:
                for number in range(EVENTS):
                    client.charges.create(1 + number, found["pix_keys"][0])
                    if number % (EVENTS // KILLS) == EVENTS // KILLS - 1:
                        # In the middle of what there is to post.
                        sides.wait_until_it_took((number + 1) // 2)
                        sides.kill(number // (EVENTS // KILLS))
                happened = _read_feed(client, EVENTS)
            assert len(happened) == EVENTS
            sides.wait_until_it_took(EVENTS)
            took = sides.took()
        finally:
            sides.close()
            service.process.terminate()
            service.process.wait(120)
            reading.join(60)
    # None lost, none passed over, none before an earlier one; what was not answered for certain comes again.
    assert [*dict.fromkeys(took)] == happened
    record_property("repeated", len(took) - len(happened))


def _drain(service: Installation) -> None:
    assert service.process.stdout is not None
    for _ in service.process.stdout:
        pass


def _read_feed(client: Client, count: int) -> list[int]:
    """So many events, and whatever comes after them: each gets its place by a worker, which may come to it late."""
    deadline_s = time.monotonic() + PATIENCE_S
    seen: list[int] = []
    cursor: str | None = None
    while True:
        try:
            page: dict[str, Any] = client.request(
                "GET", "/v1/webhook/feed", query={"cursor": cursor, "page_size": 1000, "wait_s": 2}
            )
        except PixConnectError:
            continue
        seen += [event["id"] for event in page["events"]]
        cursor = page["cursor"]
        if not page["events"] and (len(seen) >= count or time.monotonic() > deadline_s):
            return seen
