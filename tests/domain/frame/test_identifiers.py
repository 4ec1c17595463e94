"""Names on the network: who, when, chance."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from pixconnect.adapters.system import SystemEntropy
from pixconnect.domain.frame import identifiers

INSTANT = datetime(2026, 11, 20, 7, 53, 59, 999_999, tzinfo=UTC)


def test_an_end_to_end_id_says_who_and_when() -> None:
    name = identifiers.make_end_to_end_id("99999003", INSTANT, SystemEntropy())
    assert (name[:21], len(name)) == ("E99999003202611200753", 32)
    assert identifiers.is_end_to_end_id(name)
    assert not identifiers.is_return_id(name)


def test_a_return_id_says_who_and_when() -> None:
    name = identifiers.make_return_id("9999A003", INSTANT, SystemEntropy())
    assert (name[:21], len(name)) == ("D9999A003202611200753", 32)
    assert identifiers.is_return_id(name)
    assert not identifiers.is_end_to_end_id(name)


def test_the_minute_is_that_of_utc() -> None:
    brasilia = INSTANT.astimezone(timezone(timedelta(hours=-3)))
    assert identifiers.make_end_to_end_id("99999003", brasilia, SystemEntropy())[9:21] == "202611200753"


def test_a_txid_has_32_letters_and_digits() -> None:
    txid = identifiers.make_txid(INSTANT, SystemEntropy())
    assert len(txid) == 32
    assert identifiers.is_txid(txid)


def test_no_two_names_are_alike() -> None:
    entropy = SystemEntropy()
    assert len({identifiers.make_end_to_end_id("99999003", INSTANT, entropy) for _ in range(1000)}) == 1000
    assert len({identifiers.make_txid(INSTANT, entropy) for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "99999003202611200753a1B2c3D4e5F",
        "E9999900a202611200753a1B2c3D4e5F",
        "E99999003202621200753a1B2c3D4e5F",
        "E99999003202611402753a1B2c3D4e5F",
        "E99999003202611203053a1B2c3D4e5F",
        "E99999003202611200763a1B2c3D4e5F",
        "E99999003202611200753a1B2c3D4e5",
        "E99999003202611200753a1B2c3D4e5F0",
        "E99999003202611200753a1B2c3D4e5-",
        "E99999003202611200753a1B2c3D4e5\n",
        "E99999003202611200753a1B2c3D4e5F\n",
        "E9999900\N{FULLWIDTH DIGIT THREE}202611200753a1B2c3D4e5F",
    ],
)
def test_what_is_no_end_to_end_id_is_seen(text: str) -> None:
    assert not identifiers.is_end_to_end_id(text)
    assert not identifiers.is_return_id(text.replace("E", "D", 1))


@pytest.mark.parametrize(("length", "is_one"), [(0, False), (25, False), (26, True), (35, True), (36, False)])
def test_a_txid_of_any_institution_has_26_to_35_characters(length: int, *, is_one: bool) -> None:
    assert identifiers.is_txid("a" * length) is is_one


def test_names_are_case_sensitive() -> None:
    assert not identifiers.is_end_to_end_id("e99999003202611200753a1B2c3D4e5F")
    assert not identifiers.is_return_id("d99999003202611200753a1B2c3D4e5F")


def test_a_txid_has_no_other_characters() -> None:
    assert not identifiers.is_txid("a" * 31 + "-")
    assert not identifiers.is_txid("a" * 31 + "\u00e9")
    assert not identifiers.is_txid("a" * 31 + "\n")
