"""A payment belongs to the holder who had its key when it settled, even if a list has it late."""

from datetime import UTC, datetime, timedelta

import pytest

from pixconnect.kernel.rules.holder import KeyHolding, find_holder_at

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
