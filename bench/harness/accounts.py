"""A live installation with accounts at an institution, which is another installation's simulated bank over TLS."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
from msgspec import Struct

from bench.harness.installation import Installation, installed
from support import installation as whole
from support.account_at_face import NAME, open_house, run, write_account

_KEY = "loja-1@bench.example"
_LIVE = dict(MODE="live", BASE_URL="https://localhost", INSTITUTION_NAME="Loja", LOG_LEVEL="error")


class Pair(Struct, frozen=True, kw_only=True):
    """A bank, and the client of its accounts."""

    bank: Installation
    live: whole.Installation
    folder: Path

    def open_account(self, face: str) -> None:
        """An account of the bank's first holder at this face, with a house of its own."""
        shown, more = self._ask_bank("face", "add", face, "--holder-id", "1"), dict[str, str]()
        if face in ("inter", "sicoob"):
            more["account"] = str(self._ask_bank("holder", "show", "--holder-id", "1")["account_number"])
        file = write_account(self.folder, face, shown, key=_KEY, **more)
        run(self.live, "institution", "add", NAME, "--file", str(file), "--house", open_house(self.live))

    def _ask_bank(self, *words: str) -> dict[str, Any]:
        done = whole.run_verb(self.bank.home, *words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    async def connect_live(self) -> asyncpg.Connection[asyncpg.Record]:
        """A connection as the tables' owner."""
        running = json.loads((self.live.home / "running.json").read_text())
        return await asyncpg.connect(running["owner_database_url"], server_settings={"search_path": "pixconnect"})


@contextmanager
def paired(face: str) -> Iterator[Pair]:
    """Both, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="pixconnect-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)
        # Its payments are filled in without use cases.
        with (
            installed(is_proved=False, PIXCONNECT_FACES=f"{face}:0") as bank,
            whole.running(folder / "live", **_LIVE) as live,
        ):
            yield Pair(bank=bank, live=live, folder=folder)
