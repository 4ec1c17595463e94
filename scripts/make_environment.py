"""Make ``.venv`` from ``requirements/<kind>.txt`` if it is out of date: ``make_environment.py run`` or ``dev``.

It only uses the standard library. The package itself is imported from its folder, without a build. The client
(``clients/python``) and the faces (``faces``) are packages of their own: they are built as wheels and installed as by
users; for developers they are installed in editable form. Stamps in the environment record what it was made from.
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
OWN = (ROOT / "clients" / "python", ROOT / "faces")  # the packages beside the service

# requirements/dev.txt is locked on top of requirements/run.txt, so developers have the service's packages too.
INCLUDES = {"run": ["run"], "dev": ["run", "dev"]}

LINE_EACH = 10  # without a terminal, one line for so many packages
LINE_LENGTH_MAX = 79

# Paths with spaces, or beyond the system's limit after "#!", do not fit a script's first line.
COMMAND = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import sys

from pixconnect.running.main import main

sys.exit(main())
"""


def main(kind: str) -> None:
    """Make the environment unless it is up to date."""
    if is_made(kind) and has_own(kind) and has_tables():
        return
    folder = os.open(ROOT, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)  # two processes at once: one makes it, the other waits
    if not is_made(kind):
        if not is_usable():
            make_empty()
        install(kind)
        find_package_here()
        for included in INCLUDES[kind]:
            (ENVIRONMENT / f"{included}.stamp").write_text(describe(included))
    if not has_own(kind):
        install_own(kind)
    if not has_tables():
        make_tables()


def describe(kind: str) -> str:
    """The inputs of the environment: the lock, the command, this Python, this folder."""
    lock = (ROOT / "requirements" / f"{kind}.txt").read_bytes()
    return f"{sha256(lock + COMMAND.encode()).hexdigest()} {sys.version.split()[0]} {os.path.realpath(sys.executable)} {ROOT}\n"


def is_made(kind: str) -> bool:
    return read_stamp(kind) == describe(kind) and PYTHON.exists()


def has_own(kind: str) -> bool:
    """Whether the installed packages match their folders; in editable form they always do."""
    return read_stamp("own") in {describe_own("dev"), describe_own(kind)}


def describe_own(kind: str) -> str:
    """The inputs of the packages beside the service: all their files but tests; in editable form only the metadata."""
    files = [folder / "pyproject.toml" for folder in OWN]
    if kind == "run":
        inside = (file for folder in OWN for file in folder.rglob("*") if file.is_file())
        files += sorted(file for file in inside if not {"__pycache__", "tests"} & {*file.relative_to(ROOT).parts})
    digest = sha256(b"".join(b"%b\0%b\0" % (os.fsencode(file), file.read_bytes()) for file in files))
    return f"{kind} {digest.hexdigest()}\n"


def has_tables() -> bool:
    """Whether a first start finds its tables made."""
    return read_stamp("tables") == describe_tables()


def describe_tables() -> str:
    """The inputs of the tables: all SQL, and what makes a cluster with it."""
    source = ROOT / "src" / "pixconnect"
    makers = (*source.glob("running/template.py"), *source.glob("platform/local/postgres_placement.py"))
    files = [*sorted(source.rglob("*.sql")), *makers]
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def read_stamp(name: str) -> str:
    stamp = ENVIRONMENT / f"{name}.stamp"
    return stamp.read_text() if stamp.exists() else ""


def is_usable() -> bool:
    """Whether the existing environment, if any, was made by this Python and still runs."""
    ours = f"{sys.version_info[:2]}"
    try:
        asked = [PYTHON, "-c", "import pip, sys; print(sys.version_info[:2])"]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == ours
    except OSError:
        return False


