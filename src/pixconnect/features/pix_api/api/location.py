"""Locations (``loc``) in the standard API, and the payloads of charges with a due date."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, field

from pixconnect.doors.api import rates
from pixconnect.doors.api.document import Document
from pixconnect.doors.api.operation import Nothing, Operation, Reply, Request, Services
from pixconnect.doors.api.routing import TOKEN
from pixconnect.features.locations import service as payload_usecases
from pixconnect.features.locations.api import JOSE_TYPE, LOCATION_PATH
from pixconnect.features.locations.problem import Types, make_form
from pixconnect.features.pix_api.api import frame
from pixconnect.features.pix_api.api.frame import PREFIXES, READER, Asked, Parametros, PeriodQuery
from pixconnect.features.pix_api.api.violations import Violations
from pixconnect.features.pix_api.service import location as location_usecases
from pixconnect.features.pix_api.service.pix import Instante
from pixconnect.kernel.rules import tax_id
from pixconnect.kernel.rules.br_code import LOCATION_LENGTH_MAX
from pixconnect.kernel.rules.location import WITH_DUE_DATE, Location
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_milliseconds

ENTITY: Final = "loc"
TipoCob = Literal["cob", "cobv"]
KINDS: Final[Sequence[TipoCob]] = ("cob", "cobv")
LocationId = Annotated[int, Meta(ge=1, le=2**53 - 1)]
_ID: Final = re.compile(r"[1-9][0-9]{0,15}")
_ID_MAX: Final = 2**53 - 1


class PayloadLocationSolicitada(Struct, frozen=True, kw_only=True, rename="camel"):
    """Uma location a criar."""

    tipo_cob: TipoCob
    """Cobrança imediata ou com vencimento."""


class PayloadLocation(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O endereço a que um QR Code leva."""

    id: LocationId
    """O identificador da location."""
    location: Annotated[str, Meta(max_length=LOCATION_LENGTH_MAX)]
    """O endereço, sem `https://`."""
    tipo_cob: TipoCob
    """Cobrança imediata ou com vencimento; nunca muda."""
    criacao: Instante
    """Quando foi criada."""
    txid: str | None = None
    """A cobrança a que leva; ausente se está livre."""


class LocListQuery(PeriodQuery, frozen=True, kw_only=True, rename="camel"):
    """De quando, quais e qual página."""

    tx_id_presente: bool | None = None
    """Só as que levam a uma cobrança, ou só as livres."""
    tipo_cob: TipoCob | None = None
    """Só as deste tipo."""


