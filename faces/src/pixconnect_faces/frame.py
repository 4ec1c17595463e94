"""Operations of a face, and how the standard's operations become a face's by its profile.

The application routes, authorises and counts them as all others; path, query and body are read as in the standard API.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Final, cast

import msgspec
from msgspec import Struct, structs

from pixconnect.doors.api.decoding import FORM_MAX
from pixconnect.doors.api.document import Document
from pixconnect.doors.api.operation import (
    AnyOperation,
    Anything,
    Bare,
    Later,
    Method,
    NeededScope,
    Nothing,
    Operation,
    Reply,
    Request,
    Services,
)
from pixconnect.doors.api.routing import NONE, authenticate
from pixconnect.features.identity import api as oauth
from pixconnect.features.identity.service.token_issuer import TokenIssuer, TokenRequest
from pixconnect.features.institutions.accounts import FACE_ANSWERS
from pixconnect.features.institutions.profiles.profile import (
    FACES_PATH,
    HOMOLOGATION,
    InstitutionProfile,
    Known,
    OperationTraits,
    read_profile,
    reshape,
)
from pixconnect.features.pix_api.api import webhook
from pixconnect.features.pix_api.api.frame import READER, Asked, Body, Query, StandardOperation, read_interval
from pixconnect.features.pix_api.api.operations import SPOKEN
from pixconnect.features.pix_api.api.violations import Parameters, Violations, show_value
from pixconnect.features.pix_api.rules import Shown
from pixconnect.features.pix_api.service.pix import Instante
from pixconnect.features.statements import service as statement_usecases
from pixconnect.features.statements.rules import Statement, StatementLine
from pixconnect.features.webhooks.service.endpoint import RECEIVERS
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.holder import AccountType, Party
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO
from pixconnect.platform.base.errors import Violated, Violation
from pixconnect.platform.bounded_cache import BoundedCache
from pixconnect_faces import fault
from pixconnect_faces.refusals import NamedRefusal, make_face_form

_APP_ID: Final = re.compile(rb"[A-Za-z0-9+/]{4,512}={0,2}")
_KEPT_MAX: Final = 1024
PREFIX: Final = FACES_PATH
DAYS: Final = ("dataInicio", "dataFim")
LINES_MAX: Final = 10_000
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SPAN_MAX: Final = timedelta(days=90)


class AppIdLogin:
    """Logs a client in by its AppID: issues it a token, caches that, and verifies it each time as any other.

    So a disabled client is refused within a second here too.
    """

    def __init__(self, lifetime_s: int) -> None:
        self._lifetime_s = lifetime_s
        self._tokens = BoundedCache[bytes, bytes](_KEPT_MAX)

    async def authenticate(
        self, services: Services, headers: Mapping[bytes, bytes], address: str, certificate: str | None
    ) -> Caller:
        app_id = headers.get(b"authorization", b"")
        client_id, client_secret = oauth.decode_credentials(app_id) if _APP_ID.fullmatch(app_id) else ("", "")
        if not client_id or not client_secret:
            raise errors.Unauthorized("Authorization: must be an AppID")
        known = self._tokens.get(app_id)
        if known is not None:
            try:
                return await authenticate(services.verifier, {b"authorization": known}, certificate)
            except errors.Unauthorized:
                # It has expired; the next request shows whether the credentials are still valid.
                self._tokens.pop(app_id, None)
        token = await services.of_features[TokenIssuer].login(
            TokenRequest(
                client_id=client_id,
                client_secret=client_secret,
                address=address,
                certificate=certificate,
                lifetime_s=self._lifetime_s,
                is_every_request=True,
            )
        )
        given = f"Bearer {token.access_token}".encode()
        self._tokens.keep(app_id, given)
        return await authenticate(services.verifier, {b"authorization": given}, certificate)


class Face(Struct, frozen=True, kw_only=True):
    """An institution's interface, or that of its test environment, with the latter's rules."""

    profile: InstitutionProfile
    is_homologation: bool = False

    @property
    def name(self) -> str:
        return self.profile.name + (HOMOLOGATION if self.is_homologation else "")

    @property
    def prefix(self) -> str:
        return PREFIX + self.name

    def choose(self, services: Services, choice: str) -> str:
        """Return the chosen answer, or the default, where an answer is undocumented."""
        return self.profile.choose(services.context.port(FACE_ANSWERS), choice)

    def refuse_in_tests(self, kind: str) -> None:
        if self.is_homologation:
            raise NamedRefusal(kind, "funcionalidade desabilitada em ambiente de homologação")


FaceResponder = Callable[[Face, Services, Asked], Awaitable[Reply | Document | Shown]]
"""``Shown`` are the members of a body, answered with 200."""


async def read_own(services: Services, caller: Caller) -> Party:
    return (await services.context.directory.read_account(caller.holder_id)).party


def make_party(
    kinds: Mapping[str, AccountType],
    *,
    name: str | None,
    owner: str | None,
    ispb: str | None,
    branch: str | None,
    number: str | None,
    kind: str | None,
) -> Party | None:
    """Make the account of a request; ``None`` if a member was a violation."""
    if name is None or owner is None or ispb is None or branch is None or number is None or kind is None:
        return None
    return Party(account_number=number, account_type=kinds[kind], branch=branch, ispb=ispb, name=name, tax_id=owner)


async def probe(
    services: Services, member: str, url: str, headers: Sequence[tuple[str, str]], event: Mapping[str, str]
) -> None:
    """Post a test to the URL in ``member`` of a request; raises ``NamedRefusal`` unless the answer is 2xx."""
    exchange = await services.context.port(RECEIVERS).post(url, headers, msgspec.json.encode(event))
    if exchange.error is not None:
        raise NamedRefusal("PROBE", f"{member}: a URL não deu uma resposta inteira ({exchange.error})")
    if exchange.status_code is None or not 200 <= exchange.status_code <= 299:
        raise NamedRefusal("PROBE", f"{member}: a URL respondeu {exchange.status_code}")


class FaceOperation(Struct, frozen=True):
    id: str
    method: Method
    path: str
    scope: NeededScope | None
    """``None`` is public."""
    errors: str
    """The profile's group of refusals."""
    handler: FaceResponder
    known: Known
    differs: str = ""
    """The difference from the institution, and the reason."""
    members: Collection[str] | None = None
    """All permitted members of the body; ``None`` is not checked here."""
    listed: fault.ListTraits = fault.ListTraits()

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and "{" not in self.path


