"""Tokens that are bound to a certificate, on a whole installation: a stolen one is useless."""

from collections.abc import Iterator

import httpx2
import pytest

from support.tls_installation import TlsInstallation, running_with_tls

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("events")]

LOGINS = ("/oauth/token", "/v1/iam/users/login")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsInstallation]:
    with running_with_tls(tmp_path_factory.mktemp("tls") / "home") as one:
        yield one


def log_in(client: httpx2.Client, path: str, credentials: dict[str, str]) -> httpx2.Response:
    form = {name: credentials[name] for name in ("client_id", "client_secret")}
    return client.post(path, data={"grant_type": "client_credentials"} | form)


def read_token(answer: httpx2.Response) -> dict[str, str]:
    body = answer.json()
    return {"Authorization": f"Bearer {body.get('data', body)['access_token']}"}


@pytest.mark.parametrize("path", LOGINS)
def test_a_client_with_a_certificate_can_do_nothing_without_it(world: TlsInstallation, path: str) -> None:
    bound, other = (world.create_client() for _ in range(2))
    files, of_other = world.certify(bound["client_id"]), world.certify(other["client_id"])
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


def test_a_client_without_one_works_on_both_ports_whatever_it_shows(world: TlsInstallation) -> None:
    sandbox = world.service.sandbox
    shown = world.certify(world.create_client()["client_id"])["both_file"]
    clients = world.connect(is_plain=True), world.connect(), world.connect(shown)
    with clients[0], clients[1], clients[2]:
        tokens = [read_token(log_in(client, LOGINS[0], sandbox)) for client in clients]
        for client in clients:
            for token in tokens:
                assert client.get("/v1/connect/balance", headers=token).status_code == 200
