"""Accounts at any institution, Pix keys in their one spelling, and the holder that a key led to."""

import gc
import json
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.kernel.rules import holder
from pixconnect.kernel.rules.holder import KeyHolding, KeyType, find_holder_at
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
        *((one, "1001", "99999004", "branch") for one in ("", "00010", "000A", "00-1", "\N{ARABIC-INDIC DIGIT ONE}", "1\n")),
        *(("0001", one, "99999004", "account_number") for one in ("", "1" * 21, "1001-5", "10 01", "1001x")),
        *(("0001", "1001", one, "ispb") for one in ("9999900", "999990040", "9999900a", "9999900\N{FULLWIDTH DIGIT FOUR}")),
        ("x", "x", "x", "branch"),
        ("1", "x", "x", "account_number"),
    ],
)
def test_the_first_wrong_field_refuses_an_account(branch: str, account_number: str, ispb: str, field: str) -> None:
    with pytest.raises(errors.InvalidAccount, match=f"^{field}: must be"):
        holder.check_account(branch, account_number, ispb)


BEGIN = datetime(2026, 7, 1, tzinfo=UTC)


def held(member_id: int | None, given_d: int, removed_d: int | None = None) -> KeyHolding:
    removed_at = None if removed_d is None else BEGIN + timedelta(days=removed_d)
    return KeyHolding(member_id=member_id, given_at=BEGIN + timedelta(days=given_d), removed_at=removed_at)


@pytest.mark.parametrize(
    ("holdings", "day", "found"),
    [
        ([], 5, (None, False)),
        ([held(1, 0)], 5, (1, False)),
        # Before it was registered here, no other holder had it.
        ([held(1, 8)], 5, (1, False)),
        ([held(1, 0, 9)], 5, (1, False)),
        ([held(1, 0, 9)], 9, (1, False)),
        # In quarantine it has no holder.
        ([held(1, 0, 4)], 5, (None, False)),
        ([held(1, 0, 6), held(2, 9)], 5, (1, False)),
        ([held(1, 0, 6), held(2, 9)], 9, (2, False)),
        ([held(1, 0, 6), held(2, 9)], 7, (None, True)),
        ([held(1, 6, 7), held(2, 9)], 5, (None, True)),
        # The same holder again.
        ([held(1, 0, 4), held(1, 8)], 5, (1, False)),
        ([held(2, 0, 1), held(1, 2, 4), held(1, 8)], 5, (None, True)),
        # A holder on another account cannot have been paid on this one.
        ([held(None, 0, 9)], 5, (None, False)),
        ([held(None, 0, 4), held(2, 9)], 5, (None, True)),
    ],
)
def test_it_is_whose_the_key_was_then(holdings: list[KeyHolding], day: int, found: tuple[int | None, bool]) -> None:
    assert find_holder_at(holdings, BEGIN + timedelta(days=day)) == found


VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "vectors" / "pix_keys.json").read_text())
KEY_TYPES: tuple[KeyType, ...] = get_args(KeyType)


def is_refused(text: str, key_type: KeyType | None) -> None:
    with pytest.raises(errors.InvalidPixKey, match=r"^key: ") as refusal:
        holder.parse_pix_key(text, key_type)
    assert len(text) < 3 or text not in refusal.value.message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("not a key", "is no Pix key: must be an EVP, an e-mail address, .* or a CPF or CNPJ"),
        ("ana@", "is no EMAIL: an address such as"),
        ("+", "is no PHONE: "),
    ],
)
def test_the_reason_is_that_of_the_type_which_it_resembles(text: str, reason: str) -> None:
    with pytest.raises(errors.InvalidPixKey, match=f"^key: {reason}"):
        holder.parse_pix_key(text)


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: f"{row['type']} {row['value']}")
def test_a_published_key_is_in_its_one_spelling_or_is_not(row: dict[str, Any]) -> None:
    """The rows have the strict form; here upper-case letters are accepted and lowered."""
    try:
        key = holder.parse_pix_key(row["value"], row["type"]).key
    except errors.InvalidPixKey:
        assert not row["valid"]
    else:
        assert (key == row["value"]) is row["valid"]


@pytest.mark.parametrize(
    ("text", "key_type", "key"),
    [
        ("529.982.247-25", "CPF", "52998224725"),
        ("529982247-25", "CPF", "52998224725"),
        ("00.038.166/0001-05", "CNPJ", "00038166000105"),
        ("12.ABC.345/01DE-35", "CNPJ", "12ABC34501DE35"),
        ("12abc34501de35", "CNPJ", "12ABC34501DE35"),
        ("+55 (61) 98888-7777", "PHONE", "+5561988887777"),
        ("+55.61.98888.7777", "PHONE", "+5561988887777"),
        ("+1 202 555 0100", "PHONE", "+12025550100"),
        ("PIX@BCB.gov.BR", "EMAIL", "pix@bcb.gov.br"),
        ("o'brien+pix=1@localhost", "EMAIL", "o'brien+pix=1@localhost"),
        ("a" * 65 + "@example.com", "EMAIL", "a" * 65 + "@example.com"),
        ("123E4567-E12B-12D1-A456-426655440000", "EVP", "123e4567-e12b-12d1-a456-426655440000"),
    ],
)
def test_a_key_is_normalised_with_and_without_its_type(text: str, key_type: KeyType, key: str) -> None:
    assert holder.parse_pix_key(text, key_type) == holder.PixKey(key=key, key_type=key_type)
    assert holder.parse_pix_key(text) == holder.PixKey(key=key, key_type=key_type)


