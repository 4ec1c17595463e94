"""A sandbox that really runs, for all tests of one holder's verbs: its home is the command line's."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pixconnect.cli.main import main
from support import postgres
from support.installation import Installation, running

Run = Callable[..., Any]


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


@pytest.fixture
def run(sandbox: Installation, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a verb that must succeed: what it prints with ``--json``."""

    def run(*words: str) -> Any:
        assert main([*words, "--json"]) == 0, capsys.readouterr().err
        # What is watched has a line for each status.
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return run
