"""Skip tests of work that a rail does not do, and rewrite the assertions of the suite's modules for pytest."""

import pytest

from journeys.conftest import bank, clock, control  # noqa: F401  a bank as journeys have it

pytest.register_assert_rewrite("conformance.rail", "conformance.under_test")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip before any fixture is set up."""
    of = getattr(item, "cls", None)
    mark = item.get_closest_marker("asks")
    if mark is None or of is None:
        return
    lacking = [work for work in mark.args if work not in of.does]
    if lacking:
        pytest.skip(f"the rail says that it does not do this: {', '.join(lacking)}")
