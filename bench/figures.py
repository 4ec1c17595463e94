"""Rows of figures: how they are summarised, shown, and kept in ``bench/results.json``.

A row has a name. A new measurement replaces it and leaves the others. Each row has its command, commit, machine and
date.
"""

import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

RESULTS = Path(__file__).parent / "results.json"

Row = dict[str, Any]

_SHOWN_MAX = 12  # longer series are only summarised when a row is shown


def percentile(values: Sequence[float], part: float) -> float:
    """The value at this quantile."""
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def spread_ms(seconds: Sequence[float]) -> Row:
    """The median, the 99th percentile and the maximum."""
    parts = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1.0}
    return {name: 1000 * percentile(seconds, part) for name, part in parts.items()}


def describe(row: Row) -> str:
    return ", ".join(f"{name} {_show(value)}" for name, value in row.items())


def keep(row: Row, command: str) -> None:
    """Keep a row, replacing an earlier one of its name."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": []}
    kept: list[Row] = results["rows"]
    measured = {"commit": _commit(), "command": command, "machine": describe_machine(), "on": f"{datetime.now(UTC):%F}"}
    names = [other["name"] for other in kept]
    if row["name"] in names:
        kept[names.index(row["name"])] = row | measured
    else:
        kept.append(row | measured)
    # Series stand in one line each.
    text = re.sub(r"\[[\s\d.,e+-]*\]", lambda found: " ".join(found[0].split()), json.dumps(results, indent=1))
    RESULTS.write_text(text + "\n")


def describe_machine() -> str:
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores ({_processor()}), {gib:.0f} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> str:
    """The last commit that changed the program, with a plus sign for later uncommitted changes."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=RESULTS.parents[1], capture_output=True, text=True, check=False
        ).stdout.strip()

    return git("log", "-1", "--format=%h", "--", "src") + ("+" if git("status", "--porcelain", "--", "src") else "")


def _show(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    if isinstance(value, dict):
        return f"({describe(cast(Row, value))})"
    if isinstance(value, list) and len(value) > _SHOWN_MAX:
        return f"[{_show(value[0])} to {_show(value[-1])}, at most {_show(max(value))}]"
    if isinstance(value, list):
        return "[" + " ".join(map(_show, value)) + "]"
    return str(value)
