"""Behind the proxy requests of one cell meet in one process, and any other serves it once that is gone."""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import httpx2
import pytest
from msgspec import Struct

from pixconnect.local import tls_files
from support.installation import PIXCONNECT, Installation, wait_until
from support.nginx import NAMES, let_in, running_nginx, skip_without_nginx, write_at
from support.ports import reserved_port
from support.two_cells import TwoCells, open_two_cells

pytestmark = [pytest.mark.journey, pytest.mark.long]

HOME, SECOND = 0, 1
HINT: Final = "eyJjZWxsIjoiMDAx"
_ANSWERS = re.compile(r'^pixconnect_requests_total\{operation="[^"]*", ?status="(\d+)"\} (\d+)', re.MULTILINE)
_serial = count(1)


class Place(Struct, frozen=True, kw_only=True):
    """Where an API process listens."""

    port: int
    metrics_port: int

    def start(self, home: Path) -> Installation:
        settings = {"port": str(self.port), "metrics_port": str(self.metrics_port)}
        started = Installation(home, (*PIXCONNECT, "serve"), trusted_proxies="127.0.0.1/32", **settings)
        started.wait_for("ready")
        return started

    def count_answers(self, status: int) -> int:
        """How many requests it has answered so."""
        with urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        return sum(int(found[2]) for found in _ANSWERS.finditer(text) if int(found[1]) == status)


class Door(Struct, frozen=True, kw_only=True):
    """The proxy, as callers reach it."""

    two: TwoCells
    http: httpx2.Client

    def log_in(self, cell: int) -> str:
        account = self.two.holders[cell]
        form = {
            "grant_type": "client_credentials",
            "client_id": account.client_id,
            "client_secret": account.client_secret,
        }
        return self._send("POST", "/oauth/token", data=form).json()["access_token"]

    def charge(self, cell: int, token: str | None = None) -> int:
        """The status of what a holder of this cell asks for, by whatever token."""
        body = {"amount": 1000, "key": self.two.holders[cell].key, "external_id": f"met-{next(_serial)}"}
        headers = {"Authorization": f"Bearer {token or self.log_in(cell)}"}
        return self._send("POST", "/v1/connect/charge", json=body, headers=headers).status_code

    def _send(self, method: str, path: str, **given: object) -> httpx2.Response:
        return self.http.request(method, path, extensions={"sni_hostname": NAMES[0]}, **given)  # type: ignore[arg-type]


class House(Struct, frozen=True, kw_only=True):
    """Two cells, and two processes that serve both."""

    two: TwoCells
    places: tuple[Place, Place]
    running: list[Installation]

    @contextmanager
    def open_door(self, *, keeps_apart: bool) -> Iterator[Door]:
        """By the configuration as it stands, or where the home cell's other process waits too."""
        first, second = self.places
        with ExitStack() as opened:
            port, inner, other, nobody = (opened.enter_context(reserved_port()) for _ in range(4))
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
            let_in(folder)
            both = tls_files.write_server(folder, NAMES, datetime.now(UTC))
            ports = {"8081": first.port, "8082": second.port, "8443": inner, "8444": other, "9080": nobody, "443": port}
            text = write_at(folder, both, {name: str(ours) for name, ours in ports.items()})
            if keeps_apart:
                server = f"server 127.0.0.1:{second.port} max_fails=0"
                text = text.replace(f"{server};", f"{server} backup;", 1)
            opened.enter_context(running_nginx(folder, text, port))
            context = ssl.create_default_context(cafile=str(tls_files.authority_file(folder)))
            client = httpx2.Client(
                base_url=f"https://127.0.0.1:{port}",
                verify=context,
                headers={"Host": NAMES[0]},
                timeout=60,
                trust_env=False,
            )
            yield Door(two=self.two, http=opened.enter_context(client))

    def count_new(self, status: int, since: tuple[int, ...] = (0, 0)) -> tuple[int, ...]:
        return tuple(place.count_answers(status) - before for place, before in zip(self.places, since, strict=True))

    def start_again(self, place: int) -> None:
        self.running[place] = self.places[place].start(self.two.service.installation.home)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    skip_without_nginx()
    with ExitStack() as opened:
        two = opened.enter_context(open_two_cells())
        ports = iter([opened.enter_context(reserved_port()) for _ in range(4)])
        places = tuple(Place(port=next(ports), metrics_port=next(ports)) for _ in range(2))
        running = [place.start(two.service.installation.home) for place in places]
        yield House(two=two, places=(places[0], places[1]), running=running)
        for each in running:
            each.kill()


