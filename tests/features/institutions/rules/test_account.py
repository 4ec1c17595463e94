"""Two accounts here that are the same at the institution are recognised, and credentials go to a closed list of hosts."""

from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.institutions.rules.account import (
    Credential,
    InstitutionAccount,
    find_address_fault,
    find_shared_member,
    token_address,
)
from support.account_there import make_account

EFI = "https://pix.api.efipay.com.br"
TEST = "https://pix-h.api.efipay.com.br"


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


@pytest.mark.parametrize(
    ("environment", "base_url", "fault"),
    [
        ("production", EFI, None),
        ("production", f"{EFI}:443/", None),
        ("production", f"{EFI}/v2", "the bare host"),
        ("production", f"{EFI}/{'a' * 256}", "255"),
        ("production", TEST, "none of the production hosts"),
        ("homologation", TEST, None),
        ("homologation", EFI, "none of the homologation hosts"),
        ("production", "https://pix.api.efipay.com.br.evil.example", "none of the production hosts"),
        ("production", "https://evil.example/pix.api.efipay.com.br", "none of the production hosts"),
        ("production", "http://pix.api.efipay.com.br", "must be https"),
        ("production", f"{EFI}:8443", "must be https on port 443"),
        ("production", "https://me:secret@pix.api.efipay.com.br", "without user info"),
        ("production", "https://127.0.0.1", "none of the production hosts"),
        ("counterpart", "https://127.0.0.1:8101", None),
        ("counterpart", "http://127.0.0.1:8080/faces/efi", None),
        ("counterpart", "http://bank.example", "must be https, or http on loopback"),
        ("counterpart", "https://bank.example", None),
        ("counterpart", EFI, "no counterpart"),
        ("counterpart", f"{TEST}:8443", "no counterpart"),
        ("counterpart", "https://[::1", "cannot be read"),
        ("counterpart", "", "must be an https address"),
        ("counterpart", "https://127.0.0.1/?a=1", "neither a query"),
    ],
)
def test_credentials_go_to_a_closed_list_of_hosts_or_to_none_of_it(environment: str, base_url: str, fault: str | None) -> None:
    account = make_account("efi", base_url, environment=environment)
    found = find_address_fault(account, read_profile("efi").account)
    if fault is None:
        assert found is None
    else:
        assert found is not None
        assert fault in found
        assert "secret" not in found


def test_tokens_are_asked_for_where_the_file_or_the_profile_says() -> None:
    traits = read_profile("sicoob").account
    real = make_account("sicoob", "https://api.sicoob.com.br", environment="production")
    assert token_address(real, traits, "/t") == "https://auth.sicoob.com.br/t"
    assert token_address(make_account("sicoob", "https://127.0.0.1:1/"), traits, "/t") == "https://127.0.0.1:1/t"
    other = make_account("sicoob", "https://127.0.0.1:1", token_url="https://127.0.0.1:2/token")
    assert token_address(other, traits, "/t") == "https://127.0.0.1:2/token"
    assert find_address_fault(make_account("efi", EFI, environment="production", token_url=TEST), traits) is not None
