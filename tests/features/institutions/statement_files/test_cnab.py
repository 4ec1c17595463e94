"""CNAB 240 by the layout, common mistakes of banks, and files refused by counts and sums."""

import contextlib
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.statement_files.cnab import read_cnab
from pixconnect.features.institutions.statement_files.statement_account import StatementAccount
from pixconnect.features.institutions.statement_files.statement_file import InvalidStatement, StatedBalance
from pixconnect.platform.base.clock import SAO_PAULO
from support.cnab import FIRST, LAST, CnabLine, CnabLot, make_cnab, make_cnab_records
from support.records import E2E

FEE = CnabLine(amount_cents=-150, category="105", history="TAR PIX ENVIADO", document="")


def read_one(line: CnabLine) -> InstitutionItem:
    (item,) = read_cnab(make_cnab(CnabLot(lines=[line]))).items
    return item


def write(records: list[str]) -> bytes:
    return "\r\n".join(records).encode("latin-1")


def test_a_file_tells_its_account_its_days_and_both_balances() -> None:
    found = read_cnab(make_cnab(CnabLot(lines=[CnabLine(), FEE])))
    account = StatementAccount(bank="341", branch="00001", number="12345-6", type="checking")
    assert (found.format, found.account) == ("cnab240", account)
    # The balance before the lot is of a day without lines: the period begins on the next day.
    assert (found.first_on, found.last_on) == (LAST, LAST)
    assert found.opening == StatedBalance(cents=10_000, on=FIRST)
    assert found.closing == StatedBalance(cents=10_900, on=LAST)
    told = [(item.signed_cents, item.kind, item.text) for item in found.items]
    assert told == [(1050, "wire", "TED RECEBIDA | 451065"), (-150, "fee", "TAR PIX ENVIADO")]
    assert found.notes == ()


def test_the_example_of_the_guide_is_read_and_is_what_the_layout_writes() -> None:
    content = (Path(__file__).parents[3] / "vectors" / "cnab" / "statement.ret").read_bytes()
    fee = replace(FEE, document="", history_code="0105")
    received = CnabLine(history="PIX RECEBIDO ANA", document=E2E, category="213", history_code="0144")
    assert content == make_cnab(CnabLot(lines=[received, fee]))
    told = [(item.signed_cents, item.kind, item.end_to_end_id) for item in read_cnab(content).items]
    assert told == [(1050, "pix", E2E), (-150, "fee", None)]


def test_the_balance_before_may_be_of_the_first_day_itself() -> None:
    found = read_cnab(make_cnab(CnabLot(lines=[CnabLine(day=FIRST)])))
    assert (found.first_on, found.opening) == (FIRST, StatedBalance(cents=10_000, on=FIRST - timedelta(days=1)))
    made_on, next_day = b"0311202608", LAST + timedelta(days=1)
    for on, told in [(made_on, StatedBalance(cents=10_000, on=LAST)), (b"0211202608", None)]:
        found = read_cnab(make_cnab(CnabLot(opening_on=LAST)).replace(made_on, on))
        assert (found.first_on, found.last_on, found.opening, found.closing) == (next_day, next_day, told, None)
        assert found.made_at == datetime.combine(next_day, time(0), SAO_PAULO)


@pytest.mark.parametrize(
    ("category", "history", "kind"),
    [
        ("105", "PIX ENVIADO", "fee"), ("204", "PIX ENVIADO ANA", "reversal"), ("103", "DEP CHEQUE", "reversal"),
        ("204", "PIX DEV RECEBIDO", "refund"), ("209", "PIX RECEBIDO", "pix"), ("120", "DOC ENVIADO", "wire"),
        ("120", "ANA", "wire"), ("202", "LIQ COBRANCA", "boleto"), ("117", "TRANSF", "other"), ("", "TARIFA", "fee"),
        ("999", "BLOQ JUDICIAL", "judicial"),
    ],
)  # fmt: skip
def test_a_category_or_else_the_text_names_the_kind(category: str, history: str, kind: str) -> None:
    assert read_one(CnabLine(category=category.rjust(3), history=history)).kind == kind


def test_names_and_what_else_a_line_tells_are_in_its_text() -> None:
    assert read_one(CnabLine(document=E2E, history="PIX")).names == (E2E,)
    assert read_one(CnabLine(document="52998224725")).tax_id is None
    item = read_one(CnabLine(nature="SSR", complement_kind="01", complement="23701234000000567890", document="0000000"))
    assert item.text == "TED RECEBIDA | 237/1234/567890 | SSR"
    assert read_one(CnabLine(complement_kind="02", complement="NF 10 SERIE 1")).text.endswith("| NF 10 SERIE 1")
    assert read_one(replace(CnabLine(), document="", history="DEVOLUÇÃO JOÃO")).text == "DEVOLUÇÃO JOÃO"


def test_equal_lines_of_a_day_are_told_apart_and_named_the_same_in_each_file() -> None:
    once = read_cnab(make_cnab(CnabLot(lines=[FEE]))).items
    found = read_cnab(make_cnab(CnabLot(lines=[CnabLine(), FEE, FEE, replace(FEE, day=FIRST)]))).items
    assert len({item.item_id for item in found}) == 4
    assert found[1] == once[0]
    assert read_cnab(make_cnab(CnabLot(lines=[CnabLine(), FEE, FEE]))).items == found[:3]


