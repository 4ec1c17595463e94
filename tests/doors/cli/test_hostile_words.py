"""No argument of a verb causes a traceback or endless reading, before any request to a database or the service."""

import io
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from cyclopts import App
from cyclopts.argument import Argument

from pixconnect.doors.cli import usage
from pixconnect.running.main import main
from pixconnect.running.verb_table import VERBS, app

HOSTILE: Final = (
    "", "-1", str(2**31), str(2**63), "9" * 5_000, "1e400", "/dev/zero", "/proc/self/mem", "nothing/x", "0001-01-01",
    "9999-12-31", "9999-12-31T23:59:59Z", "a\0b", "\udce9", "x" * 50_000,
)  # fmt: skip
EXAMPLES: Final = (("Path", "file"), ("int", "1"), ("datetime", "2026-07-01T00:00:00Z"), ("date", "2026-07-01"))
"""Values by a word in the name of an argument's type."""
MEMORY_MAX: Final = 4 * 1024**3
STARTS: Final = {"listen"}  # verbs that run until they are interrupted


def list_verbs() -> Iterator[tuple[tuple[str, ...], App]]:
    for name in (verb.name for verb in VERBS if verb.group != "running"):
        if name not in STARTS:
            yield from list_of_group(app[name], (name,))


def list_of_group(app: App, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], App]]:
    if app.default_command is not None:
        yield path, app
    for name in usage.list_verbs(app):
        yield from list_of_group(app[name], (*path, name))


def example(argument: Argument) -> str:
    words, hint = usage.list_words(argument), str(argument.hint)
    return next((text for kind, text in EXAMPLES if kind in hint), "a") if not words else str(words[0])


def spell(argument: Argument, value: str) -> str:
    return value if argument.field_info.is_positional else f"{argument.name}={value}"


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A separate folder, a database that does not answer, and a limit on endless reading."""
    for name in os.environ:
        if name.startswith("PIXCONNECT_"):
            monkeypatch.delenv(name)
    settings = dict(PIXCONNECT_HOME=str(tmp_path / "home"), DATABASE_URL="postgresql://u:p@127.0.0.1:1/x", COLUMNS="240")
    settings |= dict(XDG_CONFIG_HOME=str(tmp_path), XDG_STATE_HOME=str(tmp_path), PIXCONNECT_SECRET_KEY="A" * 43)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    Path("file").write_text("x")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.long
@pytest.mark.usefixtures("nowhere")
def test_each_argument_of_each_verb_refuses_what_it_cannot_take_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    wrong, count = list[str](), 0
    for path, verb in list_verbs():
        arguments = [each for each in verb.assemble_argument_collection() if each.show and each.hint is not bool]
        for argument in arguments:
            others = [spell(each, example(each)) for each in arguments if each.required and each is not argument]
            for value in HOSTILE:
                count += 1
                place = f"{' '.join(path)} {argument.name} {value[:20]!r}"
                try:
                    status = main([*path, *others, spell(argument, value)])
                except Exception as error:  # noqa: BLE001  that is what is looked for
                    wrong.append(f"{place}: {error!r:.200}")
                    continue
                said = capsys.readouterr().err
                if (status and said.count("\n") != 1) or len(said) > 2_100:
                    wrong.append(f"{place}: ends with {status} and says {said[:200]!r}")
    assert count > 3_000
    assert not wrong, "\n".join(wrong)
