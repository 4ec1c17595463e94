"""The whole API as one table.

Routing, authorisation, decoding and the OpenAPI document are all derived from it, so that they cannot disagree. A row has the
path and its scope, then the parameter, the query, the body, the answer and the handler, whose docstring describes it.
"""

import functools
from itertools import chain
from typing import Final

from msgspec import structs

from pixconnect.doors.api import rates
from pixconnect.doors.api.contract import charge, ledger, refund, transfer
from pixconnect.doors.api.decoding import FORM_MAX
from pixconnect.doors.api.document import Document
from pixconnect.doors.api.envelope import Listing, ListQuery
from pixconnect.doors.api.operation import ENVELOPED, AnyOperation, Anything, Bare, Door, Nothing, RefusalForm, Section
from pixconnect.doors.api.operation import Operation as Row
from pixconnect.doors.api.routing import END_TO_END_ID, EXTERNAL_ID, ID, NONE, RETURN_IDENTIFICATION, TXID
from pixconnect.features.identity import api as oauth
from pixconnect.features.monitoring import api as health
from pixconnect.features.sandbox import api as sandbox
from pixconnect.features.webhooks.api import endpoint, feed
from pixconnect.kernel.feature import gather

_OUT: Final = (*charge.NEW, "LIMIT_EXCEEDED", "SAME_ACCOUNT", "HOLDER_BLOCKED", "INSUFFICIENT_FUNDS")

# Each row keeps two lines, which the formatter would spread over nine.
# fmt: off
CHARGES: Final = Section(
    title="Charges",
    text="Ask for a payment: a charge is a QR code that anyone with Pix can pay once, in full, before it expires.",
    operations=(
        Row("create_charge", "POST", "/v1/connect/charge", "charge.write",
            NONE, charge.QrCodeQuery, charge.CreateChargeRequest, charge.Charge, charge.create_charge,
            rules=charge.RULES),
        Row("get_charge_by_id", "GET", "/v1/connect/charge/{id}", "charge.read",
            ID, charge.QrCodeQuery, Nothing, charge.Charge, charge.get_charge_by_id),
        Row("get_charge_by_external_id", "GET", "/v1/connect/charge/external-id/{externalId}", "charge.read",
            EXTERNAL_ID, charge.QrCodeQuery, Nothing, charge.Charge, charge.get_charge_by_external_id),
        Row("get_charge_by_txid", "GET", "/v1/connect/charge/txid/{txid}", "charge.read",
            TXID, charge.QrCodeQuery, Nothing, charge.Charge, charge.get_charge_by_txid),
        Row("get_charge_payment", "GET", "/v1/connect/charge/id/{id}/payment", "charge.read",
            ID, Nothing, Nothing, charge.PaidBy, charge.get_charge_paid_by),
        Row("list_charges_by_holder", "GET", "/v1/connect/charge/list", "charge.read",
            NONE, charge.ChargeListQuery, Nothing, Listing[charge.Charge], charge.list_charges, may_be_old=True),
    ),
)

TRANSFERS: Final = Section(
    title="Transfers",
    text="Send Pix by key, by account or by QR code, and see what you sent and received.",
    operations=(
        Row("initiate_pix_with_key", "POST", "/v1/connect/transfer/key", "transfer.write",
            NONE, Nothing, transfer.InitiatePixWithKeyRequest, transfer.Transfer, transfer.initiate_pix_with_key,
            rules=(*_OUT, "INVALID_PIX_KEY", "PIX_KEY_NOT_FOUND")),
        Row("initiate_pix_with_account_details", "POST", "/v1/connect/transfer/manual", "transfer.write",
            NONE, Nothing, transfer.InitiatePixWithAccountDetailsRequest, transfer.Transfer,
            transfer.initiate_pix_with_account_details, rules=(*_OUT, "INVALID_TAX_ID", "INVALID_ACCOUNT")),
        Row("initiate_pix_with_qrcode", "POST", "/v1/connect/transfer/qrcode", "transfer.write",
            NONE, Nothing, transfer.InitiatePixWithQRCodeRequest, transfer.Transfer, transfer.initiate_pix_with_qrcode,
            rules=(*_OUT, "INVALID_PIX_KEY", "PIX_KEY_NOT_FOUND", "INVALID_QR_CODE", "QR_CODE_EXPIRED", "QR_CODE_ALREADY_PAID",
                   "AMOUNT_MISMATCH")),
        Row("get_transfer_by_id", "GET", "/v1/connect/transfer/id/{id}", "transfer.read",
            ID, Nothing, Nothing, transfer.Transfer, transfer.get_transfer_by_id),
        Row("get_transfer_outcome", "GET", "/v1/connect/transfer/id/{id}/outcome", "transfer.read",
            ID, Nothing, Nothing, transfer.TransferOutcome, transfer.get_transfer_outcome),
        Row("get_transfer_by_external_id", "GET", "/v1/connect/transfer/external-id/{externalId}", "transfer.read",
            EXTERNAL_ID, Nothing, Nothing, transfer.Transfer, transfer.get_transfer_by_external_id),
        Row("get_transfer_by_end_to_end_id", "GET", "/v1/connect/transfer/end-to-end-id/{endToEndId}", "transfer.read",
            END_TO_END_ID, Nothing, Nothing, transfer.Transfer, transfer.get_transfer_by_end_to_end_id),
        Row("list_transfers_by_holder", "GET", "/v1/connect/transfer/list", "transfer.read",
            NONE, transfer.TransferListQuery, Nothing, Listing[transfer.Transfer], transfer.list_transfers, may_be_old=True),
        Row("search_transfers", "GET", "/v1/connect/transfer/search", "transfer.read",
            NONE, transfer.TransferSearchQuery, Nothing, Listing[transfer.Transfer], transfer.search_transfers),
    ),
)

