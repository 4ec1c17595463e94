"""The command line beside a database of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.postgres import Addresses


@pytest.fixture
def pixconnect(database: Addresses, tmp_path: Path) -> CommandLine:
    return CommandLine(database, tmp_path)
