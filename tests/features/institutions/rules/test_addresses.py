from __future__ import annotations

import pytest

from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.institutions.rules.account import find_address_fault, token_address
from support.account_there import make_account

EFI = "https://pix.api.efipay.com.br"
TEST = "https://pix-h.api.efipay.com.br"


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
def test_credentials_go_to_a_closed_list_of_hosts_or_to_none_of_it(
    environment: str, base_url: str, fault: str | None
) -> None:
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
