"""The OAuth 2 token endpoint over HTTP: forms of authentication, and errors."""

import base64
import json
from typing import Any
from urllib.parse import quote_plus, urlencode

import msgspec
import pytest

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Services
from pixconnect.features.identity import api as oauth
from pixconnect.features.identity.service.token_issuer import ScopeNotGranted
from pixconnect.kernel.rules.access import SCOPES, AccessToken
from pixconnect.platform.base import errors
from pixconnect.platform.logging import AccessLog
from support.api import Api, UseCases

FORM = "application/x-www-form-urlencoded"
GRANT = {"grant_type": "client_credentials"}
CREDENTIALS = {"client_id": "shop", "client_secret": "s:c+r/t"}
TOKEN = AccessToken(access_token="a.b.c", expires_in_s=300, scopes=("charge.read", "charge.write"))


def basic(client_id: str, client_secret: str, scheme: str = "Basic") -> dict[str, str]:
    named = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
    return {"authorization": f"{scheme} {base64.b64encode(named.encode()).decode()}"}


@pytest.fixture(autouse=True)
def login(use_cases: UseCases) -> None:
    use_cases.answers["login"] = lambda *_: TOKEN


async def ask(api: Api, body: dict[str, str], *, headers: dict[str, str] | None = None, content_type: str = FORM) -> Any:
    content = json.dumps(body) if content_type.startswith("application/json") else urlencode(body)
    return await api.call("POST", oauth.TOKEN_PATH, content.encode(), token=None, headers=headers, content_type=content_type)


@pytest.mark.parametrize("content_type", [FORM, "application/json", "application/json; charset=utf-8"])
@pytest.mark.parametrize("scheme", ["body", "Basic", "basic", "BASIC"])
async def test_the_answer_is_bare_either_way(api: Api, use_cases: UseCases, scheme: str, content_type: str) -> None:
    body, headers = (GRANT | CREDENTIALS, None) if scheme == "body" else (GRANT, basic("shop", "s:c+r/t", scheme))
    answer = await ask(api, body, headers=headers, content_type=content_type)
    assert answer.status == 200
    told = {"access_token": "a.b.c", "token_type": "Bearer", "expires_in": 300, "scope": "charge.read charge.write"}
    assert answer.body == told
    assert answer.headers["cache-control"] == "no-store"
    wanted = use_cases.asked[-1][1][0]
    assert (wanted.client_id, wanted.client_secret, wanted.scopes) == ("shop", "s:c+r/t", None)


async def test_fields_of_other_grants_are_ignored(api: Api) -> None:
    assert (await ask(api, GRANT | CREDENTIALS | {"audience": "x", "resource": "y"})).status == 200


async def test_scopes_can_be_asked_for(api: Api, use_cases: UseCases) -> None:
    for scope, wanted in (("charge.read  charge.write", ("charge.read", "charge.write")), (" ", None)):
        await ask(api, GRANT | CREDENTIALS | {"scope": scope})
        assert use_cases.asked[-1][1][0].scopes == wanted


async def test_the_client_may_be_named_in_both_places_if_they_agree(api: Api) -> None:
    headers = basic("shop", "secret")
    agreeing = {"client_id": "shop"}, {"client_secret": "secret"}, {"client_id": "shop", "client_secret": "secret"}
    differing = {"client_id": "other"}, {"client_secret": "other"}, {"client_id": "shop", "client_secret": "other"}
    for twice in agreeing:
        assert (await ask(api, GRANT | twice, headers=headers)).status == 200
    for twice in differing:
        answer = await ask(api, GRANT | twice, headers=headers)
        assert (answer.status, answer.body["error"]) == (400, "invalid_request")


async def test_json_may_have_any_blanks(api: Api) -> None:
    content = b'{\r\n    "grant_type": "client_credentials"\r\n}\r\n'
    answer = await api.call(
        "POST", oauth.TOKEN_PATH, content, token=None, headers=basic("shop", "secret"), content_type="application/json"
    )
    assert answer.status == 200


