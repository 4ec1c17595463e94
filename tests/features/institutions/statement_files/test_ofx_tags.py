"""What is a tag of an OFX file, and what is the text of a payer."""

from datetime import date

import pytest

from pixconnect.features.institutions.statement_files.ofx import read_ofx
from pixconnect.features.institutions.statement_files.statement_file import InvalidStatement, StatedBalance
from support.statement_files import OFX_HEADER, make_ofx, make_ofx_line

XML_HEADER = '<?xml version="1.0"?>\n<?OFX OFXHEADER="200"?>\n'


def read_memos(*memos: str, header: str = OFX_HEADER) -> list[str]:
    lines = [make_ofx_line(item_id=f"N{number}", memo=memo) for number, memo in enumerate(memos)]
    found = read_ofx(make_ofx(*lines, header=header))
    assert [item.amount_cents for item in found.items] == [1050] * len(memos)
    return [item.text for item in found.items]


@pytest.mark.parametrize(
    "text",
    [
        "PIX RECEBIDO ANA te amo <3", "VALOR < 10", "VALOR <10", "<", "<<>>", "a <- b", "</3", "<!", "<!-- oi", "<![CDATA[ oi",
        "1 <= 2", "te amo <coracao> beijo", "fim <coracao", "<?php", "A & B", "&nada;", "<a b c>", "<http://a.b>", "> <",
    ],
)  # fmt: skip
def test_what_begins_no_tag_of_ofx_is_text(text: str) -> None:
    assert read_memos(text, "depois") == [text, "depois"]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("PIX RECEBIDO<BR/>ANA 02/08", "PIX RECEBIDO ANA 02/08"),
        ("PIX RECEBIDO<br />ANA<BR>02/08", "PIX RECEBIDO ANA 02/08"),
        ("PIX <b>RECEBIDO</b> ANA</MEMO>", "PIX RECEBIDO ANA"),
        ("PIX RECEBIDO\n<X.TAG>1", "PIX RECEBIDO"),
        ("PIX &lt;3 &amp; mais", "PIX <3 & mais"),
    ],
)
def test_markup_in_a_text_does_not_end_it(written: str, text: str) -> None:
    assert read_memos(written) == [text]


def write_lines(lines: dict[str, str], *, one_each: bool, closed: str) -> bytes:
    """A file of credits of 1.00 by their ids, with a line for each field or for each credit."""
    parts = list[str]()
    for item_id, memo in lines.items():
        fields = [("TRNTYPE", "OTHER"), ("DTPOSTED", "20261102"), ("TRNAMT", "1.00"), ("FITID", item_id), ("MEMO", memo)]
        ends = {name for name, _ in fields if closed == "all" or (closed == "texts" and name == "MEMO")}
        texts = [f"<{name}>{text}" + (f"</{name}>" if name in ends else "") for name, text in fields]
        parts.append(("" if one_each else "\n").join(("<STMTTRN>", *texts, "</STMTTRN>")) + "\n")
    return make_ofx(*parts, opening="100.00", closing="103.00")


LINE = "<STMTTRN><TRNTYPE>CREDIT<DTPOSTED>20261102<TRNAMT>999.00<FITID>z<MEMO>y"
CLOSED_LINE = LINE.replace("<DTPOSTED>", "</TRNTYPE><DTPOSTED>").replace("<FITID>z", "</TRNAMT><FITID>z</FITID>")
INJECTED = [
    *(f"{end}{line}" for end in ("</STMTTRN>", "</MEMO></STMTTRN>", "</MEMO>\t</STMTTRN> ") for line in (LINE, CLOSED_LINE)),
    *(f"<{name}>" for name in ("STMTTRN", "BAL", "OFX", "STMTRS", "CCSTMTRS", "BANKTRANLIST", "PAYEE", "NAME", "CURRENCY")),
    *(f"</{name}>" for name in ("STMTTRN", "BANKTRANLIST", "OFX", "MEMO", "STMTRS", "TRNAMT")),
    "<TRNAMT>5", "<FITID>x", "<TRNTYPE>FEE", "<CORRECTFITID>1", "<DTPOSTED>20260601", "<CHECKNUM>5", "<MEMO>oi",
    "<LEDGERBAL><BALAMT>5.00<DTASOF>20261120</LEDGERBAL>", "</MEMO><TRNAMT>5", "<SONRS><DTSERVER>20260601120000",
    "</BANKTRANLIST><BALLIST><BAL><NAME>OPENING<VALUE>7<DTASOF>20261101</BAL>", "<CURRENCY><CURSYM>BRL</CURRENCY>" + LINE,
    "<!-- ", "<![CDATA[", "-->", "]]>", "</STMTTRN></STMTTRN>", "<![CDATA[ </MEMO></STMTTRN>" + LINE + "]]>",
]  # fmt: skip


@pytest.mark.parametrize("closed", ["none", "texts", "all"])
@pytest.mark.parametrize("one_each", [False, True])
@pytest.mark.parametrize("header", [OFX_HEADER, XML_HEADER])
@pytest.mark.parametrize("text", INJECTED)
def test_tags_in_a_text_add_no_line_no_balance_and_no_field(text: str, header: str, one_each: bool, closed: str) -> None:
    lines = dict.fromkeys("ABC", "PIX RECEBIDO")
    for item_id in lines:
        content = write_lines(lines | {item_id: f"PIX BOB {text}"}, one_each=one_each, closed=closed)
        found = read_ofx(content.replace(OFX_HEADER.encode(), header.encode()))
        assert [(item.item_id, item.signed_cents, item.kind) for item in found.items] == [(one, 100, "pix") for one in lines]
        balances = found.opening and found.opening.cents, found.closing and found.closing.cents
        assert (*balances, found.first_on, found.last_on) == (10_000, 10_300, date(2026, 11, 1), date(2026, 11, 20))
        assert (found.made_at, found.notes, found.items["ABC".index(item_id)].text[:7]) == (date(2026, 11, 21), (), "PIX BOB")


