"""An operation of the API, its handler's request and answer, and the API's resources.

A row of ``operations.py`` is an ``Operation``. Its type parameters tie the handler to the row: the type checker refuses a row
whose handler expects another parameter, query, body or answer than the row declares.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import wraps
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, cast, get_args, get_origin

from msgspec import Struct, structs

from pixconnect.doors.api import envelope, rates
from pixconnect.doors.api.decoding import BODY_MAX, BodyForm
from pixconnect.doors.api.envelope import Headers, Listing, Refused
from pixconnect.doors.api.rates import RequestRates
from pixconnect.doors.api.site import Site
from pixconnect.kernel.feature import FeatureParts
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.standby import Standby
from pixconnect.kernel.rules.access import Caller, ScopeName
from pixconnect.kernel.rules.money import show_reais
from pixconnect.platform import logging as our_logging
from pixconnect.platform.base import errors
from pixconnect.platform.base.address_rules import Network
from pixconnect.platform.base.clock import Clock, RatePolicy
from pixconnect.platform.base.errors import PixConnectError
from pixconnect.platform.flow.overload import Admission
from pixconnect.platform.flow.turns import Turns
from pixconnect.platform.logging import AccessLog, AccessLogWanted, LogLevel


class Verifier(Protocol):
    """Finds the caller of a request by its ``Authorization`` header."""

    def recall(self, authorization: bytes) -> Caller | None:
        """Return the caller, if the header was verified a moment ago."""
        ...

    def recall_party(self, authorization: bytes) -> int | None:
        """Return the party of that caller, even if the token has expired."""
        ...

    async def verify(self, authorization: bytes | None) -> Caller: ...


class Services(Struct, frozen=True, kw_only=True):
    context: Context
    verifier: Verifier
    of_features: FeatureParts  # further dependencies of features' handlers
    draw_qr_png: Callable[[str], Awaitable[bytes]]  # makes a PNG of a text as QR code; callers take turns
    admission: Admission  # limits the requests under way in this process
    turns: Turns  # decides the next use of the event loop
    site: Site  # the documentation
    base_url: str  # the API's address as callers see it
    rates: RequestRates | None  # ``None`` if the operator sets no limit
    trusted_proxies: tuple[Network, ...]  # networks whose ``X-Forwarded-For`` is trusted
    version: str  # the program's version
    standby: Standby | None = None  # the standby for operations that may read from it; ``None`` without one
    security_contacts: Sequence[str] = ()  # contacts for vulnerability reports: URIs, the preferred one first
    shows_system: bool = True  # whether the health check shows its system
    binds_tokens: bool = False  # whether a port accepts client certificates, to which tokens are bound


ParameterT = TypeVar("ParameterT")
QueryT = TypeVar("QueryT")
BodyT = TypeVar("BodyT")
AnswerT = TypeVar("AnswerT")

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
NeededScope = ScopeName | Literal["any"]  # the permission that a token needs; ``any`` valid token has it


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """The query, or the body, of an operation without one."""


class Anything(Struct, frozen=True):
    """The query of a public address: all of it is ignored."""


class Bare(Struct, Generic[AnswerT], frozen=True):
    """An answer in JSON without the envelope, in the form of another standard."""

    record: AnswerT


class Reply(Struct, frozen=True, kw_only=True):
    """An answer in JSON without the envelope, with its own status and headers."""

    status: int
    record: object = None  # ``None`` has no body
    headers: Headers = []


class Reader(Struct, frozen=True, kw_only=True):
    """Reads a handler's request in another API's way; the row's parameter and records only describe it."""

    path: Callable[[Sequence[bytes]], object]  # receives the percent-decoded parameters of the path
    query: Callable[[bytes], object]
    body: Callable[[bytes, Mapping[bytes, bytes]], object]


class RefusalForm(Struct, frozen=True, kw_only=True):
    # Receives the error, the request's id and the time.
    write: Callable[[errors.PixConnectError, str, datetime], Refused]
    record: type | None  # the body of a refusal; ``None`` is ours, in the envelope
    media_type: str = "application/json"


ENVELOPED = RefusalForm(write=envelope.refuse, record=None)


