"""The OpenAPI document, and the pages for people with their style sheet and script, as they are served."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from pixconnect.api.docs import guides
from pixconnect.api.frame import browser
from pixconnect.api.frame.operation import Anything, Document, Handler, Nothing, Request
from pixconnect.api.frame.services import Services
from pixconnect.domain.frame import errors

OPENAPI_TYPE: Final = "application/json"
DOCS_TYPE: Final = "text/html; charset=utf-8"
STYLE_TYPE: Final = "text/css; charset=utf-8"
TEXT_TYPE: Final = "text/markdown; charset=utf-8"
SCRIPT_TYPE: Final = "text/javascript; charset=utf-8"


# Fewer than there are pages: what is hardly ever read is not kept twice.
_PACKED_MAX: Final = 128
# ``gzip;q=0`` refuses it (RFC 9110, 12.5.3), and ``x-gzip`` is its old name.
_TAKES_GZIP: Final = re.compile(
    rb"(?:^|,)\s*(?:x-)?gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*(?:,|$))[\d.]+\s*)?(?:,|$)", re.IGNORECASE
)


def _show(headers: Mapping[bytes, bytes], content: bytes, media_type: str, policy: bytes = browser.POLICY) -> Document:
    """One of our pages, packed for who takes that: nothing in it is anybody's secret, so its length may tell what it likes."""
    if _TAKES_GZIP.search(headers.get(b"accept-encoding", b"")) is None:
        return Document(content=content, media_type=media_type, policy=policy)
    return Document(content=_pack(content), media_type=media_type, policy=policy, encoding="gzip")


@lru_cache(maxsize=_PACKED_MAX)
def _pack(content: bytes) -> bytes:
    # Without an instant the same page has the same octets in every process.
    return gzip.compress(content, mtime=0)


def _lead_to_docs(depth: str) -> Document:
    """A page that leads to the documentation; ``depth`` leads from it to the service's address.

    Addresses are relative, because a proxy may serve us below a path of its own.
    """
    content = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={depth}docs">
<title>Pix Connect</title>
<main>
<h1>Pix Connect</h1>
<p><a href="{depth}docs">Documentation</a>, <a href="{depth}openapi.json">OpenAPI</a></p>
</main>
</html>
"""
    return Document(content=content.encode(), media_type=DOCS_TYPE)


async def get_front_page(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Be led to the documentation.

    What a browser shows of the service's bare address.
    """
    return _lead_to_docs("")


async def get_openapi(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the OpenAPI document.

    OpenAPI 3.1.
    """
    return _show(request.headers, services.descriptions.openapi(), OPENAPI_TYPE)


async def get_openapi_30(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the OpenAPI document as OpenAPI 3.0.

    OpenAPI 3.0.3, for generators that do not read 3.1. It lacks the webhooks, for which 3.0 has no place.
    """
    return _show(request.headers, services.descriptions.openapi_30(), OPENAPI_TYPE)


async def get_pix_openapi(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the OpenAPI document of the central bank's Pix API, as this service implements it."""
    return _show(request.headers, services.descriptions.standard(), OPENAPI_TYPE)


async def get_docs(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the documentation.

    One page for people: with search, samples, and in the sandbox requests that are sent from it.
    """
    # Only a sandbox's page may send requests: where money is real, documentation must not be able to move it.
    policy = browser.TRYING_POLICY if services.context.policy.is_sandbox else browser.DOCS_POLICY
    return _show(request.headers, services.descriptions.docs(), DOCS_TYPE, policy)


async def get_docs_folder(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Be led to the documentation from its address with a slash at the end, as people type it."""
    return _lead_to_docs("../")


async def get_docs_style(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the style sheet of the documentation."""
    return Document(content=_read("page.css"), media_type=STYLE_TYPE)


async def get_docs_script(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the script of the documentation."""
    return Document(content=_read("page.js"), media_type=SCRIPT_TYPE)


def serve_pages(folder: str) -> Handler[str, Anything, Nothing, Document]:
    """A handler for the pages of one folder."""

    async def get_page(services: Services, request: Request[str, Anything, Nothing]) -> Document:
        """Read a page of the documentation."""
        name = request.parameter.removesuffix(".md")
        page = guides.find_pages().get(f"{folder}/{name}")
        if page is None:
            raise errors.NotFound("page: there is no such page")
        if name != request.parameter:
            return Document(content=guides.render_text(page).encode(), media_type=TEXT_TYPE)
        return _show(request.headers, _render(page.address), DOCS_TYPE, browser.DOCS_POLICY)

    return get_page


async def get_docs_search(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read what the documentation's search looks through."""
    return _show(request.headers, services.descriptions.search(), SCRIPT_TYPE)


async def get_docs_picture(services: Services, request: Request[str, Anything, Nothing]) -> Document:
    """Read a picture of the documentation."""
    file = guides.find_pictures().get(request.parameter)
    if file is None:
        raise errors.NotFound("picture: there is no such picture")
    return Document(content=_read_picture(file), media_type=guides.PICTURE_TYPES[file.suffix])


async def get_reading_index(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read what there is to read, for programs that read."""
    return Document(content=services.descriptions.reading(), media_type=TEXT_TYPE)


@cache
def _render(address: str) -> bytes:
    return guides.render_page(guides.find_pages()[address]).encode()


@cache
def _read_picture(file: Path) -> bytes:
    return file.read_bytes()


@cache
def _read(name: str) -> bytes:
    return (files("pixconnect.api.docs") / name).read_bytes()
