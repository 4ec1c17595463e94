"""What one operation of the interface is, and what its handler is given and answers.

A row of ``operations.py`` is an ``Operation``. Its type parameters tie the handler to the row: the type checker refuses a row
whose handler expects another parameter, query, body or answer than the row declares.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

from pixconnect.api import browser
from pixconnect.domain import errors
from pixconnect.domain.access import Caller, Scope

if TYPE_CHECKING:  # whose limits answer in the envelope, which lists what is declared here
    from pixconnect.api.services import Services

ParameterT = TypeVar("ParameterT")
QueryT = TypeVar("QueryT")
BodyT = TypeVar("BodyT")
AnswerT = TypeVar("AnswerT")
ItemT = TypeVar("ItemT")

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
NeededScope = Scope | Literal["any"]
"""What a token needs: the permission of that name; for ``any``, to be valid."""


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """The query, or the body, of an operation that takes none."""


class Anything(Struct, frozen=True):
    """The query of a public address: whatever is in it is ignored."""


class Listing(Struct, Generic[ItemT], frozen=True, kw_only=True):
    """The answer of a list operation: becomes ``data``, ``pagination`` and, where there is a next page, ``Link``.

    Attributes:
        items: Of this page, in their wire form: made one by one while they are written, and ``Raw`` afterwards.
        page: Asked for, from 1.
        page_size: Asked for.
        total_count: In the whole list.
        has_next: Of a page by cursor; of one by number the numbers say it.
        next_after: The cursor to the next page; empty if there is none.
    """

    items: Iterable[ItemT] | msgspec.Raw
    page: int
    page_size: int
    total_count: int
    has_next: bool | None = None
    next_after: str = ""


class Document(Struct, frozen=True, kw_only=True):
    """An answer that is no envelope.

    Attributes:
        content: The body; in parts, it is sent in chunks without a length.
        media_type: Its ``Content-Type``.
        filename: Under which a browser saves it; empty if it may be shown.
        policy: Its ``Content-Security-Policy``.
    """

    content: bytes | AsyncIterator[bytes]
    media_type: str
    filename: str = ""
    policy: bytes = browser.POLICY


class Request(Struct, Generic[ParameterT, QueryT, BodyT], frozen=True, kw_only=True):
    """One request, routed, authorised and decoded.

    Attributes:
        caller: Who asks; ``NOBODY`` where the operation is public.
        parameter: What stood in the path.
        query: As the operation declares it.
        body: As the operation declares it.
        peer: The address at the other end of the connection.
        headers: Lower-case names; of a header that came twice, the values joined with commas.
    """

    caller: Caller
    parameter: ParameterT
    query: QueryT
    body: BodyT
    peer: str
    headers: Mapping[bytes, bytes]


class Parameter(Struct, Generic[ParameterT], frozen=True, kw_only=True):
    """What stands between braces in a path; a path has at most one.

    Attributes:
        name: Between the braces; empty if there is none.
        read: From the text, percent-decoded. Raises ``BadRequest``.
        schema: For OpenAPI.
        description: For OpenAPI.
    """

    name: str
    read: Callable[[str], ParameterT]
    schema: Mapping[str, object]
    description: str


Handler = Callable[["Services", Request[ParameterT, QueryT, BodyT]], Awaitable[AnswerT]]


class Operation(Struct, Generic[ParameterT, QueryT, BodyT, AnswerT], frozen=True):
    """One row of the interface, its attributes in the order of the table's columns.

    Attributes:
        id: ``operationId``.
        method: HTTP's; GET serves HEAD too.
        path: With at most one parameter in braces.
        scope: What the token needs; ``None`` is public.
        parameter: What is between the braces.
        query: The record of the query.
        body: The record of the body.
        answer: The record of ``data``; a ``Listing`` of it; or ``Document``.
        handler: Does it. Its docstring is the operation's summary and description.
        summary: Where the handler's docstring is not this operation's: of two paths to one handler, or not built yet.
        body_form: How the body is encoded.
        media_types: Of a ``Document``; of another answer, those it has besides JSON.
    """

    id: str
    method: Method
    path: str
    scope: NeededScope | None
    parameter: Parameter[ParameterT]
    query: type[QueryT]
    body: type[BodyT]
    answer: type[AnswerT]
    handler: Handler[ParameterT, QueryT, BodyT, AnswerT]
    summary: str = ""
    body_form: Literal["json", "form"] = "json"
    media_types: tuple[str, ...] = ()

    @property
    def is_built(self) -> bool:
        """Whether there is something behind it; otherwise it answers 503."""
        return self.handler is not unbuilt

    @property
    def item(self) -> type | None:
        """Of a list operation, the record of its items."""
        return get_args(self.answer)[0] if get_origin(self.answer) is Listing else None


AnyOperation = Operation[Any, Any, Any, Any]
"""A row whose parts fit together, as far as those are concerned who only read the table."""


class Section(Struct, frozen=True, kw_only=True):
    """Operations that belong together: a tag in OpenAPI, a chapter in the documentation.

    Attributes:
        title: Its name.
        text: What it is about.
        operations: Its rows.
    """

    title: str
    text: str
    operations: tuple[AnyOperation, ...]


NOBODY = Caller(client_id="", holder_id=0, scopes=frozenset())
"""The caller of public operations."""


async def unbuilt(services: Services, request: Request[Any, Any, Any]) -> NoReturn:
    """Answer for an operation that the interface promises and this version does not have yet."""
    raise errors.ServiceUnavailable("this operation is not built yet in this version of the service", 3600)
