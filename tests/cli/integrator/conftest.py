"""Running verbs of one holder."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from pixconnect.cli.main import main
from support.installation import Installation

Run = Callable[..., Any]


@pytest.fixture
def run(sandbox: Installation, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a verb that must succeed: what it prints with ``--json``."""

    def run(*words: str) -> Any:
        assert main([*words, "--json"]) == 0, capsys.readouterr().err
        # What is watched has a line for each status.
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return run
