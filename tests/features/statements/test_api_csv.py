"""CSV, read back with the csv module."""

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from pixconnect.features.statements.api import CSV_COLUMNS, write_csv
from support.records import E2E, RETURN_ID
from support.statement import LINES, make_line, make_refund_line, make_statement, write_whole


def read_rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True))


def test_a_row_has_every_column_and_empty_cells_for_what_is_absent() -> None:
    lines = [make_line(external_id="order-1", txid="t" * 32), *LINES[1:]]
    received, refunded, deposit = read_rows(write_whole(write_csv, make_statement(lines), lines))
    assert received == {
        "id": "11",
        "create_timestamp": "2026-07-01T15:00:00.123456Z",
        "end_to_end_id": E2E,
        "return_identification": "",
        "impact_type": "IN",
        "amount": "1234",
        "running_balance": "11234",
        "counterparty_name": "Joana Prado",
        "counterparty_tax_id": "12345678909",
        "counterparty_ispb": "99999004",
        "description": "Pix received from Joana Prado",
        "external_id": "order-1",
        "transaction_identification": "t" * 32,
        "local_timestamp": "2026-07-01T12:00:00.123456-03:00",
    }
    assert (refunded["impact_type"], refunded["amount"]) == ("OUT", "34")
    assert (refunded["return_identification"], refunded["description"]) == (RETURN_ID, "Wrong size")
    assert {name for name, cell in deposit.items() if not cell} == {
        "end_to_end_id", "return_identification", "counterparty_name", "counterparty_tax_id", "counterparty_ispb",
        "external_id", "transaction_identification",
    }  # fmt: skip


def test_an_empty_statement_is_its_header() -> None:
    assert write_whole(write_csv, make_statement([]), []) == ",".join(CSV_COLUMNS).encode() + b"\r\n"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=140))
def test_any_description_comes_back_exactly(description: str) -> None:
    line = make_refund_line(description=description)
    (row,) = read_rows(write_whole(write_csv, make_statement([line]), [line]))
    assert row["description"] == description


def test_a_formula_is_not_touched() -> None:
    line = make_refund_line(description="=1+1")
    (row,) = read_rows(write_whole(write_csv, make_statement([line]), [line]))
    assert row["description"] == "=1+1"
