"""Installations of earlier versions, from the repository's history: what a test of an upgrade begins with.

The programs are run by our own environment, which has all packages that they need. `python -m support.old_home` makes the dumps
in `tests/vectors/old_homes`, as the page beside them says.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import asdict

from pixconnect.local.embedded_postgres import EmbeddedPostgres
from support.installation import ROOT, Installation
from support.listener import Listener
from support.ports import reserved_port
from support.postgres import remove_home
from support.work_in_flight import put_work_in_flight

COMMITS = ("0bada85", "dce3441")
BEFORE = "before"
"""The last commit without the newest migration: whatever is added to the tables, those processes go on beside it."""
DUMPS = ROOT / "tests" / "vectors" / "old_homes"
SECRET_KEY = "b2xkLWhvbWVzLWFyZS1tYWRlLXdpdGgtdGhpcy1rZXk="
"""Of every old home, so that what is sealed in a dump can be read again."""

BASE_URL = "http://127.0.0.1:47080"
"""It is in the codes of its charges; loopback, or no receiver may be there."""
_LIFETIME_S = str(10 * 365 * 86_400)
"""Charges of a dump can be paid for as long as it is used."""


class OldProgram:
    """The program of one commit, unpacked."""

    def __init__(self, commit: str, folder: Path) -> None:
        self._paths = [str(folder / "src"), str(folder / "clients" / "python" / "src")]
        archive = subprocess.run(["git", "archive", find(commit)], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)

    @staticmethod
    def is_there(commit: str) -> bool:
        """Whether this copy of the repository knows the commit: one without its history does not."""
        asked = ["git", "cat-file", "-e", f"{find(commit)}^{{tree}}"]
        return subprocess.run(asked, cwd=ROOT, capture_output=True, check=False).returncode == 0

    def command(self, *words: str) -> tuple[str, ...]:
        return self.python("-m", "pixconnect", *words)

    def python(self, *words: str) -> tuple[str, ...]:
        """Our interpreter, which finds the program and the client of that commit before ours."""
        return ("env", f"PYTHONPATH={os.pathsep.join(self._paths)}", sys.executable, "-P", *words)

    def start(self, home: Path, **settings: str) -> Installation:
        given = {
            "api_processes_count": "1",
            "base_url": BASE_URL,
            "postgres_version": "16",
            "secret_key": SECRET_KEY,
            "charge_lifetime_s": _LIFETIME_S,
        } | settings
        return Installation(home, self.command("run"), **given).wait_until_ready()


def find(commit: str) -> str:
    """The name of a commit in the repository."""
    if commit != BEFORE:
        return commit
    newest = max((ROOT / "src" / "pixconnect" / "store" / "migrations").glob("*.sql"))
    asked = ["git", "log", "--diff-filter=A", "--format=%H", "-1", "--", newest]
    added = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    # What was not committed yet was added to what is.
    return f"{added}~1" if added else "HEAD"


@contextmanager
def new_home() -> Generator[Path]:
    home = Path(tempfile.mkdtemp(prefix="pixconnect-home-"))
    home.chmod(0o711)  # so that, as root, the server's own user gets in
    try:
        yield home
    finally:
        remove_home(home)


def make_dump(commit: str) -> None:
    """Let the program of a commit work, kill all of it, and keep what its database has then."""
    DUMPS.mkdir(exist_ok=True)
    listener = Listener()
    with tempfile.TemporaryDirectory() as folder, new_home() as home:
        with reserved_port() as port, OldProgram(commit, Path(folder)).start(home, port=str(port)) as installation:
            found = put_work_in_flight(f"http://127.0.0.1:{port}", installation.sandbox, listener.url)
        (DUMPS / f"{commit}.json").write_text(json.dumps(asdict(found)) + "\n")
        asyncio.run(_dump(home, DUMPS / f"{commit}.dump"))
    listener.close()


async def _dump(home: Path, to: Path) -> None:
    server = EmbeddedPostgres(home, version="16", durable=False)
    await server.start()
    try:
        words = ["pg_dump", "--format=custom", "--compress=9", "--no-owner", f"--file={to}", server.owner_url]
        subprocess.run([server.programs / "bin" / words[0], *words[1:]], check=True)
    finally:
        await server.stop()


if __name__ == "__main__":
    for each in sys.argv[1:] or COMMITS:
        make_dump(each)
