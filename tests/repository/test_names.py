"""What is written in this repository names no place that only one machine or one network has, and uses its words as agreed."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "pixconnect"

# Put together here, so that this file does not name them itself.
REGISTRIES = tuple(
    ".".join(words)
    for words in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("crates", "io"),
        ("rubygems", "org"),
        ("proxy.golang", "org"),
        ("docker", "io"),
    )
)
INDEX_OPTIONS = ("--" + "index-url", "--" + "extra-index-url", "--" + "find-links")
PLACES = (
    ".." + "/shared",
    "/work" + "/",
    str(Path.home()) + "/.",
    *([f"{ROOT}/"] if len(ROOT.parts) > 3 else []),  # a clone at /src would find itself everywhere
)

NOT_OUR_WORDS = {
    "user",
    "customer",
    "info",
    "obj",
    "manager",
    "handler",
    "helper",
    "processor",
    "util",
    "utils",
}
OUR_FLOORS = ("domain", "usecases", "store", "worker")
TAKEN_FROM_ELSEWHERE = {"USER_AGENT"}  # the header's name


def committed_files() -> list[Path]:
    """Every file that is, or would be, part of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("this is no clone")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_a_registry_an_index_or_a_place_of_one_machine() -> None:
    forbidden = (*REGISTRIES, *INDEX_OPTIONS, *PLACES)
    found = [
        f"{file.relative_to(ROOT)}: {word}"
        for file in committed_files()
        for word in forbidden
        if word.encode() in file.read_bytes()
    ]
    assert not found


def test_lock_files_are_hashed_throughout() -> None:
    for lock in sorted((ROOT / "requirements").glob("*.txt")):
        for requirement in re.split(r"\n(?=[a-z0-9])", lock.read_text(encoding="utf-8")):
            name = requirement.split("==")[0]
            assert "--hash=sha256:" in requirement, f"{lock.name}: {name} has no hash"


@pytest.mark.parametrize("floor", OUR_FLOORS)
def test_a_floor_uses_the_words_that_were_agreed(floor: str) -> None:
    for file in sorted((SOURCE / floor).rglob("*.py")):
        for name in _names(file) - TAKEN_FROM_ELSEWHERE:
            words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
            assert not words & NOT_OUR_WORDS, f"{file.relative_to(SOURCE)}: {name}"


def test_every_module_says_first_what_it_is_about() -> None:
    for file in sorted(SOURCE.rglob("*.py")):
        said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
        assert said, f"{file.relative_to(SOURCE)} has no docstring"


def _names(file: Path) -> set[str]:
    """The names that a file gives: of functions, classes, arguments and variables."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def test_nothing_that_decides_or_keeps_money_relies_on_assertions() -> None:
    """``python -O`` leaves them out; ``errors.ensure`` stays."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for room in ("domain", "usecases", "store")
        for path in sorted((SOURCE / room).glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert)
    ]
    assert found == []
