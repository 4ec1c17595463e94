"""The features of the table of contents, and that each of their rows is of its frame's kind."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pixconnect import features
from pixconnect.doors.api.extension import ApiExtensionRow
from pixconnect.doors.api.operation import Door, Section
from pixconnect.doors.cli import failures
from pixconnect.doors.cli.integrator.recipes import Recipe
from pixconnect.doors.cli.settings import FaceSettings
from pixconnect.doors.console.application import OverviewPart, PageRoute
from pixconnect.doors.console.visit import MenuEntry
from pixconnect.doors.worker.parts import Chore, Gauge, HealthCheck, MemberRow, Meter, Problem, WorkerExtension
from pixconnect.features.identity.service.secret_key import SealedKind
from pixconnect.features.institutions.worker import AccountTask
from pixconnect.features.locations.problem import StandardWords
from pixconnect.features.pix_api.api.frame import StandardOperation
from pixconnect.features.pix_api.lots import Lots
from pixconnect.features.pix_api.service.cents_records import Orders
from pixconnect.features.sandbox.network.outbox import NetworkPart
from pixconnect.features.sandbox.rules import CallRow
from pixconnect.features.webhooks.service.delivery import Formats
from pixconnect.kernel.feature import Feature, FeatureError, Ranked, find_others, gather, gather_classes, list_features
from pixconnect.kernel.flows.before_order import ORDER_RULES, OrderRule
from pixconnect.kernel.flows.charge import PaidParts
from pixconnect.kernel.flows.context import PortRow
from pixconnect.kernel.flows.credit import SuspectCredits
from pixconnect.kernel.flows.holder import KeyRemoval
from pixconnect.kernel.flows.kept_report import ReportClosing
from pixconnect.kernel.flows.report import ReportTaker
from pixconnect.kernel.flows.settlement import END_RULES, EndRule
from pixconnect.kernel.flows.source import Accounts
from pixconnect.kernel.rules.charge_contents import DayRules
from pixconnect.kernel.rules.event import EventFamily
from pixconnect.kernel.rules.proof import Rule, RulePart
from pixconnect.kernel.tables.clock import Deadline
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.writing.unit_of_work import CLAIMS, Claim, Follower

ROWS: dict[Any, type[Any]] = dict(
    ports=PortRow,
    gauges=Gauge,
    face_settings=FaceSettings,
    day_rules=DayRules,
    charge_batches=Lots,
    stored_orders=Orders,
    unfinished=str,
    paid_parts=PaidParts,
    checks=HealthCheck,
    report_closings=ReportClosing,
    report_takers=ReportTaker,
    accounts=Accounts,
    account_tasks=AccountTask,
    sandbox_calls=CallRow,
    network_parts=NetworkPart,
    recipes=Recipe,
    refusals=type,
    standard_words=StandardWords,
    suspect_credits=SuspectCredits,
    event_facts=Fact,
    followers=Follower,
    key_removals=KeyRemoval,
    sealed_kinds=SealedKind,
    delivery_formats=Formats,
    chores=Chore,
    deadlines=Deadline,
    event_families=EventFamily,
    sections=Section,
    doors=Door,
    api_extensions=ApiExtensionRow,
    worker_extensions=WorkerExtension,
    standard_operations=StandardOperation,
    members=MemberRow,
    problems=Problem,
    meters=Meter,
    rules=Rule,
    rule_parts=RulePart,
    pages=PageRoute,
    menu=MenuEntry,
    overview=OverviewPart,
)
CLASSES: dict[str, tuple[type[Ranked], tuple[type[Ranked], ...]]] = dict(
    order_rules=(OrderRule, ORDER_RULES), claims=(Claim, CLAIMS), end_rules=(EndRule, END_RULES)
)


def test_each_feature_is_listed_once_and_each_kind_of_rows_is_gathered() -> None:
    found = {path.stem for path in Path(features.__file__).parent.iterdir() if not path.name.startswith("_")}
    assert sorted(features.NAMES) == sorted(found)
    texts = {"erasures", "events", "lookups", "origin_kinds", "scope_parts", "scopes", "text_columns", "verbs"}
    assert ROWS.keys() | CLASSES.keys() | texts == set(Feature._fields)
    for kind, row_type in ROWS.items():
        assert bool(gather(kind, row_type)) == any(getattr(each, kind) for each in list_features()), kind
    for kind, (base, own) in CLASSES.items():
        has_more = len(gather_classes(kind, base, own)) > len(own)
        assert has_more == any(getattr(each, kind) for each in list_features()), kind


def test_a_feature_imports_those_that_it_names() -> None:
    folder = Path(features.__file__).parent
    for name, needed in features.FEATURES.items():
        texts = [path.read_text(encoding="utf-8") for path in (folder / name).rglob("*.py")]
        imported = {found for text in texts for found in re.findall(r"from pixconnect\.features\.(\w+)[. ]", text)}
        assert tuple(sorted(imported - {name})) == needed, name


def test_resources_with_events_are_found_by_their_ids() -> None:
    resources = {event.resource for feature in list_features() for event in feature.events}
    found = {lookup.kind for feature in list_features() for lookup in feature.lookups}
    assert resources <= {"charge", "transfer", "refund", "movement"} | found


def test_a_row_of_another_kind_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Feature(deadlines=("features.proof.tables.shape:GUARDS",))
    monkeypatch.setattr(features, "NAMES", ("wrong",))
    monkeypatch.setitem(sys.modules, "pixconnect.features.wrong", type("wrong", (), {"FEATURE": wrong}))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^features\.proof\.tables\.shape:GUARDS: has a Rule, not a Deadline$"):
        gather("deadlines", Deadline)


def test_two_classes_of_one_rank_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^features\.movements\.held_blocks:CLAIMS: HeldBlocks has the rank of Debt$"):
        gather_classes("claims", Claim, (type("Debt", (Claim,), dict(rank=20)),))


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The entry points of a distribution ``pixconnect-other`` beside those that are installed."""
    points = tmp_path / "pixconnect_other-1.0.dist-info" / "entry_points.txt"
    points.parent.mkdir()
    points.write_text("[console_scripts]\na = b:c\n\n[pixconnect.features]\nother = pixconnect_other:FEATURE\n\n[z]\nx=y\n")
    monkeypatch.syspath_prepend(tmp_path)
    find_others.cache_clear()
    yield points
    find_others.cache_clear()
    sys.modules.pop("pixconnect_other", None)


