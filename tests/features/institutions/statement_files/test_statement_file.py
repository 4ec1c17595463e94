"""The account that a file belongs to."""

from datetime import date

import pytest

from pixconnect.features.institutions.statement_files.statement_account import StatementAccount, find_difference
from pixconnect.features.institutions.statement_files.statement_file import (
    InvalidStatement,
    StatementFile,
    choose_statements,
    find_kind,
    join_statements,
)

WANTED = StatementAccount(bank="09089356/364", branch="0001", number="12345-6", type="checking", agreement="0000000000000077")


@pytest.mark.parametrize(
    "told",
    [
        StatementAccount(number="123456"),
        StatementAccount(number="0000123456"),
        StatementAccount(number="0001123456"),
        StatementAccount(branch="0001-9", number="0001123456"),
        StatementAccount(branch="00001", number="000000012345-6"),
        StatementAccount(bank="0364", number="12345-6", agreement="77"),
        StatementAccount(bank="EFIPBRSP", number="12345-6"),
        WANTED,
    ],
    ids=str,
)
def test_one_account_is_written_in_many_ways(told: StatementAccount) -> None:
    assert find_difference(told, WANTED, "loja") is None
    assert find_difference(WANTED, told, "loja") is None


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (StatementAccount(number="12345"), "the number is 12345, and loja's is 12345-6 (the file lacks the check digit 6)"),
        (StatementAccount(branch="0001", number="000112345"), "(the file lacks the check digit 6)"),
        (StatementAccount(number="54321-0"), "the number is 54321-0, and loja's is 12345-6: export"),
        (StatementAccount(branch="0001", number="1123456"), "the number is 1123456, and loja's is 12345-6: export"),
        (StatementAccount(branch="0002", number="123456"), "the branch is 0002, and loja's is 0001: export"),
        (StatementAccount(bank="341", number="123456"), "the bank is 341, and loja's is 09089356/364: export"),
        (StatementAccount(number="123456", type="savings"), "the account type is savings, and loja's is checking"),
        (StatementAccount(number="123456", agreement="78"), "the agreement is 78, and loja's is 0000000000000077"),
    ],
)
def test_a_difference_names_the_part_and_both_values(told: StatementAccount, sentence: str) -> None:
    difference = find_difference(told, WANTED, "loja")
    assert difference is not None
    assert sentence in difference
    assert "run `institution rotate loja`" in difference


def a_statement(number: str, first: int, last: int, account_type: str = "") -> StatementFile:
    return StatementFile(
        format="ofx",
        account=StatementAccount(number=number, type=account_type),
        first_on=date(2026, 7, first),
        last_on=date(2026, 7, last),
        items=(),
    )


def test_of_several_statements_those_of_the_account_are_taken_in_their_order() -> None:
    file = join_statements([a_statement("9-9", 1, 2), a_statement("123456", 3, 4), a_statement("123456", 1, 2)])
    assert [one.first_on.day for one in choose_statements(file, WANTED, "loja")] == [1, 3]


@pytest.mark.parametrize(
    ("statements", "rule"),
    [
        ([a_statement("123456", 1, 3), a_statement("123456", 3, 4)], "both cover 2026-07-03 to 2026-07-03"),
        (
            [a_statement("9-9", 1, 1), a_statement("8-8", 1, 1)],
            r"the number is 9-9, .* \(the file has number 9-9; number 8-8\)",
        ),
        (
            [a_statement("7", 1, 1), a_statement("7", 1, 1, "savings")],
            "2 accounts that may be loja: number 7; number 7, account type savings",
        ),
    ],
)
def test_a_file_without_one_statement_of_the_account_is_refused(statements: list[StatementFile], rule: str) -> None:
    wanted = StatementAccount(number="7") if statements[0].account.number == "7" else WANTED
    with pytest.raises(InvalidStatement, match=rule):
        choose_statements(join_statements(statements), wanted, "loja")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("BOLETO PAGO", "boleto"),
        ("PAGAMENTO ELETRONICO DE BOLETO", "boleto"),
        ("LIQUIDACAO DE TITULO", "boleto"),
        ("BLOQUEIO JUDICIAL", "judicial"),
        ("VALOR BLOQUEADO POR ORDEM JUDICIAL", "judicial"),
        ("TARIFA BLOQUEIO JUDICIAL", "fee"),
        ("TED RECEBIDA", "wire"),
        ("TARIFA PIX", "fee"),
        ("DEB. TAR PIX", "fee"),
        ("TAXA S/ PIX RECEBIDO", "fee"),
        ("COMISSAO E99999004202607011500abcdefghijk", "fee"),
        ("PIX DEVOLVIDO", "refund"),
        # A payer's text follows the bank's words and the payer's name.
        ("TRANSF RECEBIDA ANA SOUZA boleto 12", "other"),
        ("CREDITO ANA MARIA SOUZA ordem judicial", "other"),
        ("PIX RECEBIDO tarifa de julho", "pix"),
        ("TAXA DE CONDOMINIO", "other"),
    ],
)
def test_a_kind_is_what_a_text_begins_with(text: str, kind: str) -> None:
    assert find_kind(text) == kind
