"""What an operation of the standard's door is, and how its requests are read.

The same application routes, authorises, admits and counts these operations. Then the order is the standard's: it looks
for the resource in the path before it checks the query and the body, so the handler gets both and reads them with
``violations.py``. It ignores unknown members and parameters.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from pixconnect.api.frame import decoding
from pixconnect.api.frame.operation import AnyOperation, Method, NeededScope, Operation, Reader, Reply, Request
from pixconnect.api.frame.parameters import NONE
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.problem import MalformedRequest, Types, UnsupportedMediaType, make_form
from pixconnect.api.standard.violations import Members, Parameters, Violations, list_members
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.violation import Violated

PREFIXES: Final = ("/pix/v2", "/v2")
"""All operations are at both: the standard's own servers have the first, the banks' mostly the second."""

_JSON: Final = b"application/json"
_PAGE_SIZE: Final = re.compile(rb"(?:^|&)paginacao\.itensPorPagina=([0-9]{1,4})(?:&|$)")


class Query:
    """A query as it was sent."""

    __slots__ = ("_names", "_raw", "_until")

    def __init__(self, raw: bytes, names: Mapping[str, str] | None = None, until: datetime | None = None) -> None:
        self._raw = raw
        self._names = names or {}
        self._until = until

    def renaming(self, names: Mapping[str, str]) -> Query:
        """The same, where some parameters have other names than those that are asked for."""
        return Query(self._raw, names, self._until)

    def ending(self, until: datetime) -> Query:
        """The same, asked of an institution that does not show yet what was made after ``until``."""
        return Query(self._raw, self._names, until)

    def hides(self, made_at: datetime) -> bool:
        """Whether what was made then is not shown yet."""
        return self._until is not None and made_at > self._until

    def refuse_hidden(self, made_at: datetime) -> None:
        """Raise ``NotFound`` for what was made then, where it is not shown yet."""
        if self.hides(made_at):
            raise errors.NotFound("a fault rule lets this be found later")

    @property
    def page_size(self) -> int:
        """By which the application tells long requests; 0 where it is left out or is no number."""
        found = _PAGE_SIZE.search(self._raw)
        return int(found[1]) if found else 0

    def with_values(self, values: Mapping[str, str]) -> Query:
        """The same with these parameters instead of those that were sent."""
        names = {name.encode() for name in values}
        kept = [part for part in self._raw.split(b"&") if unquote_to_bytes(part.partition(b"=")[0]) not in names]
        raw = b"&".join([*kept, *(f"{name}={value}".encode() for name, value in values.items())])
        return Query(raw, until=self._until)

    def read(self, names: Iterable[str]) -> dict[str, str]:
        """Those of the named parameters that were sent; others are ignored."""
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
        """The parameters that a record describes; ``found`` is what is wrong so far, or the entity where nothing is."""
        violations = Violations(found) if isinstance(found, str) else found
        return Parameters(violations, self.read(list_members(record)), record)


class Body(Struct, frozen=True):
    """A body as it was sent: an object of JSON, or something else."""

    members: Mapping[str, object] | None = None
    """``None`` where it is no object."""

    def require(self, entity: str) -> Mapping[str, object]:
        """Its members; raises ``Violated`` where it is no object."""
        if self.members is None:
            raise Violated(entity, ())
        return self.members

    def under(self, record: type[Struct], found: Violations | str, path: str | None = None) -> Members:
        """The members that a record describes; ``found`` and ``path`` as for ``Query.under`` and ``Members``."""
        violations = Violations(found) if isinstance(found, str) else found
        return Members(violations, record, self.require(violations.entity), path)


Asked = Request[tuple[str, ...], Query, Body]
"""A request at this door; ``parameter`` are those of the path, in its order."""
Responder = Callable[[Services, Asked], Awaitable[Reply]]


class StandardOperation(Struct, frozen=True):
    id: str
    method: Method
    path: str
    """Below the prefixes."""
    scope: NeededScope
    types: Types
    query: type
    """What the description says of the query, a record."""
    body: type
    """The same of the body; ``Nothing`` is not read."""
    status: int
    """The status of a success."""
    answer: type
    """What the description says of the answer; ``Nothing`` has no body."""
    handler: Responder
    body_max: int = decoding.BODY_MAX
    """In bytes."""
    may_be_old: bool = False
    """As of an ``Operation``."""


def list_door_routes(rows: Sequence[StandardOperation]) -> tuple[AnyOperation, ...]:
    """The operations as the application serves them: at each prefix, and one slash at the end is forgiven."""
    return tuple(_route(row, prefix + row.path + end) for row in rows for prefix in PREFIXES for end in ("", "/"))


def is_of_the_door(raw_path: bytes) -> bool:
    """Whether a path is below this door's prefixes, whatever may be there."""
    # Those who look for a later version of the contract's paths are answered in the contract's words.
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
        reader=READER,
        body_max=row.body_max,
        may_be_old=row.may_be_old,
    )


def _read_path(raw: Sequence[bytes]) -> tuple[str, ...]:
    # What is no text names nothing: the handler's pattern refuses it.
    return tuple(octets.decode("utf-8", "replace") for octets in raw)


def _read_body(raw: bytes, headers: Mapping[bytes, bytes]) -> Body:
    if not raw:
        return Body()
    media_type = headers.get(b"content-type", b"")
    # Parameters such as charset are ignored: JSON is UTF-8 whatever they say.
    if media_type != _JSON and media_type.partition(b";")[0].strip().lower() != _JSON:
        raise UnsupportedMediaType("Content-Type: must be application/json")
    if headers.get(b"content-encoding", b"").strip().lower() not in (b"", b"identity"):
        raise UnsupportedMediaType("Content-Encoding: must be identity")
    return Body(decoding.read_object(raw))


READER: Final = Reader(path=_read_path, query=Query, body=_read_body)


async def refuse_uncontracted(services: Services, request: Asked) -> Reply:
    """Answer for operations of the standard that this service does not offer yet."""
    raise errors.Forbidden("this part of the standard is not offered")
