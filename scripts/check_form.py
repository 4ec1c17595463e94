"""Check the repository's form: links, names on pages, places, layout, size. ``make lint`` runs it in a few seconds.

Each rule is a generator of violations, ``path:line: message``. Rules that a linter, the type checker or the import
checker can enforce are in ``pyproject.toml`` instead.
"""

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

FILE_LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 60
COLUMNS_MAX: Final = 160

# Assembled here, so that this file does not contain them.
REGISTRIES: Final = tuple(
    ".".join(words)
    for words in (
        ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("crates", "io"), ("rubygems", "org"),
        ("proxy.golang", "org"), ("docker", "io"),
    )
)  # fmt: skip
INDEX_OPTIONS: Final = ("--" + "index-url", "--" + "extra-index-url", "--" + "find-links")

# Tests of code outside of the service have folders of their own.
TESTS_BESIDE_SOURCE: Final = {"bench", "chaos", "client", "scripts", "deploy", "conformance", "journeys", "repository"}

_FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_NAMED_PATH: Final = re.compile(r"`([a-z_./0-9-]+/[a-z_./0-9-]*|[a-z_0-9/]+\.(?:py|sql))`")
_IMAGE: Final = re.compile(
    r"""(?:^[ -]*image: *|^FROM +|^ARG +\w+=|^docker pull +|\w+Container\()["']?(?P<name>[^\s"')]+)""", re.MULTILINE
)
_IMAGE_SUFFIXES: Final = {".yaml", ".yml", ".md", ".sh", ".toml", ""}
_DEFAULT_IMAGE: Final = re.compile(r"\$\{\w+:-(.+)\}")
_DIGEST: Final = re.compile(r"@sha256:[0-9a-f]{64}\Z")
_NAMED_TEST: Final = re.compile(r"`(test_[a-z0-9_]+)`")


class Tree:
    """A checkout, whose files are read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = root / "src" / "pixconnect"
        self.packages = {
            self.source: root / "tests",
            root / "faces" / "src" / "pixconnect_faces": root / "faces" / "tests",
        }
        self.modules = sorted(path for source in self.packages for path in source.rglob("*.py"))
        self.committed = self._list_committed()
        docs = root / "docs"
        self.pages = sorted(
            path for path in self.committed if path.suffix == ".md" and (path.parent == root or docs in path.parents)
        )
        self.tests = sorted(path for tests in self.packages.values() for path in tests.rglob("test_*.py"))
        self.bases = (
            root,
            self.source,
            self.source / "kernel",
            root / "clients" / "python" / "src" / "pixconnect_client",
        )
        self.read = cache(lambda path: path.read_text(encoding="utf-8"))
        self.parse = cache(lambda path: ast.parse(self.read(path)))

    def name(self, path: Path, line: int | None = None) -> str:
        """A place in the form that editors open."""
        return f"{path.relative_to(self.root)}" + (f":{line}" if line else "")

    def prose(self, page: Path) -> str:
        """A page without its code blocks, with unchanged line numbers."""
        return _FENCE.sub(lambda block: "\n" * block[0].count("\n"), self.read(page))

    def ignored_pages(self) -> set[Path]:
        """The generated pages, which Git ignores; the site's build checks links to them."""
        ignored = self.root / ".gitignore"
        lines = self.read(ignored).splitlines() if ignored.exists() else []
        return {self.root / line for line in lines if line.startswith("docs/") and line.endswith(".md")}

    def _list_committed(self) -> list[Path]:
        """Every tracked or untracked file that is not ignored; all files outside of a clone."""
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        names = listed.stdout.split("\0") if listed.returncode == 0 else map(str, self.root.rglob("*"))
        return [self.root / name for name in names if name and (self.root / name).is_file()]


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def check_links(tree: Tree) -> Iterator[str]:
    """Links between pages lead to existing files and headings; only the index links to pages that `make docs` writes."""
    written, index = tree.ignored_pages(), tree.root / "docs" / "README.md"
    for page in tree.pages:
        text = tree.prose(page)
        for found in _LINK.finditer(text):
            link = found[1]
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if re.match(r"[a-z]+:", link):
                continue
            place = tree.name(page, _line(text, found.start()))
            if target in written:
                if page not in {index, *written}:
                    yield f"{place}: a clone lacks this page; link to docs/README.md#built-pages"
                continue
            if not target.exists():
                yield f"{place}: no such file: {link}"
            elif anchor and anchor not in _anchors(tree.prose(target)):
                yield f"{place}: no such heading: {link}"


