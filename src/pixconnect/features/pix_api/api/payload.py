"""The locations of charges' QR codes: any payer's institution reads the payload there before it pays.

They are public: a token has at least 22 random characters, and only readers of the code have it.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from pixconnect.doors.api.document import Document
from pixconnect.doors.api.operation import Anything, Nothing, Request, Services
from pixconnect.features.identity.api import JWK_SET_TYPE
from pixconnect.features.identity.service.keyring import Keyring
from pixconnect.features.pix_api.api.frame import Asked
from pixconnect.features.pix_api.api.problem import GENERAL, Types, make_form
from pixconnect.features.pix_api.api.violations import Violations
from pixconnect.features.pix_api.service import payload as payload_usecases
from pixconnect.kernel.rules import tax_id
from pixconnect.kernel.rules.location import WITH_DUE_DATE

LOCATION_PATH: Final = "/v1/qr/"
"""Followed by the location's token, or the charge's txid. Short, because all share 77 characters of a QR code."""
LOCATION_KEY_SET_PATH: Final = "/v1/qr/jwks.json"
"""On the same host as the payloads, as ``jku`` must be."""
JOSE_TYPE: Final = "application/jose"
DUE_PATH: Final = f"{WITH_DUE_DATE}/"
"""Inserted before the token of a charge with a due date."""
REFUSALS: Final = make_form(Types(invalid=GENERAL.invalid, missing="CobPayloadNaoEncontrado"))
DUE_REFUSALS: Final = make_form(Types(invalid="CobPayloadOperacaoInvalida", missing="CobPayloadNaoEncontrado"))
_ANYTHING: Final = re.compile(".*", re.DOTALL)
"""As in the central bank's API: payers' institutions use that, for charges of any API."""


async def get_payload(services: Services, request: Request[str, Anything, Nothing]) -> Document:
    """Read the payload of a QR code.

    A compact JWS (ES256, header `alg kid jku typ x5t#S256`) over the Pix scheme's charge payload.
    """
    # Signed at each reading, because the payload has the charge's present state.
    path = request.parameter
    signed = await payload_usecases.read_payload(services.context, path)
    return Document(content=signed.encode(), media_type=JOSE_TYPE)


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


async def get_location_key_set(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the keys of QR code payloads.

    The JWK set that their `jku` names, with certificate chains.
    """
    keyring = services.of_features[Keyring]
    await keyring.reload_if_older()
    return Document(content=msgspec.json.encode(keyring.certified_key_set()), media_type=JWK_SET_TYPE)
