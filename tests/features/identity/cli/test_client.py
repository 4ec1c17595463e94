"""``pixconnect client`` as an operator uses it."""

from datetime import datetime
from pathlib import Path
from typing import get_args

import pytest

from pixconnect.features.identity.cli import client
from pixconnect.features.identity.service.access import FRESH_FOR_S
from pixconnect.features.identity.service.token_issuer import TokenIssuer
from pixconnect.kernel.rules.access import SCOPES
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base import errors
from support import identity
from support.command_line import CommandLine
from support.identity import token_request
from support.postgres import Addresses


def test_the_choices_are_the_scopes() -> None:
    assert get_args(client.ScopeName) == SCOPES


async def test_a_client_logs_in_until_it_is_rotated_or_disabled(database: Addresses, pixconnect: CommandLine) -> None:
    holder_id = pixconnect.create_holder()
    scopes = ["--scope", "charge.write", "--scope", "charge.read"]
    made = pixconnect.json("client", "create", "--holder-id", holder_id, "--name", "shop", *scopes)
    client_id = made["client_id"]
    assert made["scope"] == "charge.read charge.write"
    async with identity.open_context(database, SystemClock()) as context:
        keyring = await identity.start_keyring(context)
        assert await TokenIssuer(context, keyring).login(token_request(client_id, made["client_secret"]))
        again = pixconnect.json("client", "rotate", "--client-id", client_id)
        assert await TokenIssuer(context, keyring).login(token_request(client_id, again["client_secret"]))
        assert "client_secret" not in pixconnect.json("client", "disable", "--client-id", client_id)
        for secret in (made["client_secret"], again["client_secret"]):
            with pytest.raises(errors.Unauthorized):
                await TokenIssuer(context, keyring).login(token_request(client_id, secret))
        pixconnect.json("client", "enable", "--client-id", client_id)
        assert await TokenIssuer(context, keyring).login(token_request(client_id, again["client_secret"]))


@pytest.mark.long
def test_what_shuts_out_returns_when_no_process_can_let_anybody_pass_any_more(pixconnect: CommandLine) -> None:
    holder_id = pixconnect.create_holder()
    client_id = pixconnect.json("client", "create", "--holder-id", holder_id)["client_id"]
    kid = pixconnect.json("signing-key", "rotate")["kid"]
    for verb in (
        ("client", "revoke-tokens", client_id),
        ("client", "rotate", "--client-id", client_id),
        ("client", "disable", "--client-id", client_id),
        ("holder", "disable", "--holder-id", holder_id),
        ("signing-key", "revoke", kid),
    ):
        pixconnect.json(*verb)
        returned_at = SystemClock().real_now()
        (act,) = pixconnect.json("audit", "list", "--limit", "1")["entries"]
        assert act["verb"] == " ".join(verb[:2])
        assert (returned_at - datetime.fromisoformat(act["at"])).total_seconds() >= FRESH_FOR_S


def test_a_client_without_named_scopes_has_all_of_them(pixconnect: CommandLine) -> None:
    holder_id = pixconnect.create_holder()
    made = pixconnect.json("client", "create", "--holder-id", holder_id)
    assert made["scope"].split() == list(SCOPES)
    listed = pixconnect.json("client", "list", "--holder-id", holder_id)
    assert [client["client_id"] for client in listed["clients"]] == [made["client_id"]]


@pytest.mark.long
def test_a_client_gets_a_certificate_or_a_named_one(pixconnect: CommandLine, tmp_path: Path) -> None:
    client_id = pixconnect.json("client", "create", "--holder-id", pixconnect.create_holder())["client_id"]
    first = pixconnect.json("client", "certificate", client_id, "--folder", str(tmp_path))
    second = pixconnect.json("client", "certificate", client_id, "--folder", str(tmp_path / "more"))
    assert first["certificate"] != second["certificate"]
    assert first["authority_file"] == second["authority_file"]
    for name in ("certificate_file", "key_file", "both_file", "pkcs12_file"):
        assert Path(first[name]).stat().st_mode & 0o777 == 0o600
    named = pixconnect.json("client", "certificate", client_id, "--file", first["certificate_file"])
    assert named["certificate"] == first["certificate"]
    assert "key_file" not in named
    assert "certificate" not in pixconnect.json("client", "certificate", client_id, "--remove")
    wrong = (client_id, "--file", first["key_file"])
    assert "no certificate" in pixconnect.refusal("client", "certificate", *wrong)
    for nobody in ("../x", "nobody"):
        assert "there is no client" in pixconnect.refusal("client", "certificate", nobody)


def test_a_clients_tokens_are_ended_by_its_name_alone(pixconnect: CommandLine) -> None:
    made = pixconnect.json("client", "create", "--holder-id", pixconnect.create_holder())
    assert "tokens_from" not in made
    assert pixconnect.json("client", "revoke-tokens", made["client_id"])["tokens_from"]
    assert pixconnect.json("client", "revoke-tokens", "--client-id", made["client_id"])["tokens_from"]
    assert "there is no client nobody" in pixconnect.refusal("client", "revoke-tokens", "nobody")


def test_in_live_mode_a_clients_scopes_are_named(database: Addresses, tmp_path: Path) -> None:
    live = CommandLine(database, tmp_path, PIXCONNECT_MODE="live")
    new = ["holder", "create", "--name", "Maria", "--tax-id", "52998224725", "--account-number", "1", "--no-limits"]
    holder_id = str(live.json(*new)["holder_id"])
    assert "scope: a client needs at least one" in live.refusal("client", "create", "--holder-id", holder_id)
    assert live.json("client", "list", "--holder-id", holder_id) == {"clients": []}
    made = live.json("client", "create", "--holder-id", holder_id, "--scope", "charge.read")
    assert made["scope"] == "charge.read"
