"""``docs/reference/api.md``, from the table of operations."""

from collections.abc import Iterator

from pixconnect.api.docs import openapi
from pixconnect.api.docs.openapi import IDEMPOTENCY_KEY_PARAMETER
from pixconnect.api.docs.records import list_fields
from pixconnect.api.frame import prepared as idempotency_key
from pixconnect.api.frame.document import Document
from pixconnect.api.frame.operation import AnyOperation, Nothing
from pixconnect.api.operations import list_sections

_HEAD = """\
# Interface

Every operation with its scope, parameters and fields. Written by `make docs` from the table of operations. The same with
schemas and examples is served at `/docs`, and for programs at `/openapi.json` (OpenAPI 3.1, with webhooks) and
`/openapi-3.0.json`, of which [clients are generated](../guides/generate-a-client.md). Errors have
[a page of their own](errors.md).
"""


def write_page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for section in list_sections(is_sandbox=True):
        parts.append(f"## {section.title}\n\n{section.text}\n")
        parts.extend("\n".join(_describe(row)) + "\n" for row in section.operations)
    return "\n".join(parts)


def _describe(row: AnyOperation) -> Iterator[str]:
    summary, description = openapi.summarize(row)
    yield f"### {summary}\n"
    needs = {None: "public", "any": "any valid token"}.get(row.scope, f"scope `{row.scope}`")
    yield f"`{row.method} {row.path}` ({needs}; `{row.id}`)\n"
    if description:
        yield f"{description}\n"
    if row.parameter.name:
        yield f"- `{row.parameter.name}` in the path: {row.parameter.description}"
    for parameter in openapi.describe_query(row):
        need = "required" if parameter["required"] else "optional"
        yield f"- `{parameter['name']}` in the query, {need}: {parameter['description']}"
    if idempotency_key.is_taken_by(row):
        yield f"- `{IDEMPOTENCY_KEY_PARAMETER['name']}` in the header, optional: {IDEMPOTENCY_KEY_PARAMETER['description']}"
    if row.body is not Nothing:
        yield f"- Body: {_fields_of(row.body)}"
    if row.answer is Document:
        yield f"- Answers {' or '.join(f'`{media_type}`' for media_type in row.media_types)}."
    else:
        answer = row.record
        yield f"- Answers {'a list of ' if row.item else ''}{answer.__name__}: {_fields_of(answer)}"


def _fields_of(record: type) -> str:
    return ", ".join(f"`{field}`" for field in list_fields(record))
