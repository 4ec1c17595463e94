"""The page of the sandbox."""

from pathlib import Path

import msgspec
import pytest

from pixconnect.features import console_pages
from pixconnect.features.console_pages.sandbox import FAULTS
from pixconnect.features.sandbox.network.behaviour import USUAL, behaviour_of
from pixconnect.features.sandbox.rules import FaultRule

TEMPLATE = Path(console_pages.__file__).parent / "templates" / "sandbox.html"


@pytest.mark.parametrize(("effect", "operation"), FAULTS)
def test_each_fault_that_may_be_chosen_does_something_and_has_words(effect: str, operation: str | None) -> None:
    rule = msgspec.convert({"effect": effect, "match": {"operation": operation}}, FaultRule)
    assert behaviour_of(rule.effect) != USUAL
    assert f'"{effect}": _(' in TEMPLATE.read_text()
