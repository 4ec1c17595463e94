"""OFX as banks write it, and the faults that must not be ignored."""

import contextlib
from datetime import date, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.institutions.statement_files.own_lines import any_lines
from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.statement_files.ofx import read_ofx
from pixconnect.features.institutions.statement_files.statement_account import StatementAccount
from pixconnect.features.institutions.statement_files.statement_file import InvalidStatement, StatedBalance
from pixconnect.features.statements import files
from pixconnect.features.statements.rules import StatementLine
from support.records import AT, E2E, RETURN_ID
from support.statement import LINES, make_statement, write_whole
from support.statement_files import OFX_HEADER, make_ofx, make_ofx_line


def read_one(line: str, **changes: Any) -> InstitutionItem:
    (item,) = read_ofx(make_ofx(line, **changes)).items
    return item


def test_a_file_tells_its_account_its_days_and_its_balance() -> None:
    found = read_ofx(make_ofx(make_ofx_line()))
    assert found.format == "ofx"
    assert found.account == StatementAccount(bank="0341", branch="0001", number="12345-6", type="checking")
    assert (found.first_on, found.last_on) == (date(2026, 11, 1), date(2026, 11, 20))
    assert (found.opening, found.closing) == (None, StatedBalance(cents=123_456, on=date(2026, 11, 20)))


def test_a_line_tells_its_id_its_day_and_its_signed_amount() -> None:
    item = read_one(make_ofx_line(item_id="N1", amount="-1234.56", memo="TED ENVIADA"))
    assert (item.item_id, item.day, item.settled_at) == ("N1", date(2026, 11, 2), None)
    assert (item.direction, item.amount_cents, item.signed_cents) == ("OUT", 123_456, -123_456)
    assert (item.kind, item.text) == ("wire", "TED ENVIADA")


@pytest.mark.parametrize(
    ("amount", "cents"),
    [
        ("10", 1000), ("10.5", 1050), ("10,5", 1050), ("-10,50", -1050), ("+10.50", 1050), ("1234,56", 123_456),
        ("1.234,56", 123_456), ("1,234.56", 123_456), ("-1.234.567,89", -123_456_789), ("10.5000", 1050), (",50", 50),
        ("0000010.50", 1050), ("  50.0000", 5000), ("R$ 10", 1000), ("R$ -1.234,50", -123_450), ("-R$10,00", -1000),
        ("10,00-", -1000), ("300,00 C", 30_000), ("300,00D", -30_000),
    ],
)  # fmt: skip
def test_an_amount_has_a_point_or_a_comma(amount: str, cents: int) -> None:
    assert read_one(make_ofx_line(amount=amount)).signed_cents == cents


@pytest.mark.parametrize(
    "amount",
    [
        "1.234",
        "1,234",
        "1.500",
        "10,000",
        "10.505",
        "1.23.456,00",
        "US$ 10",
        "1e3",
        "NaN",
        "--1",
        "10.",
        "1 234,00",
        "9" * 13,
        "-10 D",
    ],
)
def test_an_amount_that_could_be_two_is_refused_by_its_line(amount: str) -> None:
    with pytest.raises(InvalidStatement, match=r"^line 18: TRNAMT: ") as caught:
        read_ofx(make_ofx(make_ofx_line(), make_ofx_line(item_id="N2", amount=amount)))
    assert caught.value.line == 18


def test_a_line_of_no_money_is_passed_over() -> None:
    assert read_ofx(make_ofx(make_ofx_line(amount="0,00"))).items == ()


@pytest.mark.parametrize("header", [OFX_HEADER, OFX_HEADER.replace("USASCII", "UTF-8").replace("1252", "NONE")])
@pytest.mark.parametrize("codec", ["cp1252", "utf-8"])
def test_texts_are_read_in_windows_1252_and_in_utf_8_whatever_the_header_says(header: str, codec: str) -> None:
    line = make_ofx_line(memo="Devolução de João", name="João ção & filhos")
    item = read_one(line, header=header, codec=codec)
    assert (item.text, item.counterparty) == ("Devolução de João", "João ção & filhos")


