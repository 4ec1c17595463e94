"""The proxy configuration as shipped, run by nginx in front of two API processes, the console and a flood."""

import base64
import json
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from msgspec import Struct

from pixconnect.doors.api.decoding import BODY_MAX
from pixconnect.doors.console.forms import DOOR_SIZE_MAX
from pixconnect.features.identity.api import TOKEN_PATH
from pixconnect.features.lots.api import BODY_MAX as LOT_MAX
from pixconnect.features.webhooks.service.feed import WAIT_MAX_S
from pixconnect.kernel.rules.access import FAILURES_MAX
from pixconnect.platform import certificates
from pixconnect.platform.http import listening as limits
from support.account_at_face import run
from support.installation import Installation, running
from support.nginx import NAMES, TEXT, let_in, running_nginx, skip_without_nginx, write_at
from support.ports import reserved_port


def _values(name: str) -> list[float]:
    """In octets or seconds, in the order of the file."""
    units = {"": 1, "k": 1024, "m": 1024**2, "s": 1, "h": 3600}
    found = re.findall(rf"^ *{name} (\d+)([kmsh]?);", TEXT, re.MULTILINE)
    return [int(number) * units[unit] for number, unit in found]


def test_its_limits_agree_with_ours() -> None:
    everywhere, lots, *logins = _values("client_max_body_size")
    # Our limit is in the error, so the proxy must pass it; much larger requests end at the proxy.
    assert BODY_MAX < everywhere <= 2 * BODY_MAX
    assert LOT_MAX < lots <= 2 * LOT_MAX
    assert {DOOR_SIZE_MAX < size <= 2 * DOOR_SIZE_MAX for size in logins} == {True}
    assert len(logins) == 2
    assert _values("client_header_timeout") == [limits.HEAD_TIMEOUT_S]
    assert _values("client_body_timeout")[0] == limits.BODY_TIMEOUT_S
    assert _values("send_timeout") == [limits.STALLED_MAX_S]
    towards_us = re.findall(r"^ {8}keepalive_timeout (\d+)s;", TEXT, re.MULTILINE)
    assert int(towards_us[0]) < limits.KEEP_ALIVE_S == _values("keepalive_timeout")[0]
    assert f"large_client_header_buffers 4 {limits.HEAD_MAX // 1024}k;" in TEXT
    assert all(wait_s > WAIT_MAX_S for wait_s in _values("proxy_read_timeout")[:1])
    # It must not refuse a failed login before we count it.
    (per_second,) = re.findall(r"zone=logins:10m rate=(\d+)r/s;", TEXT)
    assert int(per_second) * 60 > FAILURES_MAX


class Answer(Struct, frozen=True, kw_only=True):
    status: int
    body: bytes

    def json(self) -> dict[str, Any]:
        return json.loads(self.body)


class Proxied(Struct, frozen=True, kw_only=True):
    service: Installation
    port: int
    tls_port: int
    authority: Path

    def open(self, name: str = NAMES[0], *, both_file: str | None = None, source: str = "127.0.0.1") -> ssl.SSLSocket:
        """Connect as a program that resolves the name by DNS, from a given address."""
        context = ssl.create_default_context(cafile=str(self.authority))
        # A sandbox's certificate has other names.
        context.check_hostname = name != NAMES[2]
        if both_file:
            context.load_cert_chain(both_file)
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=120, source_address=(source, 0))
        return context.wrap_socket(plain, server_hostname=name)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        name: str = NAMES[0],
        both_file: str | None = None,
        source: str = "127.0.0.1",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        connection = HTTPConnection(name)
        connection.sock = self.open(name, both_file=both_file, source=source)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Answer(status=answer.status, body=answer.read())
        finally:
            connection.close()

    def login(self, secret: str = "", client: Mapping[str, str] | None = None, **given: Any) -> Answer:
        known = client or self.service.sandbox
        form = {
            "grant_type": "client_credentials",
            "client_id": known["client_id"],
            "client_secret": secret or known["client_secret"],
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", **given.pop("headers", {})}
        return self.ask("POST", TOKEN_PATH, urlencode(form).encode(), headers=headers, **given)

    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.login().json()['access_token']}", "Content-Type": "application/json"}


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    skip_without_nginx()
    home = tmp_path_factory.mktemp("home")
    let_in(home)
    with ExitStack() as opened:
        # There is no second process: its share goes to the first.
        port, inner, tls, console, nobody = (opened.enter_context(reserved_port()) for _ in range(5))
        settings = {
            "trusted_proxies": "127.0.0.1/32", "tls_port": str(tls), "tls_proxies": "127.0.0.1/32",
            "console_port": str(console), "console_base_url": f"https://{NAMES[1]}", "sandbox_loopback": "allowed",
        }  # fmt: skip
        service = opened.enter_context(running(home, **settings))
        ours = service.base_url.rpartition(":")[2]
        own = tmp_path_factory.mktemp("nginx")
        both = certificates.write_server(own, NAMES, datetime.now(UTC))
        ports = {"8081": ours, "8082": str(nobody), "8443": str(inner), "8444": str(tls), "9080": str(console)}
        text = write_at(own, both, ports | {"443": str(port)})
        opened.enter_context(running_nginx(own, text, port))
        authority = own / "both.pem"
        authority.write_text(certificates.authority_file(own).read_text() + certificates.authority_file(home).read_text())
        yield Proxied(service=service, port=port, tls_port=tls, authority=authority)


