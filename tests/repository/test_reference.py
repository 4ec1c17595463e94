"""Each generated page of ``docs/reference`` can be written, and the committed table is that of the measurements."""

import pytest

from bench.pages import request_costs
from scripts.write_pages import MEND, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_written_with_its_title(name: str) -> None:
    assert PAGES[name]().startswith("# ")


def test_the_costs_of_requests_are_those_that_were_measured() -> None:
    assert request_costs.PAGE.read_text(encoding="utf-8") == request_costs.write_page(), MEND