class Later(Struct, frozen=True, kw_only=True):
    """A slow answer: it gives its turn back, and takes one whenever it works."""

    answer: Callable[[Callable[[], AbstractAsyncContextManager[None]]], Awaitable[object]]


class Request(Struct, Generic[ParameterT, QueryT, BodyT], frozen=True, kw_only=True):
    """One request, routed, authorised and decoded."""

    caller: Caller  # ``NOBODY`` for public operations
    parameter: ParameterT  # from the path
    query: QueryT
    body: BodyT
    address: str  # the key for counting failures of token requests: the address, for IPv6 its /64
    headers: Mapping[bytes, bytes]  # lower-case names; values of a repeated header are joined with commas
    certificate: str | None = None  # the thumbprint of the connection's client certificate
    certified_name: str | None = None  # the name in that certificate, which our authority has signed


class Parameter(Struct, Generic[ParameterT], frozen=True, kw_only=True):
    """The parameter of a path, in braces; a path has at most one."""

    name: str  # empty if the path has no parameter
    read: Callable[[str], ParameterT]  # receives the percent-decoded text; raises ``BadRequest`` or ``NotFound``
    schema: Mapping[str, object]
    description: str


class Login(Protocol):
    """Issues a token to a caller that sends credentials instead, with each request."""

    async def authenticate(
        self, services: Services, headers: Mapping[bytes, bytes], address: str, certificate: str | None
    ) -> Caller: ...


# Quoted: an alias is evaluated when the module is imported.
Handler = Callable[["Services", Request[ParameterT, QueryT, BodyT]], Awaitable[AnswerT | Later]]


class Operation(Struct, Generic[ParameterT, QueryT, BodyT, AnswerT], frozen=True, eq=False):
    """One row of the interface, its fields in the order of the table's columns."""

    id: str  # ``operationId``
    method: Method  # GET serves HEAD too
    path: str  # parameters in braces; without a ``reader``, at most one
    scope: NeededScope | None  # ``None`` is public
    parameter: Parameter[ParameterT]
    query: type[QueryT]
    body: type[BodyT]
    answer: type[AnswerT]  # the record of ``data``, a ``Listing`` or ``Bare`` of it, or ``Document``
    handler: Handler[ParameterT, QueryT, BodyT, AnswerT]  # its docstring is the operation's summary and description
    summary: str = ""  # required if two paths have one handler
    body_form: BodyForm = "json"
    body_max: int = BODY_MAX  # in bytes
    media_types: tuple[str, ...] = ()  # all those of a ``Document``; for another answer, those besides JSON
    refusals: RefusalForm = ENVELOPED
    reader: Reader | None = None  # ``None`` reads by the parameter's, the query's and the body's types
    pace: RatePolicy = rates.PUBLIC  # the rate limit per address of a public operation
    rules: tuple[str, ...] = ()  # codes of its refusals with status 422, for which the OpenAPI document has no place
    login: Login | None = None  # ``None`` uses the caller's own token
    # Whether a standby may answer, which lacks the writes of the last seconds.
    # Never if a caller may look for its latest request, or decides its next request by the answer.
    may_be_old: bool = False

    @property
    def item(self) -> type | None:
        """The record of the items, where the operation answers a list."""
        return get_args(self.answer)[0] if get_origin(self.answer) is Listing else None

    @property
    def is_bare(self) -> bool:
        return get_origin(self.answer) is Bare

    @property
    def record(self) -> type:
        """Return the record of the answer, also within a list; ``Document`` if there is none."""
        return get_args(self.answer)[0] if get_origin(self.answer) in (Listing, Bare) else self.answer


AnyOperation = Operation[Any, Any, Any, Any]
"""A row, for code that only reads the table and need not know how its types fit together."""


class Section(Struct, frozen=True, kw_only=True):
    """Related operations: a tag in OpenAPI, a chapter in the documentation."""

    title: str  # a section with an existing title adds to that one
    text: str = ""  # a sentence on the purpose of the operations
    operations: tuple[AnyOperation, ...]


