"""Run the commands of documentation pages as printed, and compare their output with the page.

A page runs from top to bottom in one shell, as a reader would paste it. The block after an ``sh`` block is its output. A
``json`` block may leave out keys, and ``...`` matches any text, also in a ``text`` block. Values that differ each time (``id``)
only need to be present.

A comment above a block changes how it runs. ``<!-- not run: why -->``: the test skips the block.
``<!-- in another terminal -->``: a ``sh`` block runs in the background until the page ends; a ``text`` block waits until as
many lines have been printed there.
"""

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 300

_BLOCK = re.compile(r"(?P<note><!--[^>]*-->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "=== end of block"


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block of a page: whether it is a part of the script, and whether it belongs to another terminal."""

    line: int
    language: str
    text: str
    is_run: bool
    is_beside: bool = False

    @property
    def script(self) -> str:
        """The shell script of this block, with a mark at the end of its output."""
        if not self.is_beside:
            part = self.text
        elif self.language == "sh":
            # The next block may depend on its first output.
            part = f": > beside\n{{\n{self.text}}} >> beside 2>&1 &\nBESIDE=$!\n{_wait_for_lines(1)}"
        else:
            part = f"{_wait_for_lines(len(self.text.splitlines()))}cat beside\n"
        return f"{part}\necho; echo '{_MARK}'\n"


def _wait_for_lines(count: int) -> str:
    return f'until [ "$(wc -l < beside)" -ge {count} ]; do kill -0 "$BESIDE" || break; sleep 0.1; done\n'


def read_blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            line=text.count("\n", 0, found.start("language")) + 1,
            language=found["language"],
            text=found["text"],
            is_run=(found["language"] == "sh" or is_beside) and "not run" not in note,
            is_beside=is_beside,
        )
        for found in _BLOCK.finditer(text)
        for note in [found["note"] or ""]
        for is_beside in ["in another terminal" in note]
    ]


def run_page(page: Path, folder: Path, environment: Mapping[str, str], *, is_first: bool = True) -> None:
    """Run a Markdown page's commands in an empty folder and compare their output with the page.

    The page must remove what it makes there. If the service was used before, ``is_first`` is false and nothing is
    compared, because balances differ.
    """
    blocks = read_blocks(page)
    commands = [block for block in blocks if block.is_run]
    script = folder / "page.sh"
    script.write_text("set -e\n" + "".join(block.script for block in commands))
    printed, complaints = _run(script, folder, environment)
    script.unlink()
    (folder / "beside").unlink(missing_ok=True)
    outputs = dict(zip((block.line for block in commands), printed, strict=False))
    for before, block in itertools.pairwise(blocks):
        source = block if block.is_beside else before
        if is_first and source.is_run and block.language in {"json", "text"}:
            where = f"{page.name}, line {block.line}"
            output = outputs.get(source.line)
            assert output is not None, f"{where}: the page ended before it: {complaints}"
            compare = _compare_json if block.language == "json" else _compare_text
            compare(where, block.text, output)
    assert len(printed) == len(commands), f"{page.name}: the block at line {commands[len(printed)].line} failed: {complaints}"
    assert not list(folder.iterdir()), f"{page.name} leaves files behind"


def _run(script: Path, folder: Path, environment: Mapping[str, str]) -> tuple[list[str], str]:
    """Run the script, and return the output of each finished block and the error output."""
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
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said.seek(0)
        complained.seek(0)
        parts = said.read().split(_MARK)
        complaints = complained.read()
    (folder / "said").unlink()
    (folder / "complained").unlink()
    return [part.strip() for part in parts[:-1]], complaints


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
        assert len(found) == len(wanted), f"{where}: {len(found)} items"
        for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
            _compare(f"{where}[{number}]", one, other)
    elif isinstance(wanted, str) and "..." in wanted:
        _compare_text(where, wanted, str(found))
    else:
        assert found == wanted, f"{where}: {found!r} is not {wanted!r}"
