"""Makes ``.venv`` with what ``requirements/<kind>.txt`` locks, once: ``make_environment.py run`` or ``dev``.

Only the standard library is here yet. The package itself is not installed but found where it stands, so that no build is
needed; a stamp in the environment says what it was made from, and while that is so there is nothing to do.
"""

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"

# Who develops has what running takes: requirements/dev.txt is locked on top of requirements/run.txt.
INCLUDES = {"run": ["run"], "dev": ["run", "dev"]}

LINE_EACH = 10
"""Where there is no terminal, one line for so many packages."""
LINE_LENGTH_MAX = 79

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
    # Unbuffered, or its lines would come all at once in the end.
    pip = [PYTHON, "-u", "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    with subprocess.Popen(
        [*pip, "--require-hashes", "--no-deps", "-r", lock],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as installing:
        assert installing.stdout is not None
        try:
            said = show_progress(installing.stdout, len(re.findall(r"^[\w.-]+==", lock.read_text(), re.MULTILINE)))
        except BaseException:
            # Whoever stops us alone, as `timeout` does, means pip too.
            installing.kill()
            raise
    if installing.returncode != 0:
        complaints = [line for line in said if line.startswith("ERROR")]
        fail(f"cannot install: {(complaints or said or ['pip said nothing'])[0]}")


def show_progress(lines: Iterable[str], total: int) -> list[str]:
    """Read what pip says to its end, and tell how far it is: on a terminal in one line, elsewhere now and then."""
    said: list[str] = []
    count, name, is_terminal = 0, "", sys.stdout.isatty()
    for line in lines:
        said.append(line.strip())
        word, _, rest = said[-1].partition(" ")
        if word == "Ignoring":
            total -= 1  # locked for another system
        elif word == "Collecting" or said[-1].startswith("Requirement already satisfied"):
            count, name = count + 1, rest.split(" ")[0]
            if is_terminal:
                show_line(f"{count} of {total} packages: {name}")
            elif count % LINE_EACH == 0 or count == total:
                say(f"{count} of {total} packages")
        elif word == "Downloading" and is_terminal:
            show_line(f"{count} of {total} packages: {name} {rest[rest.rfind('(') :]}")
        elif said[-1].startswith("Installing collected packages"):
            if is_terminal:
                show_line("")
            say("unpacking them")
    return said


def find_package_here() -> None:
    """Let Python find ``src``, and make the command."""
    for packages in ENVIRONMENT.glob("lib/python*/site-packages"):
        (packages / "pixconnect.pth").write_text(f"{ROOT / 'src'}\n")
    command = ENVIRONMENT / "bin" / "pixconnect"
    command.write_text(COMMAND.format(python=PYTHON))
    command.chmod(0o755)
    # Or the first start's processes would all compile the same files at once.
    subprocess.run([PYTHON, "-m", "compileall", "-q", ROOT / "src"], check=False)


def show_line(text: str) -> None:
    """Write over the last line of a terminal."""
    sys.stdout.write(f"\r\x1b[K{f'pixconnect: {text}'[:LINE_LENGTH_MAX] if text else ''}")
    sys.stdout.flush()


def say(text: str) -> None:
    """Tell one step."""
    print(f"pixconnect: {text}", flush=True)


def fail(text: str) -> None:
    """End with one line."""
    sys.exit(f"pixconnect: {text}")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except KeyboardInterrupt:
        print("\npixconnect: stopped; the next time it goes on from here", file=sys.stderr)
        sys.exit(130)
