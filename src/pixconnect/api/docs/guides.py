"""The pages of this repository as the service serves them: as HTML for people, as Markdown for programs that read.

The process looks for them beside the source, or within the package if it was installed as a wheel; without either it
serves the interface's own page alone. Only pages that it found at its start have an address, so a name in a request is
looked up and never becomes a path.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from msgspec import Struct

_HEAD: Final = """<!doctype html><html lang={language}{marks}><meta charset=utf-8>
<meta name=viewport content="width=device-width,initial-scale=1"><meta name=color-scheme content="light dark">
<title>{title}</title><link rel=icon href=data:,>
<link rel=stylesheet href="{root}docs/page.css"><script src="{root}docs/page.js"></script>
<a class=skip href=#main>To the content</a>
<header><button class=menu popovertarget=nav aria-label=Contents>☰</button><a class=brand href="{root}docs">Pix Connect</a>
<button id=search hidden>Search <kbd>Ctrl K</kbd></button>
<span class=links><a href="{root}docs/README">Guides</a><a href="{root}openapi.json">OpenAPI</a></span>
<button id=theme hidden>Theme</button></header>
"""

TABLE: Final = "<div class=wide tabindex=0 role=group aria-label=Table>"
"""Around a table, which may be wider than the window: so that it can be moved without a pointer."""


def render_head(title: str, root: str, marks: str = "", *, language: str = "en") -> str:
    """What every page begins with; ``root`` leads from it to the service's address."""
    return _HEAD.format(title=escape(title), root=root, marks=marks, language=language)


def prose(text: str) -> str:
    """A sentence of a docstring, which marks code with one or two backquotes."""
    return re.sub(r"`+([^`]+)`+", r"<code>\1</code>", escape(text, quote=False))


def sample(text: str, language: str) -> str:
    """A block of code, to which a script adds a button that copies it."""
    return f'<div class="sample {language}"><pre tabindex=0><code>{escape(text, quote=False)}</code></pre></div>'


def write_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


FOLDERS: Final[Mapping[str, str]] = dict(
    guides="Guides",
    runbooks="When an alert fires",
    reference="Reference",
    explanations="Explanations",
    decisions="Decisions",
    about="About",
)
"""By the folder's part of an address, what its pages are for."""

