"""The repository's pages as they are served: each can be read in both forms, and each link leads somewhere."""

import posixpath
import re

import pytest

from pixconnect.api.docs import guides
from support.api import Api

PAGES = guides.find_pages()
ONE_OF_EACH_KIND = {posixpath.dirname(address): address for address in PAGES}.values()


@pytest.mark.parametrize("address", ONE_OF_EACH_KIND)
async def test_a_page_is_served_in_both_forms(api: Api, address: str) -> None:
    page = await api.get(f"/{address}", token=None)
    text = await api.get(f"/{address}.md", token=None)
    assert (page.status, text.status) == (200, 200)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    assert "unsafe" not in page.headers["content-security-policy"]
    assert text.content.decode().startswith(f"# {PAGES[address].title}\n")
    assert f"<title>{PAGES[address].title.replace('&', '&amp;')}" in page.content.decode().replace("&#x27;", "'")


def test_each_page_begins_with_its_title_and_shows_it() -> None:
    for address, page in PAGES.items():
        assert page.text.startswith(f"# {page.title}\n"), address
        html = guides.render_page(page).replace("&#x27;", "'")
        assert f"<title>{page.title.replace('&', '&amp;')}" in html, address


async def test_each_picture_of_a_page_is_served(api: Api) -> None:
    shown = {
        posixpath.normpath(posixpath.join(posixpath.dirname(address), picture))
        for address, page in PAGES.items()
        for picture in re.findall(r'<img src="([^"]*)"', guides.render_page(page))
    }
    assert shown <= {f"{guides.PICTURES}/{name}" for name in guides.find_pictures()}
    assert len(shown) > 12
    assert not [address for address, page in PAGES.items() if "<img alt" in guides.render_page(page)]
    for address in shown:
        picture = await api.get(f"/{address}", token=None)
        assert (picture.status, picture.headers["content-type"][:6]) == (200, "image/")
    assert (await api.get(f"/{guides.PICTURES}/console-nothing.png", token=None)).status == 404


async def test_programs_that_read_are_told_what_there_is(api: Api) -> None:
    answer = await api.get("/llms.txt", token=None)
    text = answer.content.decode()
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert text.startswith("# Pix Connect\n\n> ")
    listed = re.findall(r"^- \[[^\]]+\]\(http://127\.0\.0\.1:8080/([^)]+)\): \S", text, flags=re.MULTILINE)
    assert listed == ["openapi.json", "openapi-3.0.json", *(f"{address}.md" for address in PAGES)]
    # Each says what its page is about, and not how it is made or where the same is in another language.
    for summary in (page.summary for page in PAGES.values()):
        assert summary[0].isupper() or summary[0] == "`", summary
        assert not summary.startswith(("Written by", "Em português")), summary


async def test_the_documentations_address_may_end_in_a_slash_and_no_other(api: Api) -> None:
    answer = await api.get("/docs/", token=None)
    assert answer.status == 200
    assert b'content="0; url=../docs"' in answer.content
    for path in ("/v1/connect/charge/", "/v1/connect/ledger/balance/", "/docs/guides/", "/openapi.json/"):
        assert (await api.get(path, token=None)).status == 404, path


@pytest.mark.parametrize("name", ["nothing", "..%2F..%2Fpyproject", "..%2FREADME", "guides"])
async def test_a_name_is_looked_up_and_is_no_path(api: Api, name: str) -> None:
    assert (await api.get(f"/docs/guides/{name}", token=None)).status == 404
