"""Debian's Prometheus and its promtool, where the machine has them, and the rules that we ship for it."""

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
    """Where ``prometheus`` or ``promtool`` is; the test is skipped where it is not."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing: install Debian's package prometheus")
    return found


def read_groups() -> list[dict[str, Any]]:
    return [group for file in RULES for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]]


def read_alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for group in read_groups() for rule in group["rules"] if "alert" in rule}


def run_promtool(*words: str) -> str:
    """What it says; it must find nothing wrong."""
    done = subprocess.run([find_program("promtool"), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
