"""Which key signs, which keys are published, and when the next one is made."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pixconnect.features.identity import rules as signing
from pixconnect.features.identity.rules import SigningKey

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
MONTH = 30 * DAY


def make_key(kid: str, signs_from: datetime = START, **changes: Any) -> SigningKey:
    fields: dict[str, Any] = {
        "public_jwk": b"{}", "private_sealed": b"sealed", "certificates": (b"leaf",), "host": "pix.example",
        "expires_at": START + 396 * DAY, "created_at": signs_from,
    }  # fmt: skip
    return SigningKey(kid=kid, signs_from=signs_from, **(fields | changes))


FIRST = make_key("first")
SECOND = make_key("second", START + 90 * DAY)


HOST = "pix.example"


def test_no_key_signs_where_there_is_none() -> None:
    assert signing.current_key([], HOST, START) is None
    assert signing.current_key([FIRST], "other.example", START) is None


def test_a_new_key_signs_from_its_instant_on_and_not_before() -> None:
    assert signing.current_key([SECOND, FIRST], HOST, SECOND.signs_from - timedelta(microseconds=1)) == FIRST
    assert signing.current_key([SECOND, FIRST], HOST, SECOND.signs_from) == SECOND


def test_a_key_that_does_not_sign_yet_is_published_already() -> None:
    assert signing.published_keys([FIRST, SECOND], START, MONTH) == [SECOND, FIRST]


def test_an_old_key_is_published_for_thirty_days_after_its_last_signature() -> None:
    last = SECOND.signs_from
    assert signing.published_keys([FIRST, SECOND], last + MONTH, MONTH) == [SECOND, FIRST]
    assert signing.published_keys([FIRST, SECOND], last + MONTH + timedelta(seconds=1), MONTH) == [SECOND]


def test_a_key_without_successor_is_published_for_good() -> None:
    assert signing.published_keys([FIRST], START + 10_000 * DAY, MONTH) == [FIRST]


def test_the_keys_of_another_host_neither_sign_nor_supersede() -> None:
    elsewhere = make_key("elsewhere", SECOND.signs_from + DAY, host="other.example")
    keys = [FIRST, SECOND, elsewhere]
    assert signing.current_key(keys, HOST, START + 200 * DAY) == SECOND
    assert signing.current_key(keys, "other.example", START + 200 * DAY) == elsewhere
    assert signing.superseded_at(SECOND, keys) == SECOND.expires_at
    assert signing.published_keys(keys, SECOND.signs_from + MONTH, MONTH) == [elsewhere, SECOND, FIRST]


@pytest.mark.parametrize(
    ("newest", "after", "is_due"),
    [
        (None, 0 * DAY, True),
        (FIRST, 89 * DAY, False),
        (FIRST, 90 * DAY, True),
        (make_key("short", expires_at=START + 40 * DAY), 9 * DAY, False),
        (make_key("short", expires_at=START + 40 * DAY), 10 * DAY, True),
    ],
)
def test_a_key_is_due_when_the_newest_is_old(newest: SigningKey | None, after: timedelta, is_due: bool) -> None:
    assert signing.is_rotation_due(newest, START + after, 90 * DAY) is is_due
