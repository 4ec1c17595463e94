"""An account of a live installation at a simulated bank: two whole installations, with books of the same money."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from support.installation import Installation
from support.verbs import run_forked
from support.waiting import PATIENCE_S

KEY: Final = "loja@demo.pix.example"  # the demonstration's holder, who is the client of the bank
TAX_ID: Final = "12345678000195"
NAME: Final = "loja"
PROFILES: Final = {"sicredi"}  # faces of banks with the central bank's own API
LIVE: Final = dict(
    MODE="live", BASE_URL="https://localhost", INSTITUTION_NAME="Loja", API_PROCESSES_COUNT="2", LOG_LEVEL="warning"
)
"""The settings of the installation that has the account."""


def run(installation: Installation, *words: str) -> Any:
    done = run_forked(words, installation.environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if "--json" in words else done.stdout


def insist(installation: Installation, *words: str) -> Any:
    """Repeat it until it succeeds, since a busy database or a bank that has just started may not answer at once."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return run(installation, *words)
        except AssertionError:
            if time.monotonic() > deadline_s:
                raise
        time.sleep(0.3)


def open_account(
    bank: Installation,
    live: Installation,
    folder: Path,
    face: str,
    refunds_cents: int = 100_000,
    base_url: str = "",
    *stated: str,
) -> None:
    """Open the bank client's account with a new holder as its house, and allow it to refund so much a day."""
    file = write_account(folder, face, insist(bank, "face", "show", face, "--json"), base_url=base_url)
    house = open_house(live)
    insist(live, "institution", "add", NAME, "--file", str(file), "--house", house, *stated)
    insist(live, "key", "add", "--holder-id", house, "--key-type", "EMAIL", "--key", KEY, "--json")
    assert insist(live, "institution", "allow", NAME, "--refunds", str(refunds_cents), "--json")["acts_now"]


def write_account(
    folder: Path, face: str, shown: Mapping[str, str], *, key: str = KEY, base_url: str = "", **more: str
) -> Path:
    """The account's file, with the client that ``face show`` or ``face add`` has shown."""
    (folder / "secret").write_text(shown.get("app_id") or shown["client_secret"])
    lines = dict(
        environment="counterpart", tax_id=TAX_ID, base_url=base_url or shown["url"], client_secret_file="secret",
        ca_file=shown["authority_file"], **more,
    )  # fmt: skip
    lines |= dict(kind="standard", profile=face) if face in PROFILES else dict(kind=face)
    if "app_id" not in shown:
        files = dict(certificate_file=shown["certificate_file"], private_key_file=shown["key_file"])
        lines |= files | dict(client_id=shown["client_id"])
    file = folder / f"{face}.toml"
    file.write_text("".join(f'{name} = "{said}"\n' for name, said in lines.items()) + f'poll_s = 1\nkeys = ["{key}"]\n')
    return file


def open_house(live: Installation) -> str:
    """The id of a new holder."""
    new = ("holder", "create", "--name", "Loja", "--tax-id", TAX_ID, "--account-number", "1", "--no-limits")
    return str(insist(live, *new, "--json")["holder_id"])


def allow_transfers(live: Installation) -> None:
    allowed = ("--per-transfer", "100000", "--per-day", "100000", "--to", "all")
    assert run(live, "institution", "allow", NAME, *allowed, "--json")["acts_now"]
