"""camt.053 as a bank writes it, our own read back, and hostile XML."""

import contextlib
from datetime import date, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.institutions.statement_files.own_lines import any_lines
from pixconnect.features.institutions.rules.institution import ItemParts
from pixconnect.features.institutions.statement_files.camt import read_camt
from pixconnect.features.institutions.statement_files.statement_account import StatementAccount
from pixconnect.features.institutions.statement_files.statement_file import InvalidStatement, StatedBalance
from pixconnect.features.statements import files
from pixconnect.features.statements.rules import StatementLine
from support.records import AT, E2E, RETURN_ID
from support.statement import LINES, make_fee_line, make_statement, write_whole
from support.statement_files import make_camt, make_camt_entry

OTHER_E2E = E2E[:-1] + "z"
BALANCES = """<Bal><Tp><CdOrPrtry><Cd>OPBD</Cd></CdOrPrtry></Tp><Amt Ccy="BRL">5.00</Amt><CdtDbtInd>DBIT</CdtDbtInd><Dt><Dt>2026-11-01</Dt></Dt></Bal>
<Bal><Tp><CdOrPrtry><Cd>CLBD</Cd></CdOrPrtry></Tp><Amt Ccy="BRL">5.50</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2026-11-02</Dt></Dt></Bal>"""  # noqa: E501  one element a line


def test_a_banks_statement_is_read() -> None:
    found = read_camt(make_camt(make_camt_entry(), balances=BALANCES))
    assert found.account == StatementAccount(number="517613")
    assert (found.first_on, found.last_on) == (date(2026, 11, 1), date(2026, 11, 2))
    # The first one is below zero, and is the balance before the first day.
    assert found.opening == StatedBalance(cents=-500, on=date(2026, 10, 31))
    assert found.closing == StatedBalance(cents=550, on=date(2026, 11, 2))
    (item,) = found.items
    assert (item.item_id, item.day, item.settled_at, item.signed_cents) == ("N1", date(2026, 11, 2), None, 1050)


def test_each_statement_of_a_file_is_read_with_its_account() -> None:
    first, second = make_camt(make_camt_entry()).decode(), make_camt(balances=BALANCES).decode()
    iban = "<Id><IBAN>BR1800360305000010009795493C1</IBAN></Id><Tp><Cd>SVGS</Cd></Tp>"
    other = second[second.index("<Stmt>") : second.index("</BkToCstmrStmt>")]
    other = other.replace("<Id><Othr><Id>517613</Id></Othr></Id>", iban)
    found = read_camt(first.replace("</BkToCstmrStmt>", other + "</BkToCstmrStmt>").encode())
    (savings,) = found.others
    assert savings.account == StatementAccount(bank="00360305", branch="00001", number="9795493", type="savings")
    assert (len(found.items), found.closing, len(savings.items), savings.closing is None) == (1, None, 0, False)


def test_parties_and_names_are_read_from_their_fields() -> None:
    details = f"""<NtryDtls><TxDtls><Refs><EndToEndId>{E2E}</EndToEndId><TxId>t1</TxId></Refs>
<RltdPties><Dbtr><Nm>Ana</Nm></Dbtr><Cdtr><Nm>Rui</Nm></Cdtr></RltdPties>
<RmtInf><Ustrd>PIX {RETURN_ID}</Ustrd></RmtInf></TxDtls></NtryDtls>"""
    (item,) = read_camt(make_camt(make_camt_entry(details=details))).items
    assert (item.counterparty, item.txid, item.names, item.kind) == ("Ana", "t1", (RETURN_ID, E2E), "pix")
    (item,) = read_camt(make_camt(make_camt_entry(details=details, indicator="DBIT"))).items
    assert (item.counterparty, item.signed_cents) == ("Rui", -1050)


