"""What ``docs/explanations/scale.md`` works out of what was measured: its tables and its drawings.

The page is written by hand but for what stands between its marks. What is assumed and not measured is a constant here, and the
page says so.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple

from bench.figures import RESULTS, Row
from bench.pages import cell_phrases
from bench.pages.charts import Bar, draw_bars
from pixconnect.config import Settings

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "explanations" / "scale.md"
DRAWINGS: Final = "scale"
"""The folder beside the page."""

RECORD_DAY: Final = 313_300_000
"""Pix of the whole country on 5 December 2025, its busiest day so far."""
PEAK: Final = 3
"""How much busier than the average its busiest minutes are taken to be: nobody has published it."""
RESTORE_HOURS: Final = 4
"""How long a cell may take to come back from its copy and its log."""
LARGE_HOUSE: Final = 10_000_000
SMALL_HOUSE: Final = 100_000
"""Pix a day, as of the large one."""
PROCESSES: Final = {"a small machine": (2, 1), "a large one": (8, 2), "many machines": (30, 10)}
"""API processes and workers, as connections are counted of."""
CELLS_DRAWN: Final = (1, 4, 12)
CONNECTIONS_MAX: Final = 500
"""As many as one PostgreSQL carries without a pooler."""
_BESIDE: Final = {"API process": 2, "worker": 1}
"""Connections of a process in each cell beside its pool: those that listen, look at access, hold leases."""
_DAYS: Final = 365
_RECORD: Final = "the record day"
_LIVES: Final = {"transfer_life": "a transfer sent and settled", "charge_paid": "a charge made and paid"}
# They leave by whole partitions, ``PIXCONNECT_EVENT_RETENTION_DAYS`` after they were made.
_LEAVING: Final = frozenset({"event", "delivery", "delivery_attempt", "event_feed"})
_RETENTION_DAYS: Final = 90


class Life(NamedTuple):
    """What one costs."""

    what: str
    postgres_us: float
    all_us: float
    wal_octets: float
    octets: Mapping[str, float]
    """Of each table."""

    @property
    def kept_octets(self) -> float:
        return sum(octets for table, octets in self.octets.items() if table not in _LEAVING)

    @property
    def leaving_octets(self) -> float:
        return sum(self.octets.values()) - self.kept_octets


class Day(NamedTuple):
    """So many Pix in a day, half of them sent and half received by a charge, every day of a year."""

    pix_count: int
    mean: Life
    kept_rate: float
    """Lives a second that one cell has kept for an hour, with everything else on the same two cores."""
    restored_octets: float
    """So large is a database that is restored in the time that is allowed."""

    @property
    def average(self) -> float:
        return self.pix_count / 86_400

    @property
    def peak(self) -> float:
        return self.average * PEAK

    @property
    def year_octets(self) -> float:
        return self.pix_count * (self.mean.kept_octets * _DAYS + self.mean.leaving_octets * _RETENTION_DAYS)

    @property
    def days_in_one_cell(self) -> float:
        """Until one database of all is as large as may be restored."""
        octets_a_day = self.pix_count * (self.mean.kept_octets + self.mean.leaving_octets)
        if octets_a_day * _RETENTION_DAYS >= self.restored_octets:
            return self.restored_octets / octets_a_day
        # From the ninetieth day on as much leaves of events and deliveries as comes.
        left_octets = self.restored_octets - octets_a_day * _RETENTION_DAYS
        return _RETENTION_DAYS + left_octets / (self.pix_count * self.mean.kept_octets)

    @property
    def cells_by_rate(self) -> int:
        return ceil(self.peak / self.kept_rate)

    @property
    def cells_by_size(self) -> int:
        return ceil(self.year_octets / self.restored_octets)


def write_page() -> str:
    """The page, with what is worked out."""
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in _parts().items():
        begin, end = f"<!-- {name}: written by `make docs` -->\n", f"<!-- {name}: end -->\n"
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = "\n".join([head + begin, *lines, "", end + tail])
    return text


def write_drawings() -> dict[str, str]:
    """By the names of their files."""
    lives, days = _read()
    rate_max, connections_mark = _read_rates(days), ("max_connections", float(CONNECTIONS_MAX))
    bars = [
        Bar(
            f"{life.what.split()[1]}: {table}",
            [("for ever" if table not in _LEAVING else "90 days", octets)],
            f"{octets:,.0f}",
        )
        for life in lives
        for table, octets in _largest(life)
    ]
    cells = [
        Bar(f"{name}, {by}", [("", float(count))], f"{count:,} cells")
        for name, day in list(days.items())[1:]
        for by, count in (("by its busiest minutes", day.cells_by_rate), ("by a year's size", day.cells_by_size))
    ]
    return {
        "life.svg": draw_bars("What one leaves on disk: octets of each table with its indexes", bars),
        "connections.svg": draw_bars(
            "Connections at most: of all processes to one server, and of one API process to all",
            _connections(),
            connections_mark,
        ),
        "breaks.svg": draw_bars(
            "What one database does, by what breaks first: Pix a second",
            [Bar(what, [("", rate)], f"{_short(rate)} a second") for what, rate in rate_max.items()],
        ),
        "cells.svg": draw_bars("How many cells, by what limits them", cells, ("as many as can be numbered", 256.0)),
    }


def _connections() -> list[Bar]:
    pool = Settings().database_connections_max
    api, worker = (pool + beside for beside in _BESIDE.values())
    to_one = [
        Bar(
            f"{where}: {apis} API processes, {workers} workers",
            [("API", float(apis * api)), ("workers", float(workers * worker))],
            f"{apis * api + workers * worker:,} to each server",
        )
        for where, (apis, workers) in PROCESSES.items()
    ]
    of_one = [
        Bar(
            f"one API process, {cells} cells" if cells > 1 else "one API process, one cell",
            [("API", float(cells * api))],
            f"{cells * api:,} of it",
        )
        for cells in CELLS_DRAWN
    ]
    return to_one + of_one


def _read_rates(days: Mapping[str, Day]) -> Mapping[str, float]:
    """Pix a second, by what ends there; the least last."""
    rows = _read_rows()
    day = days[_RECORD]
    return {
        "two cores: transfers, for seconds": rows["transfer_life"]["per_second"],
        "two cores: charges, for seconds": rows["charge_paid"]["per_second"],
        "two cores: transfers, for an hour": day.kept_rate,
        f"a year's size, restored in {RESTORE_HOURS} h": day.average * day.restored_octets / day.year_octets,
    }


def write() -> None:
    """Write both where they belong."""
    PAGE.write_text(write_page(), encoding="utf-8")
    for name, drawing in write_drawings().items():
        (PAGE.parent / DRAWINGS / name).write_text(drawing, encoding="utf-8")


def _parts() -> dict[str, Sequence[str]]:
    lives, days = _read()
    rows = _read_rows()
    return {
        "lives": list(_say_lives(lives)),
        "days": list(_say_days(days)),
        "tables": list(_say_tables(lives)),
        "cells": list(cell_phrases.say_table(rows["cells_transfer_life"], rows["cells_charge_paid"])),
    }


def _say_lives(lives: Sequence[Life]) -> Iterator[str]:
    yield "| | PostgreSQL's CPU | of all processes | written ahead | on disk for ever | on disk for 90 days |"
    yield "|---|---|---|---|---|---|"
    for life in lives:
        yield (
            f"| {life.what} | {life.postgres_us:,.0f} µs | {life.all_us:,.0f} µs | {life.wal_octets / 1000:.1f} kB "
            f"| {life.kept_octets / 1000:.2f} kB | {life.leaving_octets / 1000:.2f} kB |"
        )


def _say_days(days: Mapping[str, Day]) -> Iterator[str]:
    yield f"| | {' | '.join(days)} |"
    yield f"|---|{'---|' * len(days)}"
    for what, say in {
        "Pix a day": lambda day: f"{day.pix_count:,}",
        "a second, on average": lambda day: f"{day.average:,.0f}",
        f"a second, at {PEAK} times the average": lambda day: f"{day.peak:,.0f}",
        "cores for PostgreSQL then": lambda day: _short(day.peak * day.mean.postgres_us / 1e6),
        "cores for everything then": lambda day: _short(day.peak * day.mean.all_us / 1e6),
        "written ahead then": lambda day: f"{_short(day.peak * day.mean.wal_octets / 1e6)} MB/s",
        "on disk after a year of such days": lambda day: f"{_short(day.year_octets / 1e12)} TB",
        f"days until one database takes {RESTORE_HOURS} hours to restore": lambda day: _short(day.days_in_one_cell),
        "**cells, by the busiest minutes**": lambda day: f"**{day.cells_by_rate:,}**",
        "**cells, by a year's size**": lambda day: f"**{day.cells_by_size:,}**",
    }.items():
        yield f"| {what} | {' | '.join(say(day) for day in days.values())} |"
    restored_octets = days[_RECORD].restored_octets
    yield ""
    yield f"A database that is back within {RESTORE_HOURS} hours has at most {restored_octets / 1e12:.1f} TB."


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _say_tables(lives: Sequence[Life]) -> Iterator[str]:
    yield "| table | a transfer | a charge paid | after a year |"
    yield "|---|---|---|---|"
    tables = {table for life in lives for table, _ in _largest(life)}
    for table in sorted(tables, key=lambda table: -sum(life.octets.get(table, 0) for life in lives)):
        sent, paid = (life.octets.get(table, 0.0) for life in lives)
        days = _RETENTION_DAYS if table in _LEAVING else _DAYS
        octets = LARGE_HOUSE * days * (sent + paid) / 2
        of_days = ", of 90 days" if table in _LEAVING else ""
        yield f"| `{table}` | {sent:,.0f} | {paid:,.0f} | {octets / 1e12:,.2f} TB{of_days} |"


def _largest(life: Life) -> list[tuple[str, float]]:
    """All but what a life needs of each only while it lasts, or shares with thousands."""
    return sorted(((table, octets) for table, octets in life.octets.items() if octets >= 20), key=lambda each: -each[1])


def _read_rows() -> Mapping[str, Row]:
    return {row["name"]: row for row in json.loads(RESULTS.read_text())["rows"]}


def _read() -> tuple[Sequence[Life], Mapping[str, Day]]:
    rows = _read_rows()
    lives = [
        Life(
            what=what,
            postgres_us=rows[name]["cpu_us_each"]["postgres"],
            all_us=rows[name]["cpu_us_each_in_all"],
            wal_octets=rows[f"disk_{name}"]["wal_octets_each"],
            octets=rows[f"disk_{name}"]["octets_each"],
        )
        for name, what in _LIVES.items()
    ]
    restored = rows["restore_10"]
    octets = restored["gib"] * 2**30 * RESTORE_HOURS * 3600 / (restored["put_back_s"] + restored["replay_s"])
    counts = {
        "a small house": SMALL_HOUSE,
        "a large one": LARGE_HOUSE,
        _RECORD: RECORD_DAY,
        "ten times that": 10 * RECORD_DAY,
    }
    return lives, {name: Day(count, _mean(lives), rows["soak"]["per_second"], octets) for name, count in counts.items()}


def _mean(lives: Sequence[Life]) -> Life:
    tables = {table for life in lives for table in life.octets}
    return Life(
        what="the mean of them",
        postgres_us=sum(life.postgres_us for life in lives) / len(lives),
        all_us=sum(life.all_us for life in lives) / len(lives),
        wal_octets=sum(life.wal_octets for life in lives) / len(lives),
        octets={table: sum(life.octets.get(table, 0.0) for life in lives) / len(lives) for table in tables},
    )
