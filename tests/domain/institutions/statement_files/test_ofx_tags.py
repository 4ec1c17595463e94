"""What is a tag of an OFX file, and what is a payer's text."""

import pytest

from pixconnect.domain.institutions.statement_files.ofx import read_ofx
from pixconnect.domain.institutions.statement_files.statement_file import InvalidStatement
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
        ("PIX <b>RECEBIDO</b> ANA</MEMO><X.TAG>1", "PIX RECEBIDO ANA"),
        ("PIX RECEBIDO\n<X.TAG>1", "PIX RECEBIDO"),
        ("PIX &lt;3 &amp; mais", "PIX <3 & mais"),
    ],
)
def test_markup_in_a_text_does_not_end_it(written: str, text: str) -> None:
    assert read_memos(written) == [text]


def test_a_payer_can_hide_no_line_behind_marks_of_a_comment() -> None:
    assert read_memos("<!-- oi", "-->", "<![CDATA[", "]]>") == ["<!-- oi", "-->", "<![CDATA[", "]]>"]
    assert read_memos("a <!-- b --> c") == ["a c"]


def test_the_root_may_have_attributes_and_names_a_namespace() -> None:
    for root in (b'<OFX xmlns="http://ofx.net/types/2003/04">', b"<OFX\n  xmlns:a='b' >", b"<ofx>"):
        assert len(read_ofx(make_ofx(make_ofx_line()).replace(b"<OFX>", root)).items) == 1
    prefixed = (
        make_ofx(make_ofx_line(), header=XML_HEADER).replace(b"</", b"\1").replace(b"<", b"<o:").replace(b"\1", b"</o:")
    )
    assert len(read_ofx(prefixed.replace(b"<o:?", b"<?")).items) == 1


def test_a_document_type_in_a_text_is_text_and_before_the_root_is_refused() -> None:
    assert read_memos("<!DOCTYPE x>", header=XML_HEADER) == ["<!DOCTYPE x>"]
    with pytest.raises(InvalidStatement, match=r"^line 2: it declares a document type"):
        read_memos("a", header="x\n<!doctype a>\n")


def test_a_file_in_utf_16_is_named_as_such() -> None:
    for codec in ("utf-16", "utf-16-le", "utf-16-be"):
        with pytest.raises(InvalidStatement, match=r"^it is written in UTF-16; save it as UTF-8"):
            read_ofx(make_ofx(make_ofx_line(), codec=codec))