def test_an_entry_of_several_transactions_tells_their_count_and_names_and_no_party() -> None:
    transactions = "".join(
        f"<TxDtls><Refs><AcctSvcrRef>T</AcctSvcrRef><EndToEndId>{name}</EndToEndId></Refs><RltdPties><Dbtr><Nm>Ana</Nm>"
        "</Dbtr></RltdPties><RmtInf><Ustrd>529.982.247-25</Ustrd></RmtInf></TxDtls>"
        for name in (E2E, OTHER_E2E)
    )
    for batch, count in (("<Btch><NbOfTxs>2</NbOfTxs></Btch>", 2), ("", 2), ("<Btch><NbOfTxs>3</NbOfTxs></Btch>", 3)):
        details = f"<NtryDtls>{batch}{transactions}</NtryDtls><AddtlNtryInf>CREDITOS</AddtlNtryInf>"
        (item,) = read_camt(make_camt(make_camt_entry(details=details))).items
        assert item.parts == ItemParts(count=count, names=(E2E, OTHER_E2E))
        assert (item.item_id, item.kind, item.text, item.names) == ("N1", "pix", "CREDITOS", ())
        assert (item.counterparty, item.tax_id) == (None, None)
    (item,) = read_camt(make_camt(make_camt_entry(details="<NtryDtls><Btch><NbOfTxs>7</NbOfTxs></Btch></NtryDtls>"))).items
    assert item.parts == ItemParts(count=7)
    for told in ("1", "x", "0"):
        details = f"<NtryDtls><Btch><NbOfTxs>{told}</NbOfTxs></Btch></NtryDtls>"
        assert read_camt(make_camt(make_camt_entry(details=details))).items[0].parts is None


@pytest.mark.parametrize(
    ("remittance", "bank", "kind"),
    [("tarifa de julho", "PIX RECEBIDO", "pix"), ("boleto 12", "CREDITO RECEBIDO", "other"), ("TARIFA", "", "fee")],
)
def test_a_payers_words_tell_no_kind_where_the_bank_has_words(remittance: str, bank: str, kind: str) -> None:
    words = f"<AddtlNtryInf>{bank}</AddtlNtryInf>" if bank else ""
    details = f"<NtryDtls><TxDtls><RmtInf><Ustrd>{remittance}</Ustrd></RmtInf></TxDtls></NtryDtls>{words}"
    assert read_camt(make_camt(make_camt_entry(details=details))).items[0].kind == kind


def test_what_is_only_expected_is_no_line() -> None:
    assert read_camt(make_camt(make_camt_entry(status="PDNG"), make_camt_entry(amount="0.00"))).items == ()


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("<AcctSvcrRef>N1", "<AcctSvcrRef>" + "x" * 256, "line 7: AcctSvcrRef: must have at most 255"),
        ("<BookgDt><Dt>2026-11-02</Dt></BookgDt>", "", "line 7: BookgDt: is missing"),
        ("<Amt Ccy=\"BRL\">10.50", "<Amt Ccy=\"BRL\">10.505", "line 7: Amt: '10.505' is no amount"),
        ("<Amt Ccy=\"BRL\">10.50", "<Amt Ccy=\"BRL\">-10.50", "line 7: CdtDbtInd: must be CRDT or DBIT, of an amount"),
        ("<Amt Ccy=\"BRL\">10.50", "<Amt Ccy=\"USD\">10.50", "line 7: Amt: the account is in 'USD', and not in BRL"),
        ("CRDT", "C", "line 7: CdtDbtInd: must be CRDT or DBIT"),
        ("<CdtDbtInd>", "<Amt Ccy=\"BRL\">1.00</Amt><CdtDbtInd>", "line 7: Amt: stands more than once"),
        ("<CdtDbtInd>", "<CdtDbtInd>DBIT</CdtDbtInd><CdtDbtInd>", "line 7: CdtDbtInd: stands more than once"),
        ("<BookgDt><Dt>2026-11-02", "<BookgDt><Dt>02/11/2026", "line 7: BookgDt: '02/11/2026' is no date"),
        ("<Ccy>BRL", "<Ccy>EUR", "Ccy: the account is in 'EUR'"),
        ("</Stmt>", "</Stmt><Stmt><Id>2</Id></Stmt>", "it needs one account (Acct)"),
        ("</Document>", "", "it is no well-formed XML: no element found"),
        ("camt.053", "camt.052", "its root is no Document of camt.053"),
        ("<Document", "<!DOCTYPE d [<!ENTITY a \"b\">]><Document", "it declares a document type"),
        ("encoding=\"UTF-8\"", "encoding=\"KLINGON\"", "encoding"),
        ("<Id>517613</Id>", "", "Id/Othr/Id: is missing"),
        ("</BookgDt>", "</BookgDt>" + "<x>" * 50, "elements stand more than 40 deep"),
        ("<Id>517613", "<Id>" + "5" * 5000, "Id: has more than 4096 characters"),
        ("</BookgDt>", "</BookgDt>" + "<x>1</x>" * 50_001, "one element has more than 50000 texts"),
        ("</BookgDt>", f"</BookgDt><{'x' * 65}>", "xxxxxxxxxxxxxxxxxxxx...: has more than 64 characters"),
        ("</BookgDt>", "</BookgDt>" + f"<{'x' * 60}>" * 7 + "1", "have names of too many characters"),
    ],
)  # fmt: skip
def test_a_fault_names_the_rule(old: str, new: str, rule: str) -> None:
    text = make_camt(make_camt_entry()).decode()
    assert old in text
    with pytest.raises(InvalidStatement) as caught:
        read_camt(text.replace(old, new, 1).encode())
    assert rule in str(caught.value)


