"""Examples of requests and answers: valid by their schemas, consistent, and as in the sandbox's demonstration."""

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET as LEFT_OUT

from pixconnect.doors.api.operation import AnyOperation
from pixconnect.features.documentation.records import SCHEMAS, Schema, envelope_name, find_schema, to_schema
from pixconnect.kernel.rules.br_code import format_dynamic_br_code, format_static_br_code
from pixconnect.kernel.rules.event import EVENT_STATUSES, EventFamily, EventName

ADDRESS: Final = "127.0.0.1:8080"
REQUEST_ID: Final = "01930a2f-5c7a-7e8d-9f01-23456789abcd"
NOW: Final = "2026-11-20T12:34:56.789012Z"

_TXID: Final = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6"
_OUR_KEY: Final = "loja@demo.pix.example"
_OTHER_KEY: Final = "settle@sandbox.pix.example"
_OUT_ID: Final = "E99999003202611201234a1B2c3D4e5F"
_IN_ID: Final = "E99999004202611201234q7R8s9T0u1V"
_US: Final = dict(
    account_number="10000001",
    account_type="TRANSACTIONAL",
    bank="Pix Connect Sandbox",
    branch="0001",
    ispb="99999003",
    name="Loja Demonstração Ltda",
    tax_id="12345678000195",
)
_OUTSIDE: Final = dict(
    account_number="1001",
    account_type="CHECKING",
    bank="Outside Bank Sandbox",
    branch="0001",
    ispb="99999004",
    key=_OTHER_KEY,
    key_type="EMAIL",
    name="Sandbox Settle",
    tax_id="52998224725",
)
# An address that a sandbox accepts without a network, and live mode does not.
_RECEIVER: Final = "http://localhost:8181/"
_EVENT_TYPES: Final = ["qrcode.approved", "transfer.out.confirmed"]
_PUBLIC_KEY: Final = {
    "kid": "tKjBTVfMQvqzVzUVw5C3T-tFY09XndW5G3oITB2bLZM",
    "x": "8E4Gs0Z4uBi3JR66i-L2-XgQMirv-WZMxYpEyB8nEvk",
    "y": "T8WDgr3S3lHIAvLtxzXZ550Dn8x4lstBGV9Ztzgez0I",
}

_BY_FIELD: Final[Mapping[str, object]] = dict(
    access_token="eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.e30.c2lnbmF0dXJl",  # noqa: S106  an example
    amount=1234,
    bank="Outside Bank Sandbox",
    base64image="",
    client_id="t1sQewJ8GCuWB8oTggpnGYSL",
    client_secret="shown-once-when-the-client-was-made",  # noqa: S106  an example
    correlation_id="f5f97af6-ab22-40f1-b2d9-2bbf8ced29dc",
    create_timestamp=NOW,
    description="Wrong size",
    end_to_end_id=_IN_ID,
    external_id="order-2026-0001",
    final_date="2026-11-21T00:00:00Z",
    grant_type="client_credentials",
    initial_date="2026-11-20T00:00:00Z",
    ispb="99999004",
    item_id="M99999004202611201234q7R8s9T0u1V",
    key=_OUR_KEY,
    last_modified=NOW,
    name="Maria Silva",
    original_end_to_end_id=_IN_ID,
    request_id=REQUEST_ID,
    return_identification="D99999003202611201234a1B2c3D4e5F",
    scope=LEFT_OUT,
    settle_timestamp=NOW,
    secret="whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3",  # noqa: S106  an example
    tax_id="52998224725",
    transaction_identification=_TXID,
    txid=LEFT_OUT,
    version="1.0",
)
"""The value of a field of this name, unless its record has another."""

