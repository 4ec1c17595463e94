"""Declarations of features: the rows that a feature adds to the clock, the worker, the proof and the other frames.

A frame gathers rows from all features without naming any. A feature declares in ``pixconnect.features.<name>`` where its rows
are. A frame imports them only when it gathers them, so a verb does not pay for the imports of other verbs, and an API process
does not import the worker.

Another distribution, ``pixconnect-<name>``, adds a feature by an entry point in the group ``pixconnect.features``, which is the
place of its ``Feature``. Such a feature has no tables, and so no scopes, events, lookups and text columns.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, LiteralString, NamedTuple, TypeVar, cast

Row = TypeVar("Row")
Part = TypeVar("Part")
Kind = TypeVar("Kind", bound="Ranked")
Places = tuple[str, ...]
"""Sequences of rows, each as ``module:NAME`` below ``pixconnect``, or as ``pixconnect_<name>.module:NAME``."""
GROUP: Final = "pixconnect.features"  # entry points of other distributions


class FeatureError(Exception):
    """A feature of another distribution cannot be loaded; the message names the distribution."""


class Ranked:
    """A class that a frame makes an object of, in the order of ranks."""

    rank: ClassVar[int]  # its place among the classes of its kind; no two have the same


class FeatureParts:
    """Features' objects of a process, by type: a frame passes them on without naming any."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Mapping[type, object] | None = None) -> None:
        self._parts = dict(parts or {})

    def __getitem__(self, kind: type[Part]) -> Part:
        """The part of this type; ``KeyError`` if the process has none."""
        return cast("Part", self._parts[kind])

    def __or__(self, others: Mapping[type, object]) -> "FeatureParts":
        """The same with some parts replaced or added."""
        return FeatureParts(self._parts | dict(others))


class Scope(NamedTuple):
    """A permission that a client can have."""

    name: str
    text: str
    # The kinds of records that searches, timelines and figures show to clients with this scope.
    kinds: tuple[str, ...] = ()
    is_standard: bool = False  # whether only the central bank's API requires it


class Event(NamedTuple):
    name: str
    resource: str  # the kind of resource that changed
    fact: str
    in_sandbox: str = ""  # how callers of a sandbox cause it; empty if they cannot
    is_own: bool = False  # whether it extends the contract's events
    status: str = ""  # the status in its payload, if that is not the last word of its name


class Lookup(NamedTuple):
    """A kind of resource that the feed and the search find by its ids. The schema has its table, of the same name."""

    kind: LiteralString
    names: tuple[LiteralString, ...] = ()  # columns with its other ids; each begins an index
    # Its external id, name, status, amount and instant, as SQL; empty if only the feed finds it.
    shown: LiteralString = ""
    path: str = ""  # of its page in the console, with ``{id}``

    def match(self, text: LiteralString, number: LiteralString) -> tuple[LiteralString, ...]:
        """Return SQL conditions, one for each index: its id is the number, or another id is the text."""
        return (f"id = {number}", *(f"{name} = {text}" for name in self.names))


class Erasure(NamedTuple):
    """A kind of rows with texts about people. The schema has its row of ``text_sweep`` and its function ``erase_<kind>s``."""

    kind: str
    data: str  # of its texts, in the register of personal data


class Verb(NamedTuple):
    """A verb of the command line, or a group of verbs."""

    group: Literal["running", "integrator", "operator", "below operator", "below holder", "below institution"]
    """The last three are verbs of ``pixconnect operator``, ``pixconnect holder`` and ``pixconnect institution``."""
    name: str
    place: str
    help: str = ""  # below a holder or an institution the function's docstring


