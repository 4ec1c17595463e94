"""The units under systemd itself: installed by the command, booted and killed, and a charge created."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from pixconnect_client import Client
from support.booted_machine import PROGRAM, BootedMachine, booted, make_root, require_container
from support.ports import reserved_port
from support.production_guide import prepared_server
from support.waiting import wait_until

pytestmark = [pytest.mark.journey, pytest.mark.long]

SOCKETS = "/srv/postgres"
UNITS = "usr/local/lib/systemd/system"


def test_the_units_boot_and_serve_and_are_started_again() -> None:
    require_container()
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pixconnect-tests-") as folder, asyncio.Runner() as runner:
        root = make_root(Path(folder))
        installed_s = time.monotonic()
        _install(root)
        logins = (root / "etc/pixconnect/logins.sql").read_text()
        server = prepared_server(Path(folder, "server"), durable=True, logins=logins)
        Path(folder).chmod(0o711)
        _, url = runner.run(server.__aenter__())
        sockets = urlsplit(url).query.partition("host=")[2].partition("&")[0].replace("%2F", "/")
        # They are the server's own, and here the parts are others.
        Path(sockets).chmod(0o755)
        for socket in Path(sockets).glob(".s.PGSQL.*[0-9]"):
            socket.chmod(0o777)
        with reserved_port() as first, reserved_port() as second, reserved_port() as rail, reserved_port() as console:
            _fill_in(root, rail)
            _enable(root, first, second, console)
            with booted(root, {Path(sockets): SOCKETS}) as machine:
                _look(machine, first, second, console)
                print(  # noqa: T201  what it took is on the page
                    f"a base system in {installed_s - begun_s:.0f} s, then the first charge after "
                    f"{_charge(machine, first) - installed_s:.0f} s"
                )
                _kill_and_look(machine, first)
        runner.run(server.__aexit__(None, None, None))


def _install(root: Path) -> None:
    words = [sys.executable, "-m", "pixconnect", "systemd", "install", f"--root={root}", f"--program={PROGRAM}"]
    assert "Fill in" in subprocess.run(words, capture_output=True, text=True, check=True).stdout


def _fill_in(root: Path, rail: int) -> None:
    for file in (root / "etc/pixconnect").glob("*.env"):
        text = file.read_text().replace("@127.0.0.1:5432/pixconnect", f"@/pixconnect?host={SOCKETS}")
        file.write_text(text.replace("8090", str(rail)))


def _enable(root: Path, first: int, second: int, console: int) -> None:
    own = root / "etc/systemd/system/pixconnect-console.socket.d"
    own.mkdir(parents=True)
    (own / "port.conf").write_text(f"[Socket]\nListenStream=\nListenStream=127.0.0.1:{console}\n")
    words = ["pixconnect.target", "pixconnect-migrate.service", "pixconnect-sandbox.service", "pixconnect-console.socket"]
    words += [f"pixconnect-serve@{port}.service" for port in (first, second)]
    words += [
        "pixconnect-work@1.service",
        "pixconnect-work@2.service",
        "pixconnect-verify.timer",
        "pixconnect-verify-whole.timer",
    ]
    subprocess.run(["systemctl", f"--root={root}", "enable", "--quiet", *words], check=True)


def _answers(url: str, **headers: str) -> bool:
    try:
        with urlopen(Request(url, headers=headers), timeout=60) as answer:  # noqa: S310 - our own
            return answer.status == 200
    except OSError:
        return False


def _look(machine: BootedMachine, first: int, second: int, console: int) -> None:
    for port in (first, second):
        try:
            wait_until(lambda port=port: _answers(f"http://127.0.0.1:{port}/readyz"))
        except AssertionError:
            pytest.fail(machine.journal())
    for unit in ("pixconnect-migrate", "pixconnect-sandbox", "pixconnect-work@1", "pixconnect-work@2"):
        assert machine.is_active(unit), machine.journal()
    # No browser has visited it yet.
    assert not machine.is_active("pixconnect-console.service")
    assert _answers(f"http://127.0.0.1:{console}/sign-in", Host="console.example"), machine.journal()
    assert machine.is_active("pixconnect-console.service")
    wait_until((machine.root / "var/lib/pixconnect-work/database.json").exists)
    machine.run("systemctl", "start", "pixconnect-verify")
    assert machine.property_of("pixconnect-verify", "Result") == "success"


def _charge(machine: BootedMachine, port: int) -> float:
    words = ["pixconnect-operator", "holder", "create", "--name", "Loja", "--tax-id", "12345678000195", "--json"]
    holder = json.loads(machine.run(*words, "--account-number", "1").stdout)["holder_id"]
    key = "loja@pix.example"
    machine.run("pixconnect-operator", "key", "add", "--holder-id", str(holder), "--key-type", "EMAIL", "--key", key)
    words = ["pixconnect-operator", "client", "create", "--holder-id", str(holder), "--json"]
    made = json.loads(machine.run(*words).stdout)
    with Client(f"http://127.0.0.1:{port}", made["client_id"], made["client_secret"]) as client:
        assert client.charges.create(1000, key, external_id="order-1").emvqrcps
    return time.monotonic()


def _kill_and_look(machine: BootedMachine, port: int) -> None:
    unit = f"pixconnect-serve@{port}"
    before = machine.property_of(unit, "MainPID")
    machine.run("systemctl", "kill", "--signal=KILL", unit)
    wait_until(lambda: machine.property_of(unit, "MainPID") not in {before, "0"})
    wait_until(lambda: _answers(f"http://127.0.0.1:{port}/readyz"))
    # A repeated migration stops no part.
    before = machine.property_of(unit, "MainPID")
    machine.run("systemctl", "restart", "pixconnect-migrate")
    assert machine.property_of(unit, "MainPID") == before
    machine.run("systemctl", "stop", "pixconnect.target")
    assert not machine.is_active(unit)
    assert machine.property_of(unit, "Result") == "success"
