"""What a feature declares: the rows that it adds to the frames.

A frame (the clock, the worker, the proof, ...) gathers its rows and names no feature. A feature declares in
``pixconnect.features.<name>`` where its rows are. They are imported when a frame gathers them: a verb does not wait for the
imports of another one, and an API process does not import the worker.
"""

from __future__ import annotations

from importlib import import_module
from typing import Literal, NamedTuple, TypeVar

Row = TypeVar("Row")
Places = tuple[str, ...]
"""Sequences of rows, each as ``module:NAME`` below ``pixconnect``."""


class Scope(NamedTuple):
    """What a client may be allowed."""

    name: str
    text: str
    """What it allows."""
    kinds: tuple[str, ...] = ()
    """Of things that searches, timelines and figures show by it."""
    is_standard: bool = False
    """Whether only the central bank's API asks for it."""


class Event(NamedTuple):
    """What webhooks announce."""

    name: str
    resource: str
    """What it happens to."""
    fact: str
    is_own: bool = False
    """Whether the contract does not know it."""
    is_in_sandbox: bool = True
    """Whether callers of a sandbox can cause it."""


class Verb(NamedTuple):
    """A verb of the command line, or a group of verbs."""

    group: Literal["running", "integrator", "operator"]
    name: str
    place: str
    help: str


class Feature(NamedTuple):
    """A feature's rows, by kind: data, or where they are."""

    scopes: tuple[Scope, ...] = ()
    verbs: tuple[Verb, ...] = ()
    events: tuple[Event, ...] = ()
    event_families: Places = ()
    """Their payloads: ``kernel.rules.event.EventFamily``."""
    deadlines: Places = ()
    """What becomes due by the service's time: ``kernel.tables.deadline.Deadline``."""
    members: Places = ()
    """Parts of a worker: ``doors.worker.parts.MemberRow``."""
    problems: Places = ()
    """The problems that health checks report: ``doors.worker.problem.Problem``."""
    meters: Places = ()
    """What workers measure in the database: ``doors.worker.meter.Meter``."""
    rules: Places = ()
    """What the proof checks: ``features.proof.rules.Rule``."""

    chores: Places = ()
    """What a worker repeats: ``doors.worker.chore.Chore``."""
    sections: Places = ()
    """Of our own interface: ``doors.api.operation.Section``."""
    standard_operations: Places = ()
    """Of the central bank's API: ``features.pix_api.api.frame.StandardOperation``."""
    text_columns: str = ""
    """Which columns of its tables hold texts: lines as in ``kernel/register/text_columns.csv``."""
    pages: Places = ()
    """Of the console: ``doors.console.application.PageRoute``."""
    menu: Places = ()
    """``doors.console.visit.MenuEntry``."""
    overview: Places = ()
    """Of the console's first page: ``doors.console.application.OverviewPart``."""


def list_features() -> tuple[Feature, ...]:
    return tuple(
        import_module(f"pixconnect.features.{name}").FEATURE for name in import_module("pixconnect.features").NAMES
    )


def gather(kind: str, row_type: type[Row]) -> tuple[Row, ...]:
    """Import the rows of one kind, in the order of the features."""
    rows: list[Row] = []
    for feature in list_features():
        for place in getattr(feature, kind):
            module, _, attribute = place.partition(":")
            for row in getattr(import_module(f"pixconnect.{module}"), attribute):
                if not isinstance(row, row_type):
                    raise TypeError(f"{place}: has a {type(row).__name__}, not a {row_type.__name__}")
                rows.append(row)
    return tuple(rows)