REFUNDS: Final = Section(
    title="Refunds",
    text="Refund payments that you received, in full or in part.",
    operations=(
        Row("create_refund", "POST", "/v1/connect/refund", "refund.write",
            NONE, Nothing, refund.CreateRefundRequest, refund.Refund, refund.create_refund,
            rules=(*charge.NEW, "LIMIT_EXCEEDED", "AMOUNT_MISMATCH", "HOLDER_BLOCKED", "ORIGINAL_NOT_REFUNDABLE",
                   "REFUND_INFRACTION_OPEN", "REFUND_EXCEEDS_ORIGINAL", "REFUND_WINDOW_CLOSED", "INSUFFICIENT_FUNDS")),
        Row("get_refund_by_id", "GET", "/v1/connect/refund/id/{id}", "refund.read",
            ID, Nothing, Nothing, refund.Refund, refund.get_refund_by_id),
        Row("get_refund_outcome", "GET", "/v1/connect/refund/id/{id}/outcome", "refund.read",
            ID, Nothing, Nothing, refund.RefundOutcome, refund.get_refund_outcome),
        Row("get_refund_by_external_id", "GET", "/v1/connect/refund/external-id/{externalId}", "refund.read",
            EXTERNAL_ID, Nothing, Nothing, refund.Refund, refund.get_refund_by_external_id),
        Row("get_refund_by_return_identification", "GET",
            "/v1/connect/refund/return-identification/{returnIdentification}", "refund.read",
            RETURN_IDENTIFICATION, Nothing, Nothing, refund.Refund, refund.get_refund_by_return_identification),
        Row("list_refunds_by_holder", "GET", "/v1/connect/refund/list", "refund.read",
            NONE, refund.RefundListQuery, Nothing, Listing[refund.Refund], refund.list_refunds, may_be_old=True),
    ),
)

LEDGER: Final = Section(
    title="Ledger",
    text="Your account's balance and its history.",
    operations=(
        Row("retrieve_current_balance", "GET", "/v1/connect/ledger/balance", "ledger.read",
            NONE, Nothing, Nothing, ledger.HolderBalance, ledger.retrieve_balance),
        Row("list_transactions_by_holder", "GET", "/v1/connect/ledger/list", "ledger.read",
            NONE, ListQuery, Nothing, Listing[ledger.Transaction], ledger.list_transactions, may_be_old=True),
        Row("retrieve_balance", "GET", "/v1/connect/balance", "ledger.read",
            NONE, Nothing, Nothing, ledger.HolderBalance, ledger.retrieve_balance,
            summary="Read your balance (alternative path)"),
        Row("list_transactions", "GET", "/v1/connect/transactions/list", "ledger.read",
            NONE, ListQuery, Nothing, Listing[ledger.Transaction], ledger.list_transactions,
            summary="List your transactions (alternative path)", may_be_old=True),
    ),
)

