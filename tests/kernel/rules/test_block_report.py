"""The kinds of block are in one table, and each place that uses them has them all."""

import re
from pathlib import Path
from typing import get_args

from pixconnect.doors import console
from pixconnect.kernel.baseline import read_service_steps
from pixconnect.kernel.rules.block_report import BLOCK_KINDS, BlockKind


def test_each_kind_has_its_traits_its_words_and_its_place_in_the_schema() -> None:
    kinds = get_args(BlockKind)
    assert tuple(BLOCK_KINDS) == kinds
    template = (Path(console.__file__).parent / "templates" / "block.html").read_text(encoding="utf-8")
    assert tuple(re.findall(r'^  "(\w+)": _\(', template, re.MULTILINE)) == kinds
    schema = read_service_steps().baseline.sql
    (check,) = re.findall(r"constraint block_kind_check check \(kind in \((.*?)\)\)", schema, re.DOTALL)
    assert tuple(re.findall(r"'(\w+)'", check)) == kinds
