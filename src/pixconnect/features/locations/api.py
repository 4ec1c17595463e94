"""Payloads at locations, which payers' institutions read before they pay.

They are public: a token has at least 22 random characters, and only readers of the code have it.
"""

from typing import Final

import msgspec

from pixconnect.doors.api import rates
from pixconnect.doors.api.document import Document
from pixconnect.doors.api.operation import Anything, Door, Nothing, Operation, Request, Section, Services
from pixconnect.doors.api.routing import NONE, TXID
from pixconnect.features.identity.api import JWK_SET_TYPE
from pixconnect.features.identity.service.keyring import Keyring
from pixconnect.features.locations import service as payload_usecases
from pixconnect.features.locations.problem import GENERAL, Types, make_form

LOCATION_PATH: Final = "/v1/qr/"
"""Followed by the location's token, or the charge's txid. Short, because all share 77 characters of a QR code."""
LOCATION_KEY_SET_PATH: Final = "/v1/qr/jwks.json"  # on the same host as the payloads, as ``jku`` must be
JOSE_TYPE: Final = "application/jose"
REFUSALS: Final = make_form(Types(invalid=GENERAL.invalid, missing="CobPayloadNaoEncontrado"))


async def get_payload(services: Services, request: Request[str, Anything, Nothing]) -> Document:
    """Read the payload of a QR code.

    A compact JWS (ES256, header `alg kid jku typ x5t#S256`) over the Pix scheme's charge payload.
    """
    # Signed at each reading, because the payload has the charge's present state.
    path = request.parameter
    signed = await payload_usecases.read_payload(services.context, path)
    return Document(content=signed.encode(), media_type=JOSE_TYPE)


async def get_location_key_set(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the keys of QR code payloads.

    The JWK set that their `jku` names, with certificate chains.
    """
    keyring = services.of_features[Keyring]
    await keyring.reload_if_older()
    return Document(content=msgspec.json.encode(keyring.certified_key_set()), media_type=JWK_SET_TYPE)


# Each row keeps two lines, which the formatter would spread over nine.
# fmt: off
SECTIONS: Final = (
    Section(title="Charges", operations=(
        Operation("get_location", "GET", LOCATION_PATH + "{txid}", None,
            TXID, Anything, Nothing, Document, get_payload, media_types=(JOSE_TYPE,), refusals=REFUSALS, pace=rates.LOCATIONS),
        Operation("get_location_key_set", "GET", LOCATION_KEY_SET_PATH, None,
            NONE, Anything, Nothing, Document, get_location_key_set, media_types=(JWK_SET_TYPE,)),
    )),
)
# fmt: on
_RAW_PATH: Final = LOCATION_PATH.encode()
# A location of a kind that serves nothing yet is no path of the table; nor is another method of these.
DOORS: Final = (Door(find_form=lambda path: REFUSALS if path.startswith(_RAW_PATH) else None),)