@pytest.mark.parametrize(
    ("midnight", "last_on"),
    [
        ("2026-11-04T00:00:00-03:00", date(2026, 11, 3)),
        ("2026-11-04T03:00:00Z", date(2026, 11, 3)),
        ("2026-11-04T00:00:00", date(2026, 11, 3)),
        ("2026-11-04T00:00:00Z", date(2026, 11, 3)),
        ("2026-11-03T24:00:00-03:00", date(2026, 11, 3)),
        ("2026-11-04T00:00:01", date(2026, 11, 4)),
        ("2026-11-03T23:59:59-04:00", date(2026, 11, 3)),
        ("2026-11-04T02:59:59Z", date(2026, 11, 3)),
        # A line of that day, or one day alone, shows that only its day is told.
        ("2026-11-02T00:00:00", date(2026, 11, 2)),
        ("2026-11-01T00:00:00", date(2026, 11, 1)),
    ],
)
def test_a_span_ends_with_the_last_day_of_the_bank(midnight: str, last_on: date) -> None:
    at = "2026-11-01" if last_on == date(2026, 11, 1) else "2026-11-02"
    text = make_camt(make_camt_entry(at=at)).decode().replace("2026-11-02T23:59:59-03:00", midnight)
    assert read_camt(text.encode()).last_on == last_on


@pytest.mark.parametrize("zone", ["Z", "-02:00", "-03:00", ""])
def test_a_day_that_is_written_as_midnight_in_another_zone_is_that_day(zone: str) -> None:
    balances = BALANCES.replace("<Dt>2026-11-02</Dt>", f"<DtTm>2026-11-02T00:00:00{zone}</DtTm>")
    text = make_camt(make_camt_entry(), balances=balances).decode()
    file = read_camt(text.replace("2026-11-01T00:00:00-03:00", f"2026-11-01T00:00:00{zone}").encode())
    assert file.closing is not None
    assert (file.first_on, file.closing.on) == (date(2026, 11, 1), date(2026, 11, 2))


@pytest.mark.parametrize("told", [f"2026-11-02T{at}" for at in ("00:00:00-03:00", "24:00:00-03:00", "00:00:00Z")])
def test_a_line_at_midnight_has_no_time(told: str) -> None:
    entry = make_camt_entry().replace("<Dt>2026-11-02</Dt>", f"<DtTm>{told}</DtTm>")
    assert [(item.day, item.settled_at) for item in read_camt(make_camt(entry)).items] == [(date(2026, 11, 2), None)]


def test_a_balance_with_two_amounts_is_refused() -> None:
    twice = BALANCES.replace("<CdtDbtInd>DBIT", '<Amt Ccy="BRL">6.00</Amt><CdtDbtInd>DBIT')
    with pytest.raises(InvalidStatement, match="line 6: Amt: stands more than once"):
        read_camt(make_camt(balances=twice))


def test_statements_are_counted_while_they_are_read() -> None:
    text = make_camt().decode()
    one = text[text.index("<Stmt>") : text.index("</BkToCstmrStmt>")]
    # The end of the file, which is no XML, is not read.
    with pytest.raises(InvalidStatement, match="more than 400 statements"):
        read_camt(text.replace(one, one * 401 + "<").encode())


def test_an_entry_without_a_booking_date_has_its_value_date() -> None:
    entry = make_camt_entry().replace("<BookgDt><Dt>2026-11-02</Dt></BookgDt>", "<ValDt><Dt>2026-11-01</Dt></ValDt>")
    (item,) = read_camt(make_camt(entry)).items
    assert item.day == date(2026, 11, 1)