def test_lots_of_one_account_go_on_where_the_one_before_ended() -> None:
    first = CnabLot(lines=[CnabLine(day=FIRST)], closing_on=FIRST)
    second = CnabLot(lines=[FEE], opening_cents=11_050, opening_on=FIRST)
    found = read_cnab(make_cnab(first, second, lot_numbers=[2, 7]))
    assert (found.first_on, found.last_on, len(found.items)) == (FIRST, LAST, 2)
    assert found.closing == StatedBalance(cents=10_900, on=LAST)
    with pytest.raises(InvalidStatement, match=r"^line 5: lot 1 stands behind lot 1: the file has it twice"):
        read_cnab(make_cnab(first, second, lot_numbers=[1, 1]))
    swept = CnabLot(lines=[CnabLine(), CnabLine(amount_cents=-1050)])
    assert len(read_cnab(make_cnab(swept, replace(swept, lines=[FEE]))).items) == 3
    unread = "line 5: between lots 1 and 2 of one account a balance is partial or has no day: export them apart"
    ended = (
        "line 5: lot 2 begins with 10000 cents, and lot 1 before it ended with 11050: a lot is missing, or they are in disorder"
    )
    again = "line 7: lot 2 repeats the balance and this line of lot 1: export it once"
    for before, after, rule in [
        (first, replace(second, opening_cents=10_000), ended), (replace(first, status="P"), second, unread),
        (first, replace(second, status="I"), unread),
        (swept, swept, again), (swept, replace(swept, lines=[*swept.lines, FEE]), again),
    ]:  # fmt: skip
        with pytest.raises(InvalidStatement, match=f"^{rule}$"):
            read_cnab(make_cnab(before, after))
    other = read_cnab(make_cnab(first, replace(second, number=99)))
    assert [(one.account.number, len(one.items)) for one in (other, *other.others)] == [("12345-6", 1), ("99-6", 1)]


def test_what_banks_leave_out_is_noted() -> None:
    found = read_cnab(make_cnab(CnabLot(lines=[FEE], adds_up=False)))
    assert found.notes == ("line 4: the trailer counts and adds up nothing: only the balances check the lot",)
    found = read_cnab(make_cnab(CnabLot(lines=[FEE], status="P")))
    assert (found.opening, found.closing, len(found.items)) == (None, None, 1)
    assert found.notes[1] == "line 4: the balance after the lot is a partial one (column 170), and is not read"
    for day in (b"31062026", b"01010001", b"99999999"):
        records = make_cnab(CnabLot(lines=[FEE])).split(b"\r\n")
        records[1] = records[1][:142] + day + records[1][150:]
        found = read_cnab(b"\r\n".join(records))
        assert (found.opening, found.closing and found.closing.on, found.first_on) == (None, LAST, LAST)
        assert found.notes[0].startswith("line 2: the day of the balance before the lot (columns 143 to 150): ")
    found = read_cnab(make_cnab(CnabLot(lines=[FEE], closing_cents=9_900)))
    assert found.notes == ("line 4: the balance after the lot is 50 cents above the sum of its lines",)
    tied = [CnabLine(nature=nature) for nature in ("SSR", "SCR", "CDS")]
    found = read_cnab(make_cnab(CnabLot(lines=[FEE, *tied], closing_cents=9_850)))
    assert [item.signed_cents for item in found.items] == [-150]
    assert found.notes[0].startswith("line 7: the balance after the lot is -3150 cents above the sum of its lines: those of ")
    # A line without an amount may lack everything else; otherwise the accounting day replaces a missing day.
    lines = [CnabLine(amount_cents=0, category="   "), replace(FEE, accounting_day=FIRST)]
    text = make_cnab(CnabLot(lines=lines)).replace(b"N0111202602112026", b"N0111202600000000")
    assert [item.day for item in read_cnab(text).items] == [FIRST]


@pytest.mark.parametrize("line_end", ["\r\n", "\n", "\r", "\r\n\r\n"])
@pytest.mark.parametrize("codec", ["latin-1", "utf-8", "utf-8-sig"])
def test_ends_of_lines_and_blanks_at_them_are_forgiven(line_end: str, codec: str) -> None:
    lots = CnabLot(lines=[CnabLine(history="JOÃO CONCEIÇÃO", document="1")])
    text = make_cnab(lots, codec=codec, line_end=line_end)
    stripped = "\n".join(line.rstrip() for line in text.decode(codec).splitlines()) + "\x1a"
    for content in (text, stripped.encode(codec)):
        assert [item.text for item in read_cnab(content).items] == ["JOÃO CONCEIÇÃO | 1"]


@pytest.mark.parametrize("letters", ["Ã©", "Ã©" * 8, "â\x82¬"])
def test_letters_that_would_be_utf_8_together_move_no_column(letters: str) -> None:
    # A payer may write them even if the bank has no other letter beyond ASCII.
    item = read_one(CnabLine(complement_kind="02", complement=letters))
    assert (item.signed_cents, item.day, item.text[:11]) == (1050, LAST, "TED RECEBID")


