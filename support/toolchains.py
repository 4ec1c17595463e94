"""Test programs in other languages: what runs them and installs their packages.

They are in ``tests/programs`` and ``clients/typescript``, with pinned packages. ``make programs`` installs those if the
machine has Node.js and Go. A test without its tool or packages is skipped with the reason.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tests" / "programs"
NODE = PROGRAMS / "node"
GO = PROGRAMS / "go"
TYPESCRIPT = ROOT / "clients" / "typescript"

_TIMEOUT_S = 900  # the machine may be busy with other tests
# Without paths in Go's builds, tests in other folders find them in the cache.
_GO_FLAGS = dict(GOFLAGS="-trimpath -buildvcs=false", GOTOOLCHAIN="local")
# Built before the tests: the generator, and the dependencies of client programs.
_GO_PACKAGES = (
    "./oauth",
    "github.com/oapi-codegen/runtime",
    "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen",
)


def take_node(folder: Path) -> Path:
    """Copy the programs of Node.js with their packages, or skip the test."""
    return _take(NODE, folder)


def take_typescript(folder: Path) -> Path:
    """Copy the TypeScript client with its packages, or skip the test."""
    return _take(TYPESCRIPT, folder)


def _take(programs: Path, folder: Path) -> Path:
    _skip_if(find_missing_of_node(programs))
    # The developer's compiled files stay behind, because a test compiles the current source.
    copied = shutil.copytree(programs, folder / programs.name, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (copied / "node_modules").symlink_to(programs / "node_modules")
    return copied


def take_go(folder: Path) -> Path:
    """Copy the programs of Go, or skip the test."""
    _skip_if(find_missing_of_go())
    return shutil.copytree(GO, folder / "go")


def run(folder: Path, *command: str, **variables: str) -> str:
    """Run a program without network except loopback, and return its output."""
    # The tests may run offline: a missing package is an error at once.
    environment = {**os.environ, **_GO_FLAGS, "GOPROXY": "off", **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


def run_json(folder: Path, *command: str, **variables: str) -> Any:
    return json.loads(run(folder, *command, **variables))


@cache
def find_missing_of_node(programs: Path = NODE) -> str | None:
    if not _has_node():
        return "there is no Node.js 20 or later, with npm, on this machine"
    stamp = _stamp_of(programs)
    if not stamp.exists() or stamp.read_text() != _describe_packages(programs):
        return f"the packages of {programs.relative_to(ROOT)} are not installed: make programs"
    return None


@cache
def find_missing_of_go() -> str | None:
    if shutil.which("go") is None:
        return "there is no Go on this machine"
    asked = _call(["go", "mod", "download"], GO, GOPROXY="off")
    if asked.returncode != 0:
        said = (asked.stderr.splitlines() or ["it says nothing"])[0]
        return f"the packages of tests/programs/go are not installed, or Go is too old: make programs ({said})"
    return None


def _has_node() -> bool:
    if shutil.which("node") is None or shutil.which("npm") is None:
        return False
    said = re.match(r"v(\d+)\.", subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout)
    return said is not None and int(said[1]) >= 20


def _stamp_of(programs: Path) -> Path:
    return programs / "node_modules" / ".stamp"


def _describe_packages(programs: Path) -> str:
    return sha256((programs / "package-lock.json").read_bytes()).hexdigest()


def _skip_if(missing: str | None) -> None:
    if missing is not None:
        pytest.skip(missing)


def _call(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **_GO_FLAGS, **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def main() -> int:
    done = [True]
    for missing in (None if _has_node() else find_missing_of_node(), None if shutil.which("go") else "there is no Go"):
        if missing is not None:
            print(f"pixconnect: {missing}: tests that need it are skipped", flush=True)  # noqa: T201 - for who waits
    for programs in (NODE, TYPESCRIPT) if _has_node() else ():
        if find_missing_of_node(programs) is not None:
            done.append(_try_twice(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], programs))
            if done[-1]:
                _stamp_of(programs).write_text(_describe_packages(programs))
    if shutil.which("go") is not None:
        done.append(_try_twice(["go", "mod", "download"], GO) and _try_twice(["go", "build", *_GO_PACKAGES], GO))
    return 0 if all(done) else 1


def _try_twice(command: list[str], folder: Path) -> bool:
    print(f"pixconnect: {' '.join(command)}", flush=True)  # noqa: T201 - for who waits
    done = _call(command, folder)
    if done.returncode != 0:
        # It may have been a registry that answered too late.
        done = _call(command, folder)
    if done.returncode != 0:
        print(f"{done.stdout}{done.stderr}", file=sys.stderr)  # noqa: T201 - for who waits
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
