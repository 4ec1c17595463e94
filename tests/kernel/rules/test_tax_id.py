"""CPF and CNPJ: forms and check digits, the alphanumeric CNPJ included."""

import string
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.kernel.rules import tax_id
from pixconnect.platform.base import errors


def with_check_digits(text: str, weight_max: int) -> str:
    """By the published rule, written here once more: weights 2 upwards from the right, modulo 11."""
    for _ in range(2):
        weights = [2 + index % (weight_max - 1) for index in range(len(text))]
        rest = sum((ord(c) - 48) * weight for c, weight in zip(reversed(text), weights, strict=True)) % 11
        text += "0" if rest < 2 else str(11 - rest)
    return text


@pytest.mark.parametrize(
    "text", ["52998224725", "12345678909", "00038166000105", "12345678000195", "12ABC34501DE35", "00000000000191"]
)
def test_a_tax_id_with_right_check_digits_is_accepted(text: str) -> None:
    tax_id.check_tax_id(text, "tax_id")


@pytest.mark.parametrize(
    "text",
    [
        "", "52998224724", "5299822472", "529982247250", "11111111111", "00000000000", "00000000000000",
        "00038166000106", "12ABC34501DE34", "12ABC34501DEA5", "12abc34501de35", "529.982.247-25",
        "00.038.166/0001-05", " 52998224725", "52998224725\n", "\N{FULLWIDTH DIGIT FIVE}2998224725",
        "\N{ARABIC-INDIC DIGIT FIVE}2998224725", "5299822472\x00", "\ud800" * 11,
    ],
)  # fmt: skip
def test_what_is_no_tax_id_is_refused_by_the_name_of_its_field(text: str) -> None:
    with pytest.raises(errors.InvalidTaxId, match=r"^payer\.tax_id: must be a CPF") as refusal:
        tax_id.check_tax_id(text, "payer.tax_id")
    assert not text or text not in refusal.value.message


@given(st.text(string.digits, min_size=9, max_size=9))
def test_nine_digits_have_one_pair_of_check_digits(text: str) -> None:
    right = with_check_digits(text, 12)
    accepted = [f"{text}{pair:02d}" for pair in range(100) if tax_id.is_cpf(f"{text}{pair:02d}")]
    assert accepted == ([] if len(set(right)) == 1 else [right])


@given(st.text(string.digits + string.ascii_uppercase, min_size=12, max_size=12))
def test_twelve_characters_have_one_pair_of_check_digits(text: str) -> None:
    accepted = [f"{text}{pair:02d}" for pair in range(100) if tax_id.is_cnpj(f"{text}{pair:02d}")]
    assert accepted == ([] if text == "0" * 12 else [with_check_digits(text, 9)])


@given(st.text(max_size=20))
def test_any_text_is_a_tax_id_or_refused(text: str) -> None:
    try:
        tax_id.check_tax_id(text, "tax_id")
    except errors.InvalidTaxId:
        return
    assert len(text) in {11, 14}


def test_what_is_too_long_to_be_a_tax_id_is_not_remembered() -> None:
    tracemalloc.start()
    try:
        for number in range(50):
            assert not tax_id.is_cpf(f"{number:060000}")
            assert not tax_id.is_cnpj(f"{number:060000}")
        kept_octets, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_octets < 100_000
