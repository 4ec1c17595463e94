"""Two registers: the arrangement's rules (contents, first day, bound parties), and the retention of personal data.

The arrangement's rows are in ``arrangement.csv``. A changed rule gets a new row and keeps the former one. The rule at the
beginning applies until the end, so callers pass the instant that starts the clock. A rule with a single source warns, and never
refuses. Changed rows of the retention register are kept in the same way.

``tests/repository/test_retention.py`` checks that ``text_columns.csv`` and the features' ``text_columns`` list each text column
of the database.
"""

import csv
from bisect import bisect_right
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct

from pixconnect.kernel.feature import list_features
from pixconnect.kernel.rules.identifiers import minute_of_name
from pixconnect.platform.base.clock import RatePolicy, to_day

_FILE: Final = Path(__file__).parent / "arrangement.csv"


Unit = (
    Literal["seconds", "minutes", "hours", "days", "hour of day", "cents", "keys", "accounts", "tries"]
    | Literal["tokens", "tokens a minute", "duty", "lifted"]
)
"""The unit of a rule's value; a duty has no value, and a lifted rule has none left."""
RuleParty = Literal["holder", "payer's institution", "receiver's institution", "nobody here"]
"""The party bound by a rule. The sandbox plays the institutions' rules and shows them; holders' rules are enforced."""
RuleChange = Literal["less", "more", "none"]
"""The direction of change that makes a rule stricter, and that an operator may take alone; none if operators cannot."""
RuleSource = Literal["cited", "one source", "ours"]


class ArrangementRule(Struct, frozen=True, kw_only=True, rename={"name": "rule"}):
    """One row: a rule from a day on."""

    name: str
    value: int | None = None
    unit: Unit
    since: date = date.min  # a day of Sao Paulo; ``date.min`` if the rule has applied from the beginning
    clock: str = ""  # the event that starts its clock, in words; empty if nothing runs
    binds: RuleParty
    stricter: RuleChange
    standing: RuleSource
    source: str
    says: str

    @property
    def duration(self) -> timedelta:
        """Its duration; only of a rule in days, hours, minutes or seconds."""
        return timedelta(**{self.unit: self.read_value()})

    def read_value(self) -> int:
        if self.value is None:
            raise LookupError(f"{self.name} has no value since {self.since}")
        return self.value


DatedRow = TypeVar("DatedRow", bound="ArrangementRule | Retention")


class Register(Generic[DatedRow]):
    """All rules, each with its rows by day."""

    def __init__(self, rows: Mapping[str, tuple[DatedRow, ...]]) -> None:
        self.rows = rows
        self._days = {name: [row.since for row in of_name] for name, of_name in rows.items()}

    def find(self, name: str, began_at: datetime) -> DatedRow:
        """The rule's row for a clock that began at an instant."""
        of_name = self.rows.get(name, ())
        if len(of_name) == 1 and of_name[0].since == date.min:  # most rules, and the hot ones
            return of_name[0]
        index = bisect_right(self._days.get(name, ()), to_day(began_at))
        if not index:
            raise LookupError(f"{name} on {to_day(began_at)}")
        return of_name[index - 1]

    def find_constant(self, name: str) -> DatedRow:
        """Find a rule that never changed; raises ``LookupError`` once it has, since then an instant decides."""
        rows = self.rows.get(name, ())
        if len(rows) != 1:
            raise LookupError(f"{name} has {len(rows)} rows")
        return rows[0]


def parse_register(text: str) -> Register[ArrangementRule]:
    """Read the rows of a register; a ``ValueError`` names the faulty row."""
    return parse_rows(text, _parse_row)


def parse_rows(text: str, parse_row: Callable[[Mapping[str, str]], DatedRow]) -> Register[DatedRow]:
    rows: dict[str, list[DatedRow]] = {}
    # Editors count from 1, and line 1 has the names of the columns.
    for number, cells in enumerate(csv.DictReader(text.splitlines()), 2):
        try:
            row = parse_row(cells)
        except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            raise ValueError(f"row {number}: {error}") from error
        of_name = rows.setdefault(row.name, [])
        # The rows of one name are in the order of their days: the register looks for the last one that has begun.
        if of_name and of_name[-1].since >= row.since:
            raise ValueError(f"row {number}: {row.name} is not after its former row")
        of_name.append(row)
    return Register({name: tuple(of_name) for name, of_name in rows.items()})


