"""Tokens that are bound to a certificate, on a whole installation: one that is stolen is worth nothing."""

import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import Struct

from support.installation import PIXCONNECT, Installation, running
from support.ports import reserved_port

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("events")]

LOGINS = ("/oauth/token", "/v1/iam/users/login")


class World(Struct, frozen=True, kw_only=True):
    service: Installation
    tls_url: str

    def operator(self, *words: str) -> dict[str, Any]:
        """What an operator's verb prints."""
        done = subprocess.run(
            [*PIXCONNECT, *words, "--json"],
            env=self.service.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return json.loads(done.stdout)

    def connect(self, both_file: str | None = None, *, is_plain: bool = False) -> httpx2.Client:
        if is_plain:
            return httpx2.Client(base_url=self.service.base_url, timeout=60)
        context = ssl.create_default_context(cafile=str(self.service.home / "tls" / "authority.pem"))
        if both_file:
            context.load_cert_chain(both_file)
        return httpx2.Client(base_url=self.tls_url, verify=context, timeout=60)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home: Path = tmp_path_factory.mktemp("tls") / "home"
    with reserved_port() as port, running(home, TLS_PORT=str(port)) as service:
        yield World(service=service, tls_url=f"https://127.0.0.1:{port}")


def log_in(client: httpx2.Client, path: str, credentials: dict[str, str]) -> httpx2.Response:
    form = {name: credentials[name] for name in ("client_id", "client_secret")}
    return client.post(path, data={"grant_type": "client_credentials"} | form)


def read_token(answer: httpx2.Response) -> dict[str, str]:
    body = answer.json()
    return {"Authorization": f"Bearer {body.get('data', body)['access_token']}"}


@pytest.mark.parametrize("path", LOGINS)
def test_a_client_with_a_certificate_can_do_nothing_without_it(world: World, path: str) -> None:
    holder_id = str(world.service.sandbox["holder_id"])
    bound, other = (world.operator("client", "create", "--holder-id", holder_id) for _ in range(2))
    files = world.operator("client", "certificate", bound["client_id"])
    of_other = world.operator("client", "certificate", other["client_id"])
    right = world.connect(files["both_file"])
    wrong = (world.connect(is_plain=True), world.connect(), world.connect(of_other["both_file"]))
    with right, wrong[0], wrong[1], wrong[2]:
        token = read_token(log_in(right, path, bound))
        assert right.get("/v1/connect/balance", headers=token).status_code == 200
        for client in wrong:
            refused = log_in(client, path, bound)
            assert (refused.status_code, "certificate" in refused.text) == (401, True)
            stolen = client.get("/v1/connect/balance", headers=token)
            assert (stolen.status_code, "certificate" in stolen.text) == (401, True)


def test_a_client_without_one_works_on_both_ports_whatever_it_shows(world: World) -> None:
    sandbox = world.service.sandbox
    other = world.operator("client", "create", "--holder-id", sandbox["holder_id"])
    shown = world.operator("client", "certificate", other["client_id"])["both_file"]
    clients = world.connect(is_plain=True), world.connect(), world.connect(shown)
    with clients[0], clients[1], clients[2]:
        tokens = [read_token(log_in(client, LOGINS[0], sandbox)) for client in clients]
        for client in clients:
            for token in tokens:
                assert client.get("/v1/connect/balance", headers=token).status_code == 200
