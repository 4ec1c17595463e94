"""Requests as they are written in curl, Python and TypeScript, with the service's own address in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import urlencode

from pixconnect.api.docs import openapi
from pixconnect.api.docs.examples import example_of_body, example_of_parameter
from pixconnect.api.docs.guides import sample, write_json
from pixconnect.api.docs.records import Schema
from pixconnect.api.frame import decoding
from pixconnect.api.frame.document import Document
from pixconnect.api.frame.operation import AnyOperation, Nothing

_METHODS: Final[Mapping[str, str]] = dict(
    create_charge="charges.create",
    create_due_charge="charges.create_due",
    get_charge_by_id="charges.get",
    get_charge_by_external_id="charges.get_by_external_id",
    get_charge_by_txid="charges.get_by_txid",
    get_charge_payment="charges.payment",
    list_charges_by_holder="charges.list",
    get_location="charges.location",
    get_location_key_set="charges.location_keys",
    initiate_pix_with_key="transfers.create_by_key",
    initiate_pix_with_account_details="transfers.create_by_account",
    initiate_pix_with_qrcode="transfers.create_by_qr_code",
    get_transfer_by_id="transfers.get",
    get_transfer_outcome="transfers.outcome",
    get_transfer_parties="transfers.parties",
    get_transfer_receipt="transfers.receipt",
    get_transfer_receipt_file="transfers.receipt_file",
    get_transfer_by_external_id="transfers.get_by_external_id",
    get_transfer_by_end_to_end_id="transfers.get_by_end_to_end_id",
    list_transfers_by_holder="transfers.list",
    search_transfers="transfers.search",
    create_refund="refunds.create",
    get_refund_by_id="refunds.get",
    get_refund_receipt="refunds.receipt",
    get_refund_receipt_file="refunds.receipt_file",
    get_refund_by_external_id="refunds.get_by_external_id",
    get_refund_by_return_identification="refunds.get_by_return_identification",
    list_refunds_by_holder="refunds.list",
    list_infractions="infractions.list",
    get_infraction_by_id="infractions.get",
    defend_infraction="infractions.defend",
    retrieve_current_balance="balance",
    list_transactions_by_holder="transactions",
    retrieve_statement="statement",
    create_webhook_endpoint="endpoints.create",
    list_webhook_endpoints="endpoints.list",
    get_webhook_endpoint="endpoints.get",
    change_webhook_endpoint="endpoints.change",
    delete_webhook_endpoint="endpoints.delete",
    list_webhook_deliveries="deliveries.list",
    get_webhook_delivery="deliveries.get",
    redeliver_webhook="deliveries.redeliver",
    replay_events="endpoints.replay",
    list_events="events.list",
    read_event_feed="events.feed",
    get_server_metadata="identity.metadata",
    get_public_key="identity.current_key",
    get_key_set="identity.key_set",
    health_check="health",
    check_liveness="liveness",
    check_readiness="readiness",
    sandbox_pay="sandbox.receive",
    sandbox_give_back="sandbox.give_back",
    sandbox_deposit="sandbox.deposit",
    sandbox_move="sandbox.move",
    sandbox_open_infraction="sandbox.open_infraction",
    sandbox_judge_payment="sandbox.judge_payment",
    sandbox_decide_infraction="sandbox.decide_infraction",
    sandbox_list_keys="sandbox.keys",
    sandbox_add_key="sandbox.add_key",
    sandbox_make_qr_code="sandbox.make_qr_code",
    sandbox_get_faults="sandbox.faults",
    sandbox_clear_faults="sandbox.clear_faults",
    sandbox_get_clock="sandbox.clock",
    sandbox_open_holder="sandbox.open_holder",
)
"""By operation; for an operation without a method here, ``request`` takes everything."""

_RECORDS: Final = dict(
    create_charge=dict(payer="ChargePayer"),
    create_due_charge=dict(payer="ChargePayer"),
    sandbox_pay=dict(payer="OutsidePayer"),
    initiate_pix_with_account_details=dict(credit_party="TransferParty"),
)
"""What the client calls a record within a body, by operation and field."""


def write_python(row: AnyOperation, path: str, body: Mapping[str, Any]) -> str:
    """A request as the client makes it; ``path`` has its examples in it."""
    method = _METHODS.get(row.id)
    if method is None:
        more = f", body={_literal(body)}" if body else ""
        return f'answer = client.request("{row.method}", {json.dumps(path)}{more})\nprint(answer)'
    arguments: list[str] = []
    if row.parameter.name:
        example = example_of_parameter(row.parameter.name)
        arguments.append(example if row.parameter.schema["type"] == "integer" else json.dumps(example))
    arguments += [
        f"{part['name']}={_argument(row, part['name'], example_of_parameter(part['name']))}"
        for part in openapi.describe_query(row)
        if part["required"]
    ]
    arguments += [f"{name}={_argument(row, name, value)}" for name, value in body.items()]
    call = f"client.{method}({', '.join(arguments)})"
    if len(call) > 60 and arguments:
        lines = "".join(f"    {argument},\n" for argument in arguments)
        call = f"client.{method}(\n{lines})"
    imports = "from datetime import datetime\n\n" if "datetime." in call else ""
    records = _RECORDS.get(row.id, {})
    imports += "".join(f"from pixconnect_client import {records[name]}\n\n" for name in body if name in records)
    # A list is read to its end, page by page.
    return imports + (f"for found in {call}:\n    print(found)" if row.item else f"print({call})")


def _argument(row: AnyOperation, name: str, value: Any) -> str:  # noqa: ANN401  part of an example
    if name.endswith("_date"):
        return f"datetime.fromisoformat({json.dumps(value)})"
    record = _RECORDS.get(row.id, {}).get(name)
    if record is not None:
        fields = "".join(f"        {field}={_literal(part)},\n" for field, part in value.items())
        return f"{record}(\n{fields}    )"
    return _literal(value)


def _literal(value: Any) -> str:  # noqa: ANN401  part of an example
    """A JSON value as Python writes it, with double quotes."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, str | int | float):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, cast(list[Any], value)))}]"
    return f"{{{', '.join(f'{json.dumps(name)}: {_literal(part)}' for name, part in value.items())}}}"


LANGUAGES: Final = (("curl", "curl"), ("python", "Python"), ("typescript", "TypeScript"))
"""In the order in which they are offered: the class of a sample, and its name."""

CLIENT_ID: Final = "CLIENT_ID"
CLIENT_SECRET: Final = "CLIENT_SECRET"  # noqa: S105  stands where a reader's own is to be put
"""Where a reader's own credentials stand in samples: a script puts them there when it knows them."""


def render_samples(row: AnyOperation, base_url: str, schemas: dict[str, Schema]) -> str:
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