def list_standard_rows(profile: InstitutionProfile) -> tuple[FaceOperation, ...]:
    """List the standard's operations that the institution offers, by its profile."""
    traits = profile.standard.operations
    return tuple(_adapt(profile, row, traits[row.id]) for row in SPOKEN if row.id in traits)


def list_rows_of_profile(face: Face) -> tuple[FaceOperation, ...]:
    return list_standard_rows(face.profile)


def list_routes_of(face: Face, rows: Sequence[FaceOperation]) -> tuple[AnyOperation, ...]:
    token = Operation(
        f"{face.name}.token",
        "POST",
        face.prefix + face.profile.token.path,
        None,
        NONE,
        Anything,
        oauth.Grant,
        Bare[oauth.OAuthToken],
        partial(_answer_token, face),
        body_form="form or json",
        body_max=FORM_MAX,
        refusals=oauth.REFUSALS,
    )
    # As in the standard API, one slash at the end is optional.
    login = None if face.profile.token.path else AppIdLogin(face.profile.token.lifetime_s)
    routes = [_route(face, row, end, login) for row in rows for end in ("", "/")]
    return tuple(routes) if login else (token, *routes)


def _route(face: Face, row: FaceOperation, end: str, login: AppIdLogin | None) -> AnyOperation:
    return Operation(
        f"{face.name}.{row.id}",
        row.method,
        face.prefix + row.path + end,
        row.scope,
        NONE,
        Query,
        Nothing if row.method in ("GET", "DELETE") else Body,
        Reply,
        partial(_answer, face, row),
        refusals=make_face_form(face.profile, row.errors),
        reader=READER,
        login=login,
    )


async def _answer(face: Face, row: FaceOperation, services: Services, request: Asked) -> Reply | Document | Later:
    path = f"{face.prefix}{row.path}"
    interval = face.profile.interval if row.is_list else ()
    listed = structs.replace(row.listed, interval=interval) if interval else row.listed
    return await fault.answer(services, row.method, path, request, partial(_respond, face, row, services), listed)


async def _respond(face: Face, row: FaceOperation, services: Services, request: Asked) -> Reply | Document:
    if row.members is not None:
        unknown = [name for name in request.body.members or () if name not in row.members]
        if unknown:
            raise Violated(
                "body", [Violation(property=show_value(name)[:64], reason="não é um campo daqui") for name in unknown]
            )
    if row.method == "GET" and "interval" in face.profile.choices:
        _check_interval(request, face.choose(services, "interval"))
    answer = await row.handler(face, services, request)
    return answer if isinstance(answer, Reply | Document) else Reply(status=200, record=answer)


class _AnyInterval(Struct):
    inicio: Instante | None = None
    fim: Instante | None = None


def _check_interval(request: Asked, chosen: str) -> None:
    days, _, unit = chosen.partition("_")
    if unit != "days":
        return
    violations = Violations("consulta")
    parameters = request.query.under(_AnyInterval, violations)
    interval = read_interval(parameters)
    if interval.inicio and interval.fim and interval.fim - interval.inicio > timedelta(days=int(days)):
        parameters.refuse("fim", f"deve ser no máximo {days} dias depois de inicio")
    violations.raise_if_any()


