"""The verbs that pages name exist, and take the options and arguments that pages give them."""

import re
import shlex
from collections.abc import Iterator

import pytest
from cyclopts import CycloptsError
from cyclopts.exceptions import CoercionError, MissingArgumentError

from pixconnect.running.verb_table import app
from support.pages import ROOT

PAGES = (ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md")))
_BLOCK = re.compile(r"^ *```(?:sh|text)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(pixconnect [^`]+)`")
# What the shell would read: a comment, another command, a redirection.
_SHELL = re.compile(r"\s+#.*| [|&;<>].*|;$|\s2>.*|\s*\) .*")
_EVERY_VERBS = ("--json", "--operator", "--profile", "--field")


def list_commands(text: str) -> Iterator[str]:
    for block in _BLOCK.findall(text):
        lines = block.replace("\\\n", " ").splitlines()
        yield from (line.strip() for line in lines if line.strip().startswith("pixconnect "))
    yield from (" ".join(found.split()) for found in _INLINE.findall(re.sub(_BLOCK, "", text)))


def find_fault(command: str) -> str | None:
    try:
        words = shlex.split(re.sub(r'"?\$\{?\w+\}?"?', "7", _SHELL.sub("", command)))[1:]
    except ValueError:
        return None  # a text over several lines
    for option in _EVERY_VERBS:
        if option in words:
            at = words.index(option)
            del words[at : at + (1 if option == "--json" else 2)]
    try:
        app.parse_args(words, print_error=False, exit_on_error=False)
    except CoercionError:
        return None  # a placeholder
    except MissingArgumentError as error:
        # A verb alone is its name.
        return None if len(words) <= len(error.command_chain or ()) or words[-1].startswith("--") else str(error)
    except CycloptsError as error:
        return str(error)
    return None


def test_pages_give_each_verb_what_it_takes() -> None:
    commands = {(page.name, one) for page in PAGES for one in list_commands(page.read_text("utf-8"))}
    meant = {each for each in commands if not re.search(r"\.\.\.|\$\(| \[|help|--version|needs 16", each[1])}
    faults = {each: fault for each in sorted(meant) if (fault := find_fault(each[1])) is not None}
    assert faults == {}
    assert len(meant) > 250


@pytest.mark.parametrize(
    "command", ["pixconnect client set ID --scope pix.read", "pixconnect balance now", "pixconnect pay --no 1"]
)
def test_a_wrong_command_is_noticed(command: str) -> None:
    assert find_fault(command) is not None