class Feature(NamedTuple):
    """A feature's rows, by kind: the data itself, or the modules that contain it."""

    scopes: tuple[Scope, ...] = ()
    # What scopes of the kernel allow here: the scope's name, and words that follow its text.
    scope_parts: tuple[tuple[str, str], ...] = ()
    verbs: tuple[Verb, ...] = ()
    origin_kinds: tuple[str, ...] = ()  # kinds of ``kernel.tables.origin.Asked`` that it records
    events: tuple[Event, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    event_families: Places = ()  # their payloads: ``kernel.rules.event.EventFamily``
    ports: Places = ()  # parts of each process's context: ``kernel.flows.context.PortRow``
    order_rules: Places = ()  # judge transfers and refunds before they leave: ``kernel.flows.before_order.OrderRule``
    claims: Places = ()  # claims on money that becomes available: ``kernel.writing.unit_of_work.Claim``
    end_rules: Places = ()  # change what belongs to an order that ends: ``kernel.flows.settlement.EndRule``
    event_facts: Places = ()  # rows that are written with each event: ``kernel.tables.fact.Fact``
    # Written with the events of transfers and refunds: ``kernel.writing.unit_of_work.Follower``.
    followers: Places = ()
    # Record other reports than of credits, returns and ended orders: ``kernel.flows.report.ReportTaker``.
    report_takers: Places = ()
    # Done when an operator closes a kept report: ``kernel.flows.kept_report.ReportClosing``.
    report_closings: Places = ()
    key_removals: Places = ()  # done when a Pix key is removed: ``kernel.flows.holder.KeyRemoval``
    delivery_formats: Places = ()  # formats of webhooks other than ours: ``features.webhooks.service.delivery.Formats``
    # Secrets under the installation's secret key: ``features.identity.service.secret_key.SealedKind``.
    sealed_kinds: Places = ()
    accounts: Places = ()  # accounts at institutions, of one feature: ``kernel.flows.source.Accounts``
    # Amounts of charges with a due date, of one feature: ``kernel.rules.charge_contents.DayRules``.
    day_rules: Places = ()
    paid_parts: Places = ()  # what keeps the parts of their payments: ``kernel.flows.charge.PaidParts``
    # What holds charges that come in batches, of one feature: ``features.pix_api.lots.Lots``.
    charge_batches: Places = ()
    # What stores orders before their transfers, of one feature: ``features.pix_api.service.cents_records.Orders``.
    stored_orders: Places = ()
    # Statements that find work on a holder's new charges, by its id: texts of SQL with one text in the result.
    unfinished: Places = ()
    suspect_credits: Places = ()  # what holds suspect credits, of one feature: ``kernel.flows.credit.SuspectCredits``
    deadlines: Places = ()  # deadlines on service time: ``kernel.tables.clock.Deadline``
    members: Places = ()  # parts of a worker: ``doors.worker.parts.MemberRow``
    checks: Places = ()  # checks of health: ``doors.worker.parts.HealthCheck``
    problems: Places = ()  # the problems that health checks report: ``doors.worker.parts.Problem``
    gauges: Places = ()  # values that each process has in memory: ``doors.worker.parts.Gauge``, read from its context
    meters: Places = ()  # values that workers measure in the database: ``doors.worker.parts.Meter``
    rules: Places = ()  # rules of the proof: ``kernel.rules.proof.Rule``
    rule_parts: Places = ()  # what a feature's rows add to other rules of the proof: ``kernel.rules.proof.RulePart``
    chores: Places = ()  # periodic tasks of a worker: ``doors.worker.parts.Chore``
    sandbox_calls: Places = ()  # calls that the simulated network answers: ``features.sandbox.rules.CallRow``
    network_parts: Places = ()  # reports that it keeps for a feature: ``features.sandbox.network.outbox.NetworkPart``
    account_tasks: Places = ()  # a worker's tasks at each account: ``features.institutions.worker.AccountTask``
    refusals: Places = ()  # classes of its rules: ``platform.base.errors.RuleBroken``
    sections: Places = ()  # sections of our own API: ``doors.api.operation.Section``
    doors: Places = ()  # beside the described interface: ``doors.api.operation.Door``
    api_extensions: Places = ()  # around the application: ``doors.api.extension.ApiExtensionRow``
    worker_extensions: Places = ()  # around the parts of a worker: ``doors.worker.parts.WorkerExtension``
    # Operations of the central bank's API: ``features.pix_api.api.frame.StandardOperation``.
    standard_operations: Places = ()
    standard_words: Places = ()  # what describes these: ``features.locations.problem.StandardWords``
    # What reads the settings of faces, of one feature: ``doors.cli.settings.FaceSettings``.
    face_settings: Places = ()
    erasures: tuple[Erasure, ...] = ()
    text_columns: str = ""  # columns that contain text: lines as in ``kernel/register/text_columns.csv``
    recipes: Places = ()  # how `pixconnect trigger` causes events: ``doors.cli.integrator.recipes.Recipe``
    pages: Places = ()  # console pages: ``doors.console.application.PageRoute``
    menu: Places = ()  # menu entries: ``doors.console.visit.MenuEntry``
    overview: Places = ()  # parts of the console's first page: ``doors.console.application.OverviewPart``


def list_names() -> tuple[str, ...]:
    """The features of this distribution."""
    return tuple(import_module("pixconnect.features").NAMES)


def list_features() -> tuple[Feature, ...]:
    places = (*(f"features.{name}:FEATURE" for name in list_names()), *find_others().values())
    return tuple(cast(Feature, read_place(place)) for place in places)


@cache
def find_others() -> Mapping[str, str]:
    """Find the features of other distributions, with their places, in the order of their names.

    It reads the files of their entry points, because ``importlib.metadata`` takes longer to import than most verbs.
    """
    files: dict[str, Path] = {}
    for folder in sys.path:
        for file in Path(folder).glob("pixconnect_*.dist-info/entry_points.txt"):
            # Of a distribution that is installed twice the first is imported.
            files.setdefault(file.parent.name.partition("-")[0], file)
    found: dict[str, str] = {}
    for file in files.values():
        rows = file.read_text(encoding="utf-8").partition(f"[{GROUP}]\n")[2].partition("[")[0]
        for row in filter(None, rows.splitlines()):
            name, _, place = row.partition("=")
            found[name.strip()] = place.strip()
    if wrong := [place for place in found.values() if not place.startswith("pixconnect_")]:
        raise FeatureError(f"{wrong[0]} is no place of a distribution pixconnect-...: correct its entry point, or uninstall it")
    return dict(sorted(found.items()))


def find_module(place: str) -> str:
    """Return a place with its whole module."""
    return place if place.startswith("pixconnect_") else f"pixconnect.{place}"


def list_files(name: str) -> tuple[Path, ...]:
    """The files or folders of this name in the folders of features."""
    folders = (Path(str(import_module(f"pixconnect.features.{feature}").__file__)).parent for feature in list_names())
    return tuple(path for folder in folders if (path := folder / name).exists())


def list_verbs(*groups: str) -> tuple[Verb, ...]:
    return tuple(verb for feature in list_features() for verb in feature.verbs if verb.group in groups)


def list_lookups() -> tuple[Lookup, ...]:
    return tuple(lookup for feature in list_features() for lookup in feature.lookups)


def gather(kind: str, row_type: type[Row]) -> tuple[Row, ...]:
    """Import the rows of one kind, in the order of the features."""
    rows: list[Row] = []
    for place, row in _read_rows(kind):
        if not isinstance(row, row_type):
            raise TypeError(f"{place}: has a {type(row).__name__}, not a {row_type.__name__}")
        rows.append(row)
    return tuple(rows)


def gather_one(kind: str, own: type[Row]) -> Row:
    """Import the one row of a kind; without a feature that has it, make the kernel's own."""
    rows = gather(kind, own)
    if len(rows) > 1:
        raise ValueError(f"{kind}: only one feature may have it")
    return rows[0] if rows else own()


def gather_classes(kind: str, base: type[Kind], own: Sequence[type[Kind]]) -> tuple[type[Kind], ...]:
    """Import the classes of one kind; returns them and the kernel's ``own`` in the order of their ranks."""
    by_rank: dict[int, type[Kind]] = {}
    for place, row in [*(("the kernel", each) for each in own), *_read_rows(kind)]:
        if not isinstance(row, type) or not issubclass(row, base):
            raise TypeError(f"{place}: has {row}, not a class of {base.__name__}")
        if by_rank.setdefault(row.rank, row) is not row:
            raise ValueError(f"{place}: {row.__name__} has the rank of {by_rank[row.rank].__name__}")
    return tuple(by_rank[rank] for rank in sorted(by_rank))


def _read_rows(kind: str) -> Iterator[tuple[str, object]]:
    for feature in list_features():
        for place in getattr(feature, kind):
            for row in cast(Iterable[object], read_place(place)):
                yield place, row


def read_place(place: str) -> Any:  # noqa: ANN401  its kind is its caller's
    module, _, name = find_module(place).partition(":")
    try:
        return getattr(import_module(module), name)
    except Exception as error:
        # A distribution of another release may fail in any way.
        if module.startswith("pixconnect."):
            raise
        distribution = module.partition(".")[0].replace("_", "-")
        message = f"{distribution} cannot be loaded ({error}): install its version of this service, or uninstall it"
        raise FeatureError(message) from error