def test_end_tags_may_be_missing() -> None:
    lines = [make_ofx_line(item_id=f"N{number}").replace("</STMTTRN>", "") for number in range(3)]
    found = read_ofx(make_ofx(*lines))
    assert [item.item_id for item in found.items] == ["N0", "N1", "N2"]
    assert found.closing == StatedBalance(cents=123_456, on=date(2026, 11, 20))


def test_xml_with_comments_and_character_data_is_the_same() -> None:
    text = make_ofx(make_ofx_line(memo="<![CDATA[A < B & C]]>"), header='<?xml version="1.0"?>\n<?OFX OFXHEADER="200"?>\n')
    (item,) = read_ofx(text.replace(b"<STMTTRN>", b"<!-- <STMTTRN> --><STMTTRN>")).items
    assert item.text == "A < B & C"


def test_names_of_the_network_are_found_in_fields_and_texts() -> None:
    sent = read_one(make_ofx_line(memo=f"PIX ENVIADO {E2E} CPF 529.982.247-25"))
    assert (sent.end_to_end_id, sent.return_id, sent.tax_id, sent.kind) == (E2E, None, "52998224725", "pix")
    returned = read_one(make_ofx_line(memo=f"PIX DEVOLVIDO {RETURN_ID} de {E2E}"))
    assert (returned.names, returned.kind) == ((RETURN_ID, E2E), "refund")
    other = E2E[:-1] + "z"
    assert read_one(make_ofx_line(memo=f"{E2E} {other}")).names == ()


def test_of_ids_a_tax_id_is_chance() -> None:
    (item,) = read_ofx(make_ofx(make_ofx_line(item_id="52998224725<CHECKNUM>52998224725", memo="SALDO"))).items
    assert item.tax_id is None
    assert read_one(make_ofx_line(item_id=E2E)).names == (E2E,)
    assert read_one(make_ofx_line(memo=f"x{E2E}")).names == ()


def test_each_line_under_one_id_is_read() -> None:
    found = read_ofx(make_ofx(make_ofx_line(), make_ofx_line(), make_ofx_line(amount="11.00")))
    assert [item.amount_cents for item in found.items] == [1050, 1050, 1100]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("<FITID>N1", "", "line 17: FITID: each line of money needs one"),
        ("<FITID>N1", "<FITID>" + "x" * 256, "line 17: FITID: must have at most 255 printable characters"),
        ("<TRNAMT>10.50", "", "line 17: TRNAMT: is missing"),
        ("<TRNAMT>10.50", "<TRNAMT>10.50<TRNAMT>11.50", "line 17: TRNAMT: stands twice, with two contents"),
        ("<TRNTYPE>OTHER", "<TRNTYPE>DEBIT", "line 17: TRNAMT: its sign contradicts the TRNTYPE DEBIT"),
        ("<FITID>N1", "<FITID>N1<CORRECTFITID>N0", "line 17: CORRECTFITID: line N1 corrects another one"),
        ("<CURDEF>BRL", "<CURDEF>USD", "line 14: CURDEF: the account is in 'USD', and not in BRL"),
        ("<ACCTID>12345-6", "", "line 15: ACCTID: is missing"),
        ("<STMTTRN>", "</BANKTRANLIST><STMTTRN>", "STMTTRN: stands outside of a BANKTRANLIST"),
        ("<BANKTRANLIST>", "", "STMTTRN: stands outside of a BANKTRANLIST"),
        ("<STMTRS>", "<CCSTMTRS>", "CCSTMTRS: it is the statement of a card"),
        ("<OFX>", "<!DOCTYPE x [<!ENTITY a 'b'>]>\n<OFX>", "line 11: it declares a document type"),
        ("<MEMO>", "<MEMO>\0", "line 17: there is a NUL (a byte of zero) in it"),
        (
            "<LEDGERBAL>",
            "<LEDGERBAL><BALAMT>1<DTASOF>20261120</LEDGERBAL><LEDGERBAL>",
            "line 19: LEDGERBAL: there are two that differ",
        ),
        ("<DTSTART>20261101", "<DTSTART>010726", "line 16: DTSTART: '010726' could be more than one day"),
        ("<BALAMT>1234.56", "<BALAMT>1.234", "line 19: BALAMT: '1.234' is no amount"),
        ("<DTEND>20261120", "<DTEND>20261020", "the file ends on 2026-10-20, before it begins on 2026-11-01"),
    ],
)
def test_a_fault_names_its_line_and_the_rule(old: str, new: str, rule: str) -> None:
    text = make_ofx(make_ofx_line()).decode()
    assert old in text
    with pytest.raises(InvalidStatement) as caught:
        read_ofx(text.replace(old, new, 1).encode())
    assert rule in str(caught.value)


