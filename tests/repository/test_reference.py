"""Each generated page of ``docs/reference`` can be written."""

import pytest

from scripts.write_pages import PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_written_with_its_title(name: str) -> None:
    assert PAGES[name]().startswith("# ")
