"""Operations of the standard API, and how their requests, intervals and pages are read.

The application routes, authorises, admits and counts these operations as any others. Then the order is the standard's: the
resource in the path is looked up before the query and the body are checked, so the handler gets both raw and reads them with
``violations.py``. Unknown members and parameters are ignored.

An instant counts at the displayed precision, milliseconds: a displayed instant finds its item, used as ``inicio`` and as
``fim``.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import MAXYEAR, datetime, timedelta
from functools import partial
from typing import Annotated, Final, TypeVar
from urllib.parse import unquote_to_bytes

from msgspec import Meta, Struct, field

from pixconnect.doors.api import decoding
from pixconnect.doors.api.operation import AnyOperation, Method, NeededScope, Operation, Reader, Reply, Request, Services
from pixconnect.doors.api.routing import NONE
from pixconnect.features.locations.problem import MalformedRequest, Types, UnsupportedMediaType, make_form
from pixconnect.features.pix_api.api.violations import Members, Parameters, Violations, list_members
from pixconnect.features.pix_api.service.pix import Instante
from pixconnect.kernel.rules.listing import Span
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_milliseconds
from pixconnect.platform.base.errors import Violated
from pixconnect.platform.json_members import RepeatedMember, list_names

PREFIXES: Final = ("/pix/v2", "/v2")
"""All operations exist under both: the standard's own servers have the first, banks mostly the second."""

_JSON: Final = b"application/json"


class Query:
    """A query as it was sent."""

    __slots__ = ("_names", "_raw", "_until")

    def __init__(self, raw: bytes, names: Mapping[str, str] | None = None, until: datetime | None = None) -> None:
        self._raw = raw
        self._names = names or {}
        self._until = until

    def renaming(self, names: Mapping[str, str]) -> "Query":
        return Query(self._raw, names, self._until)

    def ending(self, until: datetime) -> "Query":
        """Hide facts made after ``until``, for an institution that does not show them yet."""
        return Query(self._raw, self._names, until)

    def hides(self, made_at: datetime) -> bool:
        """Whether facts made then are not shown yet."""
        return self._until is not None and made_at > self._until

    def refuse_hidden(self, made_at: datetime) -> None:
        """Raise ``NotFound`` for facts made then, if they are not shown yet."""
        if self.hides(made_at):
            raise errors.NotFound("a fault rule delays this resource")

    @property
    def page_size(self) -> int:
        """Return the page size, by which the application recognizes long requests; 0 if it is absent or refused."""
        try:
            size = self.read([PAGE_SIZE]).get(PAGE_SIZE, "")
        except MalformedRequest:
            return 0
        return int(size) if re.fullmatch("[0-9]{1,4}", size) else 0

    def with_values(self, values: Mapping[str, str]) -> "Query":
        names = {name.encode() for name in values}
        kept = [part for part in self._raw.split(b"&") if unquote_to_bytes(part.partition(b"=")[0]) not in names]
        raw = b"&".join([*kept, *(f"{name}={value}".encode() for name, value in values.items())])
        return Query(raw, until=self._until)

    def read(self, names: Iterable[str]) -> dict[str, str]:
        """Read the named parameters that were sent; others are ignored."""
        if self._raw.count(b"&") >= decoding.PARAMETERS_MAX:
            raise MalformedRequest(f"A consulta deve ter no máximo {decoding.PARAMETERS_MAX} parâmetros.")
        wanted, found = {self._names.get(name, name): name for name in names}, dict[str, str]()
        for part in self._raw.split(b"&"):
            raw_name, _, raw_value = part.partition(b"=")
            name = unquote_to_bytes(raw_name).decode("utf-8", "replace")
            if name not in wanted:
                continue
            if wanted[name] in found:
                raise MalformedRequest(f"O parâmetro {name} aparece mais de uma vez.")
            try:
                # A plus stays a plus: programs forget to encode the one of an instant's offset.
                found[wanted[name]] = unquote_to_bytes(raw_value).decode()
            except UnicodeDecodeError:
                raise MalformedRequest(f"O parâmetro {name} não é UTF-8.") from None
        return found

    def under(self, record: type[Struct], found: Violations | str) -> Parameters:
        """Read the parameters of a record; ``found`` has the errors so far, or the entity if there are none."""
        violations = Violations(found) if isinstance(found, str) else found
        return Parameters(violations, self.read(list_members(record)), record)


