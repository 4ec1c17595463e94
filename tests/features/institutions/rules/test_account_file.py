"""The file of an account at an institution: its members and its errors."""

import pytest

from pixconnect.features.institutions.rules.account import Credential, may_lie_on
from pixconnect.features.institutions.rules.account_file import check_name, read_account_file
from pixconnect.platform.base import errors

SAID = """
kind = "efi"
environment = "counterpart"
tax_id = "12.345.678/0001-95"
base_url = "https://127.0.0.1:8101"
client_id = "us"
client_secret_file = "secret"
certificate_file = "certificate.pem"
private_key_file = "key.pem"
ca_file = "ca.pem"
keys = ["Loja@test.example", "+5511999990000"]
"""
FILES = {"secret": " s3cret \n", "certificate.pem": "C", "key.pem": "K", "ca.pem": "A", "other": "own"}


def read(text: str) -> str:
    if text not in FILES:
        raise errors.BadRequest(f"{text}: is not there")
    return FILES[text]


def test_a_file_says_where_the_account_is_and_as_whom_we_speak() -> None:
    said = read_account_file(SAID, read)
    assert (said.kind, said.profile, said.environment, said.tax_id) == ("efi", "efi", "counterpart", "12345678000195")
    assert (said.base_url, said.token_url, said.poll_s, said.authorities) == ("https://127.0.0.1:8101", "", 15, "A")
    assert said.keys == ["loja@test.example", "+5511999990000"]
    assert said.receiving == Credential(client_id="us", client_secret="s3cret", certificate="C", private_key="K")
    assert said.sending is None


@pytest.mark.parametrize(
    ("field", "file"), [("client_secret_file", "secret"), ("private_key_file", "key.pem"), ("ca_file", "ca.pem")]
)
def test_a_file_that_is_not_there_is_named_with_its_field(field: str, file: str) -> None:
    with pytest.raises(errors.BadRequest, match=f"^{field}: missing: is not there$"):
        read_account_file(SAID.replace(f'{field} = "{file}"', f'{field} = "missing"'), read)


def test_receiving_has_a_credential_of_its_own_where_the_file_says_so() -> None:
    said = read_account_file(f'{SAID}[receive]\nclient_id = "reader"\nclient_secret_file = "other"\n[send]\n', read)
    assert (said.receiving.client_id, said.receiving.client_secret, said.receiving.certificate) == ("reader", "own", "C")
    assert said.sending == Credential(client_id="us", client_secret="s3cret", certificate="C", private_key="K")


def test_nothing_secret_is_in_its_text() -> None:
    assert "s3cret" not in repr(read_account_file(SAID, read))


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ('kind = "efi"', 'kind = "bank"', "kind"),
        ('kind = "efi"', "", "kind"),
        ('kind = "efi"', 'kind = "standard"', "profile"),
        ('kind = "efi"', 'kind = "efi"\nprofile = "bb"', "profile"),
        ('kind = "efi"', 'kind = "efi"\ncolour = "red"', "colour"),
        ('environment = "counterpart"', 'environment = "production"', "base_url"),
        ("https://127.0.0.1:8101", "https://127.0.0.1:8101/?a=1", "base_url"),
        ("https://127.0.0.1:8101", "https://u:p@bank.example", "base_url"),
        ("https://127.0.0.1:8101", "http://bank.example", "base_url"),
        ("https://127.0.0.1:8101", "https://[::1", "base_url"),
        ("https://127.0.0.1:8101", "ftp://bank.example", "base_url"),
        ("12.345.678/0001-95", "12.345.678/0001-96", "tax_id"),
        ('"secret"', '"nowhere"', "nowhere"),
        ('private_key_file = "key.pem"', "", "private_key_file"),
        ("Loja@test.example", "no key", "key"),
        ('ca_file = "ca.pem"', "poll_s = 0", "poll_s"),
        ('ca_file = "ca.pem"', 'account = "1-2"', "account"),
        ('ca_file = "ca.pem"', 'options = { give_back = "sometimes" }', "options.give_back"),
        ('ca_file = "ca.pem"', "options = { static_fallback = 1 }", "options.static_fallback"),
        ('ca_file = "ca.pem"', "options = { in_flight = 0 }", "options.in_flight"),
        ('ca_file = "ca.pem"', "options = { in_flight = true }", "options.in_flight"),
        ('ca_file = "ca.pem"', 'options = { psp = "077" }', "options.psp"),
        ('ca_file = "ca.pem"', 'options = { approve = "never" }', "options.approve"),
        ('ca_file = "ca.pem"', "options = { speed = 1 }", "speed"),
        ('ca_file = "ca.pem"', "= = =", "TOML"),
        ('ca_file = "ca.pem"', f"a = {'[' * 3000}{']' * 3000}", "nested"),
        ("keys = [", "keys = [" + "".join(f'"k{number}@x.example", ' for number in range(100)), "keys: may be at most 100"),
    ],
)
def test_what_is_wrong_is_named(before: str, after: str, named: str) -> None:
    assert before in SAID
    with pytest.raises((errors.BadRequest, errors.RuleBroken), match=named):
        read_account_file(SAID.replace(before, after), read)


@pytest.mark.parametrize("name", ["", "A", "-a", "a b", "a" * 41, "a/b", "á"])
def test_a_name_is_part_of_addresses(name: str) -> None:
    with pytest.raises(errors.BadRequest, match="name"):
        check_name(name)


def test_only_the_owners_own_money_lies_on_an_account() -> None:
    assert may_lie_on("12345678000195", "12345678000276")
    assert not may_lie_on("12345678000195", "12345679000195")
    assert may_lie_on("52998224725", "52998224725")
    assert not may_lie_on("52998224725", "12345678000195")


def test_the_application_key_that_one_profile_asks_for_can_be_named() -> None:
    text = (
        'kind = "standard"\nprofile = "bb"\nenvironment = "production"\ntax_id = "12345678000195"\n'
        'base_url = "https://api-pix.bb.com.br"\n[options]\napp_key = '
    )
    assert read_account_file(text + '"d27b"', no_file).options == {"app_key": "d27b"}
    with pytest.raises(errors.BadRequest, match=r"options\.app_key: must be a text"):
        read_account_file(text + "true", no_file)


def no_file(path: str) -> str:
    raise AssertionError(path)
