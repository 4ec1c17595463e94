"""A sandbox that really runs, for all tests of one holder's verbs: its home is the command line's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import postgres
from support.installation import Installation, running


@pytest.fixture(scope="package")
def installation() -> Iterator[Installation]:
    home = Path(tempfile.mkdtemp(prefix="pixconnect-home-"))
    home.chmod(0o711)
    with running(home) as installation:
        yield installation
    postgres.remove_home(home)


@pytest.fixture
def sandbox(installation: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Installation:
    """With an environment in which only its home is set, and the user has no other files of ours."""
    for name in os.environ:
        if name.startswith("PIXCONNECT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIXCONNECT_HOME", str(installation.home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return installation