def test_an_entry_that_moves_no_money_needs_nothing_else() -> None:
    nothing = '<Ntry><Amt Ccy="BRL">0.00</Amt><AddtlNtryInf>SALDO</AddtlNtryInf></Ntry>'
    assert len(read_camt(make_camt(nothing, make_camt_entry())).items) == 1


def test_entries_without_the_banks_reference_are_told_apart_by_their_contents() -> None:
    def without(reference: str, amount: str, at: str) -> str:
        named = make_camt_entry(amount=amount, at=at, indicator="DBIT")
        return named.replace("<AcctSvcrRef>N1</AcctSvcrRef>", reference)

    first = without("<NtryRef>1</NtryRef>", "1.00", "2026-11-01")
    again = without("<NtryRef>7</NtryRef>", "1.00", "2026-11-01")
    other = without("<AcctSvcrRef>NONREF</AcctSvcrRef>", "2.00", "2026-11-02")
    (alone,) = read_camt(make_camt(first)).items
    found = read_camt(make_camt(other, again, first))
    # Two equal entries of one file are two; the first is the one of an earlier file.
    assert [item.signed_cents for item in found.items] == [-200, -100, -100]
    assert found.items[1] == alone != found.items[2]


def test_a_date_that_moves_no_money_is_noted_where_it_cannot_be_read() -> None:
    found = read_camt(make_camt(make_camt_entry(), first="0000-00-00", balances=BALANCES.replace("2026-11-02", "0000-00-00")))
    assert (found.opening is None, found.closing, found.first_on) == (False, None, date(2026, 11, 2))
    assert [note.partition(": ")[2] for note in found.notes] == [
        "Dt: '0000-00-00' is no date as XML writes it, and is passed over",
        "Bal: no closing balance is read, for its Dt or Amt is missing",
        "FrDt: '0000-00-00T00:00:00-03:00' is no date as XML writes it, and is passed over",
    ]


def test_our_own_statement_is_read_back() -> None:
    lines = [*LINES, make_fee_line()]
    found = read_camt(write_whole(files.write_camt053, make_statement(lines), lines))
    assert found.account == StatementAccount(bank="99999003", branch="0001", number="1001", type="checking")
    opening, closing = StatedBalance(cents=10_000, on=date(2026, 6, 29)), StatedBalance(cents=11_300, on=date(2026, 7, 1))
    assert (found.opening, found.closing) == (opening, closing)
    amounts = [("11", 1234, (E2E,)), ("12", -34, (RETURN_ID, E2E)), ("13", 100, ()), ("14", -50, ())]
    assert [(item.item_id, item.signed_cents, item.names) for item in found.items] == amounts
    assert [item.kind for item in found.items] == ["pix", "refund", "other", "fee"]
    assert (found.items[0].counterparty, found.items[0].tax_id) == ("Joana Prado", "12345678909")
    assert {item.settled_at for item in found.items} == {AT}


@given(any_lines())
def test_whatever_our_statement_says_is_read_back_to_the_cent(lines: list[StatementLine]) -> None:
    found = read_camt(write_whole(files.write_camt053, make_statement(lines), lines))
    read = [(item.item_id, item.direction, item.amount_cents, item.end_to_end_id, item.settled_at) for item in found.items]
    is_dated = all(line.created_at.time() == time() for line in lines)
    told = [(str(line.id), line.direction, line.amount_cents, E2E, None if is_dated else line.created_at) for line in lines]
    assert read == told


_BITS = ["<", ">", "</", "<Ntry>", "<Stmt>", "<![CDATA[", "]]>", "<!--", "&#0;", "&x;", "\0", '"', "1.234", "é"]


@given(st.integers(0, 900), st.integers(0, 40), st.one_of(st.sampled_from(_BITS), st.text(max_size=20)))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(at: int, length: int, put: str) -> None:
    text = make_camt(make_camt_entry(), make_camt_entry(item_id="N2"), balances=BALANCES).decode()
    damaged = (text[:at] + put + text[at + length :]).encode("utf-8", "surrogatepass")
    with contextlib.suppress(InvalidStatement):
        read_camt(damaged)


@given(st.binary(max_size=200))
def test_bytes_are_refused_and_nothing_else(content: bytes) -> None:
    with pytest.raises(InvalidStatement):
        read_camt(content)
