"""The guide for production and its units are run as printed, on an unprepared server."""

import asyncio
import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import asyncpg
import pytest

from pixconnect.platform import environment, pool
from pixconnect.platform.config import Settings
from pixconnect.platform.privileges import CONSOLE_ROLE, OPERATOR_ROLE, SERVICE_ROLE
from pixconnect.running import systemd
from pixconnect.running.migrate import bring_up_to_date
from pixconnect.running.part import command
from support.ports import reserved_port
from support.production_guide import LOGINS, UNITS, blocks, prepared_server, read_statements, settings_on, variables

INSTALLED = "/opt/pixconnect/.venv"
SERVICES = sorted(path.name for path in UNITS.glob("*.service"))
GUIDE_OF_UNITS = UNITS.parents[1] / "docs" / "guides" / "systemd.md"
EXPOSURE_MAX = 20  # of systemd-analyze's points, of which a service without any hardening has 96


@pytest.fixture(scope="module")
def given() -> Iterator[dict[str, str]]:
    """The settings of the guide for all parts and for operators, on a server that its blocks have prepared."""
    with tempfile.TemporaryDirectory(prefix="pixconnect-tests-") as folder, asyncio.Runner() as runner:
        home, opened = Path(folder), AsyncExitStack()
        _, server = runner.run(opened.enter_async_context(prepared_server(home, durable=True)))
        here = settings_on(server, verifies=True)
        here |= {"PIXCONNECT_SECRET_KEY_FILE": str(home / "secret.key"), "PIXCONNECT_HOME": str(home / "service")}
        (home / "secret.key").write_bytes(base64.urlsafe_b64encode(os.urandom(32)))
        (home / "secret.key").chmod(0o600)
        _check_that_nothing_starts(("serve", "work"), _of_part(here))
        runner.run(bring_up_to_date(environment.read_settings(here)))
        yield here
        runner.run(opened.aclose())


def _of_part(given: Mapping[str, str], *files: str) -> dict[str, str]:
    """What systemd gives to a part: settings of its files, the key's copy, and its home."""
    names = [name for file in ("service.env", *files) for name in variables(file)]
    return {name: given[name] for name in (*names, "PIXCONNECT_SECRET_KEY_FILE", "PIXCONNECT_HOME")}


def _words(unit: str) -> list[str]:
    """The command of a unit, with the program of these tests."""
    (line,) = (line for line in (UNITS / unit).read_text().splitlines() if line.startswith("ExecStart="))
    return line.removeprefix("ExecStart=").replace(INSTALLED, sys.prefix).split()


def test_the_guide_says_what_is_installed() -> None:
    assert [each.strip() for each in read_statements(blocks("sql")[0])] == [each.strip() for each in read_statements(LOGINS)]
    for block, name in zip(blocks("ini")[:2], ("service.env", "operators.env"), strict=True):
        assert dict(line.replace("'", "").split("=", 1) for line in block.splitlines()) == variables(name)


def _check_that_nothing_starts(parts: Sequence[str], environment: dict[str, str]) -> None:
    """Before the first ``migrate`` of a server each part reports that in one line, with the remedy."""
    for part in parts:
        words = [f"{sys.prefix}/bin/pixconnect", part]
        said = subprocess.run(words, env=environment | {"PORT": "0"}, capture_output=True, text=True, check=False)
        assert said.returncode == 1, said.stderr
        assert len(said.stderr.splitlines()) == 1, said.stderr
        assert "run `pixconnect migrate`" in said.stderr


async def _open_as(url: str, role: str) -> None:
    connection = await pool.connect(url, role=role, schema="pixconnect", name="test")
    await connection.close()


@pytest.mark.long
def test_the_logins_and_the_settings_of_the_guide_fit_together(given: dict[str, str]) -> None:
    assert environment.misspelt_variables(given) == []
    settings: Settings = environment.read_settings(given)
    asyncio.run(_open_as(settings.database_url, SERVICE_ROLE))
    asyncio.run(_open_as(settings.operator_database_url, OPERATOR_ROLE))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        asyncio.run(_open_as(settings.database_url, OPERATOR_ROLE))


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units, with the program of these tests."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze on this machine (Debian: apt-get install systemd)")
    shutil.copytree(UNITS, tmp_path, dirs_exist_ok=True)
    for unit in tmp_path.glob("*.service"):
        unit.write_text(unit.read_text().replace(INSTALLED, sys.prefix))
    return tmp_path


def _analyze(units: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *words],
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{units}:"},
        cwd=units,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.long
def test_systemd_finds_nothing_wrong_with_the_units(units: Path) -> None:
    names = [f"./{path.name}" for ending in ("service", "socket", "timer", "target") for path in units.glob(f"*.{ending}")]
    looked = _analyze(units, "verify", "--man=no", "--recursive-errors=no", *names)
    # Lines about the machine's own units are ignored.
    of_ours = [line for line in (looked.stdout + looked.stderr).splitlines() if "pixconnect" in line]
    assert (looked.returncode, of_ours) == (0, [])


