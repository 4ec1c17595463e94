"""Two minutes of chaos, and every seed that has ever found something."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest
from msgspec import Struct

from support.chaos.run import Options, Outcome, run
from support.chaos.there import run_there

pytestmark = [pytest.mark.journey, pytest.mark.long]


class Seed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A seed that is kept for ever.

    Attributes:
        found: Its finding, or the reason for keeping it.
    """

    seed: int
    minutes: float
    found: str


class _Seeds(Struct, frozen=True):
    run: list[Seed]
    there: list[Seed]


FILE: Final = Path(__file__).resolve().parents[1] / "vectors" / "chaos.toml"
SEEDS: Final = msgspec.toml.decode(FILE.read_bytes(), type=_Seeds)


@pytest.mark.parametrize("kept", SEEDS.run, ids=lambda kept: str(kept.seed))
def test_nothing_is_lost_and_nothing_done_twice(kept: Seed, capsys: pytest.CaptureFixture[str]) -> None:
    find_nothing(run, kept, capsys)


@pytest.mark.parametrize("kept", SEEDS.there, ids=lambda kept: str(kept.seed))
def test_both_books_agree_where_money_is_at_an_institution(kept: Seed, capsys: pytest.CaptureFixture[str]) -> None:
    find_nothing(run_there, kept, capsys)


def find_nothing(run_one: Callable[..., Outcome], kept: Seed, capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    outcome = run_one(Options(seed=kept.seed, seconds=60 * kept.minutes), said.append)
    with capsys.disabled():
        print(f"\n{outcome.says()}")  # noqa: T201  the counts are what it is for
    assert outcome.findings == [], [*said, outcome.book]