WEBHOOKS: Final = Section(
    title="Webhooks",
    text="Receive events by signed HTTP POST, at least once and in order for each charge, transfer and refund.",
    operations=(
        Row("create_webhook_endpoint", "POST", "/v1/webhook/endpoints", "webhook.write",
            NONE, Nothing, endpoint.CreateEndpointRequest, endpoint.WebhookEndpoint, endpoint.create_endpoint,
            rules=("LIMIT_EXCEEDED", "INVALID_WEBHOOK_URL")),
        Row("list_webhook_endpoints", "GET", "/v1/webhook/endpoints", "webhook.read",
            NONE, ListQuery, Nothing, Listing[endpoint.WebhookEndpoint], endpoint.list_endpoints),
        Row("get_webhook_endpoint", "GET", "/v1/webhook/endpoints/{id}", "webhook.read",
            ID, Nothing, Nothing, endpoint.WebhookEndpoint, endpoint.get_endpoint),
        Row("change_webhook_endpoint", "PATCH", "/v1/webhook/endpoints/{id}", "webhook.write",
            ID, Nothing, endpoint.ChangeEndpointRequest, endpoint.WebhookEndpoint, endpoint.change_endpoint,
            rules=("INVALID_WEBHOOK_URL",)),
        Row("delete_webhook_endpoint", "DELETE", "/v1/webhook/endpoints/{id}", "webhook.write",
            ID, Nothing, Nothing, endpoint.WebhookEndpoint, endpoint.delete_endpoint),
        Row("list_webhook_deliveries", "GET", "/v1/webhook/endpoints/{id}/deliveries", "webhook.read",
            ID, endpoint.DeliveryListQuery, Nothing, Listing[endpoint.WebhookDelivery], endpoint.list_deliveries,
            may_be_old=True),
        Row("get_webhook_delivery", "GET", "/v1/webhook/deliveries/{id}", "webhook.read",
            ID, Nothing, Nothing, endpoint.WebhookDelivery, endpoint.get_delivery),
        Row("redeliver_webhook", "POST", "/v1/webhook/deliveries/{id}/redeliver", "webhook.write",
            ID, Nothing, Nothing, endpoint.WebhookDelivery, endpoint.redeliver),
        Row("list_events", "GET", "/v1/webhook/events", "webhook.read",
            NONE, ListQuery, Nothing, Listing[endpoint.WebhookEvent], endpoint.list_events, may_be_old=True),
        Row("read_event_feed", "GET", "/v1/webhook/feed", "webhook.read",
            NONE, feed.EventFeedQuery, Nothing, feed.EventFeed, feed.read_event_feed),
        Row("replay_events", "POST", "/v1/webhook/endpoints/{id}/replay", "webhook.write",
            ID, Nothing, endpoint.ReplayRequest, endpoint.Replayed, endpoint.replay_events,
            rules=("LIMIT_EXCEEDED",)),
    ),
)

IDENTITY: Final = Section(
    title="Identity",
    text="Get a token, and the keys that verify what the service signs. Served at the identity service's address.",
    operations=(
        Row("request_token", "POST", "/v1/iam/users/login", None,
            NONE, Anything, oauth.TokenForm, oauth.AccessToken, oauth.request_token, body_form="form",
            body_max=FORM_MAX),
        Row("request_oauth_token", "POST", oauth.TOKEN_PATH, None,
            NONE, Anything, oauth.Grant, Bare[oauth.OAuthToken], oauth.request_oauth_token,
            body_form="form or json", body_max=FORM_MAX, refusals=oauth.REFUSALS),
        Row("get_server_metadata", "GET", oauth.METADATA_PATH, None,
            NONE, Anything, Nothing, Bare[oauth.ServerMetadata], oauth.get_server_metadata),
        Row("get_public_key", "GET", "/v1/iam/public-key", None,
            NONE, Anything, Nothing, oauth.CurrentKey, oauth.get_public_key),
        Row("get_key_set", "GET", "/.well-known/jwks.json", None,
            NONE, Anything, Nothing, Document, oauth.get_key_set, media_types=(oauth.JWK_SET_TYPE,)),
    ),
)

SERVICE: Final = Section(
    title="Service",
    text="About the service itself.",
    operations=(
        Row("health_check", "GET", "/v1/connect/health", None,
            NONE, Anything, Nothing, health.Health, health.check_health),
        Row("check_liveness", "GET", "/livez", None,
            NONE, Anything, Nothing, Bare[health.Liveness], health.check_liveness, pace=rates.PROBES),
        Row("check_readiness", "GET", "/readyz", None,
            NONE, Anything, Nothing, Bare[health.Readiness], health.check_readiness, refusals=health.NOT_READY,
            pace=rates.PROBES),
    ),
)

