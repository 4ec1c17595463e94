"""The site's sources: the pages of ``docs``, some others, and those about the API.

The index, ``docs/README.md``, is also the navigation: its chapters become groups, in order.
"""

import posixpath
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.site import operations

INDEX: Final = "README.md"
_ABOUT: Final = ("ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "README", "SECURITY")
"""Pages outside of the folder ``docs``."""
INTERFACE: Final = "reference/api.md"
"""The page that lists the operations."""
_PICTURES: Final = frozenset({".png", ".svg"})
_CODE: Final = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"(##+) (.+)")
_LISTED: Final = re.compile(r"\[([^\]]+)\]\(([^)#]+\.md)\)")
"""Within an item of a list."""


def assemble(roots: Sequence[Path], folder: Path) -> list[Any]:
    """Write all pages and pictures into a folder; returns the navigation for MkDocs.

    Of files with the same path, the first root's counts.
    """
    places = {source: path for root in roots for source, path in _place(root).items()}
    for source, path in places.items():
        file = next(root / source for root in roots if (root / source).exists())
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".md":
            target.write_text(mend(source, file.read_text(encoding="utf-8"), places), encoding="utf-8")
        else:
            shutil.copyfile(file, target)
    about_interface = operations.write_pages()
    (folder / operations.FOLDER).mkdir()
    for path, (_, text) in about_interface.items():
        (folder / path).write_text(text, encoding="utf-8")
    interface = folder / INTERFACE
    # The site has a page for each operation in place of the repository's table.
    head, heading, _ = interface.read_text(encoding="utf-8").partition("## Operations\n")
    links = list_operations(folder, posixpath.dirname(INTERFACE))
    interface.write_text(f"{head}{heading}\n{links}", encoding="utf-8")
    listed = read_navigation((folder / INDEX).read_text(encoding="utf-8"))
    return _add_operations(listed, [{title: path} for path, (title, _) in about_interface.items()])


def _place(root: Path) -> Mapping[str, str]:
    """The path on the site, by the path in the repository."""
    docs = root / "docs"
    files = sorted(path for path in docs.rglob("*") if path.suffix in _PICTURES | {".md"})
    found = {path.relative_to(root).as_posix(): path.relative_to(docs).as_posix() for path in files}
    # MkDocs would take a page named README as the index of its folder.
    about = {f"{name}.md": f"about/{name.lower().replace('readme', 'start')}.md" for name in _ABOUT}
    return found | {source: path for source, path in about.items() if (root / source).exists()}


def mend(source: str, text: str, places: Mapping[str, str]) -> str:
    """A page with links to the site's pages; links to other files become plain text."""

    def lead(link: re.Match[str]) -> str:
        mark, words, target = link.groups()
        path, hash_mark, fragment = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return link[0]
        found = places.get(posixpath.normpath(posixpath.join(posixpath.dirname(source), path)))
        words = _LINK.sub(lead, words)
        if found is None:
            return words
        return f"{mark}[{words}]({posixpath.relpath(found, posixpath.dirname(places[source]))}{hash_mark}{fragment})"

    parts = _CODE.split(_COMMENT.sub("", text))
    # Every second part is code. Links with code in their text are fixed first, and put aside.
    held: list[str] = []

    def hold(code: str) -> str:
        held.append(code)
        return f"\0{len(held) - 1}\0"

    whole = "".join(hold(part) if number % 2 else part for number, part in enumerate(parts))
    return re.sub(r"\0(\d+)\0", lambda mark: held[int(mark[1])], _LINK.sub(lead, whole))


def list_operations(folder: Path, start: str) -> str:
    """A list of the pages about the API, with links from a page in ``start``."""
    pages = sorted((folder / operations.FOLDER).glob("*.md"))
    return "".join(
        f"- [{page.stem.capitalize()}]({posixpath.relpath(page.relative_to(folder).as_posix(), start)})\n" for page in pages
    )


def read_navigation(index: str) -> list[Any]:
    """The index's chapters with their parts and pages."""
    groups: list[Any] = []
    # The chapters around the current line, outermost first.
    levels: list[list[Any]] = [groups]
    for line in index.splitlines():
        if heading := _HEADING.fullmatch(line):
            del levels[len(heading[1]) - 1 :]
            below: list[Any] = []
            levels[-1].append({heading[2]: below})
            levels.append(below)
        elif line.startswith("- "):
            levels[-1] += [{title.replace("`", ""): page} for title, page in _LISTED.findall(line)]
    return groups


def _add_operations(listed: list[Any], pages: list[Any]) -> list[Any]:
    """The same, with these pages behind the one about the interface."""
    more: list[Any] = []
    for entry in listed:
        more.append({title: _add_operations(of, pages) if isinstance(of, list) else of for title, of in entry.items()})
        more += [{"Operations": pages}] if INTERFACE in entry.values() else []
    return more
