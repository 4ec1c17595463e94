"""Webhook bodies in OpenAPI 3.1: one entry for each event, with its payload."""

from collections.abc import Mapping
from typing import Final

from pixconnect.features.documentation.examples import example_of_event
from pixconnect.features.documentation.records import Schema, described, to_schema, typed
from pixconnect.kernel.feature import gather
from pixconnect.kernel.rules.event import EVENT_FACTS, FAMILIES, EventFamily

_FAMILIES: Final = (*FAMILIES, *gather("event_families", EventFamily))
PAYLOADS: Final = tuple(family.payload for family in _FAMILIES)

# A separate tag from that of the operations on webhooks: generators write a file for each tag, once for operations and once for
# webhooks, and the later one would overwrite it.
EVENTS: Final = dict(name="Events", description="Events that the service posts to your webhook endpoints.")

_HEADERS: Final[Mapping[str, tuple[str, Schema, str]]] = {
    "WebhookId": ("webhook-id", typed("string"), "`evt_` and the event's id: the same on every attempt."),
    "WebhookTimestamp": ("webhook-timestamp", typed("integer"), "When this attempt was made, in seconds since 1970."),
    "WebhookSignature": (
        "webhook-signature",
        typed("string"),
        "Signatures of Standard Webhooks, one for each secret that is valid now: `v1,` and base64, separated by spaces.",
    ),
    "BodySignature": ("X-Webhook-Signature", typed("string"), "Hex HMAC-SHA256 of the body under the secret."),
    "JwsSignature": (
        "X-Webhook-Signature-JWS",
        typed("string"),
        "A detached JWS (ES256) of the body under the published key, which signs for all holders: compare its `aud`, `iat` "
        "and `jti`.",
    ),
    "WebhookAttempt": ("X-Webhook-Attempt", typed("integer", minimum=1), "Counts from 1."),
}

HEADER_PARAMETERS: Final[Schema] = {
    component: described(description, name=name, required=True, schema=schema) | {"in": "header"}
    for component, (name, schema, description) in _HEADERS.items()
}
"""The headers of a webhook, for the document's components."""

_RESPONSES: Final = {
    "2XX": described("Accepted: the service does not send it again."),
    "410": described("The endpoint is gone: the service disables it and posts no more events to it."),
    "default": described("Not accepted: the service sends it again, at growing intervals, for days."),
}


def add_event_schemas(schemas: dict[str, Schema]) -> None:
    """Describe the payload of each event, which the record of an event leaves open."""
    event = schemas["WebhookEvent"]
    for family in _FAMILIES:
        payload = schemas[family.payload.__name__]["properties"]
        # Charges, transfers and refunds define these values, and they import events.
        payload["id"] = {**event["properties"]["id"], "description": payload["id"]["description"] + " Below 2^53."}
        if family.resource is not None:
            payload["status"]["enum"] = schemas[family.resource]["properties"]["status"]["enum"]
        properties = event["properties"] | {
            "name": typed("string", enum=family.names, description="What has happened."),
            "payload": dict(**to_schema(family.payload.__name__), description="The facts."),
        }
        schemas[family.schema] = {**event, "description": f"An event `{family.prefix}*`.", "properties": properties}
    mapping = {name: to_schema(family.schema)["$ref"] for family in _FAMILIES for name in family.names}
    schemas["WebhookEvent"] = described(
        event["description"],
        oneOf=[to_schema(family.schema) for family in _FAMILIES],
        discriminator=dict(propertyName="name", mapping=mapping),
    )


def describe_webhooks(schemas: Mapping[str, Schema], tag: str) -> Schema:
    found: Schema = {}
    for name, family in ((name, of_names) for of_names in _FAMILIES for name in of_names.names):
        content = {"schema": to_schema(family.schema), "example": example_of_event(name, family, schemas)}
        operation = {
            "operationId": f"receive_{name.replace('.', '_')}",
            "tags": [tag],
            "summary": f"Receive {name}",
            "description": EVENT_FACTS[name],
            # Signatures identify the sender: see the headers.
            "security": [],
            "parameters": [{"$ref": f"#/components/parameters/{component}"} for component in HEADER_PARAMETERS],
            "requestBody": {"required": True, "content": {"application/json": content}},
            "responses": _RESPONSES,
        }
        found[name] = {"post": operation}
    return found