def test_requests_of_one_cell_meet_in_one_process(house: House) -> None:
    with house.open_door(keeps_apart=True) as door:
        tokens = [door.log_in(cell) for cell in (HOME, SECOND)]
        assert [token.startswith(HINT) for token in tokens] == [False, True]
        for cell, met in ((HOME, (12, 0)), (SECOND, (0, 12))):
            before = house.count_new(200)
            assert {door.charge(cell, tokens[cell]) for _ in range(12)} == {200}
            assert house.count_new(200, before) == met


def test_as_it_stands_the_home_cell_has_all_processes(house: House) -> None:
    with house.open_door(keeps_apart=False) as door:
        tokens = [door.log_in(cell) for cell in (HOME, SECOND)]
        before = house.count_new(200)
        assert {door.charge(SECOND, tokens[SECOND]) for _ in range(12)} == {200}
        assert house.count_new(200, before) == (0, 12)
        before = house.count_new(200)
        assert {door.charge(HOME, tokens[HOME]) for _ in range(24)} == {200}
        assert min(house.count_new(200, before)) > 0


def test_a_hint_opens_nothing(house: House) -> None:
    with house.open_door(keeps_apart=True) as door:
        home, second = (door.log_in(cell) for cell in (HOME, SECOND))
        head, _, rest = second.partition(".")
        before = house.count_new(401)
        # The claims of one by the hint of the other, a hint that leads nowhere, one alone, and none where there was one.
        for forged, met in (
            (f"{head}.{home.partition('.')[2]}", (0, 1)),
            (f"{home.partition('.')[0]}.{rest}", (1, 0)),
            (second.replace(HINT, "eyJjZWxsIjoiMjU1", 1), (1, 0)),
            (HINT, (0, 1)),
        ):
            assert door.charge(SECOND, forged) == 401
            assert house.count_new(401, before) == met
            before = house.count_new(401)


@pytest.mark.parametrize("place", [1, 0])
def test_both_cells_are_served_while_one_process_is_gone(house: House, place: int) -> None:
    with house.open_door(keeps_apart=True) as door:
        tokens = [door.log_in(cell) for cell in (HOME, SECOND)]
        assert {door.charge(cell, tokens[cell]) for cell in (HOME, SECOND)} == {200}
        house.running[place].kill()
        assert {door.charge(cell, tokens[cell]) for cell in (HOME, SECOND) * 6} == {200}
        house.start_again(place)
        # The proxy tries it again, after a while.
        before = house.places[place].count_answers(200)
        wait_until(lambda: door.charge(place, tokens[place]) == 200 and house.places[place].count_answers(200) > before)


def test_a_process_that_is_there_again_is_used_at_once_though_the_other_has_gone_then(house: House) -> None:
    with house.open_door(keeps_apart=False) as door:
        tokens = [door.log_in(cell) for cell in (HOME, SECOND)]
        for place in (1, 0):
            house.running[place].kill()
            assert {door.charge(cell, tokens[cell]) for cell in (HOME, SECOND) * 4} == {200}
            house.start_again(place)
            other = 1 - place
            house.running[other].kill()
            assert {door.charge(cell, tokens[cell]) for cell in (HOME, SECOND) * 4} == {200}
            house.start_again(other)
