"""A program that follows the feed by its cursor gets every event once, even if processes are killed."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from pixconnect_client import Client, PixConnectError
from support.installation import READY_TIMEOUT_S, Installation, running

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("feed")]

KILLED = ("work", "serve", "database")
WRITERS_COUNT = 4
CHARGES_BETWEEN_KILLS = 5


class Reader(threading.Thread):
    """Follows the feed from its cursor, and repeats failed requests."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self.read: list[tuple[int, int, str]] = []  # id, resource and name of the events, in the order of arrival
        self.is_over = False
        self._client = client

    def run(self) -> None:
        cursor: str | None = None
        while not self.is_over:
            with suppress(PixConnectError):  # the same request is repeated
                page = self._client.events.feed(cursor, wait_s=1)
                self.read += [(one.id, one.resource_id, str(one.name)) for one in page.events]
                cursor = page.cursor

    def wait_for(self, count: int) -> None:
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while len(self.read) < count:
            assert time.monotonic() < deadline_s, f"{len(self.read)} of {count} events were read"
            time.sleep(0.02)


def write(client: Client, names: list[str], key: str) -> None:
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    for name in names:
        while time.monotonic() < deadline_s:
            with suppress(PixConnectError):
                client.charges.create(amount=100, key=key, external_id=name)
                break


def kill(installation: Installation, part: str) -> None:
    with suppress(ProcessLookupError, AssertionError, FileNotFoundError):  # it is restarting
        pid = installation.database_pid if part == "database" else min(installation.children(part))
        os.kill(pid, signal.SIGKILL)


def test_a_reader_of_the_feed_misses_nothing_whoever_is_killed(tmp_path: Path) -> None:
    with ExitStack() as opened:
        installation = opened.enter_context(running(tmp_path / "home", log_level="error"))
        found = installation.sandbox
        clients = [
            opened.enter_context(Client(installation.base_url, found["client_id"], found["client_secret"]))
            for _ in range(WRITERS_COUNT + 1)
        ]
        reader = Reader(clients[-1])
        reader.start()
        made_count = 0
        for number, part in enumerate(KILLED):
            names = [[f"{number}-{writer}-{n}" for n in range(CHARGES_BETWEEN_KILLS)] for writer in range(WRITERS_COUNT)]
            with ThreadPoolExecutor(WRITERS_COUNT) as writers:
                writing = [
                    writers.submit(write, client, some, found["pix_keys"][0])
                    for client, some in zip(clients, names, strict=False)
                ]
                reader.wait_for(made_count + 1)
                kill(installation, part)
            for one in writing:
                one.result()
            made_count += WRITERS_COUNT * CHARGES_BETWEEN_KILLS
        reader.wait_for(made_count)
        listed = {event.id for event in clients[0].events.list(page_size=1000)}
        reader.is_over = True
        reader.join()
    read_ids = [event_id for event_id, _, _ in reader.read]
    assert (len(read_ids), set(read_ids)) == (made_count, listed)
