"""A finding fails the audit unless it is answered with reason and day; so does a lock that could not be asked about."""

import json
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import audit

ROOT = Path(__file__).resolve().parents[2]
KNOWN = {"name": "Jinja2", "version": "3.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1"]}]}
GOOD = {"name": "rich", "version": "14.0", "vulns": []}


def make_program(folder: Path, told: object, *, said: str = "") -> str:
    """A program that answers as pip-audit does: 1 where it has found something."""
    program = folder / "asked"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nprint({json.dumps(told)!r})\nprint({said!r}, file=sys.stderr)\nsys.exit(1)\n"
    )
    program.chmod(0o755)
    return str(program)


def test_findings_are_read_of_what_is_told(tmp_path: Path) -> None:
    program = make_program(tmp_path, {"dependencies": [KNOWN, GOOD], "fixes": []})
    assert audit.ask(program, tmp_path / "lock.txt") == ({("jinja2", "3.0", "PYSEC-1")}, "")


def test_what_was_not_asked_about_hides_no_finding(tmp_path: Path) -> None:
    skipped = {"name": "rich", "skip_reason": "no answer for rich"}
    program = make_program(tmp_path, {"dependencies": [skipped, KNOWN]})
    assert audit.ask(program, tmp_path / "lock.txt") == ({("jinja2", "3.0", "PYSEC-1")}, "1 packages; no answer for rich")


def test_where_nothing_can_be_asked_it_says_why(tmp_path: Path) -> None:
    program = make_program(tmp_path, "", said="a trace\nConnectionError: no network")
    assert audit.ask(program, tmp_path / "lock.txt") == (set(), "ConnectionError: no network")
    missing = str(tmp_path / "missing")
    assert audit.ask(missing, tmp_path / "lock.txt") == (set(), f"{missing}: FileNotFoundError")


def test_an_audit_that_did_not_ask_about_every_lock_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["audit", make_program(tmp_path, "", said="ConnectionError: no network")])
    assert audit.main() == audit.NOT_ALL_ASKED
    assert "0 of 7 locks asked" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["audit", make_program(tmp_path, {"dependencies": [GOOD]})])
    assert audit.main() == 0
    monkeypatch.setattr(audit, "ask", ask_about_all_but_one)
    assert audit.main() == audit.NOT_ALL_ASKED
    assert "6 of 7 locks asked" in capsys.readouterr().out


def ask_about_all_but_one(_program: str, lock: Path) -> tuple[set[audit.Finding], str]:
    return set(), "no answer" if lock.stem == "run" else ""


@pytest.mark.parametrize("status", [0, 1, audit.NOT_ALL_ASKED])
def test_the_daily_audit_ends_as_the_program_does(tmp_path: Path, status: int) -> None:
    for name in (".ci", ".venv/bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".ci/audit").write_text((ROOT / ".ci/audit").read_text(encoding="utf-8"))
    python = tmp_path / ".venv/bin/python"
    python.write_text(f'#!/bin/sh\n[ "$2" != scripts.audit ] || exit {status}\n')
    python.chmod(0o755)
    ended = subprocess.run(["sh", tmp_path / ".ci/audit"], check=False, capture_output=True)
    assert ended.returncode == status


def test_the_machines_certificate_authorities_are_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    assert audit.trusting_environment().get("REQUESTS_CA_BUNDLE") == ssl.get_default_verify_paths().cafile
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/own.pem")
    assert audit.trusting_environment()["REQUESTS_CA_BUNDLE"] == "/own.pem"


def test_an_answer_has_its_reason_and_its_day() -> None:
    whole = '[[answer]]\npackage = "Jinja2"\nid = "PYSEC-1"\nreason = "no templates of others"\nday = 2026-11-24\n'
    assert audit.read_answers(whole) == {("jinja2", "PYSEC-1"): "answered on 2026-11-24: no templates of others"}
    assert audit.read_answers(audit.ANSWERED.read_text(encoding="utf-8")) == {}
    with pytest.raises(SystemExit, match="lacks reason"):
        audit.read_answers(whole.replace("no templates of others", ""))
