"""Serves the OpenAPI documents, the documentation site, and security contacts."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cache
from typing import Any, Final

from msgspec import Struct

from pixconnect import __version__
from pixconnect.doors.api import rates
from pixconnect.doors.api.document import Document, KeptDocument
from pixconnect.doors.api.extension import ApiExtension, ApiExtensionRow
from pixconnect.doors.api.operation import AnyOperation, Anything, Door, Handler, Nothing, Request, Section, Services
from pixconnect.doors.api.operation import Operation as Row
from pixconnect.doors.api.routing import NONE, PAGE
from pixconnect.doors.api.site import TYPES
from pixconnect.kernel.flows.context import Context, Policy
from pixconnect.platform.base import errors
from pixconnect.platform.config import Settings


class Descriptions(Struct, frozen=True, kw_only=True):
    """The API's description of itself; ``openapi.describe`` builds each part at its first request."""

    openapi: Callable[[], KeptDocument]  # the OpenAPI document, JSON
    openapi_30: Callable[[], KeptDocument]  # the same as OpenAPI 3.0.3
    standard: Callable[[], KeptDocument]  # the standard API, OpenAPI 3.0.3


OPENAPI_TYPE: Final = "application/json"
DOCS_TYPE: Final = "text/html; charset=utf-8"

PageHandler = Handler[Any, Anything, Nothing, Document]


@cache
def _lead_to(address: str) -> KeptDocument:
    """Make a redirect page with a relative address: a proxy may serve us below another path."""
    content = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={address}">
<title>Pix Connect</title>
<main>
<h1>Pix Connect</h1>
<p><a href="{address}">Documentation</a>, <a href="openapi.json">OpenAPI</a></p>
</main>
</html>
"""
    return KeptDocument(content.encode(), DOCS_TYPE)


async def get_front_page(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Get a redirect to the documentation.

    A browser gets it at the service's bare address.
    """
    return _lead_to(services.site.entry).answer(request.headers)


async def get_docs(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Be led to the documentation.

    A site for people: guides, reference and search.
    """
    # The site's own addresses are relative to a folder, whose address ends with a slash.
    return _lead_to(services.site.entry).answer(request.headers)


async def get_docs_file(services: Services, request: Request[str, Anything, Nothing]) -> Document:
    """Read a file of the documentation."""
    found = errors.found(services.site.find(request.parameter), services.site.why_absent)
    return found.answer(request.headers)


async def get_openapi(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the OpenAPI document.

    OpenAPI 3.1.
    """
    return services.of_features[Descriptions].openapi().answer(request.headers)


async def get_openapi_30(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the OpenAPI document as OpenAPI 3.0.

    OpenAPI 3.0.3, for generators that do not read 3.1. It lacks the webhooks, for which 3.0 has no place.
    """
    return services.of_features[Descriptions].openapi_30().answer(request.headers)


async def get_pix_openapi(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the OpenAPI document of the central bank's Pix API."""
    return services.of_features[Descriptions].standard().answer(request.headers)


CONTACTS_PATH: Final = "/.well-known/security.txt"
CONTACTS_TYPE: Final = "text/plain; charset=utf-8"
# RFC 9116 recommends less than a year. It is true for as long as the operator keeps the setting.
_VALID: Final = timedelta(days=180)


async def get_security_contacts(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the security contacts."""
    if not services.security_contacts:
        raise errors.NotFound("the operator has set no security contacts")
    expires_at = services.context.clock.real_now() + _VALID
    lines = [
        *(f"Contact: {contact}" for contact in services.security_contacts),
        f"Expires: {expires_at:%Y-%m-%dT00:00:00Z}",
        "Preferred-Languages: pt, en",
        f"Canonical: {services.base_url}{CONTACTS_PATH}",
    ]
    return Document(content="".join(f"{line}\n" for line in lines).encode(), media_type=CONTACTS_TYPE)


# Each row keeps two lines, which the formatter would spread over nine.
# fmt: off
def _page(name: str, path: str, handler: PageHandler, media_type: str) -> AnyOperation:
    return Row(name, "GET", path, None,
               NONE, Anything, Nothing, Document, handler, media_types=(media_type,), pace=rates.PAGES)


SECTIONS: Final = (
    Section(
        title="Service",
        operations=(
            _page("get_openapi", "/openapi.json", get_openapi, OPENAPI_TYPE),
            _page("get_openapi_30", "/openapi-3.0.json", get_openapi_30, OPENAPI_TYPE),
            _page("get_front_page", "/", get_front_page, "text/html; charset=utf-8"),
            _page("get_docs", "/docs", get_docs, DOCS_TYPE),
        ),
    ),
)

# Files of the documentation for browsers: routed as all operations, and described nowhere.
PAGES: Final = (
    Row("get_docs_file", "GET", "/docs/{page*}", None,
        PAGE, Anything, Nothing, Document, get_docs_file,
        media_types=tuple(TYPES.values()), pace=rates.PAGES),
    Row("get_security_contacts", "GET", CONTACTS_PATH, None,
        NONE, Anything, Nothing, Document, get_security_contacts,
        media_types=(CONTACTS_TYPE,)),
    _page("get_pix_openapi", "/pix/openapi.json", get_pix_openapi, OPENAPI_TYPE),
)
# fmt: on
DOORS: Final = (Door(list_routes=lambda: PAGES),)


class _Documentation(ApiExtension):
    def __init__(self, policy: Policy, base_url: str) -> None:
        self._policy = policy
        self._base_url = base_url

    @property
    def parts(self) -> Mapping[type, object]:
        # The table of operations includes this feature's.
        from pixconnect.features.documentation.openapi import describe  # noqa: PLC0415

        return {Descriptions: describe(self._policy, base_url=self._base_url, version=__version__)}


@asynccontextmanager
async def _open(settings: Settings, context: Context) -> AsyncGenerator[ApiExtension]:
    yield _Documentation(context.policy, settings.public_base_url)


EXTENSIONS: Final = (ApiExtensionRow(open=_open),)
