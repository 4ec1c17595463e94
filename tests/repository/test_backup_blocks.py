"""The blocks of the guide that copy and put back: cut off at any line they leave a whole copy, and no half one is started."""

import os
import subprocess
from pathlib import Path

import pytest

from support.installation import ROOT
from support.production_guide import blocks

GUIDE = (ROOT / "docs" / "guides" / "back-up-and-restore.md").read_text(encoding="utf-8")
_KEEP_LOG, COPY, RESTORE, *_ = blocks("sh", GUIDE)
PROGRAMS = {
    # As PostgreSQL's own: it refuses a folder in which something is.
    "pg_basebackup": 'for word; do case "$word" in --pgdata=*) to="${word#--pgdata=}";; esac; done\n'
    'test ! -e "$to"\nmkdir "$to"\necho whole > "$to/state"\n',
    "pg_verifybackup": "true\n",
    "pg_ctl": 'touch "$RESTORED/started"\n',
}


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    for name, text in PROGRAMS.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nset -eu\n{text}")
        program.chmod(0o755)
    (tmp_path / "copies").mkdir()
    return tmp_path / "copies"


def run(backup: Path, block: str) -> int:
    variables = dict(BACKUP=str(backup), BACKUP_URL="", RESTORED=str(backup / "restored"), INSTANT="now")
    path = os.pathsep.join((str(backup.parent), os.environ["PATH"]))
    ran = subprocess.run(["sh", "-euc", block], env=variables | {"PATH": path}, capture_output=True, timeout=60, check=False)
    return ran.returncode


@pytest.mark.parametrize("lines_count", range(len(COPY.splitlines()) + 1))
def test_a_copy_that_is_cut_off_leaves_a_whole_one_and_the_next_is_made(backup: Path, lines_count: int) -> None:
    assert [run(backup, COPY), run(backup, COPY)] == [0, 0]
    run(backup, "\n".join(COPY.splitlines()[:lines_count]))
    kept = backup / "base" if (backup / "base").exists() else backup / "base-old"
    assert (kept / "state").read_text() == "whole\n"
    # Cut off while it copies.
    (backup / "base-new").mkdir(exist_ok=True)
    assert run(backup, COPY) == 0
    assert (backup / "base" / "state").read_text() == "whole\n"


def test_what_a_try_before_has_left_is_not_started(backup: Path) -> None:
    assert run(backup, COPY) == 0
    (backup / "restored").mkdir()
    assert run(backup, RESTORE) != 0
    assert list((backup / "restored").iterdir()) == []
    (backup / "restored").rmdir()
    assert run(backup, RESTORE) == 0
    assert {each.name for each in (backup / "restored").iterdir()} >= {"state", "started", "recovery.signal"}