class Body(Struct, frozen=True):
    """A body as it was sent: an object of JSON, or something else."""

    members: Mapping[str, object] | None = None  # ``None`` if it is no object
    unjudged: bytes = b""  # the whole text, if it is too long for one check for repeated members

    def require(self, entity: str) -> Mapping[str, object]:
        """Return its members; raises ``Violated`` if it is no object."""
        if self.members is None:
            raise Violated(entity, ())
        return self.members

    def under(self, record: type[Struct], found: Violations | str, path: str | None = None) -> Members:
        """Read the members of a record; ``found`` and ``path`` as for ``Query.under`` and ``Members``."""
        violations = Violations(found) if isinstance(found, str) else found
        return Members(violations, record, self.require(violations.entity), path)


Asked = Request[tuple[str, ...], Query, Body]  # a request; ``parameter`` are those of the path, in its order
Responder = Callable[[Services, Asked], Awaitable[Reply]]


class StandardOperation(Struct, frozen=True):
    id: str
    method: Method
    path: str  # below the prefixes
    scope: NeededScope
    types: Types
    query: type  # the query's description, a record
    body: type  # likewise for the body; ``Nothing`` is not read
    status: int  # the status of a success
    answer: type  # the answer's description; ``Nothing`` has no body
    handler: Responder
    body_max: int = decoding.BODY_MAX  # in bytes
    may_be_old: bool = False  # as of an ``Operation``


def list_door_routes(rows: Sequence[StandardOperation]) -> tuple[AnyOperation, ...]:
    """List the routes: at each prefix, with an optional slash at the end."""
    return tuple(_route(row, prefix + row.path + end) for row in rows for prefix in PREFIXES for end in ("", "/"))


def is_of_the_door(raw_path: bytes) -> bool:
    """Whether a path is below this API's prefixes, existing or not."""
    # A later version of the contract's paths is refused in the contract's form.
    if raw_path.startswith(_OF_THE_CONTRACT):
        return False
    return any(raw_path == prefix or raw_path.startswith(prefix + b"/") for prefix in _RAW_PREFIXES)


_OF_THE_CONTRACT: Final = (b"/v2/connect/", b"/v2/iam/")
_RAW_PREFIXES: Final = tuple(prefix.encode() for prefix in PREFIXES)


def _route(row: StandardOperation, path: str) -> AnyOperation:
    return Operation(
        row.id,
        row.method,
        path,
        row.scope,
        NONE,
        row.query,
        row.body,
        Reply,
        row.handler,
        refusals=make_form(row.types),
        reader=_make_reader(list_names(row.body)),
        body_max=row.body_max,
        may_be_old=row.may_be_old,
    )


def _read_path(raw: Sequence[bytes]) -> tuple[str, ...]:
    # Octets that are no text match nothing: the handler's pattern refuses them.
    return tuple(octets.decode("utf-8", "replace") for octets in raw)


def _read_body(names: Sequence[bytes] | None, raw: bytes, headers: Mapping[bytes, bytes]) -> Body:
    if not raw:
        return Body()
    media_type = headers.get(b"content-type", b"")
    # Parameters such as charset are ignored: JSON is UTF-8 in any case.
    if media_type != _JSON and media_type.partition(b";")[0].strip().lower() != _JSON:
        raise UnsupportedMediaType("Content-Type: must be application/json")
    if headers.get(b"content-encoding", b"").strip().lower() not in (b"", b"identity"):
        raise UnsupportedMediaType("Content-Encoding: must be identity")
    try:
        return Body(decoding.read_object(raw, names), raw if len(raw) > decoding.BODY_MAX else b"")
    except RepeatedMember as error:
        raise refuse_repeated_member(error) from None


def refuse_repeated_member(error: RepeatedMember) -> MalformedRequest:
    return MalformedRequest(f"O membro {error.name} aparece duas vezes no mesmo objeto do corpo.")


def _make_reader(names: Sequence[bytes] | None) -> Reader:
    return Reader(path=_read_path, query=Query, body=partial(_read_body, names))


READER: Final = _make_reader(None)


async def refuse_uncontracted(services: Services, request: Asked) -> Reply:
    """Refuse operations of the standard that this service does not offer yet."""
    raise errors.Forbidden("this part of the standard is not offered")


ListedT = TypeVar("ListedT", bound=Struct)

