import subprocess
import sys
from pathlib import Path

import pytest

from pixconnect import __version__
from pixconnect.doors.cli.failures import ExitStatus
from pixconnect.platform.base import errors
from pixconnect.running.main import main

PIXCONNECT = (sys.executable, "-P", "-m", "pixconnect")


def test_help_lists_every_verb() -> None:
    done = subprocess.run([*PIXCONNECT, "--help"], capture_output=True, text=True, check=True)
    for verb in ("run", "serve", "work", "sandbox", "migrate", "holder", "client", "key", "signing-key"):
        assert f" {verb} " in done.stdout


def test_common_options_stand_last(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.setenv(name, "1")
    assert main(["charge", "create", "--help"]) == 0
    told = capsys.readouterr().out
    assert "\033" not in told
    assert told.index("--payer-tax-id") < told.index("For every verb") < told.index("--profile")
    assert main(["help", "charge", "create"]) == 0
    assert capsys.readouterr().out == told


def test_the_version_is_told() -> None:
    done = subprocess.run([*PIXCONNECT, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("rnu",), ("cell", "list"), ("holder", "show"), ("--operator",), ("run", "--wrong"),
        ("holder", "show", "\udce9"), ("--operator", "\udce9"), ("holder", "show", "9" * 5000),
    ],
)  # fmt: skip
def test_a_wrong_word_is_one_line(words: tuple[str, ...]) -> None:
    done = subprocess.run([*PIXCONNECT, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("pixconnect: ")
    assert done.stderr.count("\n") == 1


def test_a_word_with_a_nul_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["holder", "create", "--name", "a\0b"]) == 1
    assert capsys.readouterr().err == "pixconnect: word 4 of the command is not UTF-8, or has a NUL in it\n"


def test_a_complaint_about_a_long_word_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["holder", "show", "--holder-id", "x" * 100_000]) == 1
    said = capsys.readouterr().err
    assert said.startswith("pixconnect: --holder-id: must be a whole number; it is 'xxx")
    assert said.endswith("... (cut, of 100045 characters)\n")
    assert len(said) < 2_100


def test_a_misspelt_setting_is_complained_of_and_hinders_nothing(tmp_path: Path) -> None:
    environment = {"PIXCONNECT_PROT": "1", "PIXCONNECT_ZZZZZZ": "1", "PIXCONNECT_PORT_8080_TCP": "an orchestrator's"}
    environment["PIXCONNECT_HOME"] = str(tmp_path)
    done = subprocess.run([*PIXCONNECT, "migrate"], capture_output=True, text=True, check=False, env=environment)
    *complaints, end = done.stderr.splitlines()
    assert "there is no database" in end
    assert complaints == [
        "pixconnect: PIXCONNECT_PROT: there is no such setting; did you mean PIXCONNECT_PORT?",
        "pixconnect: PIXCONNECT_ZZZZZZ: there is no such setting; all settings are in the documentation, reference/settings",
    ]


def test_a_setting_that_cannot_be_is_named_in_one_line() -> None:
    done = subprocess.run([*PIXCONNECT, "run"], capture_output=True, text=True, check=False, env={"PORT": "99999"})
    assert done.returncode == 1
    assert done.stderr.startswith("pixconnect: PORT: must be at most 65535")
    assert done.stderr.count("\n") == 1


def test_a_service_that_is_not_available_now_is_told_from_a_refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*, end_with_parent: bool) -> None:
        raise errors.ServiceUnavailable("not now") if end_with_parent else errors.BadRequest("no")

    monkeypatch.setattr("pixconnect.running.main._run", run)
    assert [main(["run", "--end-with-parent"]), main(["run"])] == [ExitStatus.UNAVAILABLE, ExitStatus.REFUSED]
    assert capsys.readouterr().err == "pixconnect: not now\npixconnect: no\n"


def test_a_full_disk_is_told_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*PIXCONNECT, "run"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "disk is full" in done.stderr
