"""Remove an optional feature from a copy of the tree, and check what is left; ``make without FEATURE=people`` runs it.

``all`` removes every feature that can be removed, ``each`` one after the other, ``commit`` the one that the commit's hash
chooses, and ``list`` prints which can be removed, and the imports that keep the others. A feature's dependents go with it.

It removes the folder, the line in ``features/__init__.py``, the tests, the tests of the kernel that use it, and its exceptions
in ``pyproject.toml``. What stays of a feature is listed in ``docs/reference/places.md``. The faces are a distribution of their
own, which goes with each feature that it needs.
"""

import ast
import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from pixconnect.features import FEATURES as OWN
from pixconnect.features import NEEDED
from scripts.pages.schema import ROOT, SHAPE, describe_shape

_FACES: Final = tomllib.loads((ROOT / "faces" / "pyproject.toml").read_text(encoding="utf-8"))
FEATURES: Final = {**OWN, "faces": tuple(_FACES["tool"]["pixconnect"]["features"])}
_OF_FEATURE: Final = re.compile(r"pixconnect(?:\.features\.|_)(\w+)")
START_MAX_S: Final = 120.0
_LINES_SHOWN: Final = 25
_FOLDER: Final = "src/pixconnect/features"
_HEALTH: Final = "/v1/connect/health"


class StepFailed(Exception):  # noqa: N818  the result of a check
    """The check of a step failed; the message is the end of its output."""


def with_dependents(names: Collection[str]) -> frozenset[str]:
    """These features, and the optional ones that import them."""
    found = frozenset(names)
    while more := {name for name, needed in FEATURES.items() if found & set(needed)} - found - set(NEEDED):
        found |= more
    return found


@cache
def list_imports(path: Path) -> tuple[tuple[int, str], ...]:
    """The features that a module imports, each with its line."""
    found: set[tuple[int, str]] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for module in modules:
            feature = _OF_FEATURE.match(module)
            if feature and feature[1] in FEATURES:
                found.add((node.lineno, feature[1]))
    return tuple(sorted(found))


def find_obstacles(removed: Collection[str], root: Path = ROOT) -> list[str]:
    """The imports of these features in what stays."""
    found: list[str] = []
    gone = [root / _FOLDER / name for name in removed]
    for path in sorted((root / "src/pixconnect").rglob("*.py")):
        if not any(folder in path.parents for folder in gone):
            lines = [(line, name) for line, name in list_imports(path) if name in removed]
            found += [f"{path.relative_to(root)}:{line} imports {name}" for line, name in lines]
    return found


def list_removable() -> list[str]:
    return [name for name in FEATURES if name not in NEEDED and not find_obstacles(with_dependents({name}))]