@pytest.mark.long
@pytest.mark.parametrize("unit", SERVICES)
def test_a_part_is_denied_what_it_does_not_need(units: Path, unit: str) -> None:
    looked = _analyze(units, "security", "--no-pager", "--offline=true", f"--threshold={EXPOSURE_MAX}", unit)
    assert looked.returncode == 0, looked.stdout[-300:] + looked.stderr


@pytest.mark.long
def test_the_parts_run_as_the_units_start_them(given: dict[str, str]) -> None:
    with reserved_port() as sandbox_port, reserved_port() as port, ExitStack() as parts:
        ports = {"PIXCONNECT_RAIL_URL": f"http://127.0.0.1:{sandbox_port}"}
        own = _of_part(given) | ports
        for unit in ("pixconnect-sandbox.service", "pixconnect-serve@.service", "pixconnect-work@.service"):
            at = {"PORT": str(port)} if "serve" in unit else {}
            parts.enter_context(running_part(_words(unit), own | at))
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60) as answer:
            assert answer.status == 200
        create = ["holder", "create", "--name", "Loja", "--tax-id", "12345678000195", "--account-number", "1"]
        _run([f"{sys.prefix}/bin/pixconnect", *create], given | ports)
        for unit in ("pixconnect-verify.service", "pixconnect-verify-whole.service"):
            _run(_words(unit), _of_part(given, "verify.env") | ports)
        for_migrate = _of_part(given, "operators.env") | ports
        for_migrate.pop("PIXCONNECT_SECRET_KEY_FILE")
        _run(_words("pixconnect-migrate.service"), for_migrate)


def _run(words: Sequence[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# As sd_listen_fds(3) has it: the first is number 3, and the variables name the very process.
_HAND_OVER = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.execve(sys.argv[2], sys.argv[2:], os.environ | {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())})
"""


@pytest.mark.parametrize("is_handed_over", [False, True])
@pytest.mark.long
def test_the_console_has_its_login_and_takes_a_systemd_socket(given: dict[str, str], *, is_handed_over: bool) -> None:
    own = _of_part(given, "console.env")
    words, kept = _words("pixconnect-console.service"), list[int]()
    with ExitStack() as open_until_here:
        if is_handed_over:
            listener = open_until_here.enter_context(socket.create_server(("127.0.0.1", 0)))
            port, kept = listener.getsockname()[1], [listener.fileno()]
            words = [sys.executable, "-c", _HAND_OVER, str(kept[0]), *words]
        else:
            port = open_until_here.enter_context(reserved_port())
        open_until_here.enter_context(running_part(words, own | {"PIXCONNECT_CONSOLE_PORT": str(port)}, kept))
        asked = Request(f"http://127.0.0.1:{port}/sign-in", headers={"Host": "console.example"})
        with urlopen(asked, timeout=60) as answer:  # noqa: S310 - our own
            assert answer.status == 200
    asyncio.run(_open_as(given["PIXCONNECT_CONSOLE_DATABASE_URL"], CONSOLE_ROLE))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        asyncio.run(_open_as(given["PIXCONNECT_CONSOLE_DATABASE_URL"], OPERATOR_ROLE))


@contextmanager
def running_part(words: Sequence[str], environment: dict[str, str], kept: Sequence[int] = ()) -> Iterator[None]:
    """A ready part, whose environment only has its files' settings; stopped as by the unit."""
    part = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, pass_fds=kept)
    try:
        assert part.stdout is not None
        said: list[str] = []
        for line in part.stdout:
            said.append(line)
            if '"ready"' in line:
                break
        else:
            pytest.fail(f"{words} ended: {''.join(said)}")
        yield
        part.send_signal(signal.SIGTERM)
        rest, _ = part.communicate(timeout=60)
        assert part.returncode == 0, "".join(said) + rest
    finally:
        part.kill()
        part.communicate()


def test_units_start_parts_that_exist_with_the_files_that_are_installed() -> None:
    for unit in SERVICES:
        text = (UNITS / unit).read_text()
        _, part, *options = _words(unit)
        assert f"ExecStart={INSTALLED}/bin/pixconnect {' '.join([part, *options])}\n" in text
        assert command(part)[-1] == part
        for line in text.splitlines():
            if line.startswith("EnvironmentFile=/etc/pixconnect/"):
                assert (UNITS / line.rpartition("/")[2]).exists()
    page = (GUIDE_OF_UNITS).read_text(encoding="utf-8")
    assert f"\n{systemd.ENABLE}\n" in page
    for unit in SERVICES:
        assert unit.removesuffix(".service").partition("@")[0] in page