def _charge(proxied: Proxied, external_id: str, size: int = 0) -> Answer:
    key = proxied.service.sandbox["pix_keys"][0]
    body = json.dumps({"amount": 1000, "key": key, "external_id": external_id}).encode()
    return proxied.ask("POST", "/v1/connect/charge", body + b" " * (size - len(body)), headers=proxied.bearer())


@pytest.mark.long
@pytest.mark.journey
def test_a_charge_is_made_through_it_and_the_console_is_behind_it(proxied: Proxied) -> None:
    made = _charge(proxied, "by-the-proxy")
    assert made.json()["data"]["emvqrcps"], made
    assert proxied.ask("GET", "/sign-in", name=NAMES[1]).status == 200


@pytest.mark.long
@pytest.mark.journey
def test_what_is_too_long_is_refused_by_us_and_what_is_far_too_long_by_it(proxied: Proxied) -> None:
    ours = _charge(proxied, "long", BODY_MAX + 1)
    assert (ours.status, b"<html>" in ours.body) == (413, False)
    its = _charge(proxied, "longer", 2 * BODY_MAX)
    assert (its.status, b"nginx" in its.body) == (413, True)
    lots = {"descricao": "Turno", "cobsv": []}
    for size, status, is_its in ((LOT_MAX, 400, False), (LOT_MAX + 1, 413, False), (2 * LOT_MAX, 413, True)):
        told = proxied.ask("PUT", "/v2/lotecobv/1", json.dumps(lots).encode().ljust(size), headers=proxied.bearer())
        assert (told.status, b"nginx" in told.body) == (status, is_its)
    for size, is_its in ((DOOR_SIZE_MAX + 1, False), (2 * DOOR_SIZE_MAX, True)):
        refused = proxied.login("x" * size)
        assert (refused.status, b"nginx" in refused.body) == (413, is_its)


@pytest.mark.long
@pytest.mark.journey
def test_slow_logins_by_the_hundred_stop_nobody_else(proxied: Proxied) -> None:
    head = f"POST {TOKEN_PATH} HTTP/1.1\r\nHost: {NAMES[0]}\r\nContent-Length: 4000\r\n\r\n".encode()
    with ExitStack() as opened:
        for _ in range(250):
            slow = opened.enter_context(proxied.open(source="127.0.0.2"))
            slow.sendall(head)
        # They are many for one address without a complete request: the service has seen none of it.
        assert _charge(proxied, "beside-slow-logins").status in {200, 201}
    # So many complete ones are refused without the service, and only to their sender.
    statuses = [proxied.login("wrong", source="127.0.0.3").status for _ in range(80)]
    assert {401, 429} >= set(statuses)
    assert _charge(proxied, "beside-wrong-logins").status in {200, 201}


@pytest.mark.long
@pytest.mark.journey
def test_a_long_poll_waits_its_whole_time(proxied: Proxied) -> None:
    path = f"/v1/webhook/feed?start=now&wait_s={WAIT_MAX_S}"
    waited = proxied.ask("GET", path, headers=proxied.bearer())
    assert waited.status == 200, waited


@pytest.mark.long
@pytest.mark.journey
def test_a_certificate_passes_through_and_headers_that_claim_one_do_not(proxied: Proxied) -> None:
    client = run(proxied.service, "client", "create", "--holder-id", proxied.service.sandbox["holder_id"], "--json")
    made = run(proxied.service, "client", "certificate", client["client_id"], "--json")
    certificate = made["both_file"]
    assert proxied.login(client=client, name=NAMES[2], both_file=certificate).status == 200
    encoded = base64.b64encode(ssl.PEM_cert_to_DER_cert(Path(made["certificate_file"]).read_text())).decode()
    for name in (NAMES[0], NAMES[2]):
        claimed = proxied.login(client=client, name=name, headers={"Client-Cert": f":{encoded}:"})
        assert claimed.status == 401, claimed


@pytest.mark.long
@pytest.mark.journey
@pytest.mark.parametrize("name", [NAMES[0], NAMES[2]])
def test_nobody_chooses_the_address_that_failures_count_for(proxied: Proxied, name: str) -> None:
    """By either road it is the connection's address: neither a client's header, nor the proxy's."""
    client = run(proxied.service, "client", "create", "--holder-id", proxied.service.sandbox["holder_id"], "--json")
    source = f"127.0.1.{1 + NAMES.index(name)}"
    for number in range(FAILURES_MAX + 5):
        unknown = {"client_id": f"{number:032d}", "client_secret": "wrong"}
        headers = {"X-Forwarded-For": f"203.0.113.{number}"}
        last = proxied.login(client=unknown, name=name, source=source, headers=headers)
    assert last.status == 429
    assert proxied.login(client=client, name=name, source="127.0.2.1").status == 200


@pytest.mark.long
@pytest.mark.journey
def test_who_does_not_say_who_connected_is_refused_where_it_must(proxied: Proxied) -> None:
    with socket.create_connection(("127.0.0.1", proxied.tls_port), timeout=60) as tried:
        tried.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        with suppress(ConnectionError):
            assert tried.recv(1) == b""
