"""The addresses that the QR codes of charges name: any payer's institution reads the payload there before it pays.

They are public: a token is at least 22 random characters, and whoever has it has seen the code.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pixconnect.api.frame.access import JWK_SET_TYPE
from pixconnect.api.frame.operation import Anything, Document, Nothing, Request
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.problem import GENERAL, Types, make_form
from pixconnect.usecases.standard import payload as payload_usecases

LOCATION_PATH: Final = "/v1/qr/"
"""Followed by the location's token, or the charge's txid. Short, because all share 77 characters of a QR code."""
LOCATION_KEY_SET_PATH: Final = "/v1/qr/jwks.json"
"""On the same host as the payloads, as ``jku`` must be."""
PACE_S: Final = 0.02
"""Each reading looks into the tables and signs, for anybody: a flood from one address gets 50 a second in each process."""
JOSE_TYPE: Final = "application/jose"
REFUSALS: Final = make_form(Types(invalid=GENERAL.invalid, missing="CobPayloadNaoEncontrado"))
"""As the central bank's API has them: whoever reads here speaks that, whichever door made the charge."""


async def get_payload(services: Services, request: Request[str, Anything, Nothing]) -> Document:
    """Read the payload of a QR code.

    A compact JWS (ES256, header `alg kid jku typ x5t#S256`) over the Pix scheme's charge payload.
    """
    # Signed anew at each reading, because the payload says how the charge stands now.
    signed = await payload_usecases.read_payload(services.context, request.parameter)
    return Document(content=signed.encode(), media_type=JOSE_TYPE)


async def get_location_key_set(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the keys of QR code payloads.

    The JWK set that their `jku` names, with certificate chains.
    """
    await services.keyring.reload_if_older()
    return Document(content=msgspec.json.encode(services.keyring.certified_key_set()), media_type=JWK_SET_TYPE)
