"""Makes ``.venv`` with what ``requirements/<kind>.txt`` locks, once: ``make_environment.py run`` or ``dev``.

Only the standard library is here yet. The package itself is not installed but found where it stands, so that no build is
needed; a stamp in the environment says what it was made from, and while that is so there is nothing to do.
"""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"

# Who develops has what running takes: requirements/dev.txt is locked on top of requirements/run.txt.
INCLUDES = {"run": ["run"], "dev": ["run", "dev"]}

# Paths with spaces, or longer than the system allows after "#!", do not fit a script's first line.
COMMAND = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import sys

from pixconnect.cli.main import main

sys.exit(main())
"""


def main(kind: str) -> None:
    """Make the environment, or find it made."""
    stamp = ENVIRONMENT / f"{kind}.stamp"
    wanted = describe(kind)
    if is_made(stamp, wanted):
        return
    folder = os.open(ROOT, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)  # two at once: one makes, the other finds it made
    if is_made(stamp, wanted):
        return
    if not is_usable():
        make_empty()
    install(kind)
    find_package_here()
    for included in INCLUDES[kind]:
        (ENVIRONMENT / f"{included}.stamp").write_text(describe(included))


def describe(kind: str) -> str:
    """What the environment is made from: the lock, this very Python, this very folder."""
    lock = (ROOT / "requirements" / f"{kind}.txt").read_bytes()
    return f"{sha256(lock).hexdigest()} {sys.version.split()[0]} {os.path.realpath(sys.executable)} {ROOT}\n"


def is_made(stamp: Path, wanted: str) -> bool:
    """Whether there is nothing to do."""
    return stamp.exists() and stamp.read_text() == wanted and PYTHON.exists()


def is_usable() -> bool:
    """Whether the environment that is there, if any, was made by this Python and still runs."""
    ours = f"{sys.version_info[:2]}"
    try:
        asked = [PYTHON, "-c", "import pip, sys; print(sys.version_info[:2])"]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == ours
    except OSError:
        return False


def make_empty() -> None:
    """Make an environment with nothing but pip."""
    if importlib.util.find_spec("ensurepip") is None:
        fail(
            "this Python has no venv module: install it (Debian, Ubuntu: apt-get install python3-venv), "
            "or name another Python: make PYTHON=/path/to/python3"
        )
    say("making .venv")
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    try:
        venv.EnvBuilder(symlinks=True, with_pip=True).create(ENVIRONMENT)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        fail(f"cannot make {ENVIRONMENT} ({error}): look at its permissions and at the room on the disk")


def install(kind: str) -> None:
    """Install what is locked, and nothing else."""
    lock = ROOT / "requirements" / f"{kind}.txt"
    say(f"installing what requirements/{kind}.txt locks (only when it changes)")
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet"]
    done = subprocess.run(
        [*pip, "--require-hashes", "--no-deps", "-r", lock], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        complaints = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        fail(f"cannot install: {(complaints or done.stderr.splitlines() or ['pip said nothing'])[0]}")


def find_package_here() -> None:
    """Let Python find ``src``, and make the command."""
    for packages in ENVIRONMENT.glob("lib/python*/site-packages"):
        (packages / "pixconnect.pth").write_text(f"{ROOT / 'src'}\n")
    command = ENVIRONMENT / "bin" / "pixconnect"
    command.write_text(COMMAND.format(python=PYTHON))
    command.chmod(0o755)
    # Or the first start's processes would all compile the same files at once.
    subprocess.run([PYTHON, "-m", "compileall", "-q", ROOT / "src"], check=False)


def say(text: str) -> None:
    """Tell one step."""
    print(f"pixconnect: {text}", flush=True)


def fail(text: str) -> None:
    """End with one line."""
    sys.exit(f"pixconnect: {text}")


if __name__ == "__main__":
    main(sys.argv[1])
