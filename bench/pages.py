"""Pages of ``docs/reference`` from the kept results: ``figures.md``, and the table of request costs in ``http.md``."""

import inspect
import json
import sys
from pathlib import Path

from bench.catalogue import MEASURES
from bench.figures import RESULTS, Row, describe

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
HTTP = REFERENCE / "http.md"
COMMAND = "bench/run.py --only "
_REQUEST_COSTS = "request_costs"
_BEGIN = "<!-- costs: written by `make docs` -->\n"
_END = "<!-- costs: end -->\n"
_OF_THE_MEASUREMENT = frozenset({"name", "command", "commit", "machine", "on"})
_MACHINES = "ABCDEFGH"
_HEAD = """\
# Figures

What `bench/run.py` measured; `make bench` measures a part of it again in about six minutes, and writes this page.
Durable settings, the defaults of `make run`, everything on the same cores: the service, its PostgreSQL, the simulated network,
the receivers and the load generators. Such machines change from minute to minute, so that a ratio within one run
says more than a rate. Series are only summarised here; all of them are in `bench/results.json`.

`.venv/bin/python bench/run.py --only` with the words in the third column measures a row again. The fourth column has the commit
that was measured, and on which machine; where it names none, {old_machine} was noted. Figures of different commits are not to
be compared. How to see where the time goes: [profile](../guides/profile.md). Costs of single requests: [HTTP](http.md).
"""


def write_figures() -> str:
    """``docs/reference/figures.md``: the definitions of each file of measures, and their rows."""
    results = json.loads(RESULTS.read_text())
    rows: list[Row] = results["rows"]
    old = results["machine"]
    machines = list(dict.fromkeys(row["machine"] for row in rows if "machine" in row))
    parts = [_HEAD.format(old_machine=f"only {old['cores']} cores, {old['machine']} and Python {old['python']}")]
    parts.append("".join(f"- {_MACHINES[number]}: {machine}\n" for number, machine in enumerate(machines)))
    modules: dict[str, list[str]] = {}
    for name, measure in MEASURES.items():
        modules.setdefault(measure.start.__module__, []).append(name)
    for module, names in modules.items():
        table = "".join(_write_row(row, machines) for row in rows if _measure_of(row) in names)
        if table and names != [_REQUEST_COSTS]:
            title = module.rpartition(".")[2].replace("_", " ").capitalize()
            definitions = (inspect.getdoc(sys.modules[module]) or "").replace("``", "`")
            parts += [f"## {title}\n\n{definitions}\n", f"| | | command | commit |\n|---|---|---|---|\n{table}"]
    return "\n".join(parts)


def _measure_of(row: Row) -> str:
    return row["command"].removeprefix(COMMAND).partition(" ")[0]


def _write_row(row: Row, machines: list[str]) -> str:
    measured = row["commit"]
    if "machine" in row:
        measured += f", {_MACHINES[machines.index(row['machine'])]}, {row['on']}"
    figures = describe({name: value for name, value in row.items() if name not in _OF_THE_MEASUREMENT})
    return f"| `{row['name']}` | {figures} | `{row['command'].removeprefix(COMMAND)}` | {measured} |\n"


def write_request_costs() -> str:
    """``docs/reference/http.md``, which is written by hand except for the table."""
    head, _, rest = HTTP.read_text(encoding="utf-8").partition(_BEGIN)
    rows: list[Row] = [row for row in json.loads(RESULTS.read_text())["rows"] if _measure_of(row) == _REQUEST_COSTS]
    lines = ["", "| request | answer | before it is known who asks | after |", "|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: (row["is_known"], -row["units"])):
        before, after = ("", f"{row['units']:.2f}") if row["is_known"] else (f"{row['units']:.2f}", "")
        lines.append(f"| {row['what']} | {row['status']} | {before} | {after} |")
    measured = ", ".join(f"{commit} on {day}" for commit, day in sorted({(row["commit"], row["on"]) for row in rows}))
    table = "\n".join([*lines, "", f"Measured on commit {measured}.", "", ""])
    return head + _BEGIN + table + _END + rest.partition(_END)[2]