class ParametrosLoc(Parametros, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """O que foi pedido, e a página."""

    tx_id_presente: bool | None = None
    tipo_cob: TipoCob | None = None


class PayloadLocationConsultadas(Struct, frozen=True, kw_only=True):
    """Uma página de locations."""

    parametros: ParametrosLoc
    """O que foi pedido."""
    loc: Sequence[PayloadLocation]
    """As locations, da mais nova à mais antiga."""


async def create_location(services: Services, request: Asked) -> Reply:
    """Cria uma location.

    Ela fica livre até que uma cobrança a nomeie em `loc.id`.
    """
    # The standard names this member alone, without its entity.
    body = request.body.under(PayloadLocationSolicitada, ENTITY, "")
    kind = body.choice("tipoCob")
    body.raise_if_any()
    location = await location_usecases.create_location(services.context, request.caller, "cobv" if kind == "cobv" else "cob")
    address = f"{services.base_url}{PREFIXES[0]}/loc/{location.id}"
    return Reply(status=201, record=show(services, location, None), headers=[(b"location", address.encode())])


async def get_location(services: Services, request: Asked) -> Reply:
    """Consulta uma location."""
    shown = await location_usecases.read_location(services.context, request.caller, read_id(request))
    return Reply(status=200, record=show(services, *shown))


async def list_locations(services: Services, request: Asked) -> Reply:
    """Lista locations.

    As de cobranças feitas pela API própria deste serviço aparecem depois que esta API as mostrou uma vez.
    """
    parameters = request.query.under(LocListQuery, ENTITY)
    interval = frame.read_interval(parameters)
    is_bound = parameters.boolean("txIdPresente")
    kind = parameters.choice("tipoCob", KINDS)
    asked = frame.read_page(parameters)
    parameters.raise_if_any()
    page = await location_usecases.list_locations(
        services.context, request.caller, kind, frame.make_span(interval, asked), is_bound=is_bound
    )
    shown = PayloadLocationConsultadas(
        parametros=frame.describe(interval, asked, page.total_count, ParametrosLoc, tx_id_presente=is_bound, tipo_cob=kind),
        loc=[show(services, *item) for item in page.items],
    )
    return Reply(status=200, record=shown)


async def unbind_location(services: Services, request: Asked) -> Reply:
    """Tira a cobrança de uma location.

    A cobrança fica sem código e não pode ser paga até que tenha outra location. Uma location livre fica como está.
    """
    location = await location_usecases.unbind_location(services.context, request.caller, read_id(request))
    return Reply(status=200, record=show(services, location, None))


def show(services: Services, location: Location, txid: str | None) -> PayloadLocation:
    return PayloadLocation(
        id=location.id,
        location=services.context.policy.location_prefix + location.path,
        tipo_cob=location.kind,
        criacao=format_milliseconds(location.created_at),
        txid=txid,
    )


def read_id(request: Asked) -> int:
    # Any other form matches nothing.
    text = request.parameter[0]
    if not _ID.fullmatch(text) or int(text) > _ID_MAX:
        raise errors.NotFound("id: there is no such location")
    return int(text)


DUE_PATH: Final = f"{WITH_DUE_DATE}/"  # inserted before the token of a charge with a due date
_DUE_REFUSALS: Final = make_form(Types(invalid="CobPayloadOperacaoInvalida", missing="CobPayloadNaoEncontrado"))
_ANYTHING: Final = re.compile(".*", re.DOTALL)
"""As in the central bank's API: payers' institutions use that, for charges of any API."""


class DuePayloadQuery(Struct, frozen=True, kw_only=True):
    """For which day."""

    cod_mun: Annotated[str, Meta(pattern=r"^[0-9]{7}$")] | None = field(default=None, name="codMun")
    """The payer's municipality, by its code of IBGE; local holidays are not considered."""
    day: Annotated[str, Meta(extra_json_schema=dict(format="date"))] | None = field(default=None, name="DPP")
    """The day on which the payer means to pay, in Sao Paulo; today if absent."""


async def get_due_payload(services: Services, request: Request[Any, Any, Any]) -> Document:
    """Read the payload of a QR code with a due date, with the amount of a day.

    As `get_location`; with the additions and deductions of that day.
    """
    # Read as in that API, so that one answer has all errors.
    asked: Asked = request
    path, violations = DUE_PATH + asked.parameter[0], Violations(WITH_DUE_DATE)
    parameters = asked.query.under(DuePayloadQuery, violations)
    municipality, day = parameters.text("codMun", _ANYTHING), parameters.day("DPP")
    if municipality is not None and not tax_id.is_municipality(municipality):
        parameters.refuse("codMun", "deve ser o código IBGE de um município, com 7 dígitos")
    if violations.rows:
        await payload_usecases.check_served(services.context, path)
    violations.raise_if_any()
    signed = await payload_usecases.read_payload(services.context, path, day)
    return Document(content=signed.encode(), media_type=JOSE_TYPE)


# For payers' institutions, as the standard says: the page about that door describes it.
# fmt: off
DUE_PAYLOADS: Final = (
    Operation("get_due_location", "GET", LOCATION_PATH + DUE_PATH + "{token}", None,
        TOKEN, DuePayloadQuery, Nothing, Document, get_due_payload, media_types=(JOSE_TYPE,),
        refusals=_DUE_REFUSALS, pace=rates.LOCATIONS, reader=READER),
)
# fmt: on
