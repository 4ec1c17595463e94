"""Credentials of accounts: the sending one under a key of its own, secrets that stay in files, and when certificates end."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import structs

from pixconnect.adapters.secret_box import AesSecretBox, SecretKeyError, open_sending_box
from pixconnect.adapters.system import SystemClock, SystemEntropy
from pixconnect.assembly.outside import make_opener, read_text_file
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.secret_box import SealBroken
from pixconnect.domain.institutions.account import Credential
from pixconnect.domain.institutions.account_file import read_account_file
from pixconnect.domain.institutions.certificate import AccountCertificate, say_end
from pixconnect.domain.institutions.institution import InstitutionUnavailable, OpenAccount
from pixconnect.usecases.frame.context import Operator
from pixconnect.usecases.identity import secret_key
from pixconnect.usecases.institutions import account as account_usecases
from pixconnect.usecases.institutions.credential import (
    list_ending,
    note_certificates,
    read_sending_credential,
    try_permissions,
)
from pixconnect.usecases.institutions.open_accounts import OpenAccounts
from pixconnect.usecases.running.health import check_accounts
from support.account_shop import make_owner, open_shop
from support.account_there import make_account, make_papers
from support.failure_page import quoted
from support.fake_institution import FakeInstitution, a_description
from support.operators import as_operator
from support.service import Service

SENDING = Credential(client_id="us", client_secret="sends money")
SENDING_KEY = bytes([9]) * 32


def with_sending_key(live: Service, key: bytes = SENDING_KEY, previous: bytes | None = None) -> Operator:
    box = AesSecretBox(key, SystemEntropy(), previous_key=previous)
    return structs.replace(as_operator(live.context), sending_box=box)


async def test_sending_credentials_have_a_key_of_their_own(live: Service, there: FakeInstitution) -> None:
    house = await make_owner(live)
    said = a_description(sending=SENDING)
    with pytest.raises(errors.BadRequest, match="PIXCONNECT_SENDING_SECRET_KEY"):
        await account_usecases.add_account(as_operator(live.context), there.open, "loja", said, house)
    operator = with_sending_key(live)
    account = await account_usecases.add_account(operator, there.open, "loja", said, house)
    box = operator.sending_box
    assert box is not None
    assert await read_sending_credential(live.context.pool, box, account.id) == SENDING
    with pytest.raises(SealBroken):
        await read_sending_credential(live.context.pool, live.context.secret_box, account.id)
    tried = await try_permissions(operator, there.open, account)
    assert [one.name for one in tried] == ["cob.write", "send: cob.write"]


async def test_a_missing_or_wrong_sending_key_is_told_at_permissions(live: Service, there: FakeInstitution) -> None:
    house = await make_owner(live)
    account = await account_usecases.add_account(
        with_sending_key(live), there.open, "loja", a_description(sending=SENDING), house
    )
    # The receiving credential and its account are tried all the same.
    seen = list[str]()
    for said, operator in (("no", as_operator(live.context)), ("another", with_sending_key(live, bytes([8]) * 32))):
        tried = await try_permissions(operator, there.open, account)
        assert [(one.name, one.is_given) for one in tried] == [("cob.write", True), ("send: key", False)]
        seen.append(f"institution check, {said} key: {tried[-1].name}: no, {tried[-1].explanation}")
    assert quoted("The key of sending credentials is missing") == seen


async def test_incoming_money_is_read_without_the_sending_key(live: Service, there: FakeInstitution) -> None:
    house = await make_owner(live)
    account = await account_usecases.add_account(
        with_sending_key(live), there.open, "loja", a_description(sending=SENDING), house
    )
    another, context = with_sending_key(live, bytes([8]) * 32).sending_box, live.context
    accounts = OpenAccounts(context.pool, context.secret_box, there.open, context.clock.monotonic_s, another)
    opened = await accounts.find(account.id)
    assert opened is not None
    assert opened.own_sender is not None
    assert await opened.institution.read_received("E1") is None
    with pytest.raises(InstitutionUnavailable, match="not the key that"):
        await opened.own_sender.read_sent("o1")
    await accounts.close()


async def test_both_credentials_are_sealed_again_under_new_keys(live: Service, there: FakeInstitution) -> None:
    said = a_description(sending=SENDING)
    account = await account_usecases.add_account(
        with_sending_key(live), there.open, "loja", said, await make_owner(live)
    )
    new_key = bytes([8]) * 32
    rotated = with_sending_key(live, new_key, SENDING_KEY)
    assert (await secret_key.reseal(rotated)).institution_accounts_count == 1
    assert (await secret_key.reseal(rotated)).institution_accounts_count == 0
    alone = AesSecretBox(new_key, SystemEntropy())
    assert await read_sending_credential(live.context.pool, alone, account.id) == SENDING
    # Without the key nothing is lost, and it is said.
    found = await secret_key.reseal(as_operator(live.context))
    assert found.broken == [f"institution_account:{account.id}:sending"]


def test_a_key_that_is_none_is_named() -> None:
    assert open_sending_box("", "", SystemEntropy()) is None
    with pytest.raises(SecretKeyError, match="PIXCONNECT_SENDING_SECRET_KEY:"):
        open_sending_box("short", "", SystemEntropy())


def describe(folder: Path, *lines: str) -> str:
    head = (
        'kind = "inter"', 'environment = "counterpart"', 'tax_id = "12345678000195"', 'base_url = "https://127.0.0.1:1"',
        'client_id = "us"', 'secrets = "files"', f'client_secret_file = "{folder}/secret"',
        f'certificate_file = "{folder}/client.pem"', f'private_key_file = "{folder}/client.key"',
    )  # fmt: skip
    return "\n".join((*head, *lines))


def test_what_stays_outside_is_named_and_not_read(tmp_path: Path) -> None:
    said = read_account_file(describe(tmp_path, "[send]", 'client_secret_file = "/run/secrets/send"'), read_text_file)
    assert (said.receiving.client_secret, said.receiving.client_secret_file) == ("", f"{tmp_path}/secret")
    assert said.sending is not None
    assert said.sending.client_secret_file == "/run/secrets/send"
    with pytest.raises(errors.BadRequest, match=r"^send\.client_secret_file: .* absolute"):
        read_account_file(describe(tmp_path, "[send]", 'client_secret_file = "send"'), read_text_file)


async def test_a_missing_file_is_said_to_operators_only(live: Service, there: FakeInstitution, tmp_path: Path) -> None:
    said = read_account_file(describe(tmp_path), read_text_file)
    open_it = make_opener(SystemClock(), SystemEntropy())
    house = await make_owner(live)
    with pytest.raises(errors.BadRequest, match=f"{tmp_path}/client.pem: cannot be read"):
        await account_usecases.add_account(as_operator(live.context), open_it, "loja", said, house)
    account = await account_usecases.add_account(as_operator(live.context), there.open, "loja", said, house)
    accounts = OpenAccounts(live.context.pool, live.context.secret_box, open_it, live.context.clock.monotonic_s)
    with pytest.raises(errors.ServiceUnavailable) as refused:
        await accounts.find(account.id)
    assert str(tmp_path) not in str(refused.value)
    papers = make_papers("us")
    (tmp_path / "secret").write_text("s3cret\n")
    (tmp_path / "client.pem").write_text(papers.client)
    (tmp_path / "client.key").write_text(papers.client_key)
    opened = await accounts.find(account.id)
    assert opened is not None
    assert [one.part for one in opened.institution.traits.certificates] == ["receiving"]
    await accounts.close()
    row = (await as_operator(live.context).pool.fetch("select institution_account::text from institution_account"))[0]
    assert "s3cret" not in str(row)


async def test_certificates_that_end_are_told_everywhere(live: Service, there: FakeInstitution) -> None:
    shop = await open_shop(live, there)
    now = live.clock.real_now()

    async def ending_in(**delta: float) -> None:
        ends_at = now + timedelta(**delta)
        used = [AccountCertificate(part="receiving", ends_at=ends_at)]
        there.traits = structs.replace(there.traits, certificates=used)
        await note_certificates(live.context.pool, OpenAccount(account=shop.account, institution=there))

    await ending_in(days=31)
    assert await list_ending(live.context.pool, now) == []
    await check_accounts(shop.context)
    for days, said in (
        (30, "ends within 30 days"),
        (7, "ends within 7 days"),
        (1, "ends within 1 day"),
        (0, "has ended"),
    ):
        await ending_in(days=days)
        with pytest.raises(errors.ServiceUnavailable, match=f"a certificate .* {said}$") as told:
            await check_accounts(shop.context)
        shown = await account_usecases.read_account(as_operator(live.context), "loja")
        assert [(one.used.part, one.said) for one in shown.ending] == [("receiving", said)]
        tried = await try_permissions(as_operator(live.context), there.open, shop.account)
        assert (tried[-1].name, tried[-1].is_given, tried[-1].explanation) == ("certificate receiving", days > 0, said)
    assert quoted("A certificate at an institution has ended") == [
        f"health: degraded; institutions: {told.value.message}"
    ]
    there.traits = structs.replace(there.traits, certificates=())
    await note_certificates(live.context.pool, OpenAccount(account=shop.account, institution=there))
    await check_accounts(shop.context)


def test_the_first_that_ends_counts() -> None:
    now = SystemClock().now()
    assert say_end(now + timedelta(days=30, seconds=1), now) is None
    assert say_end(now + timedelta(days=7, seconds=1), now) == "ends within 30 days"


async def test_an_account_knows_when_its_own_certificates_end() -> None:
    papers = make_papers("us")
    account = make_account("inter", "https://127.0.0.1:1", authorities=papers.authority)
    credential = Credential(client_id="us", client_secret="x", certificate=papers.client, private_key=papers.client_key)
    institution = make_opener(SystemClock(), SystemEntropy())(account, credential)
    assert {one.part for one in institution.traits.certificates} == {"receiving", "authority"}
    assert all(one.ends_at > SystemClock().now() for one in institution.traits.certificates)
    await institution.close()
