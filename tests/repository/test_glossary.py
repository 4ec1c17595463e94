"""Words of our own are few, and each is explained in ``docs/glossary.md``: everything else is called as the trade calls it."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "pixconnect"
GLOSSARY = ROOT / "docs" / "glossary.md"
ENTRIES_MAX = 30

HOUSE_WORDS = {
    "books", "chance", "demonstration", "desk", "directory", "fence", "group", "handover",
    "holder", "kept", "lane", "lifeline", "lone", "mark", "order", "outside", "patience", "place", "rail", "seal", "share",
    "slot", "stalled", "standing", "tally", "verdict", "walk", "word",
}  # fmt: skip
"""Words that stand for something of ours. Where one is in a name it must be explained; better is a word of the trade."""

_ENTRY = re.compile(r"^\| \*\*([a-z]+)\*\* \| (.+) \|$", re.MULTILINE)


def test_a_word_of_ours_that_is_in_a_name_is_explained() -> None:
    unexplained = {word: names for word, names in _names_by_word().items() if word not in _entries()}
    assert not unexplained, f"take a word of the trade, or explain these in docs/glossary.md: {unexplained}"


def test_nothing_is_explained_that_is_in_no_name() -> None:
    left_over = sorted(_entries().keys() - _names_by_word().keys())
    assert not left_over, f"remove these entries from docs/glossary.md, no name has them any more: {left_over}"


def test_words_of_ours_are_few_and_explained_in_one_sentence() -> None:
    entries = _entries()
    assert len(entries) <= ENTRIES_MAX
    assert list(entries) == sorted(entries)
    for word, meaning in entries.items():
        assert re.fullmatch(r"[A-Z`][^.]+\.", meaning), f"{word}: one sentence"


def _entries() -> dict[str, str]:
    return dict(_ENTRY.findall(GLOSSARY.read_text(encoding="utf-8")))


def _names_by_word() -> dict[str, list[str]]:
    """The modules and public names in which a word of ours stands, in the singular or in the plural."""
    found: dict[str, list[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        module = str(file.relative_to(SOURCE).with_suffix(""))
        for name in (file.stem, *_public_names(ast.parse(file.read_text(encoding="utf-8")).body)):
            for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name):
                for word in HOUSE_WORDS & {part.lower(), part.lower().removesuffix("s")}:
                    found.setdefault(word, []).append(f"{module}: {name}")
    return found


def _public_names(body: list[ast.stmt]) -> list[str]:
    """What a module or a class shows of itself."""
    found: list[str] = []
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.append(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.append(name)
            case ast.Assign(targets=targets):
                found += [target.id for target in targets if isinstance(target, ast.Name)]
            case _:
                pass
        if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
            found += _public_names(statement.body)
    return [name for name in found if not name.startswith("_")]
