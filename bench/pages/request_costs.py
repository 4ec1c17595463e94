"""The table of request costs in ``docs/reference/http.md``, from the results of ``bench/run.py --only request_costs``."""

import json
from pathlib import Path

from bench.figures import RESULTS, Row

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "http.md"
_PREFIX = "request_cost_"
_BEGIN = "<!-- costs: written by `make docs` -->\n"
_END = "<!-- costs: end -->\n"


def write_page() -> str:
    """The page, written by hand except for the table."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    return head + _BEGIN + _write_table() + _END + tail


def _write_table() -> str:
    # The console's rows are listed with the API's, under the same prefix of their names.
    rows = [row for row in json.loads(RESULTS.read_text())["rows"] if row["name"].startswith(_PREFIX)]
    lines = ["", "| request | answer | before it is known who asks | after |", "|---|---|---|---|"]
    lines += [_write_line(row) for row in sorted(rows, key=lambda row: (row["is_known"], -row["units"]))]
    measured = sorted({(row["commit"], row["on"]) for row in rows})
    where = ", ".join(f"{commit} on {day}" for commit, day in measured)
    return "\n".join([*lines, "", f"Measured on commit {where}.", "", ""])


def _write_line(row: Row) -> str:
    units = f"{row['units']:.2f}"
    before, after = ("", units) if row["is_known"] else (units, "")
    return f"| {row['what']} | {row['status']} | {before} | {after} |"
