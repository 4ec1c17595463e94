"""The identity service on the wire: tokens, and the keys that verify them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from pixconnect.api.operation import Anything, Document, Nothing, Request
from pixconnect.api.services import Services
from pixconnect.domain.access import client_address
from pixconnect.usecases import access as access_usecases

JWK_SET_TYPE = "application/jwk-set+json"


class TokenForm(Struct, frozen=True, kw_only=True):
    """A token request (RFC 6749, 4.4).

    Attributes:
        client_id: Given to you at onboarding.
        client_secret: Given to you at onboarding.
        grant_type: `client_credentials`.
    """

    client_id: str
    client_secret: Annotated[str, Meta(extra_json_schema={"format": "password"})]
    grant_type: Literal["client_credentials"]


class AccessToken(Struct, frozen=True, kw_only=True):
    """A token to call the API with.

    Attributes:
        access_token: A JWT (ES256); send it as `Authorization: Bearer <access_token>`.
        expires_in: Seconds for which it is good.
        token_type: How to send it.
    """

    access_token: str
    expires_in: Annotated[int, Meta(examples=[300])]
    token_type: Literal["Bearer"]


class PublishedKey(Struct, frozen=True, kw_only=True):
    """A public key as a JWK (RFC 7517).

    Attributes:
        kid: Its name, as in the headers of what it signed.
        kty: Its family.
        crv: Its curve.
        x: Of the point.
        y: Of the point.
        alg: The algorithm.
        use: What for.
    """

    kid: str
    kty: Literal["EC"]
    crv: Literal["P-256"]
    x: str
    y: str
    alg: Literal["ES256"]
    use: Literal["sig"]


class CurrentKey(PublishedKey, frozen=True, kw_only=True):
    """The key that signs now, and all that are needed to verify what was signed before.

    Attributes:
        pem: The same key as PEM.
        keys: Every key still needed to verify something, this one included.
    """

    pem: str
    keys: list[PublishedKey]


async def request_token(services: Services, request: Request[None, Anything, TokenForm]) -> AccessToken:
    """Get an access token.

    Missing credentials and another `grant_type` are BAD_REQUEST; an unknown client and a wrong secret are UNAUTHORIZED, with
    one message for both. After ten failures a minute of one address or client: RATE_LIMITED.
    """
    forwarded_for = request.headers.get(b"x-forwarded-for", b"").decode("latin-1")
    wanted = access_usecases.TokenRequest(
        client_id=request.body.client_id,
        client_secret=request.body.client_secret,
        grant_type=request.body.grant_type,
        address=client_address(request.peer, forwarded_for, services.trusted_proxies),
    )
    token = await services.token_desk.login(wanted)
    return AccessToken(access_token=token.access_token, expires_in=token.expires_in_s, token_type="Bearer")  # noqa: S106


async def get_public_key(services: Services, request: Request[None, Anything, Nothing]) -> CurrentKey:
    """Read the public key.

    It verifies tokens, `X-Webhook-Signature-JWS` and QR code payloads. Keys are replaced without notice: look for the `kid`
    in `keys`, and read them again when it is not there.
    """
    await services.keyring.reload_if_older()
    return msgspec.convert(services.keyring.public_key_document(), CurrentKey)


async def get_key_set(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the published keys.

    The same keys as a bare JWK set (RFC 7517), for libraries.
    """
    await services.keyring.reload_if_older()
    return Document(content=msgspec.json.encode(services.keyring.key_set()), media_type=JWK_SET_TYPE)