def make_empty() -> None:
    """Make an environment with only the locked pip."""
    if importlib.util.find_spec("ensurepip") is None:
        fail(
            "this Python has no venv module: install it (Debian, Ubuntu: apt-get install python3-venv), "
            "or name another Python: make PYTHON=/path/to/python3"
        )
    print_step("making .venv")
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    try:
        venv.EnvBuilder(symlinks=True, with_pip=True).create(ENVIRONMENT)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        fail(f"cannot make {ENVIRONMENT} ({error}): look at its permissions and at the room on the disk")
    # The pip that comes with a Python is not locked, and often years old.
    install("pip")
    subprocess.run([PYTHON, "-m", "pip", "uninstall", "--yes", "--quiet", "setuptools"], capture_output=True, check=False)


_NO_NETWORK = (
    "connection broken by",
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "Cannot connect to proxy",
    "Max retries exceeded",
)


def install(kind: str) -> None:
    """Install the locked packages, and nothing else."""
    lock = ROOT / "requirements" / f"{kind}.txt"
    print_step(f"installing what requirements/{kind}.txt locks (only when it changes)")
    # Unbuffered, since otherwise its lines would all come at the end.
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
            # A signal to this process alone, as by `timeout`, must end pip too.
            installing.kill()
            raise
    if installing.returncode != 0:
        # If pip cannot reach its index, its last line only says that there is no such version.
        if any(words in line for line in said for words in _NO_NETWORK):
            fail(
                "cannot install: the package index cannot be reached: look at the network, or at pip's proxy and index settings"
            )
        complaints = [line for line in said if line.startswith("ERROR")]
        fail(f"cannot install: {(complaints or said or ['pip said nothing'])[0]}")


def install_own(kind: str) -> None:
    """Build the wheels of the packages beside the service with installed packages, and install them."""
    print_step("building pixconnect-client and pixconnect-faces")
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet", "--force-reinstall"]
    wanted = describe_own(kind)
    # Nothing is downloaded, because the build tools are locked too.
    how = ["--no-deps", "--no-index", "--no-build-isolation"]
    folders = [word for folder in OWN for word in (*(["--editable"] if kind == "dev" else []), folder)]
    done = subprocess.run([*pip, *how, *folders], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        complaints = (done.stderr + done.stdout).strip().splitlines()
        fail(f"cannot build them: {(complaints or ['pip said nothing'])[-1]}")
    (ENVIRONMENT / "own.stamp").write_text(wanted)


def make_tables() -> None:
    """Make the tables of a new sandbox, which a first start then copies; if that fails, it makes them itself."""
    wanted = describe_tables()
    subprocess.run([PYTHON, "-m", "pixconnect.running.template"], capture_output=True, check=False)
    (ENVIRONMENT / "tables.stamp").write_text(wanted)


def show_progress(lines: Iterable[str], total: int) -> list[str]:
    """Read pip's output to its end and show the progress: in one line on a terminal, otherwise now and then."""
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
                print_step(f"{count} of {total} packages")
        elif word == "Downloading" and is_terminal:
            show_line(f"{count} of {total} packages: {name} {rest[rest.rfind('(') :]}")
        elif said[-1].startswith("Installing collected packages"):
            if is_terminal:
                show_line("")
            print_step("unpacking them")
    return said


def find_package_here() -> None:
    """Make ``src`` importable, and write the command."""
    for packages in ENVIRONMENT.glob("lib/python*/site-packages"):
        (packages / "pixconnect.pth").write_text(f"{ROOT / 'src'}\n")
    command = ENVIRONMENT / "bin" / "pixconnect"
    command.write_text(COMMAND.format(python=PYTHON))
    command.chmod(0o755)
    # Otherwise the processes of the first start would all compile the same files at once.
    subprocess.run([PYTHON, "-m", "compileall", "-q", ROOT / "src"], check=False)


def show_line(text: str) -> None:
    """Overwrite the last line of a terminal."""
    sys.stdout.write(f"\r\x1b[K{f'pixconnect: {text}'[:LINE_LENGTH_MAX] if text else ''}")
    sys.stdout.flush()


def print_step(text: str) -> None:
    print(f"pixconnect: {text}", flush=True)


def fail(text: str) -> None:
    sys.exit(f"pixconnect: {text}")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except KeyboardInterrupt:
        print("\npixconnect: stopped; the next time it goes on from here", file=sys.stderr)
        sys.exit(130)
