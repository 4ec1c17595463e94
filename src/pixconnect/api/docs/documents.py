"""The OpenAPI document, and the pages for people with their style sheet and script, as they are served."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from pixconnect.api.docs import guides
from pixconnect.api.frame import document as browser
from pixconnect.api.frame.document import Document, KeptDocument
from pixconnect.api.frame.operation import Anything, Handler, Nothing, Request, Services
from pixconnect.domain.frame import errors

OPENAPI_TYPE: Final = "application/json"
DOCS_TYPE: Final = "text/html; charset=utf-8"
STYLE_TYPE: Final = "text/css; charset=utf-8"
TEXT_TYPE: Final = "text/markdown; charset=utf-8"
SCRIPT_TYPE: Final = "text/javascript; charset=utf-8"

PageHandler = Handler[None, Anything, Nothing, Document]


@cache
def _lead_to_docs(depth: str) -> KeptDocument:
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
    return KeptDocument(content.encode(), DOCS_TYPE)


async def get_front_page(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Be led to the documentation.

    What a browser shows of the service's bare address.
    """
    return _lead_to_docs("").answer(request.headers)


async def get_openapi(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the OpenAPI document.

    OpenAPI 3.1.
    """
    return services.descriptions.openapi().answer(request.headers)


async def get_openapi_30(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the OpenAPI document as OpenAPI 3.0.

    OpenAPI 3.0.3, for generators that do not read 3.1. It lacks the webhooks, for which 3.0 has no place.
    """
    return services.descriptions.openapi_30().answer(request.headers)


async def get_docs(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the documentation.

    One page for people: with search, samples, and in the sandbox requests that are sent from it.
    """
    return services.descriptions.docs().answer(request.headers)


def _serve(read: Callable[[Services], KeptDocument]) -> PageHandler:
    async def get(services: Services, request: Request[None, Anything, Nothing]) -> Document:
        return read(services).answer(request.headers)

    return get


get_docs_folder: Final = _serve(lambda _: _lead_to_docs("../"))
"""The documentation's address with a slash at the end, as people type it."""
get_docs_style: Final = _serve(lambda _: _read("page.css", STYLE_TYPE))
get_docs_script: Final = _serve(lambda _: _read("page.js", SCRIPT_TYPE))
get_docs_search: Final = _serve(lambda services: services.descriptions.search())
get_pix_openapi: Final = _serve(lambda services: services.descriptions.standard())
get_reading_index: Final = _serve(lambda services: services.descriptions.reading())


def serve_pages(folder: str) -> Handler[str, Anything, Nothing, Document]:
    """A handler for the pages of one folder."""

    async def get_page(services: Services, request: Request[str, Anything, Nothing]) -> Document:
        """Read a page of the documentation."""
        name = request.parameter.removesuffix(".md")
        page = guides.find_pages().get(f"{folder}/{name}")
        if page is None:
            raise errors.NotFound("page: there is no such page")
        kept = _render_page(page.address) if name == request.parameter else _render_text(page.address)
        return kept.answer(request.headers)

    return get_page


async def get_docs_picture(services: Services, request: Request[str, Anything, Nothing]) -> Document:
    """Read a picture of the documentation."""
    file = guides.find_pictures().get(request.parameter)
    if file is None:
        raise errors.NotFound("picture: there is no such picture")
    return _read_picture(file).answer(request.headers)


# Addresses are looked up before these are called, so there are no more of them than pages.
@cache
def _render_page(address: str) -> KeptDocument:
    return KeptDocument(guides.render_page(guides.find_pages()[address]).encode(), DOCS_TYPE, browser.DOCS_POLICY)


@cache
def _render_text(address: str) -> KeptDocument:
    return KeptDocument(guides.render_text(guides.find_pages()[address]).encode(), TEXT_TYPE)


@cache
def _read_picture(file: Path) -> KeptDocument:
    return KeptDocument(file.read_bytes(), guides.PICTURE_TYPES[file.suffix], is_packed=file.suffix == ".svg")


@cache
def _read(name: str, media_type: str) -> KeptDocument:
    return KeptDocument((files("pixconnect.api.docs") / name).read_bytes(), media_type)


CONTACTS_PATH: Final = "/.well-known/security.txt"
CONTACTS_TYPE: Final = "text/plain; charset=utf-8"
# RFC 9116 recommends less than a year. It is true for as long as the operator lets the service say so.
_VALID: Final = timedelta(days=180)


async def get_security_contacts(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read whom to tell of a weakness."""
    if not services.security_contacts:
        raise errors.NotFound("the operator names nobody here")
    expires_at = services.context.clock.real_now() + _VALID
    lines = [
        *(f"Contact: {contact}" for contact in services.security_contacts),
        f"Expires: {expires_at:%Y-%m-%dT00:00:00Z}",
        "Preferred-Languages: pt, en",
        f"Canonical: {services.base_url}{CONTACTS_PATH}",
    ]
    return Document(content="".join(f"{line}\n" for line in lines).encode(), media_type=CONTACTS_TYPE)