def copy_tree(target: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def remove(root: Path, removed: Collection[str]) -> list[str]:
    """Remove the features from a copy, and return the files of support and tests that went because they use them."""
    for name in removed:
        shutil.rmtree(root / name if name == "faces" else root / _FOLDER / name)
        shutil.rmtree(root / "tests/features" / name, ignore_errors=True)
    if "faces" in removed:
        # Before the installed ones.
        (root / "src/pixconnect_faces-0.dist-info").mkdir()
        (root / "src/pixconnect_faces-0.dist-info/entry_points.txt").touch()
    _remove_lines(root / _FOLDER / "__init__.py", removed)
    project = root / "pyproject.toml"
    names = "|".join(sorted(removed))
    text = project.read_text(encoding="utf-8")
    project.write_text(re.sub(rf'"[^"\n]*\bpixconnect(?:\.features\.|_)(?:{names})\b[^"\n]*",?', "", text), encoding="utf-8")
    return _remove_users(root, removed)


def _remove_lines(registry: Path, removed: Collection[str]) -> None:
    lines = registry.read_text(encoding="utf-8").splitlines(keepends=True)
    for node in ast.walk(ast.parse("".join(lines))):
        if not isinstance(node, ast.Dict):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value in removed:
                # Its comment stands on the line before.
                lines[key.lineno - 2 : value.end_lineno] = [""] * ((value.end_lineno or 0) - key.lineno + 2)
    registry.write_text("".join(lines), encoding="utf-8")


def _remove_users(root: Path, removed: Collection[str]) -> list[str]:
    """Remove what imports them from ``support`` and from the kernel's tests, also by way of others."""
    texts = {
        path: path.read_text(encoding="utf-8")
        for folder in ("support", "tests/kernel")
        for path in sorted((root / folder).rglob("*.py"))
    }
    # An import within a function is of the tests that call it.
    users = {
        path
        for path, text in texts.items()
        if any(name in removed and text.splitlines()[line - 1].startswith("from") for line, name in list_imports(path))
    }
    while True:
        gone = {
            ".".join(path.relative_to(root).with_suffix("").parts) for path in users if path.is_relative_to(root / "support")
        }
        names = re.compile("|".join(map(_write_pattern, gone)) or "$.^")
        more = {path for path, text in texts.items() if path not in users and names.search(text)}
        if not more:
            break
        users |= more
    for path in users:
        path.unlink()
    return sorted(str(path.relative_to(root)) for path in users)


def _write_pattern(module: str) -> str:
    package, _, name = module.rpartition(".")
    return rf"from {re.escape(module)} import|from {re.escape(package)} import [^\n]*\b{name}\b"


def run(root: Path, command: str, home: Path | None = None) -> None:
    """Run a program in the copy."""
    ended = subprocess.run(
        shlex.split(command), check=False, cwd=root, env=_environment(root, home), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if ended.returncode:
        raise StepFailed("\n".join(ended.stdout.splitlines()[-_LINES_SHOWN:]))


def _environment(root: Path, home: Path | None) -> dict[str, str]:
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PIXCONNECT_", "MAKE")) and name not in {"PORT", "DATABASE_URL"}
    }
    # Before the environment's own, which is that of the whole tree.
    own["PYTHONPATH"] = os.pathsep.join(str(root / name) for name in ("src", "clients/python/src", "faces/src", "."))
    own["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), own.get("PATH", "")])
    return own if home is None else {**own, "PIXCONNECT_HOME": str(home), "PIXCONNECT_PORT": "0"}


@contextmanager
def started(root: Path, home: Path) -> Iterator[None]:
    """A service on a fresh home, from the moment in which it is healthy."""
    with (home.parent / "run.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pixconnect", "run"],
            cwd=root, env=_environment(root, home), stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            until_s = time.monotonic() + START_MAX_S
            while not _is_healthy(home):
                if process.poll() is not None or time.monotonic() > until_s:
                    log.seek(0)
                    raise StepFailed("\n".join(log.read().splitlines()[-_LINES_SHOWN:]))
                time.sleep(0.2)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _is_healthy(home: Path) -> bool:
    try:
        base_url = json.loads((home / "sandbox.json").read_text(encoding="utf-8"))["base_url"]
        with urlopen(base_url + _HEALTH, timeout=5) as answer:  # noqa: S310  our own
            return json.load(answer)["data"]["status"] == "healthy"
    except (OSError, ValueError):
        return False


def check(removed: Collection[str]) -> bool:
    """Remove them from a copy and run each step; prints its result and seconds."""
    print(f"without {', '.join(sorted(removed))}", flush=True)
    with tempfile.TemporaryDirectory(prefix="pixconnect-without-") as folder:
        root, home = Path(folder) / "tree", Path(folder) / "home"
        copy_tree(root)
        users = remove(root, removed)
        if users:
            print(f"  went with it: {', '.join(users)}")

        def start_and_verify() -> None:
            with started(root, home):
                # The shape of the tables that are left, for `verify` and the kernel's tests.
                owner_url = json.loads((home / "running.json").read_text(encoding="utf-8"))["owner_database_url"]
                shape = asyncio.run(describe_shape(owner_url))
                (root / SHAPE.relative_to(ROOT)).write_text(shape, encoding="utf-8")
                run(root, "python -P -m pixconnect verify", home)

        steps: dict[str, Callable[[], None]] = {
            "lint": lambda: run(root, "ruff check --quiet --ignore I001,F401 src support tests/kernel"),
            "import rules": lambda: run(root, "lint-imports --no-cache"),
            "start and verify": start_and_verify,
            "kernel's tests": lambda: run(root, "python -m pytest -q -n auto --dist loadgroup -m 'not long' tests/kernel"),
        }
        # A step that fails does not keep the others from running.
        results = [_report(name, step) for name, step in steps.items()]
        return all(results)


def _report(name: str, step: Callable[[], None]) -> bool:
    began_s = time.monotonic()
    try:
        step()
    except StepFailed as error:
        print(f"  {name:<18}failed {time.monotonic() - began_s:6.1f} s\n{error}", flush=True)
        return False
    print(f"  {name:<18}passed {time.monotonic() - began_s:6.1f} s", flush=True)
    return True


def list_all() -> None:
    for name in FEATURES:
        if name not in NEEDED:
            removed = with_dependents({name})
            found = find_obstacles(removed)
            others = f", with {', '.join(sorted(removed - {name}))}" if len(removed) > 1 else ""
            print(f"{name:<20}{f'{len(found)} imports keep it' if found else 'can be removed'}{others}")


def choose(wanted: str) -> list[frozenset[str]]:
    """The sets of features to remove, one after the other."""
    removable = list_removable()
    if wanted == "all":
        return [with_dependents(removable)]
    if wanted == "commit":
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
        wanted = removable[int(head, 16) % len(removable)]
    return [with_dependents({name}) for name in (removable if wanted == "each" else [wanted])]


def main(words: Sequence[str]) -> int:
    wanted = words[0] if words else "list"
    if wanted == "list":
        list_all()
        return 0
    if wanted not in {*FEATURES, "all", "each", "commit"} - set(NEEDED):
        optional = ", ".join(name for name in FEATURES if name not in NEEDED)
        print(f"FEATURE={wanted}: must be all, each, commit, list or one of {optional}")
        return 2
    results: list[bool] = []
    for removed in choose(wanted):
        found = find_obstacles(removed)
        if found:
            print(f"{wanted} cannot be removed: {len(found)} imports keep it or its dependents. These are of itself:")
            print(*find_obstacles({wanted}), sep="\n")
        results.append(not found and check(removed))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
