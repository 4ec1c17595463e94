"""``pixconnect secrets`` as an operator uses it, from the leak of the secret key to its replacement."""

import base64
from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.identity import SECRET_KEY
from support.postgres import Addresses

NEW_KEY = base64.urlsafe_b64encode(bytes(32)).decode()
OLD_KEY = base64.urlsafe_b64encode(SECRET_KEY).decode()


@pytest.mark.long
def test_a_new_secret_key_seals_everything_again(database: Addresses, tmp_path: Path, pixconnect: CommandLine) -> None:
    pixconnect.json("signing-key", "rotate")
    made = pixconnect.json("client", "create", "--holder-id", pixconnect.create_holder())
    pixconnect.json("operator", "add", "--name", "maria")
    renewed = CommandLine(database, tmp_path, PIXCONNECT_SECRET_KEY=NEW_KEY, PIXCONNECT_SECRET_KEY_PREVIOUS=OLD_KEY)
    assert renewed.json("secrets", "reseal") == {
        "webhook_endpoints_resealed": 0, "signing_keys_resealed": 1, "authorities_resealed": 1,
        "operators_resealed": 1, "institution_accounts_resealed": 0, "secrets_left": 0, "clients_left": 1,
    }  # fmt: skip
    assert renewed.json("secrets", "reseal")["signing_keys_resealed"] == 0
    left = renewed.json("secrets", "clients-left")["clients"]
    assert [client["client_id"] for client in left] == [made["client_id"]]
    renewed.json("client", "rotate", "--client-id", made["client_id"])
    assert renewed.json("secrets", "clients-left") == {"clients": []}
    assert renewed.json("operator", "remove", "--name", "maria")["status"] == "removed"
    assert renewed.json("operator", "list") == {"operators": []}
    alone = CommandLine(database, tmp_path, PIXCONNECT_SECRET_KEY=NEW_KEY)
    assert alone.json("signing-key", "rotate")["kid"]


def test_the_previous_key_may_stay_in_the_home(database: Addresses, tmp_path: Path, pixconnect: CommandLine) -> None:
    pixconnect.json("signing-key", "rotate")
    (tmp_path / "secret.key.previous").write_text(OLD_KEY)
    renewed = CommandLine(database, tmp_path, PIXCONNECT_SECRET_KEY=NEW_KEY)
    assert renewed.json("secrets", "reseal")["signing_keys_resealed"] == 1


def test_another_key_does_nothing_without_its_own(database: Addresses, tmp_path: Path, pixconnect: CommandLine) -> None:
    kid = pixconnect.json("signing-key", "rotate")["kid"]
    holder_id = pixconnect.create_holder()
    stranger = CommandLine(database, tmp_path, PIXCONNECT_SECRET_KEY=NEW_KEY)
    create = ("client", "create", "--holder-id", holder_id)
    for verb in (create, ("operator", "add", "--name", "maria"), ("signing-key", "rotate")):
        assert stranger.refusal(*verb) == (
            f"pixconnect: signing_key:{kid}: sealed with another secret key, or damaged: "
            "set PIXCONNECT_SECRET_KEY_FILE or PIXCONNECT_SECRET_KEY to the key it was sealed with"
        )
    assert pixconnect.json("client", "list", "--holder-id", holder_id) == {"clients": []}
    # The steps for an operator who has lost the old key.
    stranger.json("signing-key", "renew-authority")
    assert stranger.json(*create)["client_id"]


@pytest.mark.parametrize("setting", ["PIXCONNECT_SECRET_KEY", "PIXCONNECT_SECRET_KEY_PREVIOUS"])
def test_a_key_of_another_form_is_refused_by_the_settings_name(pixconnect: CommandLine, setting: str) -> None:
    refusal = pixconnect.refusal("secrets", "reseal", **{setting: "x"})
    assert refusal == f"pixconnect: {setting}: must be 32 bytes in base64url"