PAGE: Final = "paginacao.paginaAtual"
PAGE_SIZE: Final = "paginacao.itensPorPagina"
_PAGE_SIZE_DEFAULT: Final = 100
_PAGE_SIZE_MAX: Final = 1000
_MILLISECOND: Final = timedelta(milliseconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)


class PageQuery(Struct, frozen=True, kw_only=True):
    """Qual página."""

    page: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = field(default=None, name=PAGE)
    """A página, a partir de 0; 0 se ausente."""
    page_size: Annotated[int, Meta(ge=1, le=_PAGE_SIZE_MAX)] | None = field(default=None, name=PAGE_SIZE)
    """Itens por página; 100 se ausente."""


class PeriodQuery(PageQuery, frozen=True, kw_only=True):
    """De quando e qual página."""

    inicio: Instante
    """O instante mais antigo, incluído; RFC 3339 com fuso."""
    fim: Instante
    """O instante mais novo, incluído até o fim do seu milissegundo; não antes de `inicio`."""


class Paginacao(Struct, frozen=True, kw_only=True, rename="camel"):
    """Qual página é esta, e quantas há."""

    pagina_atual: Annotated[int, Meta(ge=0)]
    """Esta página, a partir de 0."""
    itens_por_pagina: Annotated[int, Meta(ge=1)]
    """Itens por página."""
    quantidade_de_paginas: Annotated[int, Meta(ge=1)]
    """Páginas da lista; 1 mesmo se ela está vazia."""
    quantidade_total_de_itens: Annotated[int, Meta(ge=0)]
    """Itens da lista toda."""


class Parametros(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O que foi pedido, e a página."""

    inicio: Instante | None = None
    """Como foi pedido, em UTC."""
    fim: Instante | None = None
    """Como foi pedido, em UTC."""
    paginacao: Paginacao
    """A página."""


class Interval(Struct, frozen=True):
    inicio: datetime | None
    fim: datetime | None


class StandardPageRequest(Struct, frozen=True):
    number: int  # from 0
    size: int

    def paginate(self, total_count: int) -> Paginacao:
        return Paginacao(
            pagina_atual=self.number,
            itens_por_pagina=self.size,
            # Rounded up: the last page need not be full. The standard has no list without a page.
            quantidade_de_paginas=max(1, -(-total_count // self.size)),
            quantidade_total_de_itens=total_count,
        )


def describe(
    interval: Interval, page: StandardPageRequest, total_count: int, record: type[ListedT], **filters: object
) -> ListedT:
    inicio, fim = (each and format_milliseconds(each) for each in (interval.inicio, interval.fim))
    return record(inicio=inicio, fim=fim, paginacao=page.paginate(total_count), **filters)


def read_interval(parameters: Parameters) -> Interval:
    """Read ``inicio`` and ``fim``, the first two parameters of a list."""
    parameters = parameters.or_under(PeriodQuery)
    inicio, fim = parameters.instant("inicio"), parameters.instant("fim")
    if inicio is not None and fim is not None and fim < inicio:
        parameters.refuse("fim", "não pode ser anterior a inicio")
    return Interval(inicio, fim)


def read_page(parameters: Parameters) -> StandardPageRequest:
    """Read the page, the last parameters of a list."""
    parameters = parameters.or_under(PageQuery)
    number, size = parameters.integer(PAGE), parameters.integer(PAGE_SIZE)
    return StandardPageRequest(number or 0, size or _PAGE_SIZE_DEFAULT)


def refuse_both_tax_ids(parameters: Parameters, cpf: str | None, cnpj: str | None) -> None:
    """Add a violation if a list is filtered by a person and by a company at once."""
    if cpf is not None and cnpj is not None:
        parameters.refuse("cnpj", "não pode ser usado junto com cpf")


def make_span(interval: Interval, page: StandardPageRequest) -> Span:
    inicio, fim = interval.inicio, interval.fim
    # Facts shown with an earlier millisecond are excluded; of the last one, the whole millisecond is included.
    if inicio is not None and inicio.microsecond % 1000 and inicio.year < MAXYEAR:
        inicio = _cut(inicio) + _MILLISECOND
    if fim is not None:
        fim = _cut(fim) + (_MILLISECOND - _MICROSECOND)
    return Span(page=page.number + 1, page_size=page.size, initial_at=inicio, final_at=fim)


def _cut(instant: datetime) -> datetime:
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)
