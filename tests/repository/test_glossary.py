"""Words of our own are few, and each is explained in ``docs/glossary.md``: everything else is called as the trade calls it.

A thing has its name in a class, a module or a folder. Each word in those is the trade's (``trade_words.txt``, which we have
read word by word: what a colleague of another house would understand) or is in the glossary. A new word is found by the test,
and is decided on then: mostly the trade has one already.
"""

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from support.sources import PARSED, parse

pytestmark = pytest.mark.xdist_group(PARSED)

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "pixconnect"
GLOSSARY = ROOT / "docs" / "glossary.md"
TRADE = Path(__file__).with_name("trade_words.txt")
ENTRIES_MAX = 40

_ENTRY = re.compile(r"^\| \*\*([a-z]+)\*\* \| (.+) \|$", re.MULTILINE)
_ENDINGS = (("s", ""), ("es", ""), ("ies", "y"), ("ed", ""), ("ed", "e"), ("ing", ""), ("ing", "e"))
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def test_a_word_in_a_things_name_is_the_trades_or_is_explained() -> None:
    known = _bases(_trade()) | _bases(_entries())
    unknown = {word: sorted(names) for word, names in _names_of_things().items() if not _bases([word]) & known}
    assert not unknown, f"take a word of the trade, or explain these in docs/glossary.md: {unknown}"


def test_no_word_is_the_trades_and_ours() -> None:
    assert not set(_trade()) & _entries().keys()


def test_words_of_the_trade_are_listed_once_and_in_order() -> None:
    assert _trade() == sorted(set(_trade()))


def test_nothing_is_explained_that_is_in_no_name() -> None:
    words = _bases(word for path in SOURCE.rglob("*.py") for name in _names(path) for word in _words(name))
    left_over = sorted(entry for entry in _entries() if not _bases([entry]) & words)
    assert not left_over, f"remove these entries from docs/glossary.md, no name has them any more: {left_over}"


def test_words_of_ours_are_few_and_explained_in_one_sentence() -> None:
    entries = _entries()
    assert len(entries) <= ENTRIES_MAX
    assert list(entries) == sorted(entries)
    for word, meaning in entries.items():
        assert re.fullmatch(r"[A-Z`][^.]+\.", meaning), f"{word}: one sentence"


def _entries() -> dict[str, str]:
    return dict(_ENTRY.findall(GLOSSARY.read_text(encoding="utf-8")))


def _trade() -> list[str]:
    return TRADE.read_text(encoding="utf-8").split()


def _bases(words: Iterable[str]) -> set[str]:
    """The words as they are, and as they would be without the endings of their forms."""
    found = set(words)
    return found | {word.removesuffix(end) + to for word in found for end, to in _ENDINGS if word.endswith(end)}


@cache
def _names_of_things() -> dict[str, set[str]]:
    """Where each word is: in which classes, modules and folders that others may name."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        classes = [each.name for each in parse(path).body if isinstance(each, ast.ClassDef)]
        for name in (*path.relative_to(SOURCE).with_suffix("").parts, *classes):
            for word in () if name.startswith("_") else _words(name):
                found.setdefault(word, set()).add(f"{path.relative_to(SOURCE)}: {name}")
    return found


def _names(path: Path) -> set[str]:
    """All names that a file gives: of its folders, itself, functions, classes, arguments, fields and variables."""
    found = set(path.relative_to(SOURCE).with_suffix("").parts)
    for node in ast.walk(parse(path)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case _:
                pass
    return found


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]
