"""Run verbs of one holder."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from pixconnect.running.main import main
from support.installation import Installation

Run = Callable[..., Any]


@pytest.fixture
def run(sandbox: Installation, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a verb with ``--json`` that must succeed, and return its output."""

    def run(*words: str) -> Any:
        assert main([*words, "--json"]) == 0, capsys.readouterr().err
        # A watched resource has a line for each status.
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return run
