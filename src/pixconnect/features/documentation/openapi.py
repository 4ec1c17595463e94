"""OpenAPI 3.1, generated from the table of operations and its records.

Nothing is described twice: types and limits come from the records (``records.py``), a field's meaning from the docstring under
it, an operation's description from its handler's docstring. A change of any of these changes the published document.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from pixconnect.assembly.operations import list_sections
from pixconnect.doors.api import decoding, envelope
from pixconnect.doors.api import prepared as idempotency_key
from pixconnect.doors.api.contract import transfer
from pixconnect.doors.api.decoding import BODY_MAX
from pixconnect.doors.api.document import PDF_TYPE, Document, KeptDocument
from pixconnect.doors.api.operation import AnyOperation, Nothing, Section
from pixconnect.doors.api.prepared import too_large
from pixconnect.features.documentation.api import DOCS_TYPE, OPENAPI_TYPE, Descriptions
from pixconnect.features.documentation.examples import NOW, REQUEST_ID, Examples, example_of_answer
from pixconnect.features.documentation.records import (
    Schema,
    convert_part,
    describe_query,
    describe_records,
    described,
    envelope_name,
    parameter,
    split_docstring,
    to_schema,
    typed,
)
from pixconnect.features.documentation.standard import describe_door
from pixconnect.features.documentation.webhooks import EVENTS, HEADER_PARAMETERS, PAYLOADS, add_event_schemas, describe_webhooks
from pixconnect.features.identity import api as oauth
from pixconnect.features.locations.api import JOSE_TYPE
from pixconnect.features.pix_api.api.operations import SPOKEN
from pixconnect.features.statements.api import FORMATS
from pixconnect.kernel.flows.context import Policy
from pixconnect.kernel.rules.access import OWN_SCOPES, SCOPE_TEXTS
from pixconnect.platform.base import errors

_REQUEST_ID: Final = {"$ref": "#/components/parameters/RequestId"}
_IDEMPOTENCY_KEY: Final = {"$ref": "#/components/parameters/IdempotencyKey"}

_FAILURES: Final = {
    "400": ("BadRequest", errors.BadRequest("amount: must be an integer number of cents (R$ 10,50 is 1050)")),
    "401": ("Unauthorized", errors.Unauthorized("Authorization: token expired")),
    "403": ("Forbidden", errors.Forbidden("the token lacks the scope charge.write")),
    "404": ("NotFound", errors.NotFound("id: there is nothing with the id 123")),
    "413": ("PayloadTooLarge", too_large(BODY_MAX)),
    "422": ("RuleBroken", errors.AmountOutOfRange("amount: must be from 1 to 999999999999 cents")),
    "429": ("RateLimited", errors.RateLimited("this address has failed too many token requests", 42)),
    "500": ("InternalError", errors.InternalError("internal error")),
    "503": ("ServiceUnavailable", errors.ServiceUnavailable("the database cannot be reached; nothing was done")),
    "504": ("OutcomeUnknown", errors.OutcomeUnknown('repeat the request with external_id "order-2026-0001"')),
}


_FILES: Final = {
    **{
        form.media_type: (form.schema, typed("string", format="binary", description=form.about))
        for form in FORMATS.values()
        if form.schema
    },
    PDF_TYPE: ("ReceiptFile", typed("string", format="binary", description="PDF, one page of A4.")),
    JOSE_TYPE: ("SignedPayload", typed("string", description="A compact JWS (RFC 7515).")),
    oauth.JWK_SET_TYPE: (
        "KeySet",
        typed(
            "object",
            description="A JWK set (RFC 7517).",
            properties={"keys": typed("array", items=to_schema("PublishedKey"), description="The latest first.")},
            required=["keys"],
        ),
    ),
    OPENAPI_TYPE: ("OpenApiDocument", typed("object", description="OpenAPI.")),
    DOCS_TYPE: ("HtmlPage", typed("string", description="HTML.")),
}
"""Answers outside the envelope, by media type: their name and schema."""

_DESCRIPTION: Final = """\
Charges, transfers, refunds and a ledger over Pix. Served by pixconnect {version}.

