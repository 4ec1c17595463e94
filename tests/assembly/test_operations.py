"""The table of operations, checked by its own rules and against the contract's list."""

import inspect

import pytest

from pixconnect.assembly.operations import list_operations
from pixconnect.doors.api.document import Document
from pixconnect.doors.api.operation import Nothing
from pixconnect.kernel.rules.access import SCOPES

ROWS = list_operations(is_sandbox=True)
CONTRACT = {
    "create_charge": ("POST", "/v1/connect/charge"),
    "get_charge_by_id": ("GET", "/v1/connect/charge/{id}"),
    "get_charge_by_external_id": ("GET", "/v1/connect/charge/external-id/{externalId}"),
    "get_charge_by_txid": ("GET", "/v1/connect/charge/txid/{txid}"),
    "list_charges_by_holder": ("GET", "/v1/connect/charge/list"),
    "health_check": ("GET", "/v1/connect/health"),
    "retrieve_current_balance": ("GET", "/v1/connect/ledger/balance"),
    "list_transactions_by_holder": ("GET", "/v1/connect/ledger/list"),
    "get_transfer_by_end_to_end_id": ("GET", "/v1/connect/transfer/end-to-end-id/{endToEndId}"),
    "get_transfer_by_external_id": ("GET", "/v1/connect/transfer/external-id/{externalId}"),
    "get_transfer_by_id": ("GET", "/v1/connect/transfer/id/{id}"),
    "initiate_pix_with_key": ("POST", "/v1/connect/transfer/key"),
    "initiate_pix_with_account_details": ("POST", "/v1/connect/transfer/manual"),
    "initiate_pix_with_qrcode": ("POST", "/v1/connect/transfer/qrcode"),
    "list_transfers_by_holder": ("GET", "/v1/connect/transfer/list"),
}


@pytest.mark.parametrize("operation_id", CONTRACT)
def test_the_contracts_operations_are_there_under_their_ids(operation_id: str) -> None:
    (row,) = [row for row in ROWS if row.id == operation_id]
    assert (row.method, row.path) == CONTRACT[operation_id]


def test_an_operation_id_and_a_path_occur_once() -> None:
    assert len({row.id for row in ROWS}) == len({(row.method, row.path) for row in ROWS}) == len(ROWS)


def test_a_row_fits_together() -> None:
    for row in ROWS:
        braces = row.path.partition("{")[2].partition("}")[0]
        assert braces == row.parameter.name
        assert row.scope in {None, "any", *SCOPES}
        assert (row.scope == "any") == row.path.startswith("/sandbox/")
        assert row.answer is not Document or row.media_types
        assert row.body is Nothing or row.method != "GET"
        if row.scope and row.scope != "any":
            assert row.scope.endswith("read" if row.method == "GET" else "write")
        assert row.summary or inspect.getdoc(row.handler), "nothing says what it does"


def test_in_live_mode_there_is_no_sandbox() -> None:
    assert not [row for row in list_operations(is_sandbox=False) if "sandbox" in row.path]
