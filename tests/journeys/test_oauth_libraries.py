"""An independent OAuth 2 library logs in by the service's metadata."""

from typing import Any

import httpx2
import pytest
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from joserfc import jwt
from joserfc.jwk import KeySet

from support.installation import Installation

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("programs")]


def open_client(service: Installation, **changes: Any) -> OAuth2Client:
    credentials = {name: service.sandbox[name] for name in ("client_id", "client_secret")}
    return OAuth2Client(**(credentials | changes), timeout=60)


def read_metadata(service: Installation) -> AuthorizationServerMetadata:
    address = f"{service.sandbox['auth_url']}/.well-known/oauth-authorization-server"
    return AuthorizationServerMetadata(httpx2.get(address, timeout=60).json())


def test_the_metadata_are_as_the_standard_says(service: Installation) -> None:
    metadata = read_metadata(service)
    # It is plain http here, which the standard forbids elsewhere; the rest is checked.
    for name in metadata.REGISTRY_KEYS:
        if name not in {"issuer", "authorization_endpoint", "token_endpoint", "jwks_uri", "service_documentation"}:
            getattr(metadata, f"validate_{name}")()


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_library_logs_in_and_calls(service: Installation, method: str) -> None:
    metadata = read_metadata(service)
    with open_client(service, token_endpoint_auth_method=method, scope="ledger.read") as client:
        token = client.fetch_token(metadata["token_endpoint"])
        assert (token["token_type"], token["scope"]) == ("Bearer", "ledger.read")
        answer = client.get(f"{service.base_url}/v1/connect/balance")
        assert answer.status_code == 200, answer.text
        # The token has only the requested scope.
        assert client.get(f"{service.base_url}/v1/connect/charge/list").status_code == 403
        keys = KeySet.import_key_set(httpx2.get(metadata["jwks_uri"], timeout=60).json())
        assert jwt.decode(token["access_token"], keys).claims["iss"] == metadata["issuer"]


def test_a_wrong_secret_is_an_error_that_the_library_knows(service: Installation) -> None:
    with open_client(service, client_secret="wrong") as client, pytest.raises(OAuthError, match="invalid_client"):
        client.fetch_token(read_metadata(service)["token_endpoint"])