Ids leave gaps and give no order, because processes take them in blocks: nothing is missing between 6 and 515. Amounts are
integers in cents; an integer has neither fraction nor exponent, so `1478.0` is refused. Instants are RFC 3339 with an
offset. Texts hold neither NUL nor half a surrogate pair. A field that an answer does not need is left out, never null. Other
fields may come: ignore those that you do not know. Unknown fields of a request are refused, and unknown parameters too.
"""


def describe_interface(sections: Sequence[Section], *, base_url: str, auth_url: str, version: str) -> Schema:
    """Build the OpenAPI document; addresses as callers see them, and the program's version."""
    operations = [row for section in sections for row in section.operations]
    schemas = describe_records(operations, PAYLOADS) | dict(_FILES.values())
    add_event_schemas(schemas)
    paths: Schema = {}
    for section in sections:
        for row in section.operations:
            item = _describe_operation(row, section.title, schemas)
            # The identity service serves only tokens and public keys, and only at its own address.
            if row.path.startswith(("/v1/iam/", "/oauth/", "/.well-known/")) and auth_url != base_url:
                item["servers"] = [{"url": auth_url}]
            paths.setdefault(row.path, {})[row.method.lower()] = item
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pix Connect",
            "version": envelope.VERSION,
            "description": _DESCRIPTION.format(version=version),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url}],
        "security": _need(()),
        "tags": [*({"name": section.title, "description": section.text} for section in sections), EVENTS],
        "paths": paths,
        "webhooks": describe_webhooks(schemas, EVENTS["name"]),
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "parameters": {
                "RequestId": _REQUEST_ID_PARAMETER,
                "IdempotencyKey": IDEMPOTENCY_KEY_PARAMETER,
                **HEADER_PARAMETERS,
            },
            "responses": {name: _describe_failure(status, error) for status, (name, error) in _FAILURES.items()},
            "securitySchemes": {"OAuth2": _describe_oauth2(auth_url + oauth.TOKEN_PATH), "BearerAuth": _BEARER_AUTH},
        },
    }


# No pattern: nothing is refused for it.
_REQUEST_ID_PARAMETER: Final = parameter(
    "header",
    "X-Request-Id",
    "Your own name for the request, 1 to 64 of `A-Z a-z 0-9 . _ -`: comes back in `meta.request_id` and stands in every log "
    "line. Any other text is no error: the service makes a name instead.",
    typed("string"),
)
IDEMPOTENCY_KEY_PARAMETER: Final = parameter(
    "header",
    idempotency_key.NAME,
    f"Another place for the body's `external_id`, 1 to {idempotency_key.LENGTH_MAX} printable ASCII characters, as they are or "
    "as a string of structured fields (RFC 9651) between double quotes. Where both are given they must be equal.",
    typed("string"),
)
_PAYEE_PARAMETER: Final = parameter(
    "header",
    transfer.PAYEE_HEADER_NAME,
    "The CPF or CNPJ of the key's owner, with or without punctuation. The transfer is refused if the key belongs "
    "to another owner; if the account's institution does not report owners, the institution compares it or the "
    "transfer is refused.",
    typed("string"),
)
_BEARER_AUTH: Final = typed(
    "http",
    scheme="bearer",
    bearerFormat="JWT",
    description="A token of the identity service, good for five minutes unless set otherwise.",
)
_LINK_HEADER: Final = described(
    'The address of the next page (RFC 8288, `rel="next"`), by cursor; left out on the last page.', schema=typed("string")
)
_FILENAME_HEADER: Final = described(
    "`attachment` and the name under which a browser saves the file; JSON has none.", schema=typed("string")
)


def _describe_oauth2(token_url: str) -> Schema:
    flow = {"tokenUrl": token_url, "scopes": {scope: SCOPE_TEXTS[scope] for scope in OWN_SCOPES}}
    return typed(
        "oauth2",
        description="Client credentials (RFC 6749, 4.4), for libraries: the same token.",
        flows={"clientCredentials": flow},
    )


def _need(scopes: Sequence[str]) -> list[Schema]:
    # One token in either form; only oauth2 has a place for scopes. One header is both: a bearer token, issued by OAuth 2 with
    # these scopes.
    return [{"BearerAuth": [], "OAuth2": list(scopes)}]


def _describe_operation(row: AnyOperation, tag: str, schemas: dict[str, Schema]) -> Schema:
    first, description = split_docstring(row.handler.__doc__ or "")
    found: Schema = {"operationId": row.id, "tags": [tag], "summary": row.summary or first.removesuffix(".")}
    if description:
        found["description"] = description
    found["security"] = [] if row.scope is None else _need(() if row.scope == "any" else (row.scope,))
    headers = [_IDEMPOTENCY_KEY, _REQUEST_ID] if idempotency_key.is_taken_by(row) else [_REQUEST_ID]
    own = [_PAYEE_PARAMETER] if row.handler is transfer.initiate_pix_with_key else []
    path = row.parameter
    in_path = [parameter("path", path.name, path.description, dict(path.schema), required=True)] if path.name else []
    found["parameters"] = [*in_path, *describe_query(row.query), *own, *headers]
    if row.body is not Nothing:
        schema = to_schema(row.body.__name__)
        content = {"schema": schema, "example": Examples(schemas).make(schema)}
        # Only the first: of two, generators send both at once.
        media_type = decoding.MEDIA_TYPES[row.body_form][0].decode()
        found["requestBody"] = {"required": True, "content": {media_type: content}}
    found["responses"] = {"200": _describe_success(row, schemas), **_failures_of(row)}
    return found


