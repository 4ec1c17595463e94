"""A payer's free text adds, hides and changes no line of a statement, in any format and wherever its bank writes it."""

import base64
from typing import Final
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.features.institutions.service.statement_account import read_statement_file
from pixconnect.features.institutions.statement_files.statement_file import InvalidStatement, StatementFile, clean_text
from support.cnab import CnabLine, CnabLot, make_cnab
from support.statement_files import make_camt, make_camt_entry, make_efi_file, make_ofx

E2E: Final = "E99999004202611021500w29rKS5MVm{}"
CENTS: Final = {"A": 1000, "B": -300, "C": 7}
OPENING: Final = 10_000
FORGED: Final = "<STMTTRN>{0}<TRNTYPE>CREDIT{0}<DTPOSTED>20261102{0}<TRNAMT>999.00{0}<FITID>z{0}<MEMO>y"
TOKENS: Final = (
    *"<>&;'\"\n\r\t\0\x1a\x85\u2028\ufeff\\,=/-!?0123 ",
    *("\r\n", "]]>", "<![CDATA[", "<!--", "-->", "&lt;", "&amp;", "&#10;", "&#0;", "&#xD800;", "&x;", "\ud800"),
    *"éÃ©💸",
    *("</STMTTRN>", "<STMTTRN>", "</MEMO>", "<MEMO>", "<NAME>", "<TRNAMT>9", "<FITID>z", "</BANKTRANLIST>", "</OFX>", "<BAL>"),
    *("<CURRENCY><CURSYM>USD", "<LEDGERBAL><BALAMT>1", "</Ntry>", "<Ntry>", "<Amt>9</Amt>", "</Ustrd>"),
    *("CA;", "T;3;1", "SD1;9;"),
    *("SALDO DO DIA", "TARIFA", "PIX RECEBIDOS QTD 2", E2E.format("J"), "341" + "0" * 60, "x" * 300, FORGED.format("")),
)  # fmt: skip


def any_text() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(TOKENS) | st.text(max_size=8), max_size=8).map("".join)


def decimal(cents: int) -> str:
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02}"


