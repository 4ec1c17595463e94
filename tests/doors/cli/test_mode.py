"""The mode cannot be mistaken: every verb refuses the other mode's installation, in one line with the remedy."""

from pathlib import Path

import pytest

from support import postgres
from support.command_line import CommandLine
from support.postgres import Addresses

HTTPS = {
    "PIXCONNECT_MODE": "live",
    "PIXCONNECT_BASE_URL": "https://pix.example",
    "PIXCONNECT_ISPB": "12345678",
    "PIXCONNECT_INSTITUTION_NAME": "Banco Exemplo",
    "PIXCONNECT_TRUSTED_PROXIES": "127.0.0.1/32",
}


@pytest.mark.parametrize("words", [("serve",), ("work",), ("migrate",), ("holder", "show", "--holder-id", "1")], ids=" ".join)
def test_sandbox_is_refused_in_live_mode(pixconnect: CommandLine, database: Addresses, words: tuple[str, ...]) -> None:
    postgres.execute(database.owner_url, "insert into pixconnect.installation (mode) values ('sandbox')")
    owner = {"PIXCONNECT_OWNER_DATABASE_URL": database.owner_url, "PORT": "0"}
    complaint = pixconnect.refusal(*words, **HTTPS, **owner)
    assert "made in sandbox mode and cannot be used in live mode: set PIXCONNECT_MODE=sandbox" in complaint


@pytest.mark.parametrize("words", [("migrate",), ("sandbox",), ("work",)], ids=" ".join)
def test_live_is_refused_in_sandbox_mode(pixconnect: CommandLine, database: Addresses, words: tuple[str, ...]) -> None:
    postgres.execute(database.owner_url, "insert into pixconnect.installation (mode) values ('live')")
    owner = {"PIXCONNECT_OWNER_DATABASE_URL": database.owner_url, "PIXCONNECT_RAIL_URL": "http://127.0.0.1:1"}
    assert "made in live mode" in pixconnect.refusal(*words, **owner)


@pytest.mark.parametrize("verb", ["run", "serve", "work", "console"])
def test_live_refuses_what_is_not_safe(pixconnect: CommandLine, verb: str) -> None:
    refused = pixconnect.refusal(verb, **HTTPS | {"PIXCONNECT_INSTITUTION_NAME": ""})
    assert "PIXCONNECT_INSTITUTION_NAME: Pix Connect Sandbox is the sandbox's; in live mode, set your" in refused


def test_live_refuses_the_home_of_a_demonstration(pixconnect: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "sandbox.json").write_text("{}")
    assert "holds a sandbox's demonstration" in pixconnect.refusal("run", **HTTPS)


def test_tables_without_a_mode_are_of_the_sandbox_beside_its_own(pixconnect: CommandLine, database: Addresses) -> None:
    owner = {"PIXCONNECT_OWNER_DATABASE_URL": database.owner_url}
    assert "made in sandbox mode" in pixconnect.refusal("migrate", **HTTPS, **owner)
    assert pixconnect.run("migrate", **owner).returncode == 0
    assert pixconnect.json("database", "show")["mode"] == "sandbox"
