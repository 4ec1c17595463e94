"""Tokens in the API, and the keys that verify them.

The token endpoint of the standard (RFC 6749) and its description (RFC 8414) are for OAuth 2 libraries. It is the same login as
``request_token``, under the standard's rules: the client authenticates by HTTP Basic or in the body, the answer is bare, and a
refusal is one of the standard's errors.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal
from urllib.parse import unquote_plus

import msgspec
from msgspec import Meta, Struct

from pixconnect.doors.api import envelope
from pixconnect.doors.api.document import Document
from pixconnect.doors.api.envelope import Headers, Refused
from pixconnect.doors.api.operation import Anything, Bare, Nothing, RefusalForm, Request, Services
from pixconnect.features.identity.service.keyring import Keyring
from pixconnect.features.identity.service.token_issuer import ScopeNotGranted, TokenIssuer, TokenRequest
from pixconnect.kernel.rules.access import SCOPES
from pixconnect.kernel.rules.access import AccessToken as IssuedToken
from pixconnect.platform.base import errors

TOKEN_PATH: Final = "/oauth/token"  # noqa: S105  a path
METADATA_PATH: Final = "/.well-known/oauth-authorization-server"

# In octets: client_id and secret have 107 characters, each of which may be percent-encoded.
_BASIC_MAX: Final = 1024
_BASIC: Final = re.compile(rb"[Bb][Aa][Ss][Ii][Cc] +([A-Za-z0-9+/]+=*)")
_NOT_IN_DESCRIPTIONS: Final = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")  # RFC 6749, 5.2: neither quotes nor a backslash


class Grant(Struct, frozen=True, kw_only=True):
    """A token request by client credentials (RFC 6749, 4.4.2); fields that are not named here are ignored."""

    grant_type: str
    """`client_credentials`."""
    client_id: str | None = None
    """Given to you at onboarding; here, or by HTTP Basic."""
    client_secret: Annotated[str | None, Meta(extra_json_schema=dict(format="password"))] = None
    """Given to you at onboarding; here, or by HTTP Basic."""
    scope: str | None = None
    """Scopes, separated by spaces: those of them that the client has are granted; all of them if left out."""


class OAuthToken(Struct, frozen=True, kw_only=True):
    """A token to call the API with (RFC 6749, 5.1)."""

    access_token: str
    """A JWT (ES256); send it as `Authorization: Bearer <access_token>`."""
    token_type: Literal["Bearer"]
    """The scheme to send it with."""
    expires_in: Annotated[int, Meta(examples=[300])]
    """Seconds until it expires."""
    scope: Annotated[str, Meta(examples=["charge.read charge.write"])]
    """Its scopes, separated by spaces."""


class OAuthError(Struct, frozen=True, kw_only=True):
    """Why there is no token (RFC 6749, 5.2)."""

    error: str
    """For programs: `invalid_request`, `invalid_client`, `unsupported_grant_type`, `invalid_scope`, or our additions
    `temporarily_unavailable`, `server_error`."""
    error_description: str
    """For developers."""


class ServerMetadata(Struct, frozen=True, kw_only=True):
    """Metadata of this server for OAuth 2 libraries (RFC 8414)."""

    issuer: str
    """As `iss` in tokens."""
    token_endpoint: str
    """The address of the token endpoint."""
    jwks_uri: str
    """The keys that verify tokens."""
    scopes_supported: list[str]
    """All scopes that there are."""
    response_types_supported: list[str]
    """`none`: there is no page on which a person signs in."""
    grant_types_supported: list[str]
    """`client_credentials`."""
    token_endpoint_auth_methods_supported: list[str]
    """How a client may name itself."""
    tls_client_certificate_bound_access_tokens: bool
    """Whether tokens of clients with a certificate are bound to it (RFC 8705, 3.3): where the service has a port for them."""
    service_documentation: str
    """The documentation for people."""


class GrantNotSupported(errors.BadRequest):
    """The request uses another grant than client credentials."""


class ClientNotNamed(errors.Unauthorized):
    """The request does not identify its client, or has no secret."""


async def request_oauth_token(services: Services, request: Request[None, Anything, Grant]) -> Bare[OAuthToken]:
    """Get an access token, as OAuth 2 libraries do.

    Name the client by HTTP Basic, or by `client_id` and `client_secret` in the body, which is a form or JSON. Answers and
    errors have the form of RFC 6749: no envelope. `scope` in the answer lists the granted scopes.
    """
    token = await give_token(services, request, tuple((request.body.scope or "").split()) or None)
    return show_token(token, " ".join(token.scopes))


async def give_token(
    services: Services,
    request: Request[None, Anything, Grant],
    scopes: Sequence[str] | None,
    lifetime_s: int | None = None,
    *,
    by_certificate: bool = False,
) -> IssuedToken:
    """Log in a client by the standard's rules.

    Args:
        by_certificate: One of our certificates that names the client suffices (RFC 8705, 2.1).
    """
    named = request.body.client_id if request.body.client_secret is None else None
    is_certified = by_certificate and named is not None and named == request.certified_name
    if is_certified and b"authorization" not in request.headers:
        client_id, client_secret = named or "", ""
    else:
        is_certified = False
        client_id, client_secret = _read_credentials(request.headers, request.body)
    if request.body.grant_type != "client_credentials":
        raise GrantNotSupported("grant_type: must be client_credentials")
    return await services.of_features[TokenIssuer].login(
        TokenRequest(
            client_id=client_id,
            client_secret=client_secret,
            address=request.address,
            certificate=request.certificate,
            scopes=scopes,
            lifetime_s=lifetime_s,
            is_certified=is_certified,
        )
    )


def show_token(token: IssuedToken, scope: str) -> Bare[OAuthToken]:
    return Bare(
        OAuthToken(
            access_token=token.access_token,
            token_type="Bearer",  # noqa: S106  a scheme
            expires_in=token.expires_in_s,
            scope=scope,
        )
    )


async def get_server_metadata(services: Services, request: Request[None, Anything, Nothing]) -> Bare[ServerMetadata]:
    """Read how to get a token, for OAuth 2 libraries."""
    issuer = services.context.policy.auth_url
    return Bare(
        ServerMetadata(
            issuer=issuer,
            token_endpoint=issuer + TOKEN_PATH,
            jwks_uri=f"{issuer}/.well-known/jwks.json",
            scopes_supported=sorted(SCOPES),
            response_types_supported=["none"],  # required by the standard, and libraries refuse an empty list
            grant_types_supported=["client_credentials"],
            token_endpoint_auth_methods_supported=["client_secret_basic", "client_secret_post"],
            tls_client_certificate_bound_access_tokens=services.binds_tokens,
            service_documentation=f"{services.base_url}/docs",
        )
    )


def _refuse(error: errors.PixConnectError, request_id: str, now: datetime) -> Refused:
    headers: Headers = envelope.error_headers(error)
    match error:
        case ScopeNotGranted():
            code = "invalid_scope"
        case GrantNotSupported():
            code = "unsupported_grant_type"
        case errors.Unauthorized():
            # The standard requires the scheme of client authentication, not that of tokens.
            code, headers = "invalid_client", [(b"www-authenticate", b'Basic realm="pixconnect", charset="UTF-8"')]
        case errors.InternalError() | errors.OutcomeUnknown():
            code = "server_error"
        case errors.RateLimited() | errors.ServiceUnavailable():
            code = "temporarily_unavailable"
        case _:
            code = "invalid_request"
    description = _NOT_IN_DESCRIPTIONS.sub("'", error.message)
    content = msgspec.json.encode(OAuthError(error=code, error_description=description))
    return Refused(status=envelope.find_status(error.code), content=content, headers=headers)


REFUSALS: Final = RefusalForm(write=_refuse, record=OAuthError)


def _read_credentials(headers: Mapping[bytes, bytes], grant: Grant) -> tuple[str, str]:
    authorization = headers.get(b"authorization")
    if authorization is None:
        if not grant.client_id or not grant.client_secret:
            missing = "client_secret" if grant.client_id else "client_id"
            raise ClientNotNamed(f"{missing}: missing; send it in the body, or by HTTP Basic")
        return grant.client_id, grant.client_secret
    client_id, client_secret = _read_basic(authorization)
    # RFC 6749, 2.3, permits one method in a request. Some banks' libraries use both: that is harmless while they agree.
    if grant.client_id not in (None, client_id) or grant.client_secret not in (None, client_secret):
        raise errors.BadRequest("Authorization: HTTP Basic and the body name different clients")
    return client_id, client_secret


def _read_basic(authorization: bytes) -> tuple[str, str]:
    found = _BASIC.fullmatch(authorization) if len(authorization) <= _BASIC_MAX else None
    client_id, client_secret = decode_credentials(found[1]) if found else ("", "")
    if not client_id or not client_secret:
        raise ClientNotNamed("Authorization: must be 'Basic', a space and base64 of client_id:client_secret")
    # RFC 6749, 2.3.1: both are form-encoded before they are joined.
    return unquote_plus(client_id), unquote_plus(client_secret)


def decode_credentials(encoded: bytes) -> tuple[str, str]:
    """Read the base64 of ``client_id:client_secret``; empty texts if it is something else."""
    try:
        client_id, _, client_secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return client_id, client_secret


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
