"""Efi's conciliation file: each kind of record by the layout, and each fault with its line number."""

import contextlib
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.features.institutions.statement_files.efi_file import read_efi_file
from pixconnect.features.institutions.statement_files.statement_account import StatementAccount
from pixconnect.features.institutions.statement_files.statement_file import InvalidStatement, StatedBalance
from support.statement_files import make_efi_file

E2E = "E0000000020211108181557703828021"
RTR = "D00000000202111081815577038280211"[:32]
AT = "2026-11-02T20:15:00.358Z"
TEXT = "cGFnYW1lbnRvIGNodXJyYXNjbw=="
# As in the layout's own examples, each after its kind.
RECORDS = {
    "PR": (f"PR;1;{E2E};0000100020030000;9.00;12345678908;{TEXT};W10=;{AT}", 900, (E2E,)),
    "PEC": (f"PEC;2;{E2E};send1;9.00;12345678908;{TEXT};API;{AT}", -900, (E2E,)),
    "PEB": (f"PEB;3;{E2E};send1;9.00;João;12345678908;09089356;1;123453;cacc;{TEXT};API;{AT}", -900, (E2E,)),
    "EPE": (f"EPE;4;{E2E};9.00;{AT}", 900, (E2E,)),
    "PDE": (f"PDE;5;{E2E};txid1;refund1;{RTR};9.00;{AT}", -900, (RTR, E2E)),
    "PDR": (f"PDR;6;{E2E};{RTR};3.00;{AT}", 300, (RTR, E2E)),
    "TPE": (f"TPE;7;{E2E};0001;000AAA111;{RTR};1.50;{AT}", -150, (E2E,)),
    "TPR": (f"TPR;8;{E2E};1.00;{AT}", -100, (E2E,)),
    "ETPE": (f"ETPE;9;{E2E};5.00;{AT}", 500, (E2E,)),
    "ETPR": (f"ETPR;10;{E2E};1.00;{AT}", 100, (E2E,)),
    "TFE": (f"TFE;11;1324666;31.50;{AT}", -3150, ()),
    "TFR": (f"TFR;12;1324655;21.50;{TEXT};{AT}", 2150, ()),
    "ETFE": (f"ETFE;13;1324666;31.50;{AT}", 3150, ()),
    "TTFE": (f"TTFE;14;1324666;5.55;{AT}", -555, ()),
    "ETTFE": (f"ETTFE;15;1324666;5.55;{AT}", 555, ()),
}
FEES = {"TPE", "TPR", "ETPE", "ETPR", "TTFE", "ETTFE"}


@pytest.mark.parametrize("kind", RECORDS)
def test_each_kind_of_record_has_its_side_and_its_names(kind: str) -> None:
    record, cents, names = RECORDS[kind]
    (item,) = read_efi_file(make_efi_file(record)).items
    assert (item.signed_cents, item.names) == (cents, names)
    assert item.settled_at == datetime(2026, 11, 2, 20, 15, 0, 358_000, UTC)
    assert item.day == date(2026, 11, 2)
    assert (item.kind == "fee") == (kind in FEES)
    assert item.item_id.startswith(f"{kind}:")


def test_all_of_a_day_with_its_balances() -> None:
    balances = "SD0;29.00;2026-11-01\nSD1;35.00;2026-11-02"
    found = read_efi_file(make_efi_file(*(record for record, _, _ in RECORDS.values()), balances=balances))
    assert found.account == StatementAccount(bank="364", branch="1", number="517613")
    assert (found.first_on, found.last_on) == (date(2026, 11, 2), date(2026, 11, 2))
    assert found.opening == StatedBalance(cents=2900, on=date(2026, 11, 1))
    assert found.closing == StatedBalance(cents=3500, on=date(2026, 11, 2))
    assert sum(item.signed_cents for item in found.items) == sum(cents for _, cents, _ in RECORDS.values())
    received = found.items[0]
    assert (received.text, received.tax_id, received.txid) == ("pagamento churrasco", "12345678908", "0000100020030000")
    assert found.items[2].counterparty == "João"
    # An unreadable text moves no money.
    found = read_efi_file(make_efi_file(RECORDS["PR"][0].replace(TEXT, "é?"), RECORDS["PR"][0].replace(TEXT, "4+k=")))
    assert [item.text for item in found.items] == ["é?", "ãé"]
    assert found.notes == ("line 2: a text is not in base64, and is read as it stands",)
    # A separator in a name is a part of it.
    (item,) = read_efi_file(make_efi_file(RECORDS["PEB"][0].replace("João", "João; Filhos;"))).items
    assert (item.counterparty, item.tax_id, item.signed_cents) == ("João; Filhos;", "12345678908", -900)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("PR;", "XX;", "line 2: 'XX' is no record of this file"),
        (";9.00", "", "line 2: PR: must have 9 columns"),
        ("9.00", "9.001", "line 2: amount: '9.001' is no amount"),
        ("9.00", "-9.00", "line 2: amount: must not be below 0"),
        (E2E, "E1", "line 2: end_to_end_id: 'E1' is no name of the network"),
        (AT, "2026-11-02", "line 2: '2026-11-02' is no instant in UTC"),
        ("PR;1;", "PR;;", "line 2: protocol: is missing"),
        ("T;1;", "T;2;", "line 3: T: the trailer must count the 1 records before it: the file is cut off"),
        ("T;1;", "X;1;", "line 3: T: "),
        ("Gerencianet;364;", "364;", "line 1: CA: the header must have 10 columns"),
        ("2026-11-02;Extrato", "x;Extrato", "line 1: CA: 'x' is no day"),
        ("PR;1;", "SD0;1.00;2026-11-02\nPR;1;", "line 2: SD0: must be of 2026-11-01"),
        ("PR;1;", "SD1;1.00\nPR;1;", "line 2: SD1: must have 3 columns"),
        ("PR;1;", "x" * 40_000, "line 2: it has more than 32768 characters"),
    ],
)
def test_a_fault_names_its_line_and_the_rule(old: str, new: str, rule: str) -> None:
    text = make_efi_file(RECORDS["PR"][0]).decode()
    assert old in text
    with pytest.raises(InvalidStatement) as caught:
        read_efi_file(text.replace(old, new, 1).encode())
    assert str(caught.value).startswith(rule)


@given(
    st.integers(0, 700), st.integers(0, 40), st.one_of(st.sampled_from([";", "\n", "=", "\0", "é", "-"]), st.text(max_size=20))
)
def test_a_damaged_file_is_read_or_refused_and_nothing_else(at: int, length: int, put: str) -> None:
    text = make_efi_file(RECORDS["PR"][0], RECORDS["PEB"][0], balances="SD0;29.00;2026-11-01").decode()
    damaged = (text[:at] + put + text[at + length :]).encode("utf-8", "surrogatepass")
    with contextlib.suppress(InvalidStatement):
        read_efi_file(damaged)


@given(st.binary(max_size=200))
def test_bytes_are_refused_and_nothing_else(content: bytes) -> None:
    for whole in (content, b"CA;" + content):
        with pytest.raises(InvalidStatement):
            read_efi_file(whole)
