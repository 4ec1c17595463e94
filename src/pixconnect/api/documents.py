"""The OpenAPI document and the documentation page, as they are served."""

from __future__ import annotations

from pixconnect.api import browser
from pixconnect.api.operation import Anything, Document, Nothing, Request
from pixconnect.api.services import Services


async def get_openapi(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the OpenAPI document.

    OpenAPI 3.1.
    """
    return Document(content=services.descriptions.openapi, media_type="application/json")


async def get_docs(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the documentation.

    One page for people; it needs nothing else.
    """
    return Document(
        content=services.descriptions.docs, media_type="text/html; charset=utf-8", policy=browser.DOCS_POLICY
    )
