"""Each check of the repository's form reports its violations."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from scripts import check_form

CLEAN = {
    "Makefile": "test:\n\ttrue\n",
    ".gitignore": "docs/reference/cli.md\n",
    "README.md": "# Read\n\n[guide](docs/guides/inicio-rapido.md#begin)\n",
    "ARCHITECTURE.md": "`kernel/money.py` is pure; `test_money_adds_up` shows it.\n",
    "docs/README.md": "[begin](guides/inicio-rapido.md), [verbs](reference/cli.md#run)\n",
    "docs/guides/inicio-rapido.md": "## Begin\n",
    "requirements/run.txt": "msgspec==1.0 --hash=sha256:00\n",
    "tests/programs/node/package-lock.json": '{"packages": {"": {}, "a": {"integrity": "sha512-x"}}}',
    "deploy/Dockerfile": f"ARG BASE=debian:12@sha256:{64 * '0'}\nFROM ${{BASE}} AS build\nFROM build\n",
    "deploy/compose.yaml": f"a:\n  image: pixconnect:service\nb:\n  image: ${{B:-b@sha256:{64 * '0'}}}\n",
    "src/pixconnect/kernel/money.py": '"""Money."""\n',
    "src/pixconnect/kernel/schema/1_tables.sql": "",
    "src/pixconnect/features/lots/schema.sql": "",
    "tests/kernel/test_money.py": "def test_money_adds_up(): ...\n",
}
REGISTRY = "py" + "pi.org"


def write(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_clean_tree_has_no_violation(tmp_path: Path) -> None:
    assert check_form.find_violations(write(tmp_path, CLEAN)) == []


def test_written_pages_that_git_ignores_are_not_checked(tmp_path: Path) -> None:
    root = write(tmp_path, {**CLEAN, "docs/reference/cli.md": "[gone](gone.md)\n"})
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    assert check_form.find_violations(root) == []


@pytest.mark.parametrize(
    ("name", "text", "violation"),
    [
        ("SECURITY.md", "[gone](docs/gone.md)", "SECURITY.md:1: no such file: docs/gone.md"),
        ("SECURITY.md", "\n[gone](README.md#gone)", "SECURITY.md:2: no such heading: README.md#gone"),
        (
            "SECURITY.md",
            "[verbs](docs/reference/cli.md)",
            "SECURITY.md:1: a clone lacks this page; link to docs/README.md#built-pages",
        ),
        ("docs/lost.md", "", "docs/lost.md: docs/README.md does not list this page"),
        ("ARCHITECTURE.md", "`kernel/gone.py`", "ARCHITECTURE.md:1: no such file: kernel/gone.py"),
        ("ARCHITECTURE.md", "`test_gone`", "ARCHITECTURE.md:1: no such test: test_gone"),
        ("SECURITY.md", "`make gone`", "SECURITY.md:1: no such target: make gone"),
        ("deploy/image", f"\nfrom {REGISTRY}", f"deploy/image:2: names {REGISTRY}"),
        ("requirements/run.txt", "a==1\n", "requirements/run.txt: a has no hash"),
        (
            "tests/programs/node/package-lock.json",
            '{"packages": {"a": {"integrity": "x", "resolved": "y"}}}',
            "tests/programs/node/package-lock.json: a: needs integrity, and no resolved",
        ),
        ("deploy/a.yaml", "    image: prom/p:v2\n", "deploy/a.yaml:1: prom/p:v2 needs its digest (@sha256:...)"),
        ("deploy/a.yaml", "image: ${A:-p:17}\n", "deploy/a.yaml:1: p:17 needs its digest (@sha256:...)"),
        ("deploy/a.yaml", "image: ${A:-p@sha256:1}\n", "deploy/a.yaml:1: p@sha256:1 needs its digest (@sha256:...)"),
        ("Dockerfile", "ARG B=d:12\nFROM ${B} AS b\nFROM b\n", "Dockerfile:1: d:12 needs its digest (@sha256:...)"),
        ("Dockerfile", "FROM ${B} AS b\n", "Dockerfile:1: ${B} needs its digest (@sha256:...)"),
        ("src/pixconnect/long.py", '"""Long."""\n' + "a = 1\n" * 400, "src/pixconnect/long.py: 401 lines, at most 400"),
        (
            "src/pixconnect/long.py",
            '"""Long."""\n\ndef f():\n' + "    a = 1\n" * 60,
            "src/pixconnect/long.py:3: f has 61 lines, at most 60",
        ),
        ("src/pixconnect/wide.py", f'"""Wide."""\na = "{"b" * 160}"', "src/pixconnect/wide.py:2: 166 columns, at most 160"),
        ("src/pixconnect/silent.py", "a = 1", "src/pixconnect/silent.py: needs a docstring"),
        ("src/pixconnect/features/a.py", '"""A."""\nassert 1', "src/pixconnect/features/a.py:2: use errors.ensure"),
        ("tests/nowhere/test_a.py", "", "tests/nowhere/test_a.py: src/pixconnect has no folder nowhere"),
        ("tests/features/test_money.py", "", "tests/features/test_money.py: money.py stands in kernel"),
    ],
)
def test_a_violation_is_reported_with_its_place(tmp_path: Path, name: str, text: str, violation: str) -> None:
    assert check_form.find_violations(write(tmp_path, {**CLEAN, name: text})) == [violation]
