"""OFX, read back with ofxtools, which checks types, lengths, order and required elements."""

import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from ofxtools.Parser import OFXTree

from pixconnect.features.statements import files
from pixconnect.features.statements.rules import Counterparty, Statement, StatementLine
from support.records import AT, E2E, RETURN_ID
from support.statement import (
    LINES,
    make_adjustment_line,
    make_fee_line,
    make_line,
    make_refund_line,
    make_repayment_line,
    make_statement,
    write_whole,
)


def read_back(statement: Statement, lines: list[StatementLine]) -> Any:
    tree = OFXTree()
    tree.parse(io.BytesIO(write_whole(files.write_ofx, statement, lines)))
    return tree.convert()


def test_the_account_and_its_balances_are_there() -> None:
    ofx = read_back(make_statement(), LINES)
    assert (ofx.sonrs.org, ofx.sonrs.fid, ofx.sonrs.language) == ("Pix Connect Sandbox", "99999003", "ENG")
    (found,) = ofx.statements
    assert (found.account.bankid, found.account.branchid, found.account.acctid) == ("99999003", "0001", "1001")
    assert (found.account.accttype, found.curdef) == ("CHECKING", "BRL")
    assert found.balance.balamt == Decimal("113.00")
    (opening,) = found.ballist
    assert (opening.name, opening.value) == ("OPENING", Decimal("100.00"))


def test_a_line_carries_its_id_its_names_and_its_instant() -> None:
    (found,) = read_back(make_statement(), LINES).statements
    received, refunded, deposit = found.transactions
    assert [line.fitid for line in found.transactions] == ["11", "12", "13"]
    assert [line.trntype for line in found.transactions] == ["CREDIT", "DEBIT", "CREDIT"]
    assert received.dtposted == AT - timedelta(microseconds=456)
    assert (received.refnum, received.name, received.memo) == (E2E, "Joana Prado", "Pix received from Joana Prado")
    assert (refunded.refnum, refunded.memo) == (E2E, f"{RETURN_ID} Wrong size")
    assert (deposit.refnum, deposit.name, deposit.memo) == (None, None, "Deposit")


def test_a_fee_is_one() -> None:
    lines = [make_fee_line(), make_fee_line(description="Tarifa de abril"), make_repayment_line()]
    lines.append(make_adjustment_line())
    fee, described, repaid, adjusted = read_back(make_statement(lines, language="pt"), lines).statements[0].transactions
    assert (fee.trntype, fee.trnamt, fee.refnum, fee.memo) == ("FEE", Decimal("-0.50"), None, "Tarifa")
    assert described.memo == "Tarifa de abril"
    assert (repaid.trntype, repaid.trnamt, repaid.memo) == ("DEBIT", Decimal("-0.40"), "Saldo devedor coberto")
    assert (adjusted.trntype, adjusted.trnamt, adjusted.memo) == ("OTHER", Decimal("-0.30"), "Ajuste")


def test_in_portuguese_and_with_the_names_that_have_no_field_of_their_own() -> None:
    lines = [make_line(external_id="order-1", txid="t" * 32), make_refund_line(external_id="x" * 255)]
    ofx = read_back(make_statement(lines, language="pt"), lines)
    received, refunded = ofx.statements[0].transactions
    assert ofx.sonrs.language == "POR"
    assert received.memo == f"Pix recebido de Joana Prado | external_id order-1 | txid {'t' * 32}"
    assert refunded.memo == f"{RETURN_ID} Wrong size | external_id {'x' * 255}"[:255]


def test_an_empty_statement_of_all_time_is_valid() -> None:
    ever = {"initial_at": datetime(1, 1, 1, tzinfo=UTC), "final_at": datetime(9999, 12, 31, tzinfo=UTC)}
    written = write_whole(files.write_ofx, make_statement([], **ever), [])
    assert b"<DTSTART>00010101000000.000[0:GMT]</DTSTART>" in written
    (found,) = read_back(make_statement([], final_at=ever["final_at"]), []).statements
    assert list(found.transactions) == []
    assert found.balance.dtasof == (AT + timedelta(hours=1)).replace(microsecond=123_000)


def test_a_long_name_is_cut() -> None:
    line = make_line(counterparty=Counterparty(name="N" * 255, tax_id="12345678909", ispb="99999004"))
    (found,) = read_back(make_statement([line]), [line]).statements
    assert found.transactions[0].name == "N" * 32


def test_markup_in_a_description_stays_text() -> None:
    line = make_refund_line(description="a<b>&amp;]]>\x01é")
    (found,) = read_back(make_statement([line]), [line]).statements
    assert found.transactions[0].memo == f"{RETURN_ID} a<b>&amp;]]>\ufffdé"
