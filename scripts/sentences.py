"""Lists sentences that a colleague would hardly say, with file and line: ``python -m scripts.sentences [PATH ...]``.

It reads pages, docstrings, comments, texts in the code, templates and the console's catalogue. It is a help for whoever reads
them again, and no gate: a sentence that it finds may be good, and most bad ones it does not find.
"""

import argparse
import ast
import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
READ: Final = {".py", ".md", ".html", ".po"}
WORDS_MIN: Final = 4
"""A shorter text in the code is a name, not a sentence."""

_VERB = (
    r"(?:is|are|was|were|be|been|has|have|had|does|do|goes|go|gets?|comes?|waits?|takes?|makes?"
    r"|may|must|can|cannot|will|would)\b"
)
_TOLD = r"(?:told|asked|let|given|taken|heard|looked|passed|had|said|meant|held|judged|spoken|gone|thought|noticed)\b"
_NOT_A_MEASURE = r"so\b(?! (?:that|long|many|much|far|few)\b)"
_DOING = r"(?:look|asking|telling|making|taking|sending|giving|coming|going|having|waiting|doing|reading|writing)"
_SO_ENDS = r"(?:be|is|are|was|were|done|made|kept|written|begun|ended|found|named|called|given|asked|out)"

PATTERNS: Final = {
    name: re.compile("|".join(forms))
    for name, *forms in (
        ("begins with Of", r"^Of\b"),
        ("begins with Let", r"^Let (?:it|them|him|her|the|those|what|who)\b"),
        (
            "begins with a relative clause",
            rf"^(?:What|Whatever|Who|Whoever|Whose|Which|Where)\b[^?]*?\b{_VERB}[^?]*?\b{_VERB}",
        ),
        ("who ... so", rf"\b[Ww]ho\b[^.;:]*\b{_NOT_A_MEASURE}"),
        (
            "who, for an actor without a name",
            r"(?:^|[,;:] |\b(?:and|or|but|for|by|of|to) )[Ww]ho(?:ever)? (?!owns\b)\w+",
        ),
        (
            "what, as the subject of a clause",
            rf"(?:[,;:] |\b(?:and|or|but|that|so|because|as) )what [^.,;:?]*?\b{_VERB}[^.,;:?]*?\b{_VERB}",
        ),
        (
            "what, for a thing without a name",
            r"\b(?:of|for|by|with|to|from|in|on|than|beside|against|after|before) what\b",
        ),
        (
            "a passive without its actor",
            rf"\b(?:is|are|was|were|be|been|being) (?:\w+ly |not |never |ever )?{_TOLD}(?![^.;:]*\bby\b)",
        ),
        (
            "have something done",
            r"\b(?:[Hh]ave|[Hh]as|[Hh]aving|[Gg]ets?) (?:the |a |an |its |their |every )?\w+ (?:told|paid|made|sent|asked)\b",
        ),
        ("a noun for a verb", rf"\b(?:[Tt]he|[Aa]) {_DOING} (?:of|at|for|up)\b"),
        ("a relative clause far from its noun", r",? (?:of|by|for|in) (?:all|every|each|one|those)\b[^.,;:]*, that\b"),
        ("somebody, for an actor with a name", r"\b[Ss]ome(?:body|one)\b"),
        ("so, for in this way", rf"\b{_SO_ENDS} {_NOT_A_MEASURE}", r"\bso[.;]"),
        ("no such turn in English", r"\bno(?:ne|body|thing)?\b[^.;:,]* but\b", r"\bas ever\b", r"\bthere comes\b"),
    )
}
"""How a sentence is untypical, and how it is found."""

_SQL: Final = re.compile(r"\s*(?:select|with|insert|update|delete|create)\b")


class Text(NamedTuple):
    """Words for people, and the line where they begin."""

    line: int
    words: str


class Finding(NamedTuple):
    line: int
    pattern: str
    sentence: str


def main() -> None:
    """Print what is found, and how much of each."""
    parser = argparse.ArgumentParser(description="List sentences that a colleague would hardly say.")
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders; all that git knows without it")
    parser.add_argument("--count", action="store_true", help="say only how many there are, by folder")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    for path in _files(arguments.paths):
        for finding in find(path.suffix, path.read_text(encoding="utf-8")):
            counts["/".join(path.parts[:3])] += 1
            if not arguments.count:
                print(f"{path}:{finding.line}: {finding.pattern}: {finding.sentence}")
    for folder, count in sorted(counts.items()) if arguments.count else ():
        print(f"{count:6} {folder}")
    print(f"{counts.total():6} sentences")


def find(suffix: str, source: str) -> list[Finding]:
    """The untypical sentences of a file, each once, under the first pattern that finds it."""
    found: list[Finding] = []
    for text in texts(suffix, source):
        for sentence in re.split(r"(?<=[.?!]) +(?=[A-Z`*])", " ".join(text.words.split())):
            bare = re.sub(r"^[-*>|# ]+", "", sentence)
            for name, pattern in PATTERNS.items():
                if pattern.search(bare):
                    found.append(Finding(text.line, name, bare))
                    break
    return found


def texts(suffix: str, source: str) -> Iterator[Text]:
    """All that people read in a file: in a program its docstrings, comments and texts; elsewhere its paragraphs."""
    if suffix == ".py":
        yield from _program_texts(source)
    elif suffix == ".md":
        yield from _paragraphs(
            re.sub(r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), source, flags=re.MULTILINE | re.DOTALL)
        )
    elif suffix == ".po":
        for match in re.finditer(r'^msgid((?: *"(?:[^"\\]|\\.)*"\n)+)', source, re.MULTILINE):
            yield Text(source.count("\n", 0, match.start()) + 1, "".join(re.findall(r'"(.*)"', match[1])))
    else:
        yield from _paragraphs(
            re.sub(r"\{[%#].*?[%#]\}|<[^>]*>", lambda tag: "\n" * tag[0].count("\n"), source, flags=re.DOTALL)
        )


def _program_texts(source: str) -> Iterator[Text]:
    # A docstring's summary and each of its paragraphs are texts of their own; their sections' names are not.
    nodes = list(ast.walk(ast.parse(source)))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            words = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield from _if_long(node.lineno, words)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not _SQL.match(node.value):
            for paragraph in _paragraphs(node.value):
                yield from _if_long(node.lineno + paragraph.line - 1, paragraph.words)
    comment: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1 and comment:
                yield from _if_long(first, " ".join(comment))
                comment = []
            first, last = (first if comment else token.start[0]), token.start[0]
            comment.append(token.string.lstrip("#: "))
    yield from _if_long(first, " ".join(comment))


def _paragraphs(source: str) -> Iterator[Text]:
    """Lines that belong together: until an empty line, a point of a list, a row of a table or a headline."""
    lines: list[str] = []
    first = 1
    for number, line in enumerate([*source.split("\n"), ""], 1):
        if not line.strip() or re.match(r"\s*(?:[-*#|>]|\d+\.|Args:|Returns:|Raises:|Yields:|\w+: )", line):
            if lines:
                yield Text(first, " ".join(lines))
            lines, first = [], number
        if line.strip():
            first = first if lines else number
            lines.append(line.strip())


def _if_long(line: int, words: str) -> Iterator[Text]:
    if len(words.split()) >= WORDS_MIN:
        yield Text(line, words)


def _files(paths: list[Path]) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *map(str, paths)], cwd=ROOT, capture_output=True, text=True, check=True)
    return [Path(name) for name in listed.stdout.splitlines() if Path(name).suffix in READ and (ROOT / name).is_file()]


if __name__ == "__main__":
    main()
