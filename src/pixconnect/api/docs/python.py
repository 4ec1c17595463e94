"""Samples for the Python client: which of its methods asks for an operation, and with which arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from pixconnect.api.docs import openapi
from pixconnect.api.docs.examples import example_of_parameter
from pixconnect.api.frame.operation import AnyOperation

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
