"""Two API processes share the requests behind the proxy, and either serves all of them when the other is gone."""

import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from urllib.request import urlopen

import httpx2
import pytest
from msgspec import Struct

from pixconnect.platform import certificates
from support.installation import PIXCONNECT, Installation
from support.nginx import NAMES, let_in, running_nginx, skip_without_nginx, write_at
from support.ports import reserved_port
from support.whole_installation import Account, WholeInstallation, open_whole_installation

pytestmark = [pytest.mark.journey, pytest.mark.long]

_ANSWERS = re.compile(r'^pixconnect_requests_total\{operation="[^"]*", ?status="200"\} (\d+)', re.MULTILINE)
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

    def count_answers(self) -> int:
        """The number of its responses with 200."""
        with urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=60) as answer:
            return sum(int(found[1]) for found in _ANSWERS.finditer(answer.read().decode()))


class House(Struct, frozen=True, kw_only=True):
    """An installation whose API processes are behind the proxy, at the proxy's address."""

    service: WholeInstallation
    account: Account
    places: tuple[Place, Place]
    running: list[Installation]
    http: httpx2.Client

    def charge(self, token: str) -> int:
        body = {"amount": 1000, "key": self.account.key, "external_id": f"proxied-{next(_serial)}"}
        return self.http.post(
            "/v1/connect/charge", json=body, headers={"Authorization": f"Bearer {token}"}, extensions={"sni_hostname": NAMES[0]}
        ).status_code

    def start_again(self, place: int) -> None:
        self.running[place] = self.places[place].start(self.service.installation.home)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    skip_without_nginx()
    with ExitStack() as opened:
        service = opened.enter_context(open_whole_installation())
        port, inner, tls, nobody, *ports = (opened.enter_context(reserved_port()) for _ in range(8))
        first, second = (Place(port=ports[at], metrics_port=ports[at + 1]) for at in (0, 2))
        running = [place.start(service.installation.home) for place in (first, second)]
        opened.callback(lambda: [each.kill() for each in running])
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        let_in(folder)
        both = certificates.write_server(folder, NAMES, datetime.now(UTC))
        places = {"8081": first.port, "8082": second.port, "8443": inner, "8444": tls, "9080": nobody, "443": port}
        text = write_at(folder, both, {name: str(ours) for name, ours in places.items()})
        opened.enter_context(running_nginx(folder, text, port))
        context = ssl.create_default_context(cafile=str(certificates.authority_file(folder)))
        http = opened.enter_context(
            httpx2.Client(
                base_url=f"https://127.0.0.1:{port}", verify=context, headers={"Host": NAMES[0]}, timeout=60,
                trust_env=False,
            )
        )  # fmt: skip
        account = service.open_account()
        yield House(service=service, account=account, places=(first, second), running=running, http=http)


def test_both_processes_answer(house: House) -> None:
    token = house.service.log_in(house.account)
    before = [place.count_answers() for place in house.places]
    assert {house.charge(token) for _ in range(24)} == {200}
    assert all(place.count_answers() > count for place, count in zip(house.places, before, strict=True))


def test_a_process_that_is_there_again_is_used_at_once_though_the_other_has_gone_then(house: House) -> None:
    token = house.service.log_in(house.account)
    for place in (1, 0):
        house.running[place].kill()
        assert {house.charge(token) for _ in range(8)} == {200}
        house.start_again(place)
        other = 1 - place
        house.running[other].kill()
        assert {house.charge(token) for _ in range(8)} == {200}
        house.start_again(other)