def test_a_file_that_is_cut_off_is_refused() -> None:
    text = make_ofx(make_ofx_line(), make_ofx_line(item_id="N2"))
    with pytest.raises(InvalidStatement, match="cut off"):
        read_ofx(text[: text.index(b"<STMTTRN>", text.index(b"N1"))])


def test_each_statement_of_a_file_is_read() -> None:
    text, other = make_ofx(make_ofx_line()).decode(), make_ofx(make_ofx_line(item_id="N2"), number="99-9").decode()
    begin, end = text.index("<STMTTRNRS>"), text.index("</BANKMSGSRSV1>")
    other = other[begin:].partition("</BANKMSGSRSV1>")[0].replace("CHECKING", "SAVINGS")
    found = read_ofx((text[:end] + other + text[end:]).encode())
    assert [(one.account.number, one.account.type, [item.item_id for item in one.items]) for one in (found, *found.others)] == [
        ("12345-6", "checking", ["N1"]),
        ("99-9", "savings", ["N2"]),
    ]


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("end", ["", "</CCSTMTRS></CCSTMTTRNRS></CREDITCARDMSGSRSV1>"])
def test_the_statement_of_a_card_beside_an_account_is_passed_over_and_named(end: str, is_first: bool) -> None:
    text = make_ofx(make_ofx_line()).decode()
    card = "<CREDITCARDMSGSRSV1><CCSTMTTRNRS><CCSTMTRS><CURDEF>USD<CCACCTFROM><ACCTID>4</CCACCTFROM><BANKTRANLIST>"
    card += f"<DTSTART>20260101<DTEND>20260131\n{make_ofx_line(item_id='C') * 500}</BANKTRANLIST>"
    card += f"<LEDGERBAL><BALAMT>7<DTASOF>20260131</LEDGERBAL>{end}\n"
    mark = "<BANKMSGSRSV1>" if is_first else "</OFX>"
    found = read_ofx(text.replace(mark, card + mark).encode())
    expected = read_ofx(text.encode())
    assert (found.items, found.account, found.closing) == (expected.items, expected.account, expected.closing)
    line = 13 if is_first else 22
    assert found.notes == (f"line {line}: CCSTMTRS: it is the statement of a card or of investments, and is passed over",)


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ("<BALAMT>1234.56<DTASOF>20261120", "<BALAMT>0,00<DTASOF>00000000", "its DTASOF is missing or empty"),
        ("<BALAMT>1234.56<DTASOF>20261120", "<BALAMT>0,00", "its DTASOF is missing or empty"),
        ("<DTASOF>20261120</LEDGERBAL>", "<DTASOF>00010101</LEDGERBAL>", "its DTASOF is missing or empty"),
        ("<DTASOF>20261120</LEDGERBAL>", "<DTASOF>20261131</LEDGERBAL>", "its DTASOF is missing or empty"),
        ("<BALAMT>1234.56", "<BALAMT>", "its BALAMT is missing or empty"),
        ("<BALAMT>1234.56", "<BALAMT>R$ --", "its BALAMT is missing or empty"),
    ],
)
def test_a_balance_that_says_nothing_is_noted_and_the_lines_are_read(old: str, new: str, note: str) -> None:
    text = make_ofx(make_ofx_line()).decode()
    found = read_ofx(text.replace(old, new, 1).encode())
    assert (len(found.items), found.closing) == (1, None)
    assert found.notes[-1] == f"line 19: LEDGERBAL: no balance is read, for {note}"