def test_lines_that_are_missing_doubled_or_in_disorder_are_refused_by_their_place() -> None:
    records = make_cnab_records(CnabLot(lines=[CnabLine(), FEE, FEE]))
    for faulty, rule in [
        (records[:-1], "line 6: the file is cut off"),
        (records[:3], "line 3: the file is cut off"),
        (records[:2] + records[-1:], "line 3: the file is cut off: a lot has no trailer"),
        (records[:1] + records[-1:], "line 2: the file has no lot"),
        (records[:2] + records[3:], "line 5: the trailer counts 5 records, and the lot has 4: lines are missing or doubled"),
        (records[:3] + records[2:], "line 7: the trailer counts 5 records, and the lot has 6: lines are missing or doubled"),
        (records + records, "line 7: a record of type '9' (column 8) does not belong into a statement"),
        (records[:2] + records[1:], "line 3: a lot begins before the one before it has ended"),
        (records[:1] + records[2:], "line 2: the line stands outside of its lot"),
        ([*records[:-2], records[-2], records[-2], records[-1]], "line 7: the trailer is of another lot"),
    ]:
        with pytest.raises(InvalidStatement) as caught:
            read_cnab(write(faulty))
        assert str(caught.value).startswith(rule)


@pytest.mark.parametrize(
    ("line", "first", "put", "rule"),
    [
        (2, 10, "20", "the lot is no statement for reconciliation: columns 9 to 11 must be E04"),
        (2, 171, "USD", "the currency (columns 171 to 173): the account is in 'USD', and not in BRL"),
        (2, 151, "1.0", "the balance before the lot (columns 151 to 168): '1.0000000000010000' is no number"),
        (2, 169, "X", "the balance before the lot (column 169): 'X' is neither C nor D"),
        (3, 143, "31062026", "the day (columns 143 to 150): '31062026' is no day as DDMMYYYY"),
        (3, 4, "0009", "the line stands outside of its lot (columns 4 to 7)"),
        (3, 14, "A", "segment 'A' (column 14) is no line of a statement"),
        (3, 59, "9", "the line is of account 900000012345-6, and its lot of 12345-6"),
        (3, 143, "00000000", "the day (columns 143 to 150) is missing"),
        (3, 151, "9" * 18, "the amount (columns 151 to 168): is more than 999999999999 cents"),
        (3, 168, "1", "the trailer adds up debits of 0 and credits of 1050 cents, and the lot's lines have 0 and 1051"),
        (5, 24, "000009", "the trailer counts 9 records, and the file has 5: lines are missing or doubled"),
        (3, 240, "xy", "the line has 241 columns, and must have 240"),
    ],
)
def test_a_fault_names_its_line_its_columns_and_the_rule(line: int, first: int, put: str, rule: str) -> None:
    records = make_cnab_records(CnabLot(lines=[CnabLine()]))
    faulty = records[line - 1]
    records[line - 1] = faulty[: first - 1] + put + faulty[first - 1 + len(put) :]
    with pytest.raises(InvalidStatement) as caught:
        read_cnab(write(records))
    assert rule in str(caught.value)


_LATIN = st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_categories=["Cc"]), min_size=1, max_size=10)


@given(
    st.lists(
        st.builds(
            CnabLine,
            amount_cents=st.integers(-80_000_000_000, 80_000_000_000),
            day=st.dates(FIRST, FIRST + timedelta(days=29)),
            category=st.sampled_from(["105", "204", "209", "117", "000"]),
            history=_LATIN,
            document=st.sampled_from(["", "1", E2E]),
            nature=st.sampled_from(["DPV", "SCR", "SSR", "CDS", ""]),
        ),
        max_size=12,
    ),
    st.integers(-10_000, 10_000),
)
def test_whatever_month_is_written_is_read_back_to_the_cent(lines: list[CnabLine], opening_cents: int) -> None:
    last = FIRST + timedelta(days=29)
    lot = CnabLot(lines=lines, opening_cents=opening_cents, opening_on=FIRST - timedelta(days=1), closing_on=last)
    found = read_cnab(make_cnab(lot))
    told = [line for line in lines if line.amount_cents]
    assert [(item.day, item.signed_cents) for item in found.items] == [(line.day, line.amount_cents) for line in told]
    assert [item.end_to_end_id for item in found.items] == [E2E if line.document == E2E else None for line in told]
    assert (found.first_on, found.last_on, found.notes) == (FIRST, last, ())
    assert found.opening is not None
    assert found.closing is not None
    assert found.closing.cents - found.opening.cents == sum(item.signed_cents for item in found.items)
    assert found.opening.on == date(2026, 10, 31)


@given(st.integers(0, 1300), st.integers(0, 40), st.text(max_size=20))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(at: int, length: int, put: str) -> None:
    text = make_cnab().decode()
    with contextlib.suppress(InvalidStatement):
        read_cnab((text[:at] + put + text[at + length :]).encode("utf-8", "surrogatepass"))
