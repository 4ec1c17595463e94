"""``pixconnect signing-key`` as an operator uses it."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from pixconnect.domain.signing import PUBLISHED_AHEAD
from support.command_line import CommandLine
from support.postgres import Addresses


@pytest.fixture
def pixconnect(database: Addresses, tmp_path: Path) -> CommandLine:
    return CommandLine(database, tmp_path)


def test_the_first_key_signs_at_once_and_the_next_a_minute_later(pixconnect: CommandLine) -> None:
    first, second = (pixconnect.json("signing-key", "rotate") for _ in range(2))
    waits = [
        datetime.fromisoformat(key["signs_from"]) - datetime.fromisoformat(key["created_at"]) for key in (first, second)
    ]
    assert waits == [timedelta(0), PUBLISHED_AHEAD]
    assert first["kid"] != second["kid"]
    assert "private" not in str(first)
