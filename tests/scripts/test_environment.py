import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def find_python(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts" / "find_python"], capture_output=True, text=True, check=False, env=environment
    )


def make_python(folder: Path, name: str, version: str) -> None:
    """A program that answers as a Python of that version would."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho {version}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("version", ["3.11", "3.14", "3.20"])
def test_a_python_that_is_new_enough_is_taken(tmp_path: Path, version: str) -> None:
    make_python(tmp_path / "bin", "python3", version)
    assert find_python(PATH=f"{tmp_path}/bin").stdout == f"{tmp_path}/bin/python3\n"


def test_a_newer_one_beside_an_old_one_is_found(tmp_path: Path) -> None:
    make_python(tmp_path / "bin", "python3", "3.9")
    make_python(tmp_path / "bin", "python3.12", "3.12")
    assert find_python(PATH=f"{tmp_path}/bin").stdout == f"{tmp_path}/bin/python3.12\n"


@pytest.mark.parametrize("version", ["2.7", "3.1", "3.9", "3.10"])
def test_one_that_is_too_old_is_named_in_one_line(tmp_path: Path, version: str) -> None:
    make_python(tmp_path / "bin", "python3", version)
    refused = find_python(PATH=f"{tmp_path}/bin")
    assert refused.returncode == 1
    assert f"Python 3.11 or later is needed (python3 is {version}): install it" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_the_one_asked_for_is_taken_whatever_its_path(tmp_path: Path) -> None:
    make_python(tmp_path / "a folder", "mine", "3.12")
    asked = f"{tmp_path}/a folder/mine"
    assert find_python(PATH="/usr/bin:/bin", PYTHON=asked).stdout == f"{asked}\n"
    assert "(there is none)" in find_python(PATH="/usr/bin:/bin", PYTHON="/nowhere/python").stderr


def test_a_python_without_venv_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "run.txt").write_text("")
    script = tmp_path / "scripts" / "make_environment.py"
    script.write_text((ROOT / "scripts" / "make_environment.py").read_text())
    without = "import sys, runpy; sys.modules['ensurepip'] = None; sys.argv[1:] = ['run']; "
    without += f"runpy.run_path({str(script)!r}, run_name='__main__')"
    refused = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "this Python has no venv module: install it" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / ".venv").exists()


def test_every_target_has_a_line_of_help() -> None:
    done = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True, env=dict(os.environ))
    for target in ("run", "test", "check", "bench", "lock"):
        assert f"make {target} " in done.stdout