def test_days_that_say_nothing_are_those_of_the_lines() -> None:
    found = read_ofx(make_ofx(make_ofx_line()).replace(b"<DTSTART>20261101", b"<DTSTART>00000000"))
    assert (found.first_on, found.last_on) == (date(2026, 11, 2), date(2026, 11, 20))
    assert found.notes == ("line 16: DTSTART: '00000000' is no date, and is passed over",)


def test_a_balance_that_is_written_twice_is_one() -> None:
    text = make_ofx(make_ofx_line()).decode()
    again = "<LEDGERBAL><BALAMT>1.234,56<DTASOF>20/11/2026</LEDGERBAL><LEDGERBAL>"
    assert read_ofx(text.replace("<LEDGERBAL>", again).encode()).closing == StatedBalance(cents=123_456, on=date(2026, 11, 20))


@pytest.mark.parametrize("code", ["BRC", "BRR", "R$", "986", "brl", " REAL"])
def test_banks_have_several_words_for_the_real(code: str) -> None:
    line = make_ofx_line().replace("<MEMO>", f"<CURRENCY><CURRATE>1<CURSYM>{code}</CURRENCY><MEMO>")
    assert len(read_ofx(make_ofx(line).replace(b"<CURDEF>BRL", f"<CURDEF>{code}".encode())).items) == 1


@pytest.mark.parametrize(
    "line",
    [
        "<STMTTRN><TRNAMT>0.00<FITID><MEMO>Saldo Anterior",
        "<STMTTRN><TRNTYPE>CREDIT<DTPOSTED>00000000<TRNAMT>0,00<MEMO>SALDO DO DIA</STMTTRN>",
        "<STMTTRN><TRNAMT>R$ 0,00</STMTTRN>",
    ],
)
def test_a_line_that_moves_no_money_needs_nothing_else(line: str) -> None:
    assert [item.item_id for item in read_ofx(make_ofx(line + "\n", make_ofx_line())).items] == ["N1"]


def test_a_text_that_is_written_twice_is_read_whole() -> None:
    assert read_one(make_ofx_line(memo="PIX RECEBIDO<MEMO>ANA 02/08")).text == "PIX RECEBIDO | ANA 02/08"
    assert read_one(make_ofx_line(memo="PIX RECEBIDO<MEMO>PIX RECEBIDO")).text == "PIX RECEBIDO"
    assert read_one(make_ofx_line(item_id="N1<CHECKNUM>1<CHECKNUM>2", memo="PIX")).text == "PIX"
    assert read_one(make_ofx_line(name="<MEMO>PIX", memo="PIX")).text == "PIX"


def test_slips_that_were_always_forgiven_are() -> None:
    header = OFX_HEADER.replace("CHARSET:1252\n", "").replace("\n", " ")
    line = make_ofx_line(amount=" 50.0000", item_id="A & B 1")
    text = make_ofx(line, header=header).decode().replace("</BANKTRANLIST>", "").replace("\n", "\r\r")
    found = read_ofx(b"\xef\xbb\xbf\r\r" + text.encode() + b"\r\x1a")
    assert [(item.item_id, item.signed_cents) for item in found.items] == [("A & B 1", 5000)]
    assert found.closing == StatedBalance(cents=123_456, on=date(2026, 11, 20))


