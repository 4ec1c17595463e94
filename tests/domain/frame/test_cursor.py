"""Cursors of lists: what is in one, and which are refused."""

import base64
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixconnect.domain.frame import errors, listing
from pixconnect.domain.frame.listing import Cursor, read_cursor, write_cursor

LAST = Cursor(created_at=datetime(2026, 7, 1, 12, 0, 0, 123456, UTC), id=9, position=10, total_count=25)
LISTED = b'["charges",7,null,{"status":"PENDING"}]'
CURSOR = "AQAGVYtuVLJAAAAAAAAAAAkAAAAAAAAACgAAAAAAAAAZ"
"""How version 1 begins: all but the check."""


def test_a_cursor_of_version_1_is_these_octets() -> None:
    text = write_cursor(LAST, LISTED)
    assert text == CURSOR + "Q30vAydd"
    assert read_cursor(text, LISTED) == LAST


@given(
    st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 30)),  # noqa: DTZ001  given its zone below
    *[st.integers(0, 2**53 - 1)] * 3,
    st.binary(),
)
def test_a_cursor_comes_back_as_it_was(at: datetime, last_id: int, position: int, total: int, listed: bytes) -> None:
    written = Cursor(created_at=at.replace(tzinfo=UTC), id=last_id, position=position, total_count=total)
    assert read_cursor(write_cursor(written, listed), listed) == written


@given(st.integers(0, 51), st.characters())
def test_a_cursor_with_any_other_letter_is_refused(place: int, letter: str) -> None:
    text = write_cursor(LAST, LISTED)
    changed = text[:place] + letter + text[place + 1 :]
    if changed != text:
        with pytest.raises(errors.BadRequest, match="after: must be a cursor"):
            read_cursor(changed, LISTED)


@pytest.mark.parametrize("garbled", ["", "x", "====", "A" * 51, "A" * 52, "A" * 5000, "é" * 52, CURSOR, "\0"])
def test_what_is_no_cursor_is_refused(garbled: str) -> None:
    with pytest.raises(errors.BadRequest, match="after: must be a cursor"):
        read_cursor(garbled, LISTED)


@pytest.mark.parametrize(
    "numbers",
    [
        (2, 1, 1, 1, 1), (1, 2**63, 1, 1, 1), (1, 2**60, 1, 1, 1), (1, 1, 2**63, 1, 1), (1, 1, 1, 2**53, 1),
        (1, 1, 1, 1, 2**64 - 1),
    ],
)  # fmt: skip
def test_a_made_up_cursor_holds_nothing_that_would_break_later(numbers: tuple[int, ...]) -> None:
    octets = listing._OF_LISTS._numbers.pack(*numbers)
    text = base64.urlsafe_b64encode(octets + listing._OF_LISTS._check(octets, LISTED)).decode()
    with pytest.raises(errors.BadRequest, match="after: must be a cursor"):
        read_cursor(text, LISTED)