_ABOUT: Final = ("README", "ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY")
"""Pages beside the folder ``docs``."""
_OF_OTHERS: Final = ("Supersedes ", "Em português: ")
"""How sentences begin that lead to another page, and say nothing of this one."""
PICTURE_TYPES: Final[Mapping[str, str]] = {".png": "image/png", ".svg": "image/svg+xml"}
PICTURES: Final = "docs/pictures"
"""Where they are served, whatever their folder."""
_LANGUAGES: Final[Mapping[str, str]] = {"docs/guides/inicio-rapido": "pt-BR"}
"""Of pages that are not in English."""
_LISTED: Final = re.compile(r"^- \[[^\]]+\]\(([^.)][^)#]*\.md)\)", re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")


class GuidePage(Struct, frozen=True, kw_only=True):
    address: str
    """Below the service's own, without a slash at the beginning and without a suffix."""
    source: str
    """The file, as links between pages have it: below the repository."""
    text: str
    title: str

    @property
    def summary(self) -> str:
        """The first sentence after the title that is about the page."""
        parts = re.sub(r"^```.*?^```$", "", self.text, flags=re.MULTILINE | re.DOTALL).split("\n\n")[1:]
        text = " ".join(
            " ".join(part.split()) for part in parts if part.strip()[:1].isalpha() or part.strip()[:1] == "`"
        )
        sentences = re.split(r"(?<=\.) (?=[A-Z`*])", re.sub(r"\[([^\]]*)\]", r"\1", _LINK.sub("]", text)))
        return next(sentence for sentence in sentences if not sentence.startswith(_OF_OTHERS)).rstrip(":")


@cache
def find_pages() -> Mapping[str, GuidePage]:
    """All pages by their address: by folder, and in a folder in the order in which ``docs/README.md`` lists them."""
    root = _find_root()
    if root is None:
        return {}
    docs = root / "docs"
    sources = [docs / "README.md"]
    sources += [docs / target for target in _LISTED.findall(sources[0].read_text(encoding="utf-8"))]
    for folder in FOLDERS:
        sources += sorted((docs / folder).glob("*.md"))
    sources += [root / f"{name}.md" for name in _ABOUT]
    pages = [_read(root, source) for source in dict.fromkeys(sources) if source.is_file()]
    ranks = {folder: rank for rank, folder in enumerate(FOLDERS)}
    return {page.address: page for page in sorted(pages, key=lambda page: ranks.get(_folder(page), -1))}


def _folder(page: GuidePage) -> str:
    return page.address.split("/")[1] if page.address.count("/") > 1 else ""


@cache
def _find_addresses() -> Mapping[str, str]:
    return {page.source: page.address for page in find_pages().values()}


@cache
def find_pictures() -> Mapping[str, Path]:
    """The files of all pictures by their name: their folder's, which is that of the page that shows them, and their own."""
    root = _find_root()
    if root is None:
        return {}
    files = (file for kind in PICTURE_TYPES for file in sorted((root / "docs").glob(f"*/*/*{kind}")))
    return {_name_picture(file.as_posix()): file for file in files}


def _name_picture(path: str) -> str:
    return "-".join(path.split("/")[-2:])


def _find_root() -> Path | None:
    package = Path(__file__).parents[2]
    # First what a wheel brought, then the repository that it was installed from as it is.
    for root in (package / "pages", package.parents[1]):
        if (root / "docs" / "README.md").is_file():
            return root
    return None


def _read(root: Path, path: Path) -> GuidePage:
    source, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
    address = source.removesuffix(".md")
    if not address.startswith("docs/"):
        address = f"docs/about/{address}"
    return GuidePage(address=address, source=source, text=text, title=text.partition("\n")[0].removeprefix("# "))


def render_text(page: GuidePage) -> str:
    """The page as Markdown, with links to where pages are served."""
    return _LINK.sub(lambda link: f"]({_lead(page, link[1], suffix='.md') or '#'})", page.text)


def render_page(page: GuidePage) -> str:
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = _mend_heads(markdown.parse(page.text))
    for token, content in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and content is not None:
            token.attrSet("id", slug(content.content))
        for part in token.children or ():
            _mend_link(page, part)
    markdown.add_render_rule("fence", _render_fence)
    markdown.add_render_rule("table_open", lambda *_: f"{TABLE}<table>")
    markdown.add_render_rule("table_close", lambda *_: "</table></div>")
    content = markdown.renderer.render(tokens, markdown.options, {})
    depth = "../" * page.address.count("/")
    return (
        f"{render_head(f'{page.title} - Pix Connect', depth, language=_LANGUAGES.get(page.address, 'en'))}"
        f'<nav id=nav popover aria-label="Contents"><ul><li><a href="{depth}docs">Interface</a></ul>'
        f"{render_navigation(depth, page)}</nav><main id=main class=guide>{content}</main></html>"
    )


def render_navigation(depth: str, current: GuidePage | None = None) -> str:
    """Groups of links to all pages; ``depth`` leads from the page that they stand on to the service's address."""
    groups: dict[str, list[GuidePage]] = {}
    for page in find_pages().values():
        groups.setdefault(FOLDERS.get(_folder(page), "Learn"), []).append(page)
    return "".join(
        f"<details{' open' if current in pages else ''}><summary>{title}</summary><ul>"
        + "".join(
            f'<li><a data-page href="{depth}{page.address}"{" aria-current=page" if page is current else ""}>'
            f"<span>{escape(page.title)}</span></a>"
            for page in pages
        )
        + "</ul></details>"
        for title, pages in groups.items()
    )


def _mend_link(page: GuidePage, part: Token) -> None:
    name = dict(link_open="href", image="src").get(part.type)
    if name is None:
        return
    found = _lead(page, str(part.attrGet(name)))
    if found is None:
        # A link to a page that is not served becomes its words alone.
        part.attrs.pop(name)
    else:
        part.attrSet(name, found)


def _lead(page: GuidePage, link: str, *, suffix: str = "") -> str | None:
    """The address of a link's or picture's target; ``None`` if the target is not served."""
    target, mark, fragment = link.partition("#")
    if not target or "://" in target:
        return link
    source = posixpath.normpath(posixpath.join(posixpath.dirname(page.source), target))
    found = _find_addresses().get(source)
    if found is None and _name_picture(source) in find_pictures():
        found, suffix = f"{PICTURES}/{_name_picture(source)}", ""
    if found is None:
        return None
    return posixpath.relpath(found, posixpath.dirname(page.address)) + suffix + mark + fragment


def slug(heading: str) -> str:
    """What a link to a heading ends with."""
    # As the hosts of repositories make them, because links between pages are written for those.
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _render_fence(renderer: RendererHTML, tokens: list[Token], index: int, options: Any, env: Any) -> str:  # noqa: ANN401  as it is called
    return sample(tokens[index].content.rstrip("\n"), "text")


def _mend_heads(tokens: list[Token]) -> list[Token]:
    """Make cells of heads that say nothing: Markdown has no table without a head, nor one without a name of each column."""
    for opening, content, closing in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if opening.type == "th_open" and not content.content:
            opening.tag = closing.tag = "td"
    return tokens


def write_index(base_url: str, description: str) -> str:
    """``llms.txt``: what there is to read, for programs that read; https://llmstxt.org."""
    lines = [
        "# Pix Connect\n",
        f"> {' '.join(description.split())}\n",
        "## Interface\n",
        f"- [OpenAPI 3.1]({base_url}/openapi.json): every operation, schema and event, with examples",
        f"- [OpenAPI 3.0]({base_url}/openapi-3.0.json): the same without events, for generators that read no 3.1",
        f"- [OpenAPI 3.0 of the central bank's Pix API]({base_url}/pix/openapi.json), as it is spoken here too",
    ]
    folder = None
    for page in find_pages().values():
        name = _folder(page)
        if name != folder:
            # Readers with little room may leave out what is optional.
            title = "Optional" if name == "decisions" else FOLDERS.get(name, "Learn")
            lines.append(f"\n## {title}\n")
            folder = name
        lines.append(f"- [{page.title}]({base_url}/{page.address}.md): {page.summary}")
    return "\n".join(lines) + "\n"
