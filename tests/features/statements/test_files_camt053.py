"""camt.053, read back by pycamt and compared with the message definition element by element."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from lxml import etree
from pycamt.parser import Camt053Parser

from pixconnect.features.statements import files
from pixconnect.features.statements.rules import Counterparty, MovedItem, Statement, StatementLine
from support.records import E2E, RETURN_ID
from support.statement import (
    LINES,
    make_adjustment_line,
    make_deposit_line,
    make_fee_line,
    make_line,
    make_refund_line,
    make_repayment_line,
    make_statement,
    write_whole,
)

NAMES = {"c": "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"}

# The definition of the written elements: their order, and which are required ("!").
STRUCTURE = {
    "Document": "BkToCstmrStmt!",
    "BkToCstmrStmt": "GrpHdr! Stmt!",
    "GrpHdr": "MsgId! CreDtTm!",
    "Stmt": "Id! CreDtTm FrToDt Acct! Bal! TxsSummry Ntry",
    "FrToDt": "FrDtTm! ToDtTm!",
    "Acct": "Id! Tp Ccy Ownr Svcr",
    "Bal": "Tp! Amt! CdtDbtInd! Dt!",
    "Ntry": "NtryRef Amt! CdtDbtInd! Sts! BookgDt ValDt AcctSvcrRef BkTxCd! NtryDtls",
    "Domn": "Cd! Fmly!",
    "Fmly": "Cd! SubFmlyCd!",
    "TxDtls": "Refs RltdPties RltdAgts RmtInf AddtlTxInf",
    "Refs": "EndToEndId TxId Prtry",
    "Prtry": "Tp! Ref!",
    "Pty": "Nm Id",
    "Ownr": "Nm Id",
    "Othr": "Id! SchmeNm Issr",
}


def write(statement: Statement, lines: list[StatementLine]) -> bytes:
    return write_whole(files.write_camt053, statement, lines)


def read_back(lines: list[StatementLine], **changes: Any) -> Any:
    return etree.fromstring(write(make_statement(lines, **changes), lines))


def text_of(element: Any, path: str) -> str | None:
    return element.findtext("/".join(f"c:{tag}" for tag in path.split("/")), namespaces=NAMES)


def misplaced(root: Any) -> Iterator[str]:
    """Elements out of place, by ``STRUCTURE``."""
    for element in root.iter():
        name = etree.QName(element)
        assert name.namespace == NAMES["c"], name
        rule = STRUCTURE.get(name.localname, "").split()
        order = [tag.rstrip("!") for tag in rule]
        tags = [etree.QName(child).localname for child in element]
        if rule and ([order.index(tag) for tag in tags] != sorted(order.index(tag) for tag in tags)):
            yield f"order in {name.localname}: {tags}"
        yield from (f"{tag} in {name.localname}" for tag in rule if tag.endswith("!") and tag[:-1] not in tags)


ODD = [
    [],
    LINES,
    [make_fee_line(), make_repayment_line(), make_adjustment_line()],
    [make_refund_line(direction="IN"), make_line(direction="OUT")],
    [make_line(counterparty=Counterparty(name="N" * 255, tax_id="12ABC34501DE35", ispb="A1B2C3D4"))],
    [make_line(counterparty=Counterparty(name="", tax_id="12345678909", ispb="99999004"))],
    [make_refund_line(description=" \x01\r\n<&>" + "é" * 134), make_refund_line(description="")],
    [make_line(external_id="x" * 255, txid="t" * 35), make_refund_line(external_id="r", txid="t")],
    [make_deposit_line(id=2**53 - 1, amount_cents=999_999_999_999, running_balance_cents=10**18 - 1)],
]


def test_another_reader_finds_the_balances_and_every_line() -> None:
    reader: Any = Camt053Parser(write(make_statement(LINES), LINES))
    assert reader.version == "camt.053.001.08"
    (statement,) = reader.get_statement_info()
    opening_reais, closing_reais = Decimal(statement["OpeningBalance"]), Decimal(statement["ClosingBalance"])
    found = reader.get_transactions()
    signs = {"CRDT": 1, "DBIT": -1}
    moved_reais = [signs[line["CreditDebitIndicator"]] * Decimal(line["Amount"]) for line in found]
    assert (opening_reais + sum(moved_reais), closing_reais) == (closing_reais, Decimal("113.00"))
    assert [line["TransactionID"] for line in found] == [str(line.id) for line in LINES]
    assert {(line["Currency"], line["Status"]) for line in found} == {("BRL", "BOOK")}
    received, refunded, _ = found
    assert (received["EndToEndId"], received["DebtorName"]) == (E2E, "Joana Prado")
    assert (refunded["CreditorName"], refunded["RemittanceInformation"]) == ("Joana Prado", "Wrong size")
    assert received["BookingDate"] == "2026-07-01T15:00:00.123456Z"


@pytest.mark.parametrize("lines", ODD)
def test_another_reader_finds_as_many_lines_as_there_are(lines: list[StatementLine]) -> None:
    reader: Any = Camt053Parser(write(make_statement(lines), lines))
    assert len(reader.get_transactions()) == len(lines)


@pytest.mark.parametrize("lines", ODD)
def test_everything_is_in_its_place(lines: list[StatementLine]) -> None:
    assert list(misplaced(read_back(lines))) == []


def test_an_entry_carries_its_names() -> None:
    received, refunded, deposit = read_back(LINES).findall(".//c:Ntry", NAMES)
    assert [text_of(entry, "NtryRef") for entry in (received, refunded, deposit)] == ["11", "12", "13"]
    assert text_of(received, "BookgDt/DtTm") == "2026-07-01T15:00:00.123456Z"
    details = "NtryDtls/TxDtls"
    assert text_of(received, f"{details}/Refs/EndToEndId") == E2E
    assert text_of(received, f"{details}/RltdPties/Dbtr/Pty/Nm") == "Joana Prado"
    assert text_of(received, f"{details}/RltdPties/Dbtr/Pty/Id/PrvtId/Othr/Id") == "12345678909"
    assert text_of(received, f"{details}/RltdAgts/DbtrAgt/FinInstnId/ClrSysMmbId/MmbId") == "99999004"
    assert text_of(refunded, f"{details}/Refs/EndToEndId") == E2E
    assert text_of(refunded, f"{details}/Refs/Prtry/Ref") == RETURN_ID
    assert text_of(refunded, f"{details}/RltdPties/Cdtr/Pty/Nm") == "Joana Prado"
    assert text_of(refunded, f"{details}/RmtInf/Ustrd") == "Wrong size"
    assert text_of(deposit, f"{details}/Refs/EndToEndId") == "NOTPROVIDED"
    assert deposit.find(".//c:RltdPties", NAMES) is None
    words = [text_of(entry, f"{details}/RmtInf/Ustrd") for entry in (received, refunded, deposit)]
    assert words == ["Pix received from Joana Prado", "Wrong size", "Deposit"]


def test_what_the_institution_moved_is_miscellaneous_and_a_fee_is_one() -> None:
    wire = make_fee_line(direction="IN", movement=MovedItem(kind="wire", item_id="M2", end_to_end_id=None))
    lines = [make_fee_line(), wire, make_repayment_line(), make_adjustment_line()]
    fee, wired, repaid, adjusted = read_back(lines).findall(".//c:Ntry", NAMES)
    codes = [
        (text_of(entry, "BkTxCd/Domn/Fmly/Cd"), text_of(entry, "BkTxCd/Domn/Fmly/SubFmlyCd"))
        for entry in (fee, wired, repaid, adjusted)
    ]
    assert codes == [("MDOP", "FEES"), ("MCOP", "OTHR"), ("MDOP", "OTHR"), ("MDOP", "ADJT")]
    assert text_of(repaid, "NtryDtls/TxDtls/RmtInf/Ustrd") == "Deficit repaid"
    assert text_of(fee, "NtryDtls/TxDtls/Refs/EndToEndId") == "NOTPROVIDED"
    assert text_of(wired, "NtryDtls/TxDtls/RmtInf/Ustrd") == "Wire transfer"


def test_an_entry_carries_our_holders_name_for_it_and_the_codes() -> None:
    lines = [make_line(external_id="order-1", txid="t" * 32)]
    (entry,) = read_back(lines, language="pt").findall(".//c:Ntry", NAMES)
    details = "NtryDtls/TxDtls"
    assert text_of(entry, f"{details}/Refs/TxId") == "t" * 32
    assert text_of(entry, f"{details}/AddtlTxInf") == "order-1"
    assert text_of(entry, f"{details}/RmtInf/Ustrd") == "Pix recebido de Joana Prado"