def _adapt(profile: InstitutionProfile, row: StandardOperation, traits: OperationTraits) -> FaceOperation:
    respond = row.handler
    if traits.repeats == "refused":
        # For operations that make a resource under the caller's own name.
        respond = partial(cast("Callable[..., Awaitable[Reply]]", row.handler), is_new=True)
    if row.handler is webhook.put_webhook:
        respond = partial(webhook.put_webhook, profile=profile)

    async def answer(face: Face, services: Services, request: Asked) -> Reply:
        if traits.parameters:
            request = structs.replace(request, query=request.query.renaming(traits.parameters))
        for entity, _, name in (path.partition(".") for path in traits.requires):
            if request.body.require(entity).get(name) is None:
                raise Violated(entity, [Violation(property=f"{entity}.{name}", reason="é obrigatório")])
        reply = await respond(services, request)
        record = reshape(reply.record, traits.omits, traits.renames)
        return structs.replace(reply, status=traits.status or reply.status, record=record)

    members: Collection[str] | None = traits.members
    if members is None and profile.standard.unknown_members == "refused" and row.body is not Nothing:
        members = [field.encode_name for field in structs.fields(row.body)]
    return FaceOperation(
        row.id,
        row.method,
        traits.path or profile.standard.prefix + row.path,
        row.scope,
        traits.errors,
        answer,
        traits.known,
        traits.differs,
        members,
    )


async def _answer_token(
    face: Face, services: Services, request: Request[None, Anything, oauth.Grant]
) -> Bare[oauth.OAuthToken] | Document | Later:
    # First, since drawing a fault calls the sandbox: a flood of guesses is refused as cheaply as in the contract's API.
    services.of_features[TokenIssuer].refuse_limited(request.address)
    path = f"{face.prefix}{face.profile.token.path}"
    return await fault.answer_token(services, path, partial(_give_token, face, services, request))


async def _give_token(face: Face, services: Services, request: Request[None, Anything, oauth.Grant]) -> Bare[oauth.OAuthToken]:
    """Request the client's scopes under our names, and answer under the institution's.

    A scope without a name in the institution's interface is not granted here.
    """
    ours: Mapping[str, str] = face.profile.scopes
    words = (request.body.scope or "").split() or ours
    wanted = [ours[word] for word in words if word in ours]
    traits = face.profile.token
    token = await oauth.give_token(services, request, wanted, traits.lifetime_s, by_certificate=traits.by_certificate)
    scope = " ".join(word for word, own in ours.items() if own in token.scopes and word in words)
    return oauth.show_token(token, scope)


def open_faces(name: str) -> tuple[Face, Face]:
    """Open the face of an institution, and that of its test environment."""
    profile = read_profile(name)
    return Face(profile=profile), Face(profile=profile, is_homologation=True)


def instants_of(first: date, last: date) -> tuple[datetime, datetime]:
    """Return the first and the last instant of these days."""
    return datetime.combine(first, time(0), SAO_PAULO), datetime.combine(last, time.max, SAO_PAULO)


def parse_day(text: str | None) -> date | None:
    """Parse a date, AAAA-MM-DD; ``None`` if it is none."""
    try:
        day = None if text is None or not _DAY.fullmatch(text) else date.fromisoformat(text)
    except ValueError:
        return None
    # The first and last years have no midnights in every zone.
    return day if day is not None and date.min.year < day.year < date.max.year else None


def read_days(parameters: Parameters, values: Mapping[str, str]) -> tuple[date, date] | None:
    """Read ``dataInicio`` and ``dataFim``, at most 90 days apart; ``None`` after a violation."""
    days = {name: parse_day(values.get(name)) for name in DAYS}
    for name, day in days.items():
        if day is None:
            parameters.refuse(name, "deve ser um dia, AAAA-MM-DD" if name in values else "é obrigatório")
    first, last = days.values()
    if first is None or last is None:
        return None
    if not first <= last <= first + _SPAN_MAX:
        return parameters.refuse("dataFim", "não pode ser anterior a dataInicio, nem mais de 90 dias depois")
    return first, last


async def read_statement(
    services: Services, request: Asked, days: tuple[date, date], too_many: str
) -> tuple[Statement, list[StatementLine]]:
    """Return the statement of these days, and its lines, oldest first; ``too_many`` begins the error for too many days."""
    context = services.context
    statement = await statement_usecases.open_statement(context, request.caller, *instants_of(*days), language="pt")
    if statement.extent.lines_count > LINES_MAX:
        raise NamedRefusal("LINES", f"{too_many} mais de {LINES_MAX} linhas; peça menos dias")
    parts = statement_usecases.read_parts(context, statement)
    return statement, [line async for part in parts for line in part if not request.query.hides(line.created_at)]
