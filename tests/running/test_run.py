import subprocess
import sys
from pathlib import Path

import pytest

from pixconnect.running.run import name_program


@pytest.mark.parametrize("start", ["alias ", "export "])
def test_the_printed_lines_make_the_verbs_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    home, program = tmp_path / "a home", tmp_path / "with spaces" / "pixconnect"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$PIXCONNECT_HOME $1"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    pasted = [line for line in name_program(home).splitlines() if line.startswith(start)]
    script = "\n".join([*pasted, "pixconnect balance"])
    assert subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout == f"{home} balance\n"
