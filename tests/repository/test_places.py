"""Tests stand where what they test stands, and what they name is there."""

import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
SOURCE = ROOT / "src" / "pixconnect"
# What is not of the service has folders of tests of its own.
BESIDE = {
    "bench": ROOT / "bench",
    "chaos": ROOT / "support" / "chaos",
    "client": ROOT / "clients" / "python" / "src" / "pixconnect_client",
    "scripts": ROOT / "scripts",
    "deploy": ROOT / "deploy",
    "conformance": None,
    "journeys": None,
    "repository": None,
}
FILES = sorted(TESTS.rglob("test_*.py"))


def test_a_test_stands_where_its_module_stands() -> None:
    """``tests/worker/test_expiry.py`` is of ``worker/expiry.py``; a file named as no module tests several of its folder."""
    folders = defaultdict[str, set[Path]](set)
    for module in SOURCE.rglob("*.py"):
        folders[module.stem].add(module.parent.relative_to(SOURCE))
    astray = [
        f"{file.relative_to(ROOT)}: no such folder in src"
        if not (SOURCE / folder).is_dir()
        else f"{file.relative_to(ROOT)}: {noun}.py stands in {', '.join(sorted(map(str, folders[noun])))}"
        for file in FILES
        for folder, noun in [(file.parent.relative_to(TESTS), file.stem.removeprefix("test_"))]
        if folder.parts[:1] not in [(name,) for name in BESIDE]
        if not (SOURCE / folder).is_dir() or (folders[noun] and folder not in folders[noun])
        if not (SOURCE / folder / noun).is_dir()
    ]
    assert astray == []


def test_other_folders_of_tests_are_of_something() -> None:
    for name, of in BESIDE.items():
        assert (TESTS / name).is_dir()
        assert of is None or of.is_dir()


def test_paths_that_tests_name_are_there() -> None:
    """A path in a list of exceptions, or one that is read, may have moved since."""
    named = re.compile(
        r"""["']((?:src|tests|support|bench|scripts|docs|clients)(?:/[\w.-]+)+\.(?:py|md|sql|json|html))["']"""
    )
    missing = [
        f"{file.relative_to(ROOT)}: {path}"
        for file in FILES
        for path in named.findall(file.read_text(encoding="utf-8"))
        if not (ROOT / path).exists()
    ]
    assert missing == []


async def test_what_asks_postgresql_is_marked(request: pytest.FixtureRequest, database: object) -> None:
    """By the mark ``make test-16`` knows what to run."""
    assert database is not None
    assert request.node.get_closest_marker("sql") is not None
