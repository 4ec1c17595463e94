"""The built documentation site has every page as it was written, in four groups, and loads nothing from elsewhere."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from pixconnect.assembly.operations import list_sections
from scripts.site.__main__ import PORTUGUESE, mend_search
from scripts.site.operations import write_pages
from scripts.site.pages import mend, read_navigation
from support.prometheus import read_alerts
from support.site import ROOT, build_site

PLACES = {
    "docs/README.md": "README.md",
    "docs/guides/webhooks.md": "guides/webhooks.md",
    "docs/guides/console/list.png": "guides/console/list.png",
    "README.md": "about/start.md",
}
SCRIPTS_MAX = 3  # within a page


@pytest.mark.parametrize(
    ("source", "text", "mended"),
    [
        ("README.md", "[a](docs/guides/webhooks.md#b)", "[a](../guides/webhooks.md#b)"),
        ("docs/guides/webhooks.md", "[a](../../README.md) [b](#c)", "[a](../about/start.md) [b](#c)"),
        ("docs/guides/webhooks.md", "[`the file`](../../deploy/compose.yaml), then", "`the file`, then"),
        ("README.md", "![a](docs/guides/console/list.png)", "![a](../guides/console/list.png)"),
        ("README.md", "[a](https://pix.example/x.md)", "[a](https://pix.example/x.md)"),
        ("README.md", "`[a](docs/x.md)`\n```sh\n[b](docs/x.md)\n```\n", "`[a](docs/x.md)`\n```sh\n[b](docs/x.md)\n```\n"),
        ("README.md", "<!-- not run: no network -->\n```sh\nls\n```\n", "```sh\nls\n```\n"),
    ],
)
def test_a_link_leads_to_the_page_as_the_site_has_it_or_becomes_its_words(source: str, text: str, mended: str) -> None:
    assert mend(source, text, PLACES) == mended


def test_the_navigation_has_four_groups() -> None:
    groups = read_navigation((ROOT / "docs" / "README.md").read_text("utf-8"))
    assert [name for group in groups for name in group] == ["Learn", "Build", "Operate", "Reference"]
    assert {"Tutorial": "tutorial.md"} in groups[0]["Learn"]
    assert "When an alert fires" in [name for entry in groups[2]["Operate"] for name in entry]
    assert "Decisions" in [name for entry in groups[3]["Reference"] for name in entry]


def test_each_operation_stands_on_the_page_of_its_group_with_what_it_takes_and_answers() -> None:
    pages = write_pages()
    for section in list_sections(is_sandbox=True):
        _, text = pages[f"reference/operations/{section.title.lower()}.md"]
        chapters = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
        assert [re.findall(r"\{ #(\w+) \}", chapter.partition("\n")[0]) for chapter in chapters] == [
            [row.id] for row in section.operations
        ]
        for row, chapter in zip(section.operations, chapters, strict=True):
            assert f"`{row.method} {row.path}`" in chapter
            assert "**Answer**" in chapter
    _, text = pages["reference/operations/types.md"]
    linked = {name for _, page in pages.values() for name in re.findall(r"types\.md#(\w+)", page)}
    assert linked <= {*re.findall(r"^## \w+ \{ #(\w+) \}$", text, re.MULTILINE)}


def test_portuguese_words_are_found_by_titles_with_and_without_accents(tmp_path: Path) -> None:
    file = tmp_path / "search_index.json"
    others = [
        dict(location="b.html#c", title="Refundable", text="b"),
        dict(location="decisions/d.html", title="Refunds", text="for who works on it"),
        dict(location="decisions/d.html#e", title="Refunds", text="for who works on it"),
    ]
    file.write_text(json.dumps({"docs": [dict(location="a.html", title="Refunds", text="a"), *others]}))
    mend_search(file)
    first, *rest = json.loads(file.read_text("utf-8"))["docs"]
    assert first["tags"] == PORTUGUESE["refund"].split()
    assert first["text"] == "a <p>devolucao</p>"
    assert rest == [others[0], others[1] | {"text": ""}]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


class _Parts(HTMLParser):
    """Counts the elements of a page, and keeps its requests."""

    COUNTED = frozenset({"li", "ol", "ul", "table", "td", "pre", "blockquote", "img"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.loaded: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.COUNTED:
            self.counts[tag] += 1
        given = dict(attrs)
        if tag in {"script", "img", "iframe"} or (tag == "link" and given.get("rel") != "canonical"):
            self.loaded += [value for name in ("src", "href") if (value := given.get(name))]


def _list_pages(site: Path) -> Iterator[tuple[str, str, str]]:
    """Address, Markdown and HTML of each page."""
    for page in sorted(site.rglob("*.md")):
        built = page.with_suffix(".html")
        yield (
            page.relative_to(site).as_posix(),
            page.read_text("utf-8"),
            (built if built.exists() else site / "index.html").read_text("utf-8"),
        )


@pytest.mark.long
def test_a_page_has_the_lists_tables_and_blocks_that_were_written(site: Path) -> None:
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    different: dict[str, Any] = {}
    for address, text, html in _list_pages(site):
        article = html[html.index("<article") : html.index("</article>")]
        written, built = _Parts(markdown.render(text)).counts, _Parts(article).counts
        if written != built:
            different[address] = (written - built, built - written)
    assert different == {}


@pytest.mark.long
def test_the_site_loads_nothing_from_elsewhere_and_has_few_scripts_within_pages(site: Path) -> None:
    for address, _, html in _list_pages(site):
        assert [link for link in _Parts(html).loaded if re.match(r"(?:[a-z]+:)?//", link)] == [], address
        assert len(re.findall(r"<script>", html)) <= SCRIPTS_MAX, address
        assert re.findall(r"<style|\son[a-z]+=|\sstyle=", html) == [], address
    assert list(site.rglob("*.map")) == []
    for file in (*site.rglob("*.js"), *site.rglob("*.css")):
        assert "sourceMappingURL" not in file.read_text("utf-8")
        assert not re.search(r"""@import|url\(["']?(?:https?:)?//""", file.read_text("utf-8")), file


@pytest.mark.long
def test_each_alert_has_its_page_and_programs_find_all_pages(site: Path) -> None:
    for rule in read_alerts().values():
        address = rule["annotations"]["runbook_url"].removeprefix("https://pix.example/docs/")
        assert (site / f"{address}.html").is_file()
    index = (site / "llms.txt").read_text("utf-8")
    assert index.startswith("# Pix Connect\n\n> ")
    linked = re.findall(r"\]\(([^)]+)\)", index)
    assert [link for link in linked if not (site / link.partition("#")[0]).is_file()] == []
    assert "reference/operations/charges.md" in linked
    assert '<html lang="pt-BR"' in (site / "guides" / "inicio-rapido.html").read_text("utf-8")