def test_lines_outside_the_days_that_a_file_covers_are_noted() -> None:
    # DTSTART and DTEND are often the day of the export only.
    lines = make_ofx_line(at="20260701"), make_ofx_line(item_id="N2", at="20260702")
    found = read_ofx(make_ofx(*lines, first="20260705", last="20260705"))
    assert (found.first_on, found.last_on, len(found.items)) == (date(2026, 7, 5), date(2026, 7, 5), 2)
    (note,) = found.notes
    assert note.startswith("the file covers 2026-07-05 to 2026-07-05, and has lines of 2 days outside (2026-07-01 to")
    assert read_ofx(make_ofx(make_ofx_line())).notes == ()


@pytest.mark.long
def test_a_file_of_many_mebibytes_is_read_in_its_own_time() -> None:
    # Each step reads a part of the file once: twice the file takes twice the time, not four times.
    found = read_ofx(make_ofx(*(make_ofx_line(item_id=f"N{number}") for number in range(20_000))))
    assert len(found.items) == 20_000
    with pytest.raises(InvalidStatement, match="32 MiB"):
        read_ofx(b" " * (32 * 1024 * 1024 + 1))
    for hostile in (b"<BAL>", b"<![CDATA[", b"<!--", b"<OFX><A>", b"&#", b"</A>", b"<A", b'<A b="', b"<STMTTRNP>", b"<"):
        with pytest.raises(InvalidStatement):
            read_ofx(b"<OFX>" + hostile * 100_000)


def test_our_own_statement_is_read_back() -> None:
    found = read_ofx(write_whole(files.write_ofx, make_statement(), LINES))
    assert found.account == StatementAccount(bank="99999003", branch="0001", number="1001", type="checking")
    assert (found.opening, found.closing) == (
        StatedBalance(cents=10_000, on=date(2026, 6, 29)),
        StatedBalance(cents=11_300, on=date(2026, 7, 1)),
    )
    assert [(item.item_id, item.signed_cents, item.names) for item in found.items] == [
        ("11", 1234, (E2E,)),
        ("12", -34, (RETURN_ID, E2E)),
        ("13", 100, ()),
    ]
    assert {item.settled_at for item in found.items} == {AT - timedelta(microseconds=456)}


@given(any_lines())
def test_whatever_our_statement_says_is_read_back_to_the_cent(lines: list[StatementLine]) -> None:
    found = read_ofx(write_whole(files.write_ofx, make_statement(lines), lines))
    read = [(item.item_id, item.direction, item.amount_cents, item.end_to_end_id, item.settled_at) for item in found.items]
    assert read == [(str(line.id), line.direction, line.amount_cents, E2E, to_told(line.created_at)) for line in lines]


def to_told(instant: datetime) -> datetime | None:
    """As a reader understands it: Brazil's midnight is a day without a time."""
    told = to_milliseconds(instant)
    return None if told.astimezone(files.BRAZIL).time() == time() else told


def to_milliseconds(instant: datetime) -> datetime:
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


_BITS = [
    "<",
    ">",
    "</",
    "STMTTRN",
    "<STMTTRN>",
    "<OFX>",
    "<![CDATA[",
    "]]>",
    "<!--",
    "&#55296;",
    "&#9999999;",
    "\0",
    "[",
    "1.234",
    "é",
]


@given(st.integers(0, 1200), st.integers(0, 40), st.one_of(st.sampled_from(_BITS), st.text(max_size=20)))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(at: int, length: int, put: str) -> None:
    text = make_ofx(make_ofx_line(memo=E2E), make_ofx_line(item_id="N2")).decode()
    damaged = (text[:at] + put + text[at + length :]).encode("utf-8", "surrogatepass")
    with contextlib.suppress(InvalidStatement):
        read_ofx(damaged)


@given(st.binary(max_size=300))
def test_bytes_are_read_or_refused_and_nothing_else(content: bytes) -> None:
    for whole in (content, b"<OFX>" + content, OFX_HEADER.encode() + content):
        with pytest.raises(InvalidStatement):
            read_ofx(whole)
