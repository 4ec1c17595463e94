"""The caller and its address; and the identity service on the wire: tokens, and the keys that verify them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from pixconnect.doors.api.document import Document
from pixconnect.doors.api.operation import Anything, Nothing, Request, Services, Verifier
from pixconnect.features.identity.service.keyring import Keyring
from pixconnect.features.identity.service.token_issuer import TokenIssuer, TokenRequest
from pixconnect.kernel.rules.access import Caller, Network, check_certificate, client_address, sender_address


async def authenticate(verifier: Verifier, headers: Mapping[bytes, bytes], certificate: str | None) -> Caller:
    """The caller of a request; raises the errors of its ``verify``.

    Args:
        certificate: The thumbprint of the connection's client certificate.
    """
    # Two Authorization headers come joined with a comma, which no token contains: they are always malformed.
    authorization = headers.get(b"authorization")
    # Most tokens were verified a moment ago, and are answered from memory.
    caller = verifier.recall(authorization) if authorization is not None else None
    if caller is None:
        caller = await verifier.verify(authorization)
    # Not part of the cached result: the same token may come by two connections.
    check_certificate(caller, certificate)
    return caller


_REMEMBERED_LENGTH_MAX: Final = 64
_remember_address = lru_cache(1024)(client_address)
_remember_sender = lru_cache(1024)(sender_address)


def read_address(headers: Mapping[bytes, bytes], peer: str, trusted_proxies: tuple[Network, ...]) -> str:
    """The address that a request comes from: behind a proxy that is trusted, the one that the proxy names."""
    forwarded_for = headers.get(b"x-forwarded-for", b"").decode("latin-1") if trusted_proxies else ""
    # Reading an address takes as long as reading a small body, and the same ones come again and again.
    find = _remember_address if len(forwarded_for) <= _REMEMBERED_LENGTH_MAX else client_address
    return find(peer, forwarded_for, trusted_proxies)


def read_sender(headers: Mapping[bytes, bytes], peer: str, trusted_proxies: tuple[Network, ...]) -> str:
    """The caller's address for the record of requests: the whole IPv6 address."""
    if not trusted_proxies:
        return peer
    forwarded_for = headers.get(b"x-forwarded-for", b"").decode("latin-1")
    find = _remember_sender if len(forwarded_for) <= _REMEMBERED_LENGTH_MAX else sender_address
    return find(peer, forwarded_for, trusted_proxies)


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
    """Its use."""


class CurrentKey(PublishedKey, frozen=True, kw_only=True):
    """The present signing key, and all keys needed to verify earlier signatures."""

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
    token = await services.of_features[TokenIssuer].login(wanted)
    return AccessToken(access_token=token.access_token, expires_in=token.expires_in_s, token_type="Bearer")  # noqa: S106


async def get_public_key(services: Services, request: Request[None, Anything, Nothing]) -> CurrentKey:
    """Read the public key.

    It verifies tokens, `X-Webhook-Signature-JWS` and QR code payloads. Keys are replaced without notice: look for the `kid` in
    `keys`, and read them again if it is missing.
    """
    # Another process may have made a key since: it must be published here before it signs.
    keyring = services.of_features[Keyring]
    await keyring.reload_if_older()
    return msgspec.convert(keyring.public_key_document(), CurrentKey)


async def get_key_set(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read the published keys.

    The same keys as a bare JWK set (RFC 7517), for libraries.
    """
    keyring = services.of_features[Keyring]
    await keyring.reload_if_older()
    return Document(content=msgspec.json.encode(keyring.key_set()), media_type=JWK_SET_TYPE)
