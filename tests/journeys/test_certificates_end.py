"""Errors after certificates have expired, word by word as the page on failures quotes them.

A live installation whose own certificate has expired, with those for posting webhooks and of a client. The messages
about an account at an institution are compared in ``tests/features/institutions/service/test_account.py``.
"""

import re
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import httpx
import pytest
from msgspec import Struct

from pixconnect.platform.adapters.outgoing_http import WebhookSender, make_tls
from support.account_at_face import LIVE, run
from support.failure_page import quoted
from support.installation import Installation
from support.ports import reserved_pair, reserved_port
from support.tls import Authority
from support.waiting import wait_until
from support.webhooks import open_http, open_receiver

pytestmark = [pytest.mark.journey, pytest.mark.long]

_WHY = re.compile(r"certificate (?:has )?expired")
# Receivers may refuse with an alert or silently.
_TURNED_AWAY = re.compile(r"the connection was (?:closed|reset) before an answer|TLS: \S*_CERTIFICATE_EXPIRED")
_LEFT = re.compile(r"-\d\S*$")
_INSTANT = re.compile(r"\d{4}-\S+Z")


class Ended(Struct, frozen=True, kw_only=True):
    live: Installation
    port: int
    tls_port: int
    metrics_port: int
    folder: Path
    authority: Authority


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    folder = tmp_path_factory.mktemp("ended")
    authority = Authority(folder)
    for name in ("localhost", "shop"):
        authority.server_context(name, days_ago=10)
    file = str(folder / "localhost-10.pem")
    files = dict.fromkeys(("TLS_CERTIFICATE_FILE", "TLS_KEY_FILE", "WEBHOOK_CERTIFICATE_FILE", "WEBHOOK_KEY_FILE"), file)
    with reserved_port() as port, reserved_port() as tls_port, reserved_pair() as metrics_port:
        ports = dict(PORT=str(port), TLS_PORT=str(tls_port), METRICS_PORT=str(metrics_port))
        settings = LIVE | ports | files | dict(TLS_AUTHORITY_FILE=str(folder / "ca.pem"), API_PROCESSES_COUNT="1")
        with Installation(folder / "home", **settings) as live:
            live.wait_until_ready()
            yield Ended(live=live, port=port, tls_port=tls_port, metrics_port=metrics_port, folder=folder, authority=authority)


def log_in(one: Ended, context: ssl.SSLContext) -> str:
    """The error of a program that tries to."""
    try:
        return str(httpx.post(f"https://localhost:{one.tls_port}/v1/iam/users/login", verify=context, timeout=60).status_code)
    except httpx.HTTPError as error:
        # Versions of OpenSSL differ in the words around it.
        return " ".join(_WHY.findall(str(error)))


def health(one: Ended) -> str:
    report: dict[str, Any] = {}

    def has_database() -> bool:
        # On a busy machine any check may time out once, and without the database nothing is healthy.
        report.update(httpx.get(f"http://127.0.0.1:{one.port}/v1/connect/health", timeout=60).json()["data"])
        return report["status"] != "unhealthy"

    wait_until(has_database, "the database answers")
    return f"{report['status']}; settings: {report['checks']['settings']['error']}"


def metric(one: Ended, name: str, label: str, value: str) -> str:
    """The line of a process with it, without its varying figures."""
    found: list[str] = []
    begin = f'{name}{{{label}="{value}"}}'

    def is_told() -> bool:
        for port in (one.metrics_port, one.metrics_port + 1):
            # A starting process is asked again.
            with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                found.extend(line for line in answer.read().decode().splitlines() if line.startswith(begin))
        return bool(found)

    wait_until(is_told, f"a process tells {begin}")
    return _LEFT.sub("below 0", found[0])


def test_our_own_has_ended(ended: Ended) -> None:
    trusting = ssl.create_default_context(cafile=str(ended.folder / "ca.pem"))
    assert quoted("Our own certificate has ended") == [
        f"a caller:   {log_in(ended, trusting)}",
        f"health:     {health(ended)}",
        f"the metric: {metric(ended, 'pixconnect_certificate_seconds_left', 'used_for', 'PIXCONNECT_TLS_PORT')}",
    ]


def test_a_clients_has_ended(ended: Ended) -> None:
    run(ended.live, "holder", "create", "--name", "Loja", "--tax-id", "12345678000195", "--account-number", "1",
        "--no-limits", "--json")  # fmt: skip
    made = run(ended.live, "client", "create", "--holder-id", "1", "--scope", "charge.read", "--json")
    file = str(ended.folder / "shop-10.pem")
    run(ended.live, "client", "certificate", made["client_id"], "--file", file, "--json")
    showing = ssl.create_default_context()
    showing.check_hostname, showing.verify_mode = False, ssl.CERT_NONE  # ours has expired too
    showing.load_cert_chain(file)
    # In later TLS versions the handshake is over when it is refused, and the alert may be lost with the connection.
    showing.maximum_version = ssl.TLSVersion.TLSv1_2
    (listed,) = run(ended.live, "client", "list", "--holder-id", "1", "--json")["clients"]
    assert quoted("A client's certificate has ended") == [
        f"the client:  {log_in(ended, showing)}",
        f"client list: certificate_expires_at {_INSTANT.sub('INSTANT', listed['certificate_expires_at'])}",
        f"the metric:  {metric(ended, 'pixconnect_client_certificates', 'state', 'ended')}",
    ]


async def test_that_for_webhooks_has_ended(ended: Ended) -> None:
    receivers = ended.authority.server_context("localhost")
    receivers.verify_mode = ssl.CERT_REQUIRED
    receivers.load_verify_locations(ended.folder / "ca.pem")
    file = str(ended.folder / "localhost-10.pem")
    ours = make_tls(file, file)
    ours.load_verify_locations(ended.folder / "ca.pem")
    patient: dict[str, Any] = dict(connect_s=60.0, exchange_s=60.0)
    async with open_receiver(tls=receivers) as receiver, open_http(None, ours, **patient) as http:
        sender = WebhookSender(http, allows_loopback=True)
        attempt = await sender.post(f"https://localhost:{receiver.port}/", [], b"{}")
    assert quoted("The certificate for webhooks has ended") == [
        f"an attempt: {_TURNED_AWAY.sub('the connection was closed before an answer', str(attempt.error))}",
        f"health:     {health(ended)}",
        f"the metric: {metric(ended, 'pixconnect_certificate_seconds_left', 'used_for', 'webhooks')}",
    ]