def _anchors(prose: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_index(tree: Tree) -> Iterator[str]:
    """The index of the documentation lists every page."""
    docs = tree.root / "docs"
    index = docs / "README.md"
    listed = {(docs / link.partition("#")[0]).resolve() for link in _LINK.findall(tree.prose(index))}
    for page in tree.pages:
        if docs in page.parents and page != index and page.resolve() not in listed:
            yield f"{tree.name(page)}: docs/README.md does not list this page"


def check_named_things(tree: Tree) -> Iterator[str]:
    """Paths and tests named by architecture, decisions and the threat model exist."""
    tests = {path.stem for path in tree.tests}
    tests |= {name for path in tree.tests for name in re.findall(r"def (test_\w+)", tree.read(path))}
    binding = [tree.root / "ARCHITECTURE.md", *(tree.root / "docs" / "decisions").glob("[0-9]*.md")]
    for page in binding:
        for found in _NAMED_PATH.finditer(tree.read(page)):
            if not any((base / found[1]).exists() for base in tree.bases):
                yield f"{tree.name(page, _line(tree.read(page), found.start()))}: no such file: {found[1]}"
    for page in [*binding, tree.root / "docs" / "explanations" / "threat-model.md"]:
        for found in _NAMED_TEST.finditer(tree.read(page) if page.exists() else ""):
            if found[1] not in tests:
                yield f"{tree.name(page, _line(tree.read(page), found.start()))}: no such test: {found[1]}"


def check_commands(tree: Tree) -> Iterator[str]:
    """Pages only name existing targets of the Makefile."""
    targets = set(re.findall(r"^([a-z0-9-]+):", tree.read(tree.root / "Makefile"), re.MULTILINE))
    for page in tree.pages:
        for found in re.finditer(r"`make ([a-z0-9-]+)", tree.read(page)):
            if found[1] not in targets:
                yield f"{tree.name(page, _line(tree.read(page), found.start()))}: no such target: make {found[1]}"


def check_places(tree: Tree) -> Iterator[str]:
    """No file names a package registry, an index, or a path of one machine."""
    here = [f"{tree.root}/"] if len(tree.root.parts) > 3 else []  # in a clone at /src this would match everywhere
    words = (*REGISTRIES, *INDEX_OPTIONS, ".." + "/shared", "/work" + "/", f"{Path.home()}/.", *here)
    for path in tree.committed:
        content = path.read_bytes()
        for word in words:
            if word.encode() in content:
                yield f"{tree.name(path, content[: content.index(word.encode())].count(10) + 1)}: names {word}"


def check_locks(tree: Tree) -> Iterator[str]:
    """Every locked package has its hash, and no lock names a registry."""
    for lock in sorted((tree.root / "requirements").glob("*.txt")):
        for requirement in re.split(r"\n(?=[a-z0-9])", tree.read(lock)):
            if "--hash=sha256:" not in requirement:
                yield f"{tree.name(lock)}: {requirement.split('==')[0]} has no hash"
    node = tree.root / "tests" / "programs" / "node" / "package-lock.json"
    for name, package in json.loads(tree.read(node))["packages"].items() if node.exists() else ():
        if name and ("resolved" in package or not package.get("integrity")):
            yield f"{tree.name(node)}: {name}: needs integrity, and no resolved"


def check_images(tree: Tree) -> Iterator[str]:
    """An image from a registry is named by its digest, because a registry can move a tag."""
    for path in tree.committed:
        if path.suffix not in _IMAGE_SUFFIXES:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        local = {"scratch", *re.findall(r"^FROM \S+ AS (\S+)", text, re.MULTILINE)}
        local |= {f"${{{name}}}" for name in re.findall(r"^ARG +(\w+)=", text, re.MULTILINE)}
        for found in _IMAGE.finditer(text):
            name = _DEFAULT_IMAGE.sub(r"\1", found["name"])
            if name not in local and not name.startswith("pixconnect:") and not _DIGEST.search(name):
                yield f"{tree.name(path, _line(text, found.start('name')))}: {name} needs its digest (@sha256:...)"


def check_grain(tree: Tree) -> Iterator[str]:
    """Files, functions and lines have a readable size; each module has a docstring."""
    for path in tree.modules:
        lines = tree.read(path).splitlines()
        if len(lines) > FILE_LINES_MAX:
            yield f"{tree.name(path)}: {len(lines)} lines, at most {FILE_LINES_MAX}"
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS_MAX:
                yield f"{tree.name(path, number)}: {len(line)} columns, at most {COLUMNS_MAX}"
        if ast.get_docstring(tree.parse(path)) is None:
            yield f"{tree.name(path)}: needs a docstring"
        for node in ast.walk(tree.parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = (node.end_lineno or node.lineno) - node.lineno + 1
                if count > FUNCTION_LINES_MAX:
                    yield f"{tree.name(path, node.lineno)}: {node.name} has {count} lines, at most {FUNCTION_LINES_MAX}"


def check_assertions(tree: Tree) -> Iterator[str]:
    """Code that decides or records money does not rely on ``assert``, which ``python -O`` removes."""
    for path in tree.modules:
        if {"kernel", "features", "pixconnect_faces"} & {*path.relative_to(tree.root).parts}:
            for node in ast.walk(tree.parse(path)):
                if isinstance(node, ast.Assert):
                    yield f"{tree.name(path, node.lineno)}: use errors.ensure"


def check_layout(tree: Tree) -> Iterator[str]:
    """A test file mirrors the path of its module; another name means that it tests several modules of its folder."""
    for source, tests in tree.packages.items():
        folders = defaultdict[str, set[Path]](set)
        for module in source.rglob("*.py"):
            folders[module.stem].add(module.parent.relative_to(source))
        for path in sorted(tests.rglob("test_*.py")):
            folder, noun = path.parent.relative_to(tests), path.stem.removeprefix("test_")
            if (folder.parts[:1] and folder.parts[0] in TESTS_BESIDE_SOURCE) or (source / folder / noun).is_dir():
                continue
            if not (source / folder).is_dir():
                yield f"{tree.name(path)}: {tree.name(source)} has no folder {folder}"
            elif folders[noun] and folder not in folders[noun]:
                yield f"{tree.name(path)}: {noun}.py stands in {', '.join(sorted(map(str, folders[noun])))}"


CHECKS: Final[tuple[Callable[[Tree], Iterator[str]], ...]] = (
    check_links, check_index, check_named_things, check_commands, check_places, check_locks, check_images,
    check_grain, check_assertions, check_layout,
)  # fmt: skip


def find_violations(root: Path) -> list[str]:
    """Run every check on a checkout."""
    tree = Tree(root)
    return [violation for check in CHECKS for violation in check(tree)]


def main() -> int:
    violations = find_violations(ROOT)
    for violation in violations:
        print(violation)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
