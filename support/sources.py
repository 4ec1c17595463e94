"""Sources as trees, for tests that look at how things are written; each file is parsed once by each worker."""

import ast
from functools import cache
from pathlib import Path
from typing import Final

PARSED: Final = "sources"
"""The group of tests that parse many files: one worker has them all."""


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
