"""The benchmarks start, and the one whose figure must be zero says zero."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def bench(*options: str) -> str:
    command = [sys.executable, "bench/run.py", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300).stdout


def test_every_measure_can_be_asked_for_by_its_name() -> None:
    said = bench("--help")
    assert "transfer_hot" in said
    assert "isolation" in said


def test_no_webhook_connects_to_where_it_must_not_go() -> None:
    said = bench("--only", "targets", "--show-only")
    figures = dict(re.findall(r"(connects|tries|seen_where_allowed)=(\d+)", said))
    assert figures["connects"] == "0"
    assert int(figures["tries"]) > 1000
    assert int(figures["seen_where_allowed"]) > 0