@pytest.mark.parametrize(
    ("text", "key_type"),
    [
        ("5.2.9.9.8.2.2.4.7.2.5", "CPF"),
        ("529/982/247-25", "CPF"),
        ("00038166000105", "CPF"),
        ("52998224725", "CNPJ"),
        ("12ABC34501DEA5", "CNPJ"),
        ("(61) 98888-7777", "PHONE"),
        ("+0119", "PHONE"),
        ("+5", "PHONE"),
        ("+" + "1" * 16, "PHONE"),
        ("++5561988887777", "PHONE"),
        ("+55\t61988887777", "PHONE"),
        ("+55\N{ARABIC-INDIC DIGIT SIX}1988887777", "PHONE"),
        ("pix@", "EMAIL"),
        ("@bcb.gov.br", "EMAIL"),
        ("pix@bcb..br", "EMAIL"),
        ("pix@-bcb.br", "EMAIL"),
        ("pix@bcb.gov.br.", "EMAIL"),
        ("a&b@bcb.gov.br", "EMAIL"),
        ("a%b@bcb.gov.br", "EMAIL"),
        ("not an e-mail@bcb.gov.br", "EMAIL"),
        ("a@b@bcb.gov.br", "EMAIL"),
        ("jo\u00e3o@bcb.gov.br", "EMAIL"),
        ("pi\N{KELVIN SIGN}@bcb.gov.br", "EMAIL"),
        ("a" * 66 + "@example.com", "EMAIL"),
        ("pix@" + "a" * 64 + ".br", "EMAIL"),
        ("123e4567e12b12d1a456426655440000", "EVP"),
        ("{123e4567-e12b-12d1-a456-426655440000}", "EVP"),
        ("123e4567-e12b-12d1-a456-42665544000g", "EVP"),
    ],
)
def test_a_key_of_another_form_is_refused(text: str, key_type: KeyType) -> None:
    is_refused(text, key_type)


@pytest.mark.parametrize(
    "around", ["{}\n", " {}", "\t{}\r\n", "\ufeff{}", "{}\u200b", "\xa0{} ", "\u202a{}\u202c", "\u2060 \u200e{}"]
)
@pytest.mark.parametrize("key", ["52998224725", "pix@bcb.gov.br", "+5511999999999", "123e4567-e12b-12d1-a456-426655440000"])
def test_what_people_copy_with_a_key_does_not_matter(key: str, around: str) -> None:
    assert holder.parse_pix_key(around.format(key)) == holder.parse_pix_key(key)


@pytest.mark.parametrize("text", ["", "x", " ", "1234", "12345678901", "@", "+", "+0119", "pix@", "\x00", "\ud800"])
def test_a_text_of_no_form_is_refused(text: str) -> None:
    is_refused(text, None)


@pytest.mark.parametrize("key_type", KEY_TYPES)
def test_a_key_of_another_type_is_refused(key_type: KeyType) -> None:
    for row in VECTORS:
        if row["valid"] and row["type"] != key_type:
            is_refused(row["value"], key_type)


@given(st.text(max_size=90), st.none() | st.sampled_from(KEY_TYPES))
def test_any_text_is_a_key_or_refused_and_a_key_stays_what_it_is(text: str, key_type: KeyType | None) -> None:
    try:
        key = holder.parse_pix_key(text, key_type)
    except errors.InvalidPixKey:
        return
    assert key.key.isascii()
    assert len(key.key) <= holder.KEY_LENGTH_MAX
    assert holder.parse_pix_key(key.key) == holder.parse_pix_key(key.key, key.key_type) == key


@given(st.emails())
def test_an_email_of_any_kind_is_folded_or_refused(text: str) -> None:
    try:
        key = holder.parse_pix_key(text)
    except errors.InvalidPixKey:
        return
    assert key == holder.PixKey(key=text.lower(), key_type="EMAIL")


def test_what_is_too_long_for_a_key_is_refused_whatever_its_marks_and_not_remembered() -> None:
    assert holder.parse_pix_key("+55" + " " * 100 + "61988887777").key == "+5561988887777"
    tracemalloc.start()
    try:
        for number in range(50):
            is_refused("+" + " " * 60_000 + f"55619888877{number:02}", None)
        gc.collect()  # the secrets in the refused values
        kept_octets, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_octets < 500_000
