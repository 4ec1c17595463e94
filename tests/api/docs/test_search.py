"""What the documentation's search looks through leads to what is there, and knows readers' words."""

import json
import posixpath
import re
from typing import Any

import pytest

from pixconnect.api.docs import guides, search
from pixconnect.api.frame.operation import Descriptions
from pixconnect.api.operations import list_operations
from support.api import Api


@pytest.fixture(scope="module")
def searched(described: Descriptions) -> dict[str, Any]:
    return json.loads(described.search().content.decode().removeprefix("const SEARCHED = ").rstrip(";\n"))


def test_everything_that_is_found_is_there(described: Descriptions, searched: dict[str, Any]) -> None:
    ids = set(re.findall(r" id=([^ >]+)", described.docs().content.decode()))
    pages = {address: guides.render_page(page) for address, page in guides.find_pages().items()}
    for href, title, where, words, _ in searched["found"]:
        address, _, anchor = href.partition("#")
        assert title
        assert where
        assert words == words.lower()
        if address == "docs":
            assert anchor in ids, href
        else:
            assert not anchor or f'id="{anchor}"' in pages[posixpath.normpath(address)], href


def test_each_operation_and_page_is_found(searched: dict[str, Any]) -> None:
    found = {href for href, *_ in searched["found"]}
    assert {f"docs#{row.id}" for row in list_operations(is_sandbox=True)} <= found
    assert {href.partition("#")[0] for href in found} == {"docs", *guides.find_pages()}


def test_words_of_readers_lead_to_words_of_ours(searched: dict[str, Any]) -> None:
    every = " ".join(f"{search.fold(title)} {href} {words}" for href, title, _, words, _ in searched["found"])
    for word, meant in searched["also"].items():
        assert word == search.fold(word)
        for ours in meant.split():
            assert ours in every, (word, ours)


async def test_it_is_served_as_a_script(api: Api) -> None:
    answer = await api.get("/docs/search.js", token=None)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