def _describe_success(row: AnyOperation, schemas: dict[str, Schema]) -> Schema:
    content: Schema = {}
    if row.answer is not Document:
        # First, because generators take what comes first.
        schema = to_schema(row.record.__name__ if row.is_bare else envelope_name(row))
        content["application/json"] = {"schema": schema, "example": example_of_answer(row, schemas)}
    for media_type in row.media_types:
        content.setdefault(media_type, {"schema": to_schema(_FILES[media_type][0])})
    found = described("The document." if row.answer is Document else "Done.", content=content)
    headers: Schema = {}
    # Only lists with a cursor have a next page to link to.
    if "after" in row.query.__struct_fields__:
        headers["Link"] = _LINK_HEADER
    if len(row.media_types) > 1 or PDF_TYPE in row.media_types:
        headers["Content-Disposition"] = _FILENAME_HEADER
    return found | ({"headers": headers} if headers else {})


def _failures_of(row: AnyOperation) -> Schema:
    """The statuses of an operation's failures: the health check has none, what only serves a document hardly any."""
    is_only_read = (row.answer is Document or row.is_bare) and row.body is Nothing
    if row.id == "health_check" or (is_only_read and not row.parameter.name and row.refusals.record is None):
        return {}
    if row.answer is Document and row.scope is None:
        statuses = ["404", "429", "503"]
    elif is_only_read and row.refusals.record is not None:
        statuses = ["429", "503"]
    else:
        # Every request can be malformed, violate a rule, or meet a defect or a missing database.
        statuses = ["400", "500", "503"]
        statuses += ["422"] if row.refusals.record is None else []
        statuses += ["401"] if row.scope or row.body_form != "json" else []
        statuses += ["403"] if row.scope not in (None, "any") else []
        statuses += ["404"] if row.parameter.name else []
        statuses += ["413"] if row.body is not Nothing else []
        statuses += ["429"] if row.body_form != "json" else []
        # Only a write can have an unknown outcome.
        statuses += ["504"] if row.method != "GET" and row.scope else []
    if row.refusals.record is not None:
        content = {row.refusals.media_type: {"schema": to_schema(row.refusals.record.__name__)}}
        return {status: described(_FAILURES[status][0], content=content) for status in sorted(statuses)}
    found: dict[str, Schema] = {
        status: {"$ref": f"#/components/responses/{_FAILURES[status][0]}"} for status in sorted(statuses)
    }
    if "413" in found and row.body_max != BODY_MAX:
        found["413"] = _describe_failure("413", too_large(row.body_max))
    return found


def _describe_failure(status: str, error: errors.PixConnectError) -> Schema:
    codes = [code for code, of_code in envelope.list_statuses().items() if str(of_code) == status]
    found = described(", ".join(codes))
    if any(name == b"retry-after" for name, _ in envelope.error_headers(error)):
        found["headers"] = {"Retry-After": described("Seconds.", schema=typed("integer"))}
    example = {
        "success": False,
        "error": {"code": error.code, "message": error.message},
        "meta": {"request_id": REQUEST_ID, "timestamp": NOW, "version": envelope.VERSION},
    }
    found["content"] = {"application/json": {"schema": to_schema("ErrorResponse"), "example": example}}
    return found


def convert(document: Mapping[str, Any]) -> Schema:
    """Write one of our OpenAPI 3.1 documents as 3.0.3."""
    components: Schema = document["components"]
    parameters = {name: part for name, part in components["parameters"].items() if name not in HEADER_PARAMETERS}
    license_name = document["info"]["license"]["name"]
    found = {
        **document,
        "openapi": "3.0.3",
        # 3.0 has no identifiers of licenses.
        "info": document["info"] | {"license": {"name": license_name}},
        "tags": [tag for tag in document["tags"] if tag != EVENTS],
        "components": components | {"parameters": parameters},
    }
    del found["webhooks"]
    return convert_part(found)


def describe(policy: Policy, *, base_url: str, version: str) -> Descriptions:
    """Each document is built once per process, at its first request."""
    sections = list_sections(is_sandbox=policy.is_sandbox)

    @cache
    def document() -> Schema:
        return describe_interface(sections, base_url=base_url, auth_url=policy.auth_url, version=version)

    def door() -> Schema:
        token_url = policy.auth_url + oauth.TOKEN_PATH
        return describe_door(SPOKEN, dict[str, str](SCOPE_TEXTS.items()), base_url=base_url, token_url=token_url)

    return Descriptions(
        openapi=cache(lambda: _keep_json(document())),
        openapi_30=cache(lambda: _keep_json(convert(document()))),
        standard=cache(lambda: _keep_json(door())),
    )


def _keep_json(document: Schema) -> KeptDocument:
    return KeptDocument(msgspec.json.encode(document), OPENAPI_TYPE)
