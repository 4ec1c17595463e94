"""``pixconnect doctor`` reports problems with their remedies, and confirms what is right."""

import json
import os
import re
import socket
import ssl
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

import pytest
from asyncpg import InsufficientPrivilegeError

from pixconnect.doors.cli.failures import ExitStatus
from pixconnect.platform.config import Settings
from pixconnect.platform.local.home import closed_mode
from pixconnect.running import doctor as local_checks
from pixconnect.running.main import main
from pixconnect_client import Client
from support.installation import Installation
from support.listening_program import a_program
from support.postgres import Addresses
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("integrator")]


def _look(capsys: pytest.CaptureFixture[str], status: int) -> dict[str, Any]:
    """The findings, by subject."""
    assert main(["doctor", "--json"]) == status
    return {one["check"]: one for one in json.loads(capsys.readouterr().out)["findings"]}


def test_what_is_well_is_said(sandbox: Installation, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clock", "reset"]) == main(["faults", "clear"]) == 0
    capsys.readouterr()
    found = _look(capsys, 0)
    assert {one["status"] for one in found.values()} == {"ok"}
    assert {"version", "home", "disk", "login", "secret_key", "database", "service", "credentials", "clock"} <= {*found}


def test_a_login_that_inherits_a_role_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    grant = "grant pixconnect_operator to pix_joana with inherit false"
    told = dict(postgresql="16", mode="live", inherited=grant)
    monkeypatch.setattr(local_checks.operating, "run_with_other_key", lambda _: told)
    [_, found] = local_checks._look_at_tables()
    assert (found.check, found.status, found.todo) == ("logins", "wrong", f"run `{grant}`")


def test_each_login_and_the_secret_key_are_tried(database: Addresses, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    address = urlsplit(database.service_url)
    stranger = database.service_url.replace(f"{address.username}:", "stranger:")
    monkeypatch.setenv("PIXCONNECT_HOME", str(tmp_path))
    monkeypatch.setenv("PIXCONNECT_SECRET_KEY", "A" * 43 + "=")
    monkeypatch.setenv("PIXCONNECT_DATABASE_URL", database.service_url)
    monkeypatch.setenv("PIXCONNECT_OWNER_DATABASE_URL", database.owner_url)
    monkeypatch.setenv("PIXCONNECT_CONSOLE_DATABASE_URL", stranger)
    monkeypatch.setenv("PIXCONNECT_READ_DATABASE_URL", "postgresql://127.0.0.1:9/x")
    [service, owner, console, standby, key, tables] = local_checks._look_at_database()
    assert (service.status, service.text) == ("ok", "PIXCONNECT_DATABASE_URL logs in as pixconnect_service")
    assert (owner.status, owner.text) == ("ok", "PIXCONNECT_OWNER_DATABASE_URL logs in")
    assert console.text.startswith("PIXCONNECT_CONSOLE_DATABASE_URL: PostgreSQL refuses the login (password")
    assert console.todo == "look at the user and password in PIXCONNECT_CONSOLE_DATABASE_URL"
    assert standby.text.startswith("PIXCONNECT_READ_DATABASE_URL: the database cannot be reached")
    assert (key.text, tables.check) == ("PIXCONNECT_SECRET_KEY opens the secrets of this database", "database")


def test_what_a_part_refuses_at_its_start_is_found_before(tmp_path: Path) -> None:
    fine = Settings(sandbox_receivers="web", rail_url="http://127.0.0.1:8090")
    file = str(tmp_path / "absent.pem")
    bad = (
        Settings(sandbox_receivers="web:3000", rail_url="http://127.0.0.1"),
        Settings(webhook_certificate_file=file, tls_port=8443, tls_certificate_file=file),
        Settings(mode="live", location_ca_file=file),
    )
    assert not list(local_checks._look_at_readers(fine))
    found = [one for settings in bad for one in local_checks._look_at_readers(settings)]
    names = ("SANDBOX_RECEIVERS", "RAIL_URL", "TLS_CERTIFICATE_FILE", "WEBHOOK_CERTIFICATE_FILE", "LOCATION_CA_FILE")
    assert [re.split("[:,]", one.text)[0] for one in found] == [f"PIXCONNECT_{name}" for name in names]


def test_a_login_that_may_not_take_its_role_leads_to_migrate() -> None:
    async def log_in() -> None:
        raise InsufficientPrivilegeError("permission denied to set role")

    found = local_checks._try("login", "logs in", log_in, "PIXCONNECT_VERIFY_DATABASE_URL")
    assert found.text == "PIXCONNECT_VERIFY_DATABASE_URL: permission denied to set role"
    assert found.todo == "run `pixconnect migrate` with this address"


def test_the_key_of_another_installation_is_told(
    sandbox: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXCONNECT_SECRET_KEY", "A" * 43 + "=")
    found = _look(capsys, ExitStatus.FOUND)
    assert (found["secret_key"]["status"], found["database"]["status"], found["login"]["status"]) == ("wrong", "ok", "ok")
    assert "PIXCONNECT_SECRET_KEY_FILE or PIXCONNECT_SECRET_KEY to the key" in found["secret_key"]["todo"]


def test_what_is_wrong_is_said_with_what_to_do(
    sandbox: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXCONNECT_PROT", "1")
    monkeypatch.setattr(local_checks, "_FREE_OCTETS_MIN", 1 << 62)
    with a_program() as program:
        assert main(["endpoint", "add", program.url, "--event", "qrcode.pending", "--json"]) == 0
        endpoint_id = json.loads(capsys.readouterr().out)["id"]
        program.statuses = [500]
        assert main(["endpoint", "test", str(endpoint_id)]) == ExitStatus.ENDED_BADLY
    assert main(["clock", "advance", "1h"]) == main(["faults", "add", "delay:1"]) == 0
    capsys.readouterr()
    found = _look(capsys, ExitStatus.FOUND)
    assert found["settings"]["todo"] == "did you mean PIXCONNECT_PORT?"
    assert (found["disk"]["status"], found["clock"]["status"], found["faults"]["status"]) == ("wrong", "note", "note")
    assert f"`pixconnect endpoint test {endpoint_id}`" in found["endpoint"]["todo"]
    for undo in (["clock", "reset"], ["faults", "clear"], ["endpoint", "remove", str(endpoint_id)]):
        assert main(undo) == 0


def test_a_client_with_few_scopes_is_told_of_and_may_be_meant_so(
    sandbox: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = sandbox.sandbox
    with Client(demo["base_url"], demo["client_id"], demo["client_secret"]) as client:
        made = client.sandbox.open_holder(scopes=["charge.read", "webhook.read"])
    monkeypatch.setenv("PIXCONNECT_API_URL", demo["base_url"])
    monkeypatch.setenv("PIXCONNECT_CLIENT_ID", made.client_id)
    monkeypatch.setenv("PIXCONNECT_CLIENT_SECRET", made.client_secret)
    found = _look(capsys, 0)
    todo = f"`pixconnect client set --client-id {made.client_id} --add-scope ledger.read`"
    assert (found["credentials"]["status"], found["scopes"]["status"]) == ("ok", "note")
    assert todo in found["scopes"]["todo"]
    assert main(["balance"]) == ExitStatus.REFUSED
    assert f"the token lacks the scope ledger.read (the client {made.client_id}" in (told := capsys.readouterr().err)
    assert todo in told


def test_where_nothing_runs_the_port_is_tried(
    sandbox: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIXCONNECT_HOME", str(tmp_path / "absent"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("PORT", str(taken.getsockname()[1]))
        found = _look(capsys, ExitStatus.FOUND)
    assert (found["home"]["status"], found["credentials"]["status"]) == ("note", "note")
    assert "set PORT to another" in found["port"]["todo"]
    monkeypatch.setenv("PORT", "many")
    assert _look(capsys, ExitStatus.FOUND)["settings"]["text"].startswith("PORT: must be a whole number")


def test_parts_that_are_started_one_by_one_are_asked_at_the_services_address(
    sandbox: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=closed_mode(has_server=False))
    found = json.loads((sandbox.home / "running.json").read_text())
    monkeypatch.setenv("PIXCONNECT_HOME", str(home))
    monkeypatch.setenv("DATABASE_URL", found["database_url"])
    monkeypatch.setenv("PIXCONNECT_OWNER_DATABASE_URL", found["owner_database_url"])
    monkeypatch.setenv("PIXCONNECT_SECRET_KEY", (sandbox.home / "secret.key").read_text().strip())
    monkeypatch.setenv("PIXCONNECT_BASE_URL", sandbox.base_url)
    wait_until(lambda: sandbox.health() == "healthy")
    looked = _look(capsys, 0)
    assert looked["service"]["text"] == f"{sandbox.base_url} is healthy"
    # Nothing about `make run`, or about a port of another machine.
    assert {"home", "port"}.isdisjoint(looked)
    monkeypatch.setattr(local_checks, "_USUAL_PORT", 9)
    monkeypatch.setenv("PORT", "9")
    monkeypatch.setenv("PIXCONNECT_BASE_URL", "http://127.0.0.2:9")
    looked = _look(capsys, ExitStatus.FOUND)
    assert re.match(r"http://127\.0\.0\.2:9 gives no health .*, nor does http://127\.0\.0\.1:9$", looked["service"]["text"])
    assert "start the parts" in looked["service"]["todo"]
    # A name that only callers know, and a service's own settings.
    monkeypatch.setenv("PORT", str(urlsplit(sandbox.base_url).port))
    monkeypatch.setenv("PIXCONNECT_BASE_URL", "https://pix.invalid")
    monkeypatch.delenv("PIXCONNECT_OWNER_DATABASE_URL")
    looked = _look(capsys, 0)
    assert looked["address"]["text"].endswith(f"; {sandbox.base_url} was asked instead")
    assert (looked["address"]["status"], looked["service"]["text"]) == ("note", f"{sandbox.base_url} is healthy")
    assert (looked["database"]["status"], looked["secret_key"]["status"]) == ("note", "ok")
    monkeypatch.delenv("PIXCONNECT_SECRET_KEY")
    assert _look(capsys, 0)["secret_key"]["text"] == "not tried: no secret key is given"


@pytest.mark.parametrize(
    ("cause", "advice"),
    [
        (socket.gaierror(-2, "unknown"), "add pix.example to your DNS, or correct PIXCONNECT_BASE_URL"),
        (ssl.SSLCertVerificationError("expired"), "give the proxy a valid certificate for pix.example (docs/guides/proxy.md)"),
        (ConnectionRefusedError(), "start the parts, or look at the proxy before them"),
    ],
)
def test_an_address_that_is_not_ready_is_told_by_its_cause(
    cause: Exception, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise URLError(cause)

    monkeypatch.setattr(local_checks, "urlopen", fail)
    [found] = local_checks._look_at_parts(Settings(base_url="https://pix.example"))
    assert found.text.startswith(f"https://pix.example gives no health ({cause})")
    assert (found.todo or "").startswith(advice)


def test_an_installation_by_parts_is_advised_to_make_a_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIXCONNECT_HOME", str(tmp_path / "absent"))
    with monkeypatch.context() as in_live_mode:
        in_live_mode.setenv("PIXCONNECT_MODE", "live")
        [found] = local_checks._look_at_service()
    assert "`pixconnect client create`" in found.text
    assert "run" not in found.text
    # An operator logs in to the database and needs no client.
    monkeypatch.setenv("PIXCONNECT_DATABASE_URL", "postgresql://x@127.0.0.1:9/x")
    assert list(local_checks._look_at_service()) == []


def test_a_killed_service_and_credentials_that_nobody_takes_are_told(
    sandbox: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    killed = tmp_path / "killed"
    killed.mkdir(mode=0o755)
    monkeypatch.setenv("PIXCONNECT_HOME", str(killed))
    (killed / "running.json").write_text("{}")
    (killed / "sandbox.json").write_text(json.dumps(sandbox.sandbox | {"client_secret": "old"}))
    assert _look(capsys, ExitStatus.FOUND)["home"]["todo"] == f"chmod {closed_mode():o} {killed}"
    os.chmod(killed, closed_mode())
    found = _look(capsys, ExitStatus.FOUND)
    assert "was killed" in found["home"]["text"]
    assert "refuses the client" in found["service"]["text"]
