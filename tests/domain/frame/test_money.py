"""Integer cents, written as the scheme writes reais."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.domain.frame import errors, money
from pixconnect.domain.money import br_code


@pytest.mark.parametrize("amount_cents", [1, 2, 10607, 999_999_999_999])
def test_an_amount_in_range_is_accepted(amount_cents: int) -> None:
    money.check_amount(amount_cents)


@pytest.mark.parametrize("amount_cents", [0, -1, 1_000_000_000_000, 2**63, -(2**63) - 1])
def test_an_amount_out_of_range_is_refused(amount_cents: int) -> None:
    with pytest.raises(errors.AmountOutOfRange, match=r"^amount: must be from 1 to 999999999999 cents$"):
        money.check_amount(amount_cents)


def test_an_amount_of_5000_digits_is_refused() -> None:
    with pytest.raises(errors.AmountOutOfRange):
        money.check_amount(10**5000)


@pytest.mark.parametrize(
    ("amount_cents", "text"),
    [(0, "0.00"), (1, "0.01"), (10, "0.10"), (100, "1.00"), (123456, "1234.56"), (999_999_999_999, "9999999999.99")],
)
def test_an_amount_is_written_with_two_decimals(amount_cents: int, text: str) -> None:
    assert money.format_reais(amount_cents) == text


@given(st.integers(0, money.AMOUNT_MAX_CENTS))
def test_a_written_amount_reads_back_and_fits_a_br_code(amount_cents: int) -> None:
    text = money.format_reais(amount_cents)
    assert br_code.parse_amount(text) == amount_cents
    assert len(text) <= 13
