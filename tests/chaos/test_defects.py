"""The defects for chaos can be planted: their old texts are in the service, and the result is valid Python."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from support.chaos.defects import read_defects
from support.chaos.schedule import TARGETS, TARGETS_HERE
from support.installation import ROOT

DEFECTS = read_defects()


def test_each_defect_can_be_planted(tmp_path: Path) -> None:
    for defect in DEFECTS:
        planted = defect.apply((ROOT / "src" / "pixconnect" / defect.file).read_text(encoding="utf-8"))
        ast.parse(planted, defect.name)
        (tmp_path / f"{defect.name}.py").write_text(planted, encoding="utf-8")
    # An unknown name would be an error instead of the defect.
    command = (
        sys.executable, "-m", "ruff", "check", "--quiet", "--isolated", "--no-cache", "--select", "F821", tmp_path,
    )  # fmt: skip
    looked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert looked.returncode == 0, looked.stdout


def test_a_defect_asks_for_faults_that_there_are() -> None:
    for defect in DEFECTS:
        for at_s, kind, target, _ in defect.faults:
            assert 0 <= at_s < defect.every_s
            targets = TARGETS_HERE if defect.is_there else TARGETS
            assert kind == "rail" or target in targets[kind], defect.name


def test_there_are_at_least_twenty_each_with_a_name_of_its_own() -> None:
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) >= 20


def test_a_change_whose_text_is_gone_is_said() -> None:
    with pytest.raises(ValueError, match="0 times"):
        DEFECTS[0].apply("")
