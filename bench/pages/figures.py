"""``docs/reference/figures.md``, from the kept results of ``bench/run.py``."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figures import RESULTS, Row
from bench.pages.lines import PARTS, Line

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
BEGIN = "bench/run.py --only "

_HEAD = """\
# Figures

What `bench/run.py` measured; `make bench` measures a part of it again in about six minutes, and writes this page.
Durable settings, the defaults of `make run`, everything on the same cores: the service, its PostgreSQL, the simulated network,
the receivers and the load generators. Such machines change from minute to minute, so that a ratio within one run
says more than a rate. All rows with all their fields are in `bench/results.json`.

A figure is measured again by `.venv/bin/python bench/run.py --only` and the words in the third column. What exactly is counted
stands at the head of the file in `bench/measures/`. The fourth column has the commit that was measured, and on which machine;
where it names none, {old_machine} was noted. Figures of different commits are not to be compared. How to see where the time
goes: [profile](../guides/profile.md).

`pgbench` is `pgbench -N -M prepared -c 16` on the service's own PostgreSQL, in turn with each round.
"""

_MACHINES = "ABCDEFGH"


def write_page() -> str:
    """The page of these rows."""
    results = _read_results()
    rows: dict[str, Row] = {row["name"]: row for row in results["rows"]}
    machines = list(dict.fromkeys(row["machine"] for row in results["rows"] if "machine" in row))
    old = results["machine"]
    parts = [_HEAD.format(old_machine=f"only {old['cores']} cores, {old['machine']} and Python {old['python']}")]
    if machines:
        parts.append("".join(f"- {_MACHINES[number]}: {machine}\n" for number, machine in enumerate(machines)))
    for title, lines in PARTS.items():
        measured = [line for line in lines if line.name in rows]
        if not measured:
            continue
        table = "".join(_line(line, rows[line.name], machines) for line in measured)
        parts += [f"## {title}\n", f"| | | command | commit |\n|---|---|---|---|\n{table}"]
    return "\n".join(parts)


def write() -> None:
    """Write the page to its place."""
    (REFERENCE / "figures.md").write_text(write_page(), encoding="utf-8")


def _line(line: Line, row: Row, machines: Sequence[str]) -> str:
    command = row.get("command", BEGIN + line.measure).removeprefix(BEGIN)
    measured = row["commit"]
    if "machine" in row:
        measured += f", {_MACHINES[machines.index(row['machine'])]}, {row['on']}"
    return f"| {line.what} | {line.say(row)} | `{command}` | {measured} |\n"


def _read_results() -> dict[str, Any]:
    return json.loads(RESULTS.read_text())
