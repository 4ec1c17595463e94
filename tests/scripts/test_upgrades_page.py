"""Every step of ``migrate`` that takes long, or judges rows of before, is in the notes on upgrades."""

from pixconnect.foundation.migrations import read_migrations
from scripts.pages import upgrades
from support.installation import ROOT


def test_each_step_that_asks_something_of_an_operator_is_named_with_what_it_asks() -> None:
    page = (ROOT / "docs" / "reference" / "upgrades.md").read_text(encoding="utf-8")
    assert page == upgrades.write_page(), "run `make docs`"
    for step in read_migrations("pixconnect.store"):
        asks = step.is_outside_transaction or step.is_in_batches
        assert bool(upgrades.describe_step(step)) == asks, step.name
        assert (f"| `{step.version:04d}_{step.name}` |" in page) == asks, step.name
