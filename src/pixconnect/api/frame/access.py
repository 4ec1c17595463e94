"""The identity service on the wire: tokens, and the keys that verify them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from pixconnect.api.frame.document import Document
from pixconnect.api.frame.operation import Anything, Nothing, Request
from pixconnect.api.frame.services import Services
from pixconnect.usecases.identity.token_issuer import TokenRequest

JWK_SET_TYPE = "application/jwk-set+json"


class TokenForm(Struct, frozen=True, kw_only=True):
    """A token request (RFC 6749, 4.4)."""

    client_id: str
    """Given to you at onboarding."""
    client_secret: Annotated[str, Meta(extra_json_schema=dict(format="password"))]
    """Given to you at onboarding."""
    grant_type: Literal["client_credentials"]
    """`client_credentials`."""


class AccessToken(Struct, frozen=True, kw_only=True):
    """A token to call the API with."""

    access_token: str
    """A JWT (ES256); send it as `Authorization: Bearer <access_token>`."""
    expires_in: Annotated[int, Meta(examples=[300])]
    """Seconds until it expires."""
    token_type: Literal["Bearer"]
    """The scheme to send it with."""


class PublishedKey(Struct, frozen=True, kw_only=True):
    """A public key as a JWK (RFC 7517)."""

    kid: str
    """The key's name, as in the headers of its signatures."""
    kty: Literal["EC"]
    """The key's family."""
    crv: Literal["P-256"]
    """The key's curve."""
    x: str
    """The point's x, base64url."""
    y: str
    """The point's y, base64url."""
    alg: Literal["ES256"]
    """The algorithm it signs with."""
    use: Literal["sig"]
    """What it is used for."""


class CurrentKey(PublishedKey, frozen=True, kw_only=True):
    """The key that signs now, and all that are needed to verify what was signed before."""

    pem: str
    """The same key as PEM."""
    keys: list[PublishedKey]
    """Every key still needed to verify something, this one included."""


async def request_token(services: Services, request: Request[None, Anything, TokenForm]) -> AccessToken:
    """Get an access token.

    Missing credentials and another `grant_type` are BAD_REQUEST; an unknown client and a wrong secret are UNAUTHORIZED, with
    one message for both. After ten failures a minute of one address or client: RATE_LIMITED.
    """
    wanted = TokenRequest(
        client_id=request.body.client_id,
        client_secret=request.body.client_secret,
        grant_type=request.body.grant_type,
        address=request.address,
        certificate=request.certificate,
    )
    token = await services.token_issuer.login(wanted)
    return AccessToken(access_token=token.access_token, expires_in=token.expires_in_s, token_type="Bearer")  # noqa: S106


async def get_public_key(services: Services, request: Request[None, Anything, Nothing]) -> CurrentKey:
    """Read the public key.

    It verifies tokens, `X-Webhook-Signature-JWS` and QR code payloads. Keys are replaced without notice: look for the `kid`
    in `keys`, and read them again when it is not there.
    """
    # Another process may have made a key since: it must be published here before it signs.
    await services.keys.reload_if_older()
    return msgspec.convert(services.keys.public_key_document(), CurrentKey)


async def get_key_set(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the published keys.

    The same keys as a bare JWK set (RFC 7517), for libraries.
    """
    await services.keys.reload_if_older()
    return Document(content=msgspec.json.encode(services.keys.key_set()), media_type=JWK_SET_TYPE)