@pytest.mark.parametrize(
    ("body", "authorization", "status", "error"),
    [
        (CREDENTIALS, None, 400, "invalid_request"),
        (CREDENTIALS | {"grant_type": "password"}, None, 400, "unsupported_grant_type"),
        (GRANT, None, 401, "invalid_client"),
        (GRANT | {"client_id": "shop"}, None, 401, "invalid_client"),
        (GRANT, "Basic", 401, "invalid_client"),
        (GRANT, "Basic %%%", 401, "invalid_client"),
        (GRANT, "Basic /w==", 401, "invalid_client"),
        (GRANT, "Basic c2hvcA==", 401, "invalid_client"),  # shop
        (GRANT, "Basic OnNlY3JldA==", 401, "invalid_client"),  # :secret
        (GRANT, "Basic c2hvcDo=", 401, "invalid_client"),  # shop:
        (GRANT, "Bearer good", 401, "invalid_client"),
        (GRANT, "Basic c2hvcDphYWE=, Basic c2hvcDphYWE=", 401, "invalid_client"),
    ],
)
async def test_a_bad_request_has_the_standards_error(
    api: Api, body: dict[str, str], authorization: str | None, status: int, error: str
) -> None:
    headers = None if authorization is None else {"authorization": authorization}
    for content_type in (FORM, "application/json"):
        answer = await ask(api, body, headers=headers, content_type=content_type)
        assert (answer.status, answer.body["error"]) == (status, error)
        assert set(answer.body) == {"error", "error_description"}
        assert answer.body["error_description"]
        if status == 401:
            assert answer.headers["www-authenticate"].startswith("Basic realm=")


@pytest.mark.parametrize(
    ("refusal", "status", "error"),
    [
        (errors.Unauthorized("client_id or client_secret: unknown client or wrong secret"), 401, "invalid_client"),
        (ScopeNotGranted("scope: this client has none of those asked for"), 400, "invalid_scope"),
        (errors.RateLimited("this address has failed too many token requests", 42), 429, "temporarily_unavailable"),
        (errors.ServiceUnavailable("the database cannot be reached", 3), 503, "temporarily_unavailable"),
        (RuntimeError("a defect"), 500, "server_error"),
    ],
)
async def test_what_the_login_refuses_has_the_standards_error(
    api: Api, use_cases: UseCases, refusal: Exception, status: int, error: str
) -> None:
    def refuse(*_: object) -> object:
        raise refusal

    use_cases.answers["login"] = refuse
    answer = await ask(api, GRANT | CREDENTIALS)
    assert (answer.status, answer.body["error"]) == (status, error)
    if status in {429, 503}:
        assert answer.headers["retry-after"] in {"42", "3"}


async def test_descriptions_have_only_characters_that_the_standard_allows(api: Api, use_cases: UseCases) -> None:
    def refuse(*_: object) -> object:
        raise errors.BadRequest('scope: "ção\\" \n')

    use_cases.answers["login"] = refuse
    answer = await ask(api, GRANT | CREDENTIALS)
    assert answer.body["error_description"] == "scope: '''o'' '"


async def test_the_wrong_type_of_body_is_named(api: Api) -> None:
    answer = await ask(api, GRANT | CREDENTIALS, content_type="text/plain")
    assert answer.body["error"] == "invalid_request"
    assert answer.body["error_description"] == ("Content-Type: must be application/x-www-form-urlencoded or application/json")


async def test_another_method_is_refused_without_the_envelope(api: Api) -> None:
    answer = await api.get("/oauth/token", token=None)
    assert (answer.status, answer.headers["allow"], answer.body["error"]) == (405, "POST", "invalid_request")


async def test_the_metadata_lead_to_the_endpoint_and_the_keys(api: Api) -> None:
    answer = await api.get(oauth.METADATA_PATH, token=None)
    assert answer.status == 200
    assert answer.body["token_endpoint"] == answer.body["issuer"] + oauth.TOKEN_PATH
    assert answer.body["jwks_uri"].endswith("/.well-known/jwks.json")
    assert answer.body["scopes_supported"] == sorted(SCOPES)
    assert answer.body["response_types_supported"] == ["none"]
    assert answer.body["token_endpoint_auth_methods_supported"] == ["client_secret_basic", "client_secret_post"]


@pytest.mark.parametrize("binds_tokens", [False, True])
async def test_the_metadata_say_if_tokens_are_bound(services: Services, *, binds_tokens: bool) -> None:
    services = msgspec.structs.replace(services, binds_tokens=binds_tokens)
    api = Api(make_application(services, AccessLog(services.context.clock, wanted="off")))
    answer = await api.get(oauth.METADATA_PATH, token=None)
    assert answer.body["tls_client_certificate_bound_access_tokens"] is binds_tokens
