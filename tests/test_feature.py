"""The features of the table of contents, and that each of their rows is of its frame's kind."""

import sys
from pathlib import Path
from typing import Any

import pytest

from pixconnect import feature, features
from pixconnect.api.frame.operation import Section
from pixconnect.api.standard.frame import StandardOperation
from pixconnect.console.application import OverviewPart, PageRoute
from pixconnect.console.visit import MenuEntry
from pixconnect.domain.frame.event import EventFamily
from pixconnect.domain.proof.rule import Rule
from pixconnect.feature import Feature, gather
from pixconnect.store.frame.deadline import Deadline
from pixconnect.usecases.frame.chore import Chore
from pixconnect.usecases.frame.meter import Meter
from pixconnect.usecases.frame.problem import Problem
from pixconnect.worker.parts import MemberRow

ROWS: dict[Any, type[Any]] = dict(
    chores=Chore,
    deadlines=Deadline,
    event_families=EventFamily,
    sections=Section,
    standard_operations=StandardOperation,
    members=MemberRow,
    problems=Problem,
    meters=Meter,
    rules=Rule,
    pages=PageRoute,
    menu=MenuEntry,
    overview=OverviewPart,
)


def test_each_feature_is_listed_once_and_each_kind_of_rows_is_gathered() -> None:
    found = {path.stem for path in Path(features.__file__).parent.iterdir() if not path.name.startswith("_")}
    assert sorted(feature.NAMES) == sorted(found)
    assert ROWS.keys() | {"events", "scopes", "text_columns", "verbs"} == set(Feature._fields)
    for kind, row_type in ROWS.items():
        assert gather(kind, row_type), kind


def test_a_row_of_another_kind_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Feature(deadlines=("store.proof.guards:GUARDS",))
    monkeypatch.setattr(feature, "NAMES", ("wrong",))
    monkeypatch.setitem(sys.modules, "pixconnect.features.wrong", type("wrong", (), {"FEATURE": wrong}))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^store\.proof\.guards:GUARDS: has a Rule, not a Deadline$"):
        gather("deadlines", Deadline)
