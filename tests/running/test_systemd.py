"""``pixconnect systemd install``: once, again, after a change, and with errors."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from pixconnect.running import systemd
from pixconnect.running.main import main
from pixconnect.running.systemd import read_file
from support.production_guide import UNITS, variables

HERE = Path("usr/local/lib/systemd/system")
PROGRAM = "/opt/pixconnect/bin/pixconnect"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("systemd-sysusers") is None,
    reason="only root makes users, by systemd-sysusers (Debian: apt-get install systemd)",
)


def _install(root: Path) -> int:
    return main(["systemd", "install", "--root", str(root), "--program", PROGRAM])


def _contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_everything_is_there_with_passwords_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _install(tmp_path) == 0
    said = capsys.readouterr().out
    folder = tmp_path / "etc/pixconnect"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    texts = "".join(file.read_text() for file in folder.iterdir())
    assert "-password" not in texts
    url = read_file(folder / "service.env")["PIXCONNECT_DATABASE_URL"]
    password = url.partition("pix_app:")[2].partition("@")[0]
    assert f"create role pix_app login password '{password}';" in (folder / "logins.sql").read_text()
    # The whole templates, with the path of the program.
    installed = {path.name for path in (tmp_path / HERE).rglob("*") if path.is_file()}
    assert installed == {
        path.name for path in UNITS.rglob("*") if path.suffix in {".service", ".socket", ".timer", ".target"}
    } | {"10-hardened.conf"}
    assert f"ExecStart={PROGRAM} serve\n" in (tmp_path / HERE / "pixconnect-serve@.service").read_text()
    users = (tmp_path / "etc/passwd").read_text()
    assert users.count("pixconnect") >= 2
    assert stat.S_IMODE((tmp_path / "var/lib/pixconnect").stat().st_mode) == 0o711
    assert "PIXCONNECT_BASE_URL is still https://pix.example" in said
    assert "psql" in said
    assert "systemctl enable" not in said


def test_a_second_time_changes_nothing_and_names_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _install(tmp_path) == 0
    for file in (tmp_path / "etc/pixconnect").glob("*.env"):
        file.write_text(file.read_text().replace(".example'", ".test'"))
    (tmp_path / "etc/pixconnect/logins.sql").unlink()
    before = _contents(tmp_path)
    capsys.readouterr()
    assert _install(tmp_path) == 0
    said = capsys.readouterr().out
    assert _contents(tmp_path) == before
    assert systemd.ENABLE in said
    assert "Fill in" not in said
    assert "psql" not in said


def test_a_changed_unit_is_kept_and_ours_stands_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _install(tmp_path) == 0
    unit = tmp_path / HERE / "pixconnect-work@.service"
    ours = unit.read_text()
    unit.write_text(ours.replace("MemoryMax=1G", "MemoryMax=4G"))
    capsys.readouterr()
    assert _install(tmp_path) == 0
    assert "pixconnect-work@.service, which was changed here; ours is pixconnect-work@.service.new" in capsys.readouterr().out
    assert "MemoryMax=4G" in unit.read_text()
    assert unit.with_name(f"{unit.name}.new").read_text() == ours
    # An unchanged unit of an older version is replaced.
    other = tmp_path / HERE / "pixconnect.target"
    body = "# of before\n"
    other.write_text(f"{body}{systemd._STAMP}{systemd._digest(body)}\n")
    assert _install(tmp_path) == 0
    assert "# of before" not in other.read_text()


def test_one_that_was_cut_off_finds_the_passwords_again(tmp_path: Path) -> None:
    assert _install(tmp_path) == 0
    folder = tmp_path / "etc/pixconnect"
    before = _contents(folder)
    for name in ("service.env", "verify.env", "secret.key"):
        (folder / name).unlink()
    assert _install(tmp_path) == 0
    after = _contents(folder)
    assert after.pop("secret.key") != before.pop("secret.key")
    assert after == before


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        (
            "service.env",
            "PIXCONNECT_BASE_ULR='https://a.test'",
            "service.env: PIXCONNECT_BASE_ULR: there is no such setting; did you mean PIXCONNECT_BASE_URL?",
        ),
        ("work.env", "PIXCONNECT_LOG_LEVEL='loud'", "work.env: PIXCONNECT_LOG_LEVEL: must be debug, info, warning or error"),
        ("service.env", "PORT='8080'", "service.env: PORT is for each part alone, and its unit sets it: remove the line"),
        ("console.env", "export PIXCONNECT_CONSOLE_PORT=9", "console.env, line "),
        ("service.env", "PIXCONNECT_RAIL_URL=http://a?b&c", "service.env, line "),
        ("service.env", "PIXCONNECT_LOG_LEVEL='info' # loud", "service.env, line "),
    ],
)
def test_a_wrong_setting_is_said_in_one_line_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, line: str, said: str
) -> None:
    folder = tmp_path / "etc/pixconnect"
    folder.mkdir(parents=True)
    (folder / name).write_text(f"# mine\n{line}\n")
    before = _contents(tmp_path)
    assert _install(tmp_path) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]
    assert _contents(tmp_path) == before


def test_what_live_mode_will_refuse_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _install(tmp_path) == 0
    file = tmp_path / "etc/pixconnect/service.env"
    file.write_text(file.read_text().replace("='sandbox'", "='live'").replace("@127.0.0.1", "@far.test"))
    capsys.readouterr()
    assert _install(tmp_path) == 0
    said = capsys.readouterr().out
    assert "PIXCONNECT_INSTITUTION_NAME" in said
    assert "PIXCONNECT_DATABASE_URL: reaches far.test without proof of who answers" in said


def test_a_program_that_services_cannot_see_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["systemd", "install", "--root", str(tmp_path), "--program", "bin/pixconnect"]) == 1
    assert "must be a whole path" in capsys.readouterr().err
    assert main(["systemd", "install", "--root", str(tmp_path / "none"), "--program", PROGRAM]) == 1
    assert "is no folder" in capsys.readouterr().err
    assert _contents(tmp_path) == {}


def test_the_shell_reads_settings_as_the_installer_does() -> None:
    for file in UNITS.glob("*.env"):
        words = ["sh", "-c", 'set -a; . "$1"; env -0', "sh", str(file)]
        told = subprocess.run(words, capture_output=True, text=True, check=True, env={}).stdout.split("\0")
        found = dict(pair.split("=", 1) for pair in told if pair.startswith("PIXCONNECT_"))
        assert found == variables(file.name)