def test_a_feature_of_another_distribution_comes_after_the_own_ones(other: Path) -> None:
    (other.parents[1] / "pixconnect_other.py").write_text(
        "from pixconnect.kernel.feature import Feature\n"
        "from pixconnect.kernel.tables.clock import Deadline\n"
        "FEATURE = Feature(deadlines=('pixconnect_other:DEADLINES',))\n"
        "DEADLINES = (Deadline(first='select 1'),)\n"
    )
    assert find_others()["other"] == "pixconnect_other:FEATURE"
    assert [*find_others()] == sorted(find_others())
    assert len(list_features()) == len(features.NAMES) + len(find_others())
    assert gather("deadlines", Deadline)[-1].first == "select 1"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (None, "No module named 'pixconnect_other'"),
        ("FEATURES = 1", "has no attribute 'FEATURE'"),
        ("from pixconnect.kernel.feature import Feature\nFEATURE = Feature(of_later=())", "unexpected keyword"),
        ("FEATURE = (", "was never closed"),
    ],
)
def test_one_that_cannot_be_loaded_is_named(other: Path, text: str | None, fault: str) -> None:
    if text:
        (other.parents[1] / "pixconnect_other.py").write_text(text)
    with pytest.raises(FeatureError, match=f"^pixconnect-other cannot be loaded .*{fault}.*: install its version") as found:
        list_features()
    assert failures.explain(found.value) == str(found.value)


def test_a_place_without_its_distribution_is_named(other: Path) -> None:
    other.write_text("[pixconnect.features]\nother = other:FEATURE\n")
    with pytest.raises(FeatureError, match=r"^other:FEATURE is no place of a distribution"):
        list_features()


def test_of_a_distribution_that_is_installed_twice_the_first_counts(other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hiding = other.parents[1] / "first" / other.parent.name.replace("1.0", "2.0")
    hiding.mkdir(parents=True)
    (hiding / "entry_points.txt").touch()
    monkeypatch.syspath_prepend(hiding.parent)
    assert "other" not in find_others()
