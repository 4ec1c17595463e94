"""The register of people's data: what is kept of whom, why, for how long, and which columns have it.

As in the register of the arrangement's rules a row that changes gets a row more, and an instant decides which one counts.
``tests/repository/test_retention.py`` holds that each column of the database that can hold texts stands in
``text_columns.csv``.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from pixconnect.domain.rules.register import Register, RuleSource, parse_rows

_FOLDER: Final = Path(__file__).parent
NOT_PERSONAL: Final = "none"
"""What a column has that is about nobody: states, digests, names of programs."""


class RetentionEnd(StrEnum):
    """Who takes out what has come to its end."""

    WORKER = "worker"
    PARTITION = "partition"
    VERB = "verb"
    NEVER = "never"
    """Nobody yet: it stays as long as the database."""


class Retention(Struct, frozen=True, kw_only=True):
    """One row: how long one kind of data is kept from a day on."""

    name: str
    whose: str
    at_least: timedelta
    """No request of a person ends it before."""
    at_most: timedelta | None
    """From when on it is taken out without a request; ``None`` is never."""
    since: date
    clock: str
    ends: RetentionEnd
    standing: RuleSource
    source: str
    says: str
    why: str


def parse_retentions(text: str) -> Register[Retention]:
    """Read the rows of the register; raises ``ValueError`` that names the row where one is not as it must be."""
    return parse_rows(text, _parse_row)


def _parse_row(cells: Mapping[str, str]) -> Retention:
    kept = Retention(
        name=cells["data"],
        whose=cells["whose"],
        at_least=timedelta(days=int(cells["at_least"])),
        at_most=timedelta(days=int(cells["at_most"])) if cells["at_most"] else None,
        # Without a day it has always been so.
        since=date.fromisoformat(cells["since"]) if cells["since"] else date.min,
        clock=cells["clock"],
        ends=RetentionEnd(cells["ends"]),
        standing=RuleSource(cells["standing"]),
        source=cells["source"],
        says=cells["says"],
        why=cells["why"],
    )
    if kept.at_most is not None and kept.at_most < kept.at_least:
        raise ValueError(f"{kept.name} ends before it may")
    if (kept.at_most is not None) != (kept.ends in (RetentionEnd.WORKER, RetentionEnd.PARTITION)):
        raise ValueError(f"{kept.name}: what a worker takes out has an end, and nothing else has one")
    return kept


def read_columns(text: str) -> dict[tuple[str, str], str]:
    """Which data each column has, by table and column; ``NOT_PERSONAL`` where none."""
    return {
        (row["table"], column): row["data"]
        for row in csv.DictReader(text.splitlines())
        for column in row["columns"].split()
    }


# Read when the module is loaded: a register that is wrong stops a process at its start, and no erasure begins by half a
# table.
RETENTIONS: Final = parse_retentions((_FOLDER / "retention.csv").read_text(encoding="utf-8"))
TEXT_COLUMNS: Final = read_columns((_FOLDER / "text_columns.csv").read_text(encoding="utf-8"))
