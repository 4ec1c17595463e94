"""The command line beside a test database, and beside a running sandbox."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import postgres
from support.command_line import CommandLine
from support.installation import Installation, running_in_new_home


@pytest.fixture
def pixconnect(database: postgres.Addresses, tmp_path: Path) -> CommandLine:
    return CommandLine(database, tmp_path)


@pytest.fixture(scope="session")
def installation() -> Iterator[Installation]:
    """One for all tests of a holder's verbs: they are the group `integrator`."""
    with running_in_new_home() as installation:
        yield installation


@pytest.fixture
def sandbox(installation: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Installation:
    """With only its home in the environment, and without other files of ours."""
    for name in os.environ:
        if name.startswith("PIXCONNECT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIXCONNECT_HOME", str(installation.home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return installation
