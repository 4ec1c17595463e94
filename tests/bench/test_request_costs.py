"""What was measured of requests, as the HTTP reference tells it."""

import json

from bench.figures import RESULTS
from bench.pages import HTTP, write_request_costs

UNITS_MAX = 24  # in requests of ``/livez``, the cheapest there is


def test_no_kind_of_request_was_much_dearer_than_one_of_liveness_and_each_stands_on_the_page() -> None:
    rows = [row for row in json.loads(RESULTS.read_text())["rows"] if row["name"].startswith("request_cost_")]
    assert {row["is_known"] for row in rows} == {True, False}
    assert all(row["units"] <= UNITS_MAX for row in rows)
    page = write_request_costs()
    assert all(f"| {row['what']} | {row['status']} |" in page for row in rows)
    assert page == HTTP.read_text(encoding="utf-8")
