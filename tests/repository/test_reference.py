"""Generated pages of ``docs/reference`` are up to date."""

import pytest

from scripts.write_pages import MEND, PAGES, REFERENCE


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_program_says(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), MEND
