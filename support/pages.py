"""Pages for people whose commands are run as they stand, and whose answers are compared with what really came.

A page is run from top to bottom in one shell, as a reader would paste it. What follows a ``sh`` block is what it printed: a
``json`` block may leave out keys, and ``...`` stands for whatever was there; so it does in a ``text`` block. Values that are
new each time (``id``) only need to be there. A block under ``<!-- not run: why -->`` is not run.
"""

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 300

_BLOCK = re.compile(r"(?P<note><!--[^>]*-->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "=== end of block"


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of a page.

    Attributes:
        line: Where it begins.
        language: What follows the fence.
        text: Without the fences.
        is_run: Whether a reader's shell gets it.
    """

    line: int
    language: str
    text: str
    is_run: bool


def read_blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            line=text.count("\n", 0, found.start("language")) + 1,
            language=found["language"],
            text=found["text"],
            is_run=found["language"] == "sh" and "not run" not in (found["note"] or ""),
        )
        for found in _BLOCK.finditer(text)
    ]


def run_page(page: Path, folder: Path, environment: Mapping[str, str], *, is_first: bool = True) -> None:
    """Run a page's commands in an empty folder and compare what they print with what the page says.

    Args:
        page: Markdown.
        folder: Where the shell begins; what the page makes there it must also remove.
        environment: The shell's.
        is_first: False where the service has been used before: balances are others then, so nothing is compared.
    """
    blocks = read_blocks(page)
    commands = [block for block in blocks if block.is_run]
    script = folder / "page.sh"
    script.write_text("set -e\n" + "".join(f"{block.text}\necho; echo '{_MARK}'\n" for block in commands))
    printed, complaints = _run(script, folder, environment)
    script.unlink()
    outputs = dict(zip((block.line for block in commands), printed, strict=False))
    for before, block in itertools.pairwise(blocks):
        if is_first and before.is_run and block.language in {"json", "text"}:
            where = f"{page.name}, line {block.line}"
            output = outputs.get(before.line)
            assert output is not None, f"{where}: the page ended before it: {complaints}"
            compare = _compare_json if block.language == "json" else _compare_text
            compare(where, block.text, output)
    assert len(printed) == len(commands), (
        f"{page.name}: the block at line {commands[len(printed)].line} failed: {complaints}"
    )
    assert not list(folder.iterdir()), f"{page.name} leaves files behind"


def _run(script: Path, folder: Path, environment: Mapping[str, str]) -> tuple[list[str], str]:
    """Run the script; what each block that came to its end printed, and what was complained of."""
    with (folder / "said").open("w+") as said, (folder / "complained").open("w+") as complained:
        process = subprocess.Popen(
            ["sh", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=complained,
            start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            complained.write(f"\nit took more than {TIMEOUT_S} s")
        finally:
            _end_session(process)
        said.seek(0)
        complained.seek(0)
        parts = said.read().split(_MARK)
        complaints = complained.read()
    (folder / "said").unlink()
    (folder / "complained").unlink()
    return [part.strip() for part in parts[:-1]], complaints


def _end_session(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _compare_text(where: str, wanted: str, printed: str) -> None:
    for line in wanted.splitlines():
        pattern = ".*".join(re.escape(part) for part in line.split("..."))
        assert re.search(f"^{pattern}$", printed, re.MULTILINE), f"{where}: {line!r} is not in {printed!r}"


def _compare_json(where: str, wanted: str, printed: str) -> None:
    lines = printed.splitlines()
    assert lines, f"{where}: nothing was printed"
    _compare(where, json.loads(wanted), json.loads(lines[-1]))


def _compare(where: str, wanted: Any, found: Any) -> None:
    if isinstance(wanted, dict):
        assert isinstance(found, dict), f"{where}: {found!r} is no object"
        for name, value in wanted.items():
            assert name in found, f"{where}: there is no {name!r} in {sorted(found)}"
            if name != "id":
                _compare(f"{where}, {name}", value, found[name])
    elif isinstance(wanted, list):
        _compare_lists(where, wanted, found)
    elif isinstance(wanted, str) and "..." in wanted:
        _compare_text(where, wanted, str(found))
    else:
        assert found == wanted, f"{where}: {found!r} is not {wanted!r}"


def _compare_lists(where: str, wanted: Sequence[Any], found: Sequence[Any]) -> None:
    assert len(found) == len(wanted), f"{where}: {len(found)} items"
    for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
        _compare(f"{where}[{number}]", one, other)
