import subprocess
import sys

import pytest

from pixconnect import __version__

PIXCONNECT = (sys.executable, "-P", "-m", "pixconnect")


def test_help_lists_every_verb() -> None:
    done = subprocess.run([*PIXCONNECT, "--help"], capture_output=True, text=True, check=True)
    for verb in ("run", "serve", "work", "sandbox", "migrate", "holder", "client", "key", "transfer", "signing-key"):
        assert f" {verb} " in done.stdout


def test_the_version_is_told() -> None:
    done = subprocess.run([*PIXCONNECT, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{__version__}\n"


@pytest.mark.parametrize("word", ["rnu", "--rnu"])
def test_an_unknown_word_is_refused(word: str) -> None:
    done = subprocess.run([*PIXCONNECT, word], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert word in done.stdout + done.stderr


def test_a_setting_that_cannot_be_is_named_in_one_line() -> None:
    done = subprocess.run([*PIXCONNECT, "run"], capture_output=True, text=True, check=False, env={"PORT": "99999"})
    assert done.returncode == 1
    assert done.stderr.startswith("pixconnect: PIXCONNECT_PORT: ")
    assert done.stderr.count("\n") == 1
