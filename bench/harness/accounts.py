"""A live installation with accounts at an institution, which is another installation's simulated bank over TLS."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
from msgspec import Struct

from bench.harness.installation import Installation, installed
from support import installation as whole
from support.installation import PIXCONNECT

_KEY = "loja-{number}@bench.example"
_TAX_ID = "12345678000195"
_LIVE = dict(MODE="live", BASE_URL="https://localhost", INSTITUTION_NAME="Loja", LOG_LEVEL="error")


class Pair(Struct, frozen=True, kw_only=True):
    """A bank, and the client of its accounts."""

    bank: Installation
    live: whole.Installation
    folder: Path

    def open_account(self, face: str, number: int, holder_id: int) -> None:
        """An account of one of the bank's holders at a bank of the kind ``face``, with a house of its own."""
        shown = self.ask_bank("face", "add", face, "--holder-id", str(holder_id))
        secret = self.folder / f"secret-{number}"
        secret.write_text(shown.get("app_id") or shown["client_secret"])
        said = dict(
            kind=face, environment="counterpart", tax_id=_TAX_ID, base_url=shown["url"],
            client_secret_file=secret.name, ca_file=shown["authority_file"],
        )  # fmt: skip
        if face in ("inter", "sicoob"):
            said["account"] = str(self.ask_bank("holder", "show", "--holder-id", str(holder_id))["account_number"])
        if "app_id" not in shown:
            said |= dict(
                certificate_file=shown["certificate_file"],
                private_key_file=shown["key_file"],
                client_id=shown["client_id"],
            )
        file = self.folder / f"account-{number}.toml"
        members = "".join(f'{name} = "{text}"\n' for name, text in said.items())
        file.write_text(f'{members}keys = ["{_KEY.format(number=number)}"]\npoll_s = 1\n')
        house = self.ask_live(
            *("holder", "create", "--name", "Loja", "--tax-id", _TAX_ID, "--account-number", str(number)), "--no-limits"
        )
        self.ask_live("institution", "add", f"loja-{number}", "--file", str(file), "--house", str(house["holder_id"]))

    def ask_bank(self, *words: str) -> dict[str, Any]:
        return _ask({**os.environ, "PIXCONNECT_HOME": str(self.bank.home)}, *words)

    def ask_live(self, *words: str) -> dict[str, Any]:
        return _ask(self.live.environment, *words)

    async def connect_live(self) -> asyncpg.Connection[asyncpg.Record]:
        """A connection as the tables' owner."""
        running = json.loads((self.live.home / "running.json").read_text())
        return await asyncpg.connect(running["owner_database_url"], server_settings={"search_path": "pixconnect"})


def _ask(environment: Mapping[str, str], *words: str) -> dict[str, Any]:
    done = subprocess.run([*PIXCONNECT, *words, "--json"], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pixconnect {' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


@contextmanager
def paired(face: str) -> Iterator[Pair]:
    """Both, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="pixconnect-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o711)
        with installed(PIXCONNECT_FACES=f"{face}:0") as bank, whole.running(folder / "live", **_LIVE) as live:
            yield Pair(bank=bank, live=live, folder=folder)
