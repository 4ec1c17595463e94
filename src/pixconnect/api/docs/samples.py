"""Requests as they are written in curl, Python and TypeScript, with the service's own address in them."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import urlencode

from pixconnect.api.docs import openapi
from pixconnect.api.docs.examples import example_of_body, example_of_parameter
from pixconnect.api.docs.python import write_python
from pixconnect.api.docs.records import Schema
from pixconnect.api.docs.text import sample, write_json
from pixconnect.api.frame import decoding
from pixconnect.api.frame.document import Document
from pixconnect.api.frame.operation import AnyOperation, Nothing

LANGUAGES: Final = (("curl", "curl"), ("python", "Python"), ("typescript", "TypeScript"))
"""In the order in which they are offered: the class of a sample, and its name."""

CLIENT_ID: Final = "CLIENT_ID"
CLIENT_SECRET: Final = "CLIENT_SECRET"  # noqa: S105  stands where a reader's own is to be put
"""Where a reader's own credentials stand in samples: a script puts them there when it knows them."""


def render_samples(row: AnyOperation, base_url: str, schemas: dict[str, Schema]) -> str:
    """A request of an operation in each language."""
    address = base_url + example_path(row)
    body: Any = {} if row.body is Nothing else example_of_body(row, schemas)
    is_form = row.body_form != "json"
    texts = (
        _write_curl(row, address, body, is_form=is_form),
        "# The client logs in by itself:\nprint(client.balance())"
        if is_form
        else write_python(row, example_path(row), body),
        _write_typescript(row, address, body, is_form=is_form),
    )
    return _tabs() + "".join(sample(text, name) for (name, _), text in zip(LANGUAGES, texts, strict=True))


def render_login(base_url: str, token_url: str) -> str:
    """How to get a token, in each language; the other samples go on from here."""
    method, grant = "POST", "client_credentials"
    curl = (
        f"TOKEN=$(curl -s {token_url} \\\n"
        f"  -u '{CLIENT_ID}:{CLIENT_SECRET}' \\\n"
        f"  -d grant_type={grant} |\n"
        """  python3 -c 'import json, sys; print(json.load(sys.stdin)["access_token"])')"""
    )
    python = (
        "from pixconnect_client import Client\n\n"
        "# It gets tokens by itself, and another one before the last has ended.\n"
        f'client = Client("{base_url}", "{CLIENT_ID}", "{CLIENT_SECRET}")'
    )
    typescript = (
        f'const login = await fetch("{token_url}", {{\n'
        f'  method: "{method}",\n'
        "  body: new URLSearchParams({\n"
        f'    grant_type: "{grant}",\n'
        f'    client_id: "{CLIENT_ID}",\n'
        f'    client_secret: "{CLIENT_SECRET}",\n'
        "  }),\n"
        "});\n"
        "const token = (await login.json()).access_token;"
    )
    texts = (curl, python, typescript)
    return _tabs() + "".join(sample(text, name) for (name, _), text in zip(LANGUAGES, texts, strict=True))


def example_path(row: AnyOperation) -> str:
    """An operation's path with an example of its parameter and of its required query."""
    path = row.path
    if row.parameter.name:
        path = path.replace(f"{{{row.parameter.name}}}", example_of_parameter(row.parameter.name))
    query = {
        part["name"]: example_of_parameter(part["name"]) for part in openapi.describe_query(row) if part["required"]
    }
    return f"{path}?{urlencode(query, safe=':')}" if query else path


def _tabs() -> str:
    # Labels of the one choice at the top, so that choosing works without a script.
    labels = "".join(f"<label class={name} for=in-{name}>{title}</label>" for name, title in LANGUAGES)
    return f"<div class=tabs>{labels}</div>"


def _write_curl(row: AnyOperation, address: str, body: Any, *, is_form: bool) -> str:  # noqa: ANN401  an example
    # Single quotes: an address may hold ``&``, and a body anything that a shell would read.
    parts = [f"curl -s '{address}'"]
    if row.method != "GET" and (not body or row.method != "POST"):
        parts[0] = f"curl -s -X {row.method} '{address}'"
    if row.scope is not None:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    if is_form:
        parts += [f"-d {name}={_credential(name, value)}" for name, value in body.items()]
    elif body:
        quoted = write_json(body).replace("'", "'\\''")
        parts += ["-H 'Content-Type: application/json'", f"-d '{quoted}'"]
    return " \\\n  ".join(parts)


def _write_typescript(row: AnyOperation, address: str, body: Any, *, is_form: bool) -> str:  # noqa: ANN401  an example
    options: list[str] = []
    if row.method != "GET":
        options.append(f'  method: "{row.method}",')
    headers = ["Authorization: `Bearer ${token}`"] if row.scope is not None else []
    if is_form:
        fields = "".join(f"    {name}: {json.dumps(_credential(name, value))},\n" for name, value in body.items())
        options.append(f"  body: new URLSearchParams({{\n{fields}  }}),")
    elif body:
        headers.append(f'"Content-Type": "{decoding.MEDIA_TYPES[row.body_form][0].decode()}"')
        indented = write_json(body).replace("\n", "\n  ")
        options.append(f"  body: JSON.stringify({indented}),")
    if headers:
        options.insert(min(1, len(options)) if row.method != "GET" else 0, f"  headers: {{ {', '.join(headers)} }},")
    asked = f'fetch("{address}"' + (", {\n" + "\n".join(options) + "\n})" if options else ")")
    read = "text" if row.answer is Document and "json" not in row.media_types[0] else "json"
    return f"const answer = await {asked};\nconsole.log(answer.status, await answer.{read}());"


def _credential(name: str, value: object) -> str:
    return dict(client_id=CLIENT_ID, client_secret=CLIENT_SECRET).get(name, str(value))
