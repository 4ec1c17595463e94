"""What all readers share."""

import pytest

from pixconnect.domain.institutions.statement_files.statement_file import StatementAccount, name_other_account


@pytest.mark.parametrize(
    ("branch", "number", "sentence"),
    [
        ("0001", "12345", "it is of the account 12345, which lacks the check digit 6 of loja's, 12345-6"),
        ("", "0000012345", "it is of the account 0000012345, which lacks the check digit 6 of loja's, 12345-6"),
        ("1", "2345", "it is of the account 2345, which lacks the check digit 6 of loja's, 12345-6"),
        ("0001", "54321-0", "it is of the account 54321-0, and loja is another one"),
        ("0001", "123456-7", "it is of the account 123456-7, and loja is another one"),
    ],
)
def test_a_missing_check_digit_is_named(branch: str, number: str, sentence: str) -> None:
    assert name_other_account(StatementAccount(branch=branch, number=number), "123456", "loja") == sentence
