"""The account of a verb, and the errors if it cannot be determined."""

import io
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pixconnect.doors.cli.failures import ExitStatus
from pixconnect.doors.cli.integrator import credentials
from pixconnect.doors.cli.integrator.credentials import Profile
from pixconnect.running.main import main
from support import pages
from support.installation import Installation

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("integrator")]


def _environment(sandbox: Installation) -> dict[str, str]:
    found = sandbox.sandbox
    names = dict(API_URL="base_url", CLIENT_ID="client_id", CLIENT_SECRET="client_secret")
    return {f"PIXCONNECT_{name}": found[field] for name, field in names.items()}


def _set(monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def test_the_environment_says_it_where_no_home_does(
    sandbox: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIXCONNECT_HOME", str(tmp_path / "absent"))
    assert main(["balance"]) == ExitStatus.REFUSED
    told = capsys.readouterr().err
    assert "there are no credentials: nothing has run on" in told
    assert "of one that runs elsewhere PIXCONNECT_HOME must name the folder" in told
    (tmp_path / "absent" / "sandbox.json").mkdir(parents=True)
    assert main(["balance"]) == ExitStatus.REFUSED
    assert f"{tmp_path}/absent/sandbox.json cannot be read (Is a directory)" in capsys.readouterr().err
    environment = _environment(sandbox)
    _set(monkeypatch, environment)
    assert main(["balance", "--json"]) == 0
    # A sandbox is recognised first, and this holder has no known key.
    assert main(["deposit", "1"]) == 0
    capsys.readouterr()
    assert main(["receive", "1"]) == ExitStatus.REFUSED
    assert "--key: missing; name a Pix key of yours (the environment has none)" in capsys.readouterr().err
    monkeypatch.delenv("PIXCONNECT_CLIENT_SECRET")
    assert main(["balance"]) == ExitStatus.REFUSED
    assert "PIXCONNECT_CLIENT_SECRET: missing; it is needed beside" in capsys.readouterr().err
    monkeypatch.setenv("PIXCONNECT_CLIENT_SECRET", "wrong")
    assert main(["balance"]) == ExitStatus.REFUSED
    told = capsys.readouterr().err
    assert f"refuses the client {environment['PIXCONNECT_CLIENT_ID']} of the environment" in told
    assert "wrong\n" not in told


def test_a_profile_is_kept_once_the_service_takes_it(
    sandbox: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIXCONNECT_HOME", str(tmp_path / "absent"))
    found = sandbox.sandbox
    add = ["profile", "add", "shop", "--api-url", found["base_url"], "--client-id", found["client_id"], "--json"]
    for secret, status in (("", ExitStatus.REFUSED), ("wrong", ExitStatus.REFUSED), (found["client_secret"], 0)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{secret}\n"))
        assert credentials.list_profiles() == []
        assert main(add) == status
    added = json.loads(capsys.readouterr().out)
    assert (added["mode"], "client_secret" in added) == ("sandbox", False)
    assert Path(added["file"]).stat().st_mode & 0o777 == 0o600
    assert main(["balance", "--profile", "shop"]) == 0
    monkeypatch.setenv("PIXCONNECT_PROFILE", "shop")
    assert main(["balance"]) == 0
    capsys.readouterr()
    assert main(["profile", "list", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["profiles"]] == ["shop"]
    assert main(["profile", "remove", "shop"]) == 0
    assert main(["balance"]) == ExitStatus.REFUSED
    assert "there is no profile shop; known: none" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["pay x", "receive 1", "return x", "deposit 1", "clock", "faults clear"])
def test_a_verb_of_the_sandbox_sends_nothing_to_a_live_service(
    words: str, sandbox: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    # Nothing listens there, so a request would be noticed.
    credentials.write_profile(
        "live",
        Profile(api_url="http://127.0.0.1:9", auth_url="http://127.0.0.1:9", client_id="c", client_secret="s", mode="live"),
    )
    assert main([*words.split(), "--profile", "live"]) == ExitStatus.REFUSED
    assert "the profile live leads to a live service: nothing was sent" in capsys.readouterr().err


def test_the_lines_for_a_shell_log_in_and_call(sandbox: Installation) -> None:
    page = pages.read_blocks(pages.ROOT / "docs" / "reference" / "access.md")
    [block] = [block.text for block in page if block.text.startswith("setting()")]
    done = subprocess.run(["bash", "-ec", block], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["success"] is True, done.stderr


def test_a_service_that_is_away_is_told_with_what_to_do(
    sandbox: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _set(monkeypatch, _environment(sandbox) | {"PIXCONNECT_API_URL": "http://127.0.0.1:9"})
    assert main(["balance"]) == ExitStatus.UNAVAILABLE
    assert "nothing answers at http://127.0.0.1:9 (of the environment; " in capsys.readouterr().err
    for name in _environment(sandbox):
        monkeypatch.delenv(name)
    stopped = tmp_path / "stopped"
    stopped.mkdir()
    (stopped / "sandbox.json").write_text(
        json.dumps(sandbox.sandbox | {"base_url": "http://127.0.0.1:9", "auth_url": "http://127.0.0.1:9"})
    )
    monkeypatch.setenv("PIXCONNECT_HOME", str(stopped))
    assert main(["charge", "create", "100"]) == ExitStatus.UNAVAILABLE
    told = capsys.readouterr().err
    assert (told.count("\n"), f"start `PORT=9 PIXCONNECT_HOME={stopped} make run` (or the same" in told) == (1, True)
    (stopped / "sandbox.json").unlink()
    (stopped / "running.json").write_text("{}")
    assert main(["balance"]) == ExitStatus.REFUSED
    assert "make a client with `pixconnect client create`" in capsys.readouterr().err