def _list_filled(cells: Mapping[str, str]) -> dict[str, str]:
    return {name: cell for name, cell in cells.items() if cell}


def _parse_row(cells: Mapping[str, str]) -> ArrangementRule:
    rule = msgspec.convert(_list_filled(cells), ArrangementRule, strict=False)
    if (rule.value is None) != (rule.unit in ("duty", "lifted")):
        raise ValueError(f"{rule.name}: each unit needs a value, except a duty and a lifted rule")
    return rule


ARRANGEMENT: Final = parse_register(_FILE.read_text(encoding="utf-8"))


def find_name_window(named_at: datetime) -> timedelta:
    """Maximum distance of the network's time from the minute in a name."""
    return ARRANGEMENT.find("name_window", named_at).duration


def is_outside_window(text: str, now: datetime) -> bool:
    """Whether the network refuses an order of this name because of its time (FF08)."""
    instant = minute_of_name(text)
    return instant is not None and abs(now - instant) > find_name_window(instant)


_CPF_LENGTH: Final = 11


class LookupAllowance(Struct, frozen=True, kw_only=True):
    """In tokens, as the directory counts them."""

    policy: RatePolicy
    missed_cost: int  # a key or an account that does not exist
    found_cost: int  # a key or an account that exists, and is not paid
    paid_tokens: int  # the tokens that a settled payment returns


def find_lookup_allowance(tax_id: str, now: datetime) -> LookupAllowance:
    """The look-up allowance of a payer with this CPF or CNPJ."""
    kind = "person" if len(tax_id) == _CPF_LENGTH else "firm"
    refill = _read(f"{kind}_lookup_refill", now)
    return LookupAllowance(
        policy=RatePolicy(name="lookups", tokens_max=_read(f"{kind}_lookup_tokens", now), refill_per_s=refill / 60),
        missed_cost=_read("lookup_missed", now),
        found_cost=_read("lookup_found", now),
        paid_tokens=_read(f"{kind}_lookup_paid", now),
    )


def _read(name: str, now: datetime) -> int:
    return ARRANGEMENT.find(name, now).read_value()


_FOLDER: Final = Path(__file__).parent
NOT_PERSONAL: Final = "none"  # contents without personal data: states, digests, names of programs


RetentionEnd = Literal["worker", "partition", "verb", "never"]
"""The process that removes expired data; what never is removed stays as long as the database."""


class Retention(Struct, frozen=True, kw_only=True, rename={"name": "data"}):
    """One row: how long one kind of data is kept from a day on."""

    name: str
    whose: str
    at_least: timedelta  # minimum: no request for erasure ends it before
    at_most: timedelta | None = None  # maximum: removed without a request afterwards; ``None`` is never
    since: date = date.min
    clock: str = ""
    ends: RetentionEnd
    standing: RuleSource
    source: str
    says: str
    why: str


def parse_retentions(text: str) -> Register[Retention]:
    """Read the rows of the register; a ``ValueError`` names the faulty row."""
    return parse_rows(text, _parse_retention)


def _parse_retention(cells: Mapping[str, str]) -> Retention:
    filled = _list_filled(cells)
    days = {name: timedelta(days=int(filled[name])) for name in ("at_least", "at_most") if name in filled}
    kept = msgspec.convert(filled | days, Retention, strict=False)
    if kept.at_most is not None and kept.at_most < kept.at_least:
        raise ValueError(f"{kept.name} ends before it may")
    if (kept.at_most is not None) != (kept.ends in ("worker", "partition")):
        raise ValueError(f"{kept.name}: data removed by a worker have an end, and no other")
    return kept


def read_columns(text: str) -> dict[tuple[str, str], str]:
    """Read the kind of data in each column, by table and column; ``NOT_PERSONAL`` if none."""
    return {
        (row["table"], column): row["data"]
        for row in csv.DictReader(filter(None, text.splitlines()))
        for column in row["columns"].split()
    }


# Read at import, so that a faulty register stops a process at its start, and no erasure ends half-way through a table.
RETENTIONS: Final = parse_retentions((_FOLDER / "retention.csv").read_text(encoding="utf-8"))
TEXT_COLUMNS: Final = read_columns(
    "".join(((_FOLDER / "text_columns.csv").read_text(encoding="utf-8"), *(one.text_columns for one in list_features())))
)
