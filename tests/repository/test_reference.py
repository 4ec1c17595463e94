"""Pages of ``docs/reference`` that are written from the program itself are what it says now."""

import pytest

from bench.pages import figures
from scripts.write_pages import MEND, PAGES, REFERENCE


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_program_says(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), MEND


def test_charts_are_what_was_measured() -> None:
    folder = REFERENCE / figures.CHARTS_FOLDER
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == figures.write_charts(), MEND
