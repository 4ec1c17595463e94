"""The form of an account at any institution."""

import pytest

from pixconnect.kernel.rules import holder
from pixconnect.platform.base import errors


@pytest.mark.parametrize(
    ("branch", "account_number", "ispb"),
    [("0001", "1001", "99999004"), ("1", "0", "00000000"), ("9999", "X" * 20, "99999A04"), ("0", "12345X", "ABCDEFGH")],
)
def test_an_account_that_could_exist_is_accepted(branch: str, account_number: str, ispb: str) -> None:
    holder.check_account(branch, account_number, ispb)


@pytest.mark.parametrize(
    ("branch", "account_number", "ispb", "field"),
    [
        ("", "1001", "99999004", "branch"),
        ("00010", "1001", "99999004", "branch"),
        ("000A", "1001", "99999004", "branch"),
        ("00-1", "1001", "99999004", "branch"),
        ("\N{ARABIC-INDIC DIGIT ONE}", "1001", "99999004", "branch"),
        ("1\n", "1001", "99999004", "branch"),
        ("0001", "", "99999004", "account_number"),
        ("0001", "1" * 21, "99999004", "account_number"),
        ("0001", "1001-5", "99999004", "account_number"),
        ("0001", "1001x", "99999004", "account_number"),
        ("0001", "10 01", "99999004", "account_number"),
        ("0001", "1001", "9999900", "ispb"),
        ("0001", "1001", "999990040", "ispb"),
        ("0001", "1001", "9999900a", "ispb"),
        ("0001", "1001", "9999900\N{FULLWIDTH DIGIT FOUR}", "ispb"),
        ("x", "x", "x", "branch"),
        ("1", "x", "x", "account_number"),
    ],
)
def test_the_first_wrong_field_refuses_an_account(branch: str, account_number: str, ispb: str, field: str) -> None:
    with pytest.raises(errors.InvalidAccount, match=f"^{field}: must be"):
        holder.check_account(branch, account_number, ispb)