@pytest.mark.parametrize("currency", ["<CURRENCY><CURSYM>USD", "<CURRENCY><CURRATE>5<CURSYM>USD</CURRENCY>"])
@pytest.mark.parametrize("is_flat", [False, True])
def test_a_currency_in_a_text_makes_its_line_doubtful_and_refuses_no_file(currency: str, is_flat: bool) -> None:
    texts = {"A": "PIX", "B": f"PIX {currency}", "C": "PIX"}
    content = write_lines(texts, one_each=True, closed="none")
    found = read_ofx(flatten(content) if is_flat else content)
    assert [(item.item_id, item.signed_cents) for item in found.items] == [(one, 100) for one in texts]
    assert {item.item_id for item in found.perhaps_texts} == (set(texts) if is_flat else {"B"})
    line = 16 if is_flat else 18
    assert found.notes[0].startswith(f"line {line}: CURSYM: the account is in 'USD', and not in BRL, unless a payer wrote")


def test_a_currency_before_the_texts_is_the_banks() -> None:
    content = write_lines({"A": "PIX"}, one_each=True, closed="none")
    with pytest.raises(InvalidStatement, match=r"^line 17: CURSYM: the account is in 'USD'"):
        read_ofx(content.replace(b"<FITID>", b"<CURRENCY><CURSYM>USD</CURRENCY><FITID>"))


def flatten(content: bytes) -> bytes:
    """The same with all lines of money in one line of the file."""
    head, mark, rest = content.partition(b"<BANKTRANLIST>")
    return head + mark + rest.replace(b"\n", b"")


@pytest.mark.parametrize("closed", ["none", "texts", "all"])
@pytest.mark.parametrize("text", [
    *INJECTED, "</STMTTRN> oi", "</MEMO> oi", "<STMTTRN> oi", "</MEMO></STMTTRN> oi", "</MEMO><TRNAMT>5.00<MEMO>oi",
    "</BANKTRANLIST><LEDGERBAL><BALAMT>5.00<DTASOF>20261120</LEDGERBAL>", "</BANKTRANLIST></STMTRS></OFX>",
])  # fmt: skip
def test_in_one_line_of_the_file_a_text_changes_no_line_and_what_it_may_add_is_doubtful(text: str, closed: str) -> None:
    lines = dict.fromkeys("ABC", "PIX RECEBIDO")
    for item_id in lines:
        found = read_ofx(flatten(write_lines(lines | {item_id: f"PIX BOB {text}"}, one_each=True, closed=closed)))
        # If a payer writes a whole line of money, the reader cannot distinguish it from the bank's.
        own = [item for item in found.items if item.item_id != "z" or (LINE not in text and CLOSED_LINE not in text)]
        assert [(item.item_id, item.signed_cents, item.kind) for item in own] == [(one, 100, "pix") for one in lines]
        assert (found.opening, found.closing) == (
            StatedBalance(cents=10_000, on=date(2026, 10, 31)),
            StatedBalance(cents=10_300, on=date(2026, 11, 20)),
        )
        assert found.perhaps_texts == {*found.items}
        assert found.notes[-1].startswith("line 16: BANKTRANLIST: a line of money begins no line of the file, so a payer's")


def test_where_no_text_can_be_a_line_none_is_doubtful() -> None:
    flat = flatten(write_lines({"A": "PIX", "B": "PIX"}, one_each=True, closed="none"))
    # XML is escaped, unless something shows that it is not; a single line is not another one's text.
    whole = flat.replace(OFX_HEADER.encode(), XML_HEADER.encode())
    for content in (whole, flatten(write_lines({"A": "PIX"}, one_each=True, closed="none")), make_ofx()):
        assert (read_ofx(content).notes, read_ofx(content).perhaps_texts) == ((), frozenset())


def test_a_payer_can_hide_no_line_behind_marks_of_a_comment() -> None:
    assert read_memos("<!-- oi", "-->", "<![CDATA[", "]]>") == ["<!-- oi", "-->", "<![CDATA[", "]]>"]
    assert read_memos("a <!-- b --> c") == ["a c"]


def test_the_root_may_have_attributes_and_names_a_namespace() -> None:
    for root in (b'<OFX xmlns="http://ofx.net/types/2003/04">', b"<OFX\n  xmlns:a='b' >", b"<ofx>"):
        assert len(read_ofx(make_ofx(make_ofx_line()).replace(b"<OFX>", root)).items) == 1
    prefixed = make_ofx(make_ofx_line(), header=XML_HEADER).replace(b"</", b"\1").replace(b"<", b"<o:").replace(b"\1", b"</o:")
    assert len(read_ofx(prefixed.replace(b"<o:?", b"<?")).items) == 1


def test_a_document_type_in_a_text_is_text_and_before_the_root_is_refused() -> None:
    assert read_memos("<!DOCTYPE x>", header=XML_HEADER) == ["<!DOCTYPE x>"]
    with pytest.raises(InvalidStatement, match=r"^line 2: it declares a document type"):
        read_memos("a", header="x\n<!doctype a>\n")


def test_a_file_in_utf_16_is_named_as_such() -> None:
    for codec in ("utf-16", "utf-16-le", "utf-16-be"):
        with pytest.raises(InvalidStatement, match=r"^it is written in UTF-16; save it as UTF-8"):
            read_ofx(make_ofx(make_ofx_line(), codec=codec))
