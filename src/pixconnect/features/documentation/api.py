"""Operations of the documentation: described ones, and files of the site for browsers."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from pixconnect import __version__
from pixconnect.doors.api import rates
from pixconnect.doors.api.document import Document
from pixconnect.doors.api.extension import ApiExtension, ApiExtensionRow
from pixconnect.doors.api.operation import AnyOperation, Anything, Door, Nothing, Section
from pixconnect.doors.api.operation import Operation as Row
from pixconnect.doors.api.routing import NONE, PAGE
from pixconnect.doors.api.site import TYPES
from pixconnect.features.documentation import documents
from pixconnect.features.documentation.documents import Descriptions
from pixconnect.kernel.flows.context import Context, Policy
from pixconnect.platform.config import Settings


# Each row keeps two lines, which the formatter would spread over nine.
# fmt: off
def _page(name: str, path: str, handler: documents.PageHandler, media_type: str) -> AnyOperation:
    return Row(name, "GET", path, None,
               NONE, Anything, Nothing, Document, handler, media_types=(media_type,), pace=rates.PAGES)


SECTIONS: Final = (
    Section(
        title="Service",
        operations=(
            _page("get_openapi", "/openapi.json", documents.get_openapi, documents.OPENAPI_TYPE),
            _page("get_openapi_30", "/openapi-3.0.json", documents.get_openapi_30, documents.OPENAPI_TYPE),
            _page("get_front_page", "/", documents.get_front_page, "text/html; charset=utf-8"),
            _page("get_docs", "/docs", documents.get_docs, documents.DOCS_TYPE),
        ),
    ),
)

# Files of the documentation for browsers: routed as all operations, and described nowhere.
PAGES: Final = (
    Row("get_docs_file", "GET", "/docs/{page*}", None,
        PAGE, Anything, Nothing, Document, documents.get_docs_file,
        media_types=tuple(TYPES.values()), pace=rates.PAGES),
    Row("get_security_contacts", "GET", documents.CONTACTS_PATH, None,
        NONE, Anything, Nothing, Document, documents.get_security_contacts,
        media_types=(documents.CONTACTS_TYPE,)),
    _page("get_pix_openapi", "/pix/openapi.json", documents.get_pix_openapi, documents.OPENAPI_TYPE),
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
