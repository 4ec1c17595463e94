"""The blocks of the guide for production are run as they stand, on a server that nobody has prepared."""

import asyncio
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import asyncpg
import pytest

from pixconnect import environment
from pixconnect.cli.running.migrate import bring_up_to_date
from pixconnect.cli.running.part import command
from pixconnect.config import Settings
from pixconnect.foundation import pool
from pixconnect.foundation.privileges import CONSOLE_ROLE, OPERATOR_ROLE, SERVICE_ROLE
from support.ports import reserved_port
from support.production_guide import GUIDE, blocks, prepared_server, settings_on, variables

INSTALLED = "/opt/pixconnect/.venv"
UNIT = blocks("ini")[3]


@pytest.fixture(scope="module")
def given() -> Iterator[dict[str, str]]:
    """The settings of the guide for all parts and for operators, on a server that its blocks have prepared."""
    with tempfile.TemporaryDirectory(prefix="pixconnect-tests-") as folder, asyncio.Runner() as runner:
        home, opened = Path(folder), AsyncExitStack()
        _, server = runner.run(opened.enter_async_context(prepared_server(home)))
        here = settings_on(server)
        here |= {"PIXCONNECT_SECRET_KEY_FILE": str(home / "secret.key"), "PIXCONNECT_HOME": str(home / "service")}
        write_secret_key = re.search(r"^python3 -c '(.*)' > /etc/pixconnect/secret\.key$", GUIDE, re.MULTILINE)
        assert write_secret_key is not None
        key = subprocess.run([sys.executable, "-c", write_secret_key[1]], capture_output=True, check=True).stdout
        (home / "secret.key").write_bytes(key)
        (home / "secret.key").chmod(0o600)
        parts = ("serve", "work"), {name: here[name] for name in variables(blocks("ini")[0])}
        _check_that_nothing_starts(*parts)
        runner.run(bring_up_to_date(environment.read_settings(here)))
        yield here
        runner.run(opened.aclose())


def _check_that_nothing_starts(parts: Sequence[str], environment: dict[str, str]) -> None:
    """Before the first ``migrate`` of a server each part says so in one line, and what to do."""
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


@pytest.mark.long
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze on this machine (Debian: apt-get install systemd)")
    unit = tmp_path / "pixconnect@.service"
    unit.write_text(UNIT.replace(INSTALLED, sys.prefix))
    looked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    # What it says of the machine's own units is no business of ours.
    of_ours = [line for line in (looked.stdout + looked.stderr).splitlines() if "pixconnect" in line]
    assert (looked.returncode, of_ours) == (0, [])


@pytest.mark.long
def test_the_parts_run_as_the_unit_starts_them(given: dict[str, str]) -> None:
    words = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)[0].replace(INSTALLED, sys.prefix).split()
    of_service = {name: given[name] for name in variables(blocks("ini")[0])}
    with reserved_port() as sandbox_port, reserved_port() as port, ExitStack() as parts:
        ports = {
            "PIXCONNECT_SANDBOX_PORT": str(sandbox_port),
            "PIXCONNECT_RAIL_URL": f"http://127.0.0.1:{sandbox_port}",
        }
        for part in ("sandbox", "serve", "work"):
            own = dict(PART=part) | (dict(PORT=str(port)) if part == "serve" else {})
            started = [word.replace("${PART}", own["PART"]) for word in words]
            parts.enter_context(running_part(started, of_service | ports | own))
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60) as answer:
            assert answer.status == 200
        create = next(
            line for line in GUIDE.splitlines() if line.startswith(f"{INSTALLED}/bin/pixconnect holder create")
        )
        created = subprocess.run(
            shlex.split(create.replace(INSTALLED, sys.prefix)),
            env=given | ports,
            capture_output=True,
            text=True,
            check=False,
        )
        assert created.returncode == 0, created.stderr


# As sd_listen_fds(3) has it: the first is number 3, and the variables name the very process.
_HAND_OVER = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.execve(sys.argv[2], sys.argv[2:], os.environ | {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())})
"""


@pytest.mark.parametrize("is_handed_over", [False, True])
@pytest.mark.long
def test_the_console_has_a_login_of_its_own_and_takes_a_socket_as_systemd_hands_it_over(
    given: dict[str, str], *, is_handed_over: bool
) -> None:
    own = {name: given[name] for block in (0, 2) for name in variables(blocks("ini")[block]) if name != "PART"}
    words, kept = [f"{sys.prefix}/bin/pixconnect", "console"], list[int]()
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
    """A part that has said that it is ready, with nothing in its environment but what its files say; stopped as by the unit."""
    part = subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, pass_fds=kept
    )
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


def test_the_unit_starts_parts_that_exist() -> None:
    assert f"ExecStart={INSTALLED}/bin/pixconnect ${{PART}}\n" in UNIT
    for part in ("serve", "work", "sandbox"):
        assert f"pixconnect@{part}-" in GUIDE
        assert command(part)[-1] == part