def write(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def write_efi(texts: dict[str, str]) -> bytes:
    """Two received Pix with their payers' texts in base64, and a sent one with its payee's name as it is."""
    told = {name: base64.b64encode(write(text)).decode() for name, text in texts.items()}
    file = make_efi_file(
        f"PR;1;{E2E.format('A')};;10.00;;{told['A']};;2026-11-02T15:00:00Z",
        f"PEB;2;{E2E.format('B')};id;3.00;NAME;1;1;1;1;1;{told['B']};API;2026-11-02T15:00:01Z",
        f"PR;3;{E2E.format('C')};;0.07;;{told['C']};;2026-11-02T15:00:02Z",
    )
    return file.replace(b"NAME", write(texts["B"]))


def write_camt(texts: dict[str, str]) -> bytes:
    return make_camt(
        *(
            make_camt_entry(
                item_id=name,
                amount=decimal(abs(CENTS[name])),
                indicator="DBIT" if CENTS[name] < 0 else "CRDT",
                details=(
                    "<NtryDtls><TxDtls><RltdPties><Dbtr><Nm>{0}</Nm></Dbtr></RltdPties><RmtInf><Ustrd>{0}</Ustrd></RmtInf>"
                    "</TxDtls></NtryDtls>"
                ).format(escape(text.encode("utf-8", "replace").decode())),
            )
            for name, text in texts.items()
        )
    )  # fmt: skip


def write_cnab(texts: dict[str, str], codec: str) -> bytes:
    told = {name: text.encode(codec, "replace").decode(codec) for name, text in texts.items()}
    lines = [
        CnabLine(amount_cents=CENTS[name], history=text, document=text[25:], complement_kind="02", complement=text[-20:])
        for name, text in told.items()
    ]
    return make_cnab(CnabLot(lines=lines), codec=codec)


def write_ofx(texts: dict[str, str], form: str, *, line_end: str = "\n") -> bytes:
    """A file whose fields each begin a line, or whose lines of money do; or all of it is one line, or XML."""
    closed = form in ("closed", "closed_lines", "closed_flat", "xml")
    between = line_end if form in ("open", "closed") else ""
    written = list[str]()
    for name, text in texts.items():
        own = escape(text) if form == "xml" else text
        fields = dict(TRNTYPE="OTHER", DTPOSTED="20261102", TRNAMT=decimal(CENTS[name]), FITID=name, MEMO=own)
        parts = [f"<{field}>{value}{f'</{field}>' if closed else ''}" for field, value in fields.items()]
        written.append(
            between.join(("<STMTTRN>", *parts, "</STMTTRN>")) + ("" if form in ("flat", "closed_flat") else line_end)
        )
    header = dict(header='<?xml version="1.0"?>\n<?OFX VERSION="211"?>\n') if form == "xml" else {}
    mark = "\ue000"
    content = make_ofx(mark, opening="100.00", closing="107.07", codec="utf-8", **header).decode()
    return write(content.replace("\n", line_end).replace(mark, "".join(written)))


def check(content: bytes) -> StatementFile | None:
    """The file, if no rule refuses it; then it has its three lines, and no other that would be posted."""
    try:
        file = read_statement_file(content)
    except InvalidStatement:
        return None
    assert {item.signed_cents for item in file.items if item not in file.perhaps_texts} <= {*CENTS.values()}
    listed = [item.signed_cents for item in file.items]
    assert [cents for cents in listed if cents in CENTS.values()] == [*CENTS.values()]
    assert all(len(item.text) <= 255 and item.text == clean_text(item.text) for item in file.items)
    return file


three_texts = st.tuples(any_text(), any_text(), any_text()).map(lambda told: dict(zip("ABC", told, strict=True)))


def is_plain(texts: dict[str, str], breaks: str = "\n\r\x1a\0") -> bool:
    return not any(mark in text for text in texts.values() for mark in breaks)


@given(three_texts)
def test_efis_file_has_texts_in_base64_and_a_name_as_it_is(texts: dict[str, str]) -> None:
    file = check(write_efi(texts))
    assert file is not None or not is_plain(dict(B=texts["B"]))


@given(three_texts)
def test_camt_has_escaped_texts(texts: dict[str, str]) -> None:
    file = check(write_camt(texts))
    assert file is not None or not all(text.isprintable() for text in texts.values())


@given(three_texts, st.sampled_from(["latin-1", "utf-8"]))
def test_cnab_has_texts_in_columns(texts: dict[str, str], codec: str) -> None:
    file = check(write_cnab(texts, codec))
    assert file is not None or not is_plain(texts)


@given(
    three_texts,
    st.sampled_from(["open", "closed", "lines", "closed_lines", "xml", "flat", "closed_flat"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_ofx_has_texts_without_line_breaks(texts: dict[str, str], form: str, line_end: str) -> None:
    told = {name: " ".join(text.replace("\0", "").split()) for name, text in texts.items()}
    file = check(write_ofx(told, form, line_end=line_end))
    assert file is not None


BREAKS: Final = {
    "open": "x{0}</STMTTRN>{0}<STMTTRN>{0}<TRNTYPE>CREDIT{0}<DTPOSTED>20261102{0}<TRNAMT>999.00{0}<FITID>z{0}<MEMO>y",
    "lines": "x</STMTTRN>{0}<STMTTRN><TRNTYPE>CREDIT<DTPOSTED>20261102<TRNAMT>999.00<FITID>z<MEMO>y",
}


@pytest.mark.parametrize("form", BREAKS)
@pytest.mark.parametrize(("ends", "is_seen"), [("\r\n \n", True), ("\n \r", True), ("\n \n", False)])
def test_a_line_break_of_a_payer_is_seen_unless_it_is_like_the_banks(form: str, ends: str, is_seen: bool) -> None:
    banks, payers = ends.split(" ")
    texts = dict.fromkeys(CENTS, "PIX RECEBIDO")
    for name in texts:
        written = write_ofx(texts | {name: BREAKS[form].format(payers)}, form, line_end=banks)
        file = read_statement_file(written)
        assert [item.signed_cents for item in file.items if item.item_id != "z"] == [*CENTS.values()]
        assert (file.perhaps_texts == {*file.items}) is is_seen
        assert any("lines of the file end in two ways" in note for note in file.notes) is is_seen
    # A break in a text that no tag follows makes no doubt.
    assert not read_statement_file(write_ofx(texts | {"A": f"x{payers}y"}, form, line_end=banks)).perhaps_texts


def test_a_list_whose_first_line_alone_begins_a_line_of_the_file_hides_none() -> None:
    for form in ("flat", "closed_flat"):
        file = check(write_ofx(dict.fromkeys(CENTS, "PIX RECEBIDO"), form))
        assert file is not None
        assert [item.item_id for item in file.perhaps_texts] != []
