import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def find_python(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "scripts" / "find_python"], capture_output=True, text=True, check=False, env=environment)


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


_FAKE_PIP = f"""#!/bin/sh
case "$*" in
    *version_info*) echo '{sys.version_info[:2]}' ;;
    *"pip install"*)
        echo "Ignoring b: markers 'sys_platform == \"nowhere\"' don't match your environment"
        echo "Collecting a==1.0 (from -r run.txt (line 1))"
        echo "  Downloading a-1.0-py3-none-any.whl (12.3 MB)"
        echo "Requirement already satisfied: c==1.0 in here"
        END
        ;;
esac
"""


def start_installing(folder: Path, end: str) -> "subprocess.Popen[str]":
    """``make_environment.py run`` in a new folder, with a pip that ends in these words of the shell."""
    for name in ("scripts", "requirements", "src", ".venv/bin", "clients/python", "faces"):
        (folder / name).mkdir(parents=True)
    for name in ("clients/python", "faces"):
        (folder / name / "pyproject.toml").write_text("")
    (folder / "requirements" / "run.txt").write_text("a==1.0 \\\n    --hash=x\nb==1.0 ; nowhere\nc==1.0\n")
    script = folder / "scripts" / "make_environment.py"
    script.write_text((ROOT / "scripts" / "make_environment.py").read_text())
    python = folder / ".venv" / "bin" / "python"
    python.write_text(_FAKE_PIP.replace("END", end))
    python.chmod(0o755)
    return run_script(folder)


def run_script(folder: Path) -> "subprocess.Popen[str]":
    script = folder / "scripts" / "make_environment.py"
    # Tests in the background may ignore SIGINT, which children inherit.
    run = "import runpy, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); sys.argv[1:] = ['run']; "
    run += f"runpy.run_path({str(script)!r}, run_name='__main__')"
    return subprocess.Popen(
        [sys.executable, "-c", run], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def test_installing_tells_how_far_it_is(tmp_path: Path) -> None:
    with start_installing(tmp_path, "echo 'Installing collected packages: a, c'") as installing:
        said, complaints = installing.communicate(timeout=300)
    assert (installing.returncode, complaints) == (0, "")
    assert said.splitlines() == [
        "pixconnect: installing what requirements/run.txt locks (only when it changes)",
        "pixconnect: 2 of 2 packages",
        "pixconnect: unpacking them",
        "pixconnect: building pixconnect-client and pixconnect-faces",
    ]
    assert (tmp_path / ".venv" / "run.stamp").exists()
    assert (tmp_path / ".venv" / "own.stamp").exists()


@pytest.mark.parametrize("package", ["clients/python", "faces"])
def test_a_package_beside_the_service_is_built_again_when_it_changed_and_only_then(tmp_path: Path, package: str) -> None:
    def make() -> list[str]:
        with run_script(tmp_path) as making:
            return making.communicate(timeout=300)[0].splitlines()

    def write(name: str) -> None:
        (tmp_path / package / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / package / name).write_text("")

    start_installing(tmp_path, "true").communicate(timeout=300)
    assert make() == []
    write("src/new.py")
    assert make() == ["pixconnect: building pixconnect-client and pixconnect-faces"]
    write("src/__pycache__/new.pyc")
    write("tests/test_new.py")
    assert make() == []


def test_what_pip_refuses_is_one_line(tmp_path: Path) -> None:
    with start_installing(tmp_path, "echo 'ERROR: no such version' >&2; exit 1") as installing:
        _, complaints = installing.communicate(timeout=300)
    assert (installing.returncode, complaints) == (1, "pixconnect: cannot install: ERROR: no such version\n")
    assert not (tmp_path / ".venv" / "run.stamp").exists()


def test_without_a_network_the_network_is_named_and_no_version(tmp_path: Path) -> None:
    pip = (
        "echo \"WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError: Failed to establish a new "
        "connection: Temporary failure in name resolution': /simple/a/\" >&2; echo 'ERROR: No such version' >&2; exit 1"
    )
    with start_installing(tmp_path, pip) as installing:
        _, complaints = installing.communicate(timeout=300)
    assert installing.returncode == 1
    assert complaints.startswith("pixconnect: cannot install: the package index cannot be reached: look at the network")
    assert complaints.count("\n") == 1


def test_an_interrupt_while_installing_is_one_line_and_ends_pip(tmp_path: Path) -> None:
    # Only the script gets the signal, not its pip.
    with start_installing(
        tmp_path, f"echo $$ > {tmp_path}/pid; echo 'Installing collected packages: a'; exec sleep 60"
    ) as installing:
        assert installing.stdout is not None
        while "unpacking them" not in (line := installing.stdout.readline()):
            assert line
        installing.send_signal(signal.SIGINT)
        _, complaints = installing.communicate(timeout=300)
    assert installing.returncode == 130
    assert complaints.split("\n") == ["", "pixconnect: stopped; the next time it goes on from here", ""]
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_every_target_has_a_line_of_help() -> None:
    done = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True, env=dict(os.environ))
    found = re.findall(r"^  make (\S+ +)\S", done.stdout, re.MULTILINE)
    assert {len(column) for column in found} == {16}, "no name pushes its text"
    assert [column.strip() for column in found[:2]] == ["run", "test"]
    assert {"check", "bench", "lock", "typescript"} <= {column.strip() for column in found}
