"""Callers of institutions that give no tokens: each request carries the client's credentials, as one text."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

from pixconnect.api.frame.authentication import authenticate
from pixconnect.api.frame.services import Services
from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.foundation.bounded_cache import BoundedCache
from pixconnect.usecases.identity.token_issuer import TokenRequest

_APP_ID: Final = re.compile(rb"[A-Za-z0-9+/]{4,512}={0,2}")
_KEPT_MAX: Final = 1024


class AppIdLogin:
    """Lets a client in by its AppID: we get it a token, keep that, and verify it each time as any other.

    So a client that is disabled is refused within a second here too.
    """

    def __init__(self, lifetime_s: int) -> None:
        self._lifetime_s = lifetime_s
        self._tokens = BoundedCache[bytes, bytes](_KEPT_MAX)

    async def authenticate(
        self, services: Services, headers: Mapping[bytes, bytes], address: str, certificate: str | None
    ) -> Caller:
        app_id = headers.get(b"authorization", b"")
        client_id, client_secret = _read(app_id)
        known = self._tokens.get(app_id)
        if known is not None:
            try:
                return await authenticate(services.verifier, {b"authorization": known}, certificate)
            except errors.Unauthorized:
                # It has ended; whether the credentials are still good the next one tells.
                self._tokens.pop(app_id, None)
        token = await services.token_issuer.login(
            TokenRequest(
                client_id=client_id,
                client_secret=client_secret,
                grant_type="client_credentials",
                address=address,
                certificate=certificate,
                scopes=None,
                lifetime_s=self._lifetime_s,
                is_every_request=True,
            )
        )
        given = f"Bearer {token.access_token}".encode()
        self._tokens.keep(app_id, given)
        return await authenticate(services.verifier, {b"authorization": given}, certificate)


def _read(app_id: bytes) -> tuple[str, str]:
    try:
        text = base64.b64decode(app_id, validate=True).decode() if _APP_ID.fullmatch(app_id) else ""
    except (binascii.Error, UnicodeDecodeError):
        text = ""
    client_id, _, client_secret = text.partition(":")
    if not client_id or not client_secret:
        raise errors.Unauthorized("Authorization: must be an AppID")
    return client_id, client_secret