SANDBOX: Final = Section(
    title="Sandbox",
    text="The other side of the rail: receive payments, cause failures, move the clock. Any valid token; not in live mode.",
    operations=(
        Row("sandbox_pay", "POST", "/sandbox/v1/payments", "any",
            NONE, Nothing, sandbox.PaymentRequest, sandbox.Payment, sandbox.pay,
            rules=("AMOUNT_OUT_OF_RANGE", "INVALID_PIX_KEY", "PIX_KEY_NOT_OWNED", "INVALID_TAX_ID", "INVALID_QR_CODE")),
        Row("sandbox_give_back", "POST", "/sandbox/v1/returns", "any",
            NONE, Nothing, sandbox.ReturnRequest, sandbox.ReturnOutcome, sandbox.give_back,
            rules=("AMOUNT_OUT_OF_RANGE", "ORIGINAL_NOT_REFUNDABLE")),
        Row("sandbox_deposit", "POST", "/sandbox/v1/deposits", "any",
            NONE, Nothing, sandbox.DepositRequest, sandbox.Deposit, sandbox.deposit,
            rules=("AMOUNT_OUT_OF_RANGE", "HOLDER_BLOCKED")),
        Row("sandbox_open_holder", "POST", "/sandbox/v1/holders", "any",
            NONE, Nothing, sandbox.HolderRequest, sandbox.SandboxHolder, sandbox.open_holder),
        Row("sandbox_list_keys", "GET", "/sandbox/v1/keys", "any",
            NONE, sandbox.KeyListQuery, Nothing, Listing[transfer.TransferParty], sandbox.list_keys),
        Row("sandbox_add_key", "POST", "/sandbox/v1/keys", "any",
            NONE, Nothing, sandbox.KeyRequest, transfer.TransferParty, sandbox.add_key,
            rules=("INVALID_PIX_KEY", "INVALID_TAX_ID")),
        Row("sandbox_make_qr_code", "POST", "/sandbox/v1/qrcodes", "any",
            NONE, Nothing, sandbox.QrCodeRequest, sandbox.QrCode, sandbox.make_qr_code,
            rules=("AMOUNT_OUT_OF_RANGE",)),
        Row("sandbox_get_faults", "GET", "/sandbox/v1/faults", "any",
            NONE, Nothing, Nothing, sandbox.FaultRules, sandbox.get_faults),
        Row("sandbox_replace_faults", "PUT", "/sandbox/v1/faults", "any",
            NONE, Nothing, sandbox.FaultRules, sandbox.FaultRules, sandbox.replace_faults),
        Row("sandbox_clear_faults", "DELETE", "/sandbox/v1/faults", "any",
            NONE, Nothing, Nothing, sandbox.FaultRules, sandbox.clear_faults),
        Row("sandbox_get_clock", "GET", "/sandbox/v1/clock", "any",
            NONE, Nothing, Nothing, sandbox.SandboxClock, sandbox.get_clock),
        Row("sandbox_move_clock", "POST", "/sandbox/v1/clock", "any",
            NONE, Nothing, sandbox.ClockRequest, sandbox.SandboxClock, sandbox.move_clock),
    ),
)
# fmt: on


_OF_FEATURES: Final = gather("sections", Section)
_DOORS: Final = gather("doors", Door)
_OWN: Final = (CHARGES, TRANSFERS, REFUNDS, LEDGER, WEBHOOKS, IDENTITY, SERVICE, SANDBOX)


def list_sections(*, is_sandbox: bool) -> tuple[Section, ...]:
    """List the API's sections; the sandbox's own operations do not exist in live mode."""
    titles = [each.title for each in _OWN]
    new = [each for each in _OF_FEATURES if each.title not in titles]
    place = _OWN.index(LEDGER)
    found = (*_OWN[:place], *new, *_OWN[place:])
    sections: list[Section] = []
    for section in found:
        if is_sandbox or section is not SANDBOX:
            more = [each.operations for each in _OF_FEATURES if each.title == section.title and each is not section]
            sections.append(structs.replace(section, operations=(*section.operations, *chain.from_iterable(more))))
    return tuple(sections)


def _list_doors(*, is_sandbox: bool) -> list[Door]:
    return [door for door in _DOORS if door.only_in in {None, "sandbox" if is_sandbox else "live"}]


def list_operations(*, is_sandbox: bool) -> tuple[AnyOperation, ...]:
    return tuple(row for section in list_sections(is_sandbox=is_sandbox) for row in section.operations)


@functools.cache
def list_routes(*, is_sandbox: bool) -> tuple[AnyOperation, ...]:
    described = list_operations(is_sandbox=is_sandbox)
    doors = chain.from_iterable(door.list_routes() for door in _list_doors(is_sandbox=is_sandbox))
    return (*described, *doors)


_TOKEN_PATH: Final = oauth.TOKEN_PATH.encode()


def choose_refusal_form(operation: AnyOperation | None, raw_path: bytes, *, is_sandbox: bool) -> RefusalForm:
    """Choose how to refuse a request; if no operation has the path, by the path's beginning."""
    if operation is not None:
        return operation.refusals
    if raw_path.startswith(_TOKEN_PATH):
        return oauth.REFUSALS
    for door in _list_doors(is_sandbox=is_sandbox):
        if found := door.find_form(raw_path):
            return found
    return ENVELOPED
