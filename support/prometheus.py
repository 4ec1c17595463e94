"""Debian's Prometheus and promtool, if installed, and our alerting rules."""

import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "deploy" / "prometheus"
RULES: Final = tuple(sorted(FOLDER.glob("*.rules.yml")))


def find_program(name: str) -> str:
    """The path of ``prometheus`` or ``promtool``; skips the test without it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing: install Debian's package prometheus")
    return found


def read_groups() -> list[dict[str, Any]]:
    return [group for file in RULES for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]]


def read_alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for group in read_groups() for rule in group["rules"] if "alert" in rule}


def run_promtool(*words: str) -> str:
    """Run promtool, which must find nothing wrong, and return its output."""
    done = subprocess.run([find_program("promtool"), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
