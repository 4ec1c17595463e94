"""Two accounts here that are the same at the institution are recognised by their description."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from pixconnect.features.institutions.rules.account import Credential, InstitutionAccount, find_shared_member
from support.account_there import make_account


def describe(client_id: str, client_secret: str = "", **said: Any) -> tuple[InstitutionAccount, Credential]:
    account = structs.replace(make_account("bb", "https://127.0.0.1:8105"), **said)
    return account, Credential(client_id=client_id, client_secret=client_secret)


def test_one_bank_account_is_known_again_by_what_was_said_of_it() -> None:
    one = dict(account="77", client_id="us", keys=[])
    for other, shared in (
        (dict(client_id="other"), "account: 77"),
        (dict(client_id="other", tax_id="12345678000276"), None),
        (dict(account="78"), None),
        (dict(account=""), "client_id: us"),
        (dict(account="78", keys=["a@b.example"]), None),
        (dict(profile="sicredi"), None),
        (dict(base_url="https://127.0.0.1:8106"), None),
        (dict(account="", client_id="", client_secret="not to be seen"), None),
    ):
        assert find_shared_member(*describe(**one), *describe(**one | other)) == shared, other
    for other, shared in (
        # Another spelling is no other account.
        (dict(base_url="HTTPS://127.0.0.1:8105/"), "account: 77"),
        (dict(base_url="http://127.0.0.1:8105"), None),
        (dict(account="0077"), "account: 0077"),
        (dict(account="770"), None),
    ):
        assert find_shared_member(*describe(**one | other), *describe(**one)) == shared, other
    nameless = dict(client_id="", client_secret="an app", keys=[])
    assert find_shared_member(*describe(**nameless), *describe(**nameless)) == "client_secret_file: its contents"
    # All addresses of an institution lead to the same accounts, and the default port is optional.
    for environment, base_url, other_url in (
        ("counterpart", "https://bank.example", "https://BANK.example.:443/"),
        ("counterpart", "http://localhost", "http://localhost:80"),
        ("production", "https://api-pix.bb.com.br", "https://API-pix.bb.com.br:443"),
        ("production", "https://api-pix.bb.com.br", "https://api.bb.com.br"),
    ):
        there = one | dict(environment=environment)
        found = find_shared_member(*describe(**there, base_url=base_url), *describe(**there, base_url=other_url))
        assert found == "account: 77", other_url
    assert find_shared_member(*describe("", keys=[]), *describe("", keys=[])) is None, "nothing is known of either"