_BY_RECORD: Final[Mapping[str, Mapping[str, object]]] = {
    "Charge": dict(
        emvqrcps=format_dynamic_br_code(f"{ADDRESS}/v1/qr/{_TXID}", "Loja Demonstração Ltda", "São Paulo"), status="PENDING"
    ),
    "ChangeEndpointRequest": dict(secret=LEFT_OUT, event_types=LEFT_OUT, url=LEFT_OUT, status="inactive"),
    "CheckResult": dict(status="healthy", error=LEFT_OUT),
    "ClockRequest": {"advance_s": 3600, "now": LEFT_OUT, "reset": LEFT_OUT},
    "Counterparty": {"ispb": "99999004"},
    "CreateDueChargeRequest": dict(
        amount=125_000,
        due_on="2026-12-10",
        external_id="fatura20261200000000000042",
        fine=dict(kind="percentage", value=200),
        interest=dict(kind="percentage_a_month", value=100),
        rebate=LEFT_OUT,
        discount=dict(kind="sum_until_a_date", dated=[dict(until="2026-12-05", value=2500)]),
    ),
    "CreateEndpointRequest": {"event_types": _EVENT_TYPES, "url": _RECEIVER},
    "CurrentKey": {
        **_PUBLIC_KEY,
        "pem": "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8E4Gs0Z4uBi3JR66i+L2+XgQMirv\n"
        "+WZMxYpEyB8nEvlPxYOCvdLeUcgC8u3HNdnnnQOfzHiWy0EZX1m3OB7PQg==\n-----END PUBLIC KEY-----\n",
    },
    "DeliveryAttempt": {"number": 1, "status_code": 204, "response": "", "error": LEFT_OUT},
    "FaultMatch": dict(key=_OTHER_KEY, amount=LEFT_OUT, operation="submit"),
    "FaultRule": {"effect": "delay:3000", "probability": LEFT_OUT, "times": 1},
    "HolderRequest": dict(name="Loja de Teste", tax_id=LEFT_OUT, balance=100_000, scopes=LEFT_OUT),
    "Health": dict(status="healthy", checks={"database": dict(status="healthy", duration="1.27ms")}),
    "HolderBalance": {"available_funds": 100_000_000, "current_funds": 100_000_000, "able_to_lend": False},
    "InitiatePixWithAccountDetailsRequest": {
        "credit_party": {name: value for name, value in _OUTSIDE.items() if name not in {"key", "key_type"}}
    },
    "InitiatePixWithKeyRequest": dict(key=_OTHER_KEY, key_type="EMAIL"),
    "InitiatePixWithQRCodeRequest": {"emv": format_static_br_code(_OTHER_KEY, "Sandbox Settle", "Sao Paulo")},
    "KeyRequest": dict(key="maria@outside.example", key_type="EMAIL"),
    "PaidBy": dict(status="CONFIRMED"),
    "Pagination": {"page_size": 10, "has_next": False, "has_prev": False},
    # By key: a code would have to belong to an existing charge.
    "PaymentRequest": {"emv": LEFT_OUT, "location": LEFT_OUT, "payer_message": "Pedido 42"},
    "PublishedKey": _PUBLIC_KEY,
    "QrCode": {"emv": format_static_br_code(_OTHER_KEY, "Sandbox Settle", "Sao Paulo", amount_cents=1234)},
    "QrCodeRequest": dict(kind="static", key=LEFT_OUT),
    "Refund": dict(flow="OUT", status="PROCESSING", reason="MD06"),
    "ReturnRequest": {"end_to_end_id": _OUT_ID},
    "Payment": dict(status="CONFIRMED", code=LEFT_OUT, reason=LEFT_OUT),
    "ReturnOutcome": dict(
        return_identification="D99999004202611201234q7R8s9T0u1V", original_end_to_end_id=_OUT_ID, status="RETURNED"
    ),
    "SandboxHolder": {"holder_id": 7, "key": "f5f97af6-ab22-40f1-b2d9-2bbf8ced29dc"},
    "ServerMetadata": {
        "issuer": f"http://{ADDRESS}",
        "token_endpoint": f"http://{ADDRESS}/oauth/token",
        "jwks_uri": f"http://{ADDRESS}/.well-known/jwks.json",
        "scopes_supported": ["charge.read", "charge.write"],
        "response_types_supported": ["none"],
        "grant_types_supported": ["client_credentials"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "service_documentation": f"http://{ADDRESS}/docs",
    },
    "RefundOutcome": dict(status="ERROR", reason="the account does not exist"),
    "Statement": {"opening_balance": 100_000_000, "closing_balance": 100_001_234},
    "StatementLine": {"running_balance": 100_001_234, "return_identification": LEFT_OUT},
    "SystemInfo": dict(mem_alloc_mb=69, mem_sys_mb=69, mem_total_mb=71, num_cpu=2, num_gc=66, num_goroutine=9, version="0.1.0"),
    "Transfer": dict(
        credit_party=_OUTSIDE,
        debit_party=_US,
        end_to_end_id=_OUT_ID,
        impact_type="OUT",
        status="PROCESSING",
        transaction_identification=LEFT_OUT,
    ),
    "TransferOutcome": dict(status="ERROR", reason="the account does not exist"),
    "TransferParty": _OUTSIDE,
    "WebhookDelivery": dict(status="delivered"),
    "WebhookEndpoint": {"event_types": _EVENT_TYPES, "url": _RECEIVER},
}

_LATER: Final[Mapping[str, Mapping[str, object]]] = {
    "Transfer": dict(status="CONFIRMED", last_modified="2026-11-20T12:34:58.123456Z"),
    "Refund": dict(status="RETURNED", last_modified="2026-11-20T12:34:58.123456Z"),
}
"""Fields that differ in a later read: the rail has answered by then."""

_BY_OPERATION: Final[Mapping[str, Mapping[str, Mapping[str, object]]]] = {
    "change_webhook_endpoint": {"WebhookEndpoint": dict(status="inactive")},
    "sandbox_add_key": {"TransferParty": dict(key="maria@outside.example", name="Maria Silva")},
    "sandbox_clear_faults": {"FaultRules": {"rules": []}},
}
"""Fields that differ because of the request."""

_BY_TYPE: Final = dict(string="text", integer=1, number=0.5, boolean=True)


class Examples:
    """Makes examples of schemas, by name; ``otherwise`` overrides fields of records."""

    def __init__(self, schemas: Mapping[str, Schema], otherwise: Mapping[str, Mapping[str, object]] | None = None) -> None:
        self._schemas = schemas
        self._by_record = {name: dict(fields) for name, fields in _BY_RECORD.items()}
        for name, fields in (otherwise or {}).items():
            self._by_record.setdefault(name, {}).update(fields)

    def make(self, schema: Schema, name: str = "") -> object:
        """Make a value that the schema permits and a reader understands; ``name`` is the field's."""
        # The schema's own example comes first, then the usual value for a field of this name, then any value of the
        # type.
        if "examples" in schema:
            return schema["examples"][0]
        if "default" in schema:
            return schema["default"]
        if "oneOf" in schema:
            return self.make(schema["oneOf"][0])
        found = find_schema(schema, self._schemas)
        if found is not schema and "type" not in found:
            return self.make(found)
        if "enum" in found:
            return found["enum"][0]
        match found["type"]:
            case "object":
                return self._make_object(found, schema.get("$ref", "").removeprefix(SCHEMAS))
            case "array":
                return [self.make(found["items"], name)]
            case kind:
                usual = NOW if found.get("format") == "date-time" else _BY_TYPE[kind]
                return _BY_FIELD.get(name, usual)

    def _make_object(self, schema: Schema, record: str) -> Mapping[str, object]:
        own = self._by_record.get(record, {})
        fields = {
            name: own[name] if name in own else self.make(part, name) for name, part in schema.get("properties", {}).items()
        }
        return {name: value for name, value in fields.items() if value is not LEFT_OUT}


def example_of_answer(row: AnyOperation, schemas: Mapping[str, Schema]) -> object:
    name = row.record.__name__ if row.is_bare else envelope_name(row)
    otherwise = _BY_OPERATION.get(row.id, _LATER if row.method == "GET" else {})
    return Examples(schemas, otherwise).make(to_schema(name))


def example_of_event(event: EventName, family: EventFamily, schemas: Mapping[str, Schema]) -> object:
    # Except for charges the name contains the direction.
    _, *direction, _ = event.upper().split(".")
    status = EVENT_STATUSES[event]
    payload: dict[str, object] = dict(status=status)
    if event != "transfer.in.held":
        payload["hold"] = LEFT_OUT
    if direction:
        payload |= {"impact_type": direction[0], "flow": direction[0]}
    if direction == ["IN"]:
        payload["external_id"] = LEFT_OUT
    otherwise = {family.payload.__name__: payload | family.example(status), family.schema: {"name": event}}
    return Examples(schemas, otherwise).make(to_schema(family.schema))