class Door(Struct, frozen=True, kw_only=True):
    """Operations that are routed as all others, and that the API does not describe."""

    list_routes: Callable[[], Sequence[AnyOperation]] = tuple
    # Returns how to refuse an unknown path; ``None`` for paths of other doors.
    find_form: Callable[[bytes], RefusalForm | None] = lambda _path: None
    only_in: Literal["sandbox", "live"] | None = None  # the mode that has it; ``None`` is both


NOBODY = Caller(client_id="", holder_id=0, scopes=frozenset())  # the caller of public operations


_WANTS_NEWEST: Final = "no-cache"


def read_at_standby(row: AnyOperation, standby: Standby, services: Services) -> AnyOperation:
    """Return the operation with reads at the standby first; a request with ``Cache-Control: no-cache`` uses the primary."""
    there = structs.replace(services, context=structs.replace(services.context, pool=standby.pool))

    @wraps(row.handler)
    async def answer(here: Services, request: Request[Any, Any, Any]) -> object | Later:
        if _WANTS_NEWEST in request.headers.get(b"cache-control", b"").decode("latin-1").lower():
            return await row.handler(here, request)
        return await standby.read(lambda: row.handler(there, request), lambda: row.handler(here, request))

    return structs.replace(row, handler=answer)


# Requests that programs and browsers make by themselves, again and again; each verb logs in.
_UNTOLD: Final = frozenset(
    {"health_check", "check_liveness", "check_readiness", "get_docs_file", "request_token", "request_oauth_token"}
)
_WITH_SECRETS: Final = frozenset({"take_callback", "try_callback", "try_callback_by_options"})
"""Their addresses contain one, which readers of a log must not see."""


class RequestLines:
    """Replaces the access log when the service runs in a terminal."""

    def wants(self, status: int) -> bool:
        return True

    def append(
        self,
        *,
        operation: str,
        method: str,
        path: str,
        target: bytes,
        status: int,
        duration_ms: float,
        request_id: str,
        result: object,
        **others: object,
    ) -> None:
        if operation in _UNTOLD and status < 400:
            return
        shown = path if operation in _WITH_SECRETS else target.decode("latin-1")
        # What is deleted is answered in its last state, such as `active`.
        described = [] if method == "DELETE" and status < 400 else _describe(result)
        words = [f"{method:6} {shown}", str(status), f"{duration_ms:.0f} ms", *described]
        if isinstance(result, PixConnectError):
            words.append(f"(request {request_id})")
        level = logging.ERROR if status >= 500 else logging.WARNING if status >= 400 else logging.INFO
        our_logging.print_line("  ".join(words), level=level)

    def flush(self) -> None:
        """No-op: lines are written as they come."""


def choose_access_log(clock: Clock, wanted: AccessLogWanted, level: LogLevel) -> AccessLog | RequestLines:
    """Choose the lines for a terminal, or the access log by the settings."""
    if our_logging.is_shown() and wanted != "off":
        return RequestLines()
    return AccessLog(clock, wanted="all" if level == "debug" else "off" if level == "error" else wanted)


def _describe(result: object) -> list[str]:
    match result:
        case PixConnectError(code=code, message=message):
            return [f"{code}: {message}"]
        case Listing(total_count=count):
            return [f"{count} in all"]
        case Reply(record=record):
            return _describe_standard(record)
        case _:
            amount = getattr(result, "amount", None)
            found = [show_reais(amount)] if isinstance(amount, int) else []
            named = ("external_id", "status", "code", "reason")
            return found + [str(word) for name in named if (word := getattr(result, name, None))]


def _describe_standard(record: object) -> list[str]:
    """Describe the standard API's answer: its lists contain their counts, and amounts are texts."""

    def read(name: str) -> object:
        return cast("dict[str, object]", record).get(name) if isinstance(record, dict) else getattr(record, name, None)

    if (page := getattr(read("parametros"), "paginacao", None)) is not None:
        return [f"{page.quantidade_total_de_itens} in all"]
    value = read("valor")
    original = getattr(value, "original", value)
    found = [f"R$ {original.replace('.', ',')}"] if isinstance(original, str) else []
    return found + [word for name in ("txid", "status") if isinstance(word := read(name), str)]
