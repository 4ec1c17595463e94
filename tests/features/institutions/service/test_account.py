"""Accounts at institutions: added with their balance, paused, rotated, removed; and which holders may have one."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.identity.service import secret_key
from pixconnect.features.institutions.opener import make_opener, read_text_file
from pixconnect.features.institutions.rules.account import AccountCertificate, Credential, InstitutionAccount
from pixconnect.features.institutions.rules.account_file import read_account_file
from pixconnect.features.institutions.rules.institution import InstitutionUnavailable
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service.open_accounts import (
    OpenAccounts,
    list_ending,
    open_credential,
    read_sending_credential,
    try_permissions,
)
from pixconnect.features.institutions.service.succession import create_holder_on_account, move_holder
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows.context import Operator
from pixconnect.platform.adapters.secret_box import AesSecretBox, SecretKeyError, open_sending_box
from pixconnect.platform.adapters.system import SystemClock, SystemEntropy
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import describe_end
from pixconnect.platform.base.entropy import SealBroken
from support.account_shop import NO_LIMITS, make_owner, open_shop
from support.account_there import make_account, make_papers
from support.failure_page import quoted
from support.fake_institution import FakeInstitution, a_description
from support.health import check_accounts
from support.operators import as_operator
from support.records import a_new_holder
from support.service import Service


async def add(live: Service, there: FakeInstitution, name: str = "loja", **changes: Any) -> InstitutionAccount:
    house = changes.pop("house", None) or await make_owner(live)
    return await account_usecases.add_account(as_operator(live.context), there.open, name, a_description(**changes), house)


async def test_an_account_begins_with_what_is_on_it(live: Service, there: FakeInstitution) -> None:
    there.balance_cents = 123_45
    account = await add(live, there)
    assert (account.opening_cents, account.opened_at) == (123_45, live.clock.real_now())
    shown = await account_usecases.read_account(as_operator(live.context), "loja")
    assert (shown.account, shown.holder_ids, shown.last_reading_at) == (account, [account.house_id], None)
    audited = await as_operator(live.context).pool.fetch("select verb, subject from audit order by id")
    assert [tuple(row) for row in audited][-1] == ("institution add", "institution loja")


async def test_no_secret_is_kept_as_text(live: Service, there: FakeInstitution) -> None:
    await add(live, there)
    for table in ("institution_account", "audit"):
        rows = await as_operator(live.context).pool.fetch(f"select {table}::text as text from {table}")
        assert rows
        assert all("not to be seen" not in row["text"] for row in rows)
    shown = await account_usecases.read_account(as_operator(live.context), "loja")
    credential = await open_credential(as_operator(live.context), shown.account.id)
    assert credential.client_secret == "not to be seen"


async def test_an_institution_that_is_away_adds_nothing(live: Service, there: FakeInstitution) -> None:
    there.is_reachable = False
    with pytest.raises(errors.ServiceUnavailable, match="nothing was added"):
        await add(live, there)
    assert await account_usecases.list_institutions(as_operator(live.context)) == []
    assert [row["institution_id"] for row in await live.fetch("select institution_id from holder")] == [None]


async def test_a_credential_that_the_institution_does_not_take_is_refused_and_not_tried_again(
    live: Service, there: FakeInstitution, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse() -> int:
        raise InstitutionUnavailable("no token: the institution answered 401", is_refusal=True)

    monkeypatch.setattr(there, "read_balance", refuse)
    with pytest.raises(errors.BadRequest, match="refuses the credential, so nothing was added"):
        await add(live, there)


async def test_an_installation_is_of_one_environment(live: Service, there: FakeInstitution) -> None:
    await add(live, there)
    with pytest.raises(errors.BadRequest, match="environment"):
        await add(live, there, "other", house=await make_owner(live, "2"), environment="homologation")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await live.execute_as_owner("update installation set environment = 'production'")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await live.execute_as_owner("update institution_account set environment = 'production', id = 2")


async def test_a_name_is_given_once(live: Service, there: FakeInstitution) -> None:
    await add(live, there)
    with pytest.raises(errors.BadRequest, match="there is an account loja"):
        await add(live, there, house=await make_owner(live, "2"))


async def test_a_key_lies_on_one_account(live: Service, there: FakeInstitution) -> None:
    await add(live, there)
    with pytest.raises(errors.BadRequest, match="is on the account loja"):
        await add(live, there, "banco", house=await make_owner(live, "2"))
    await add(live, there, "banco", house=2, keys=["banco@test.example"], receiving=Credential(client_id="branch"))
    said = a_description(keys=["banco@test.example"])
    with pytest.raises(errors.BadRequest, match="is on the account banco"):
        await account_usecases.rotate_account(as_operator(live.context), "loja", said)


async def test_a_bank_account_is_added_once_until_it_is_closed(live: Service, there: FakeInstitution) -> None:
    elsewhere, keys = Credential(client_id="branch"), dict(keys=["banco@test.example"])
    await add(live, there, account="77")
    house = await make_owner(live, "2")
    with pytest.raises(errors.BadRequest, match="account: 77 is on the account loja: a bank account is added once"):
        await add(live, there, "banco", house=house, account="77", receiving=elsewhere, **keys)
    with pytest.raises(errors.BadRequest, match="client_id: us is on the account loja"):
        await add(live, there, "banco", house=house, **keys)
    await add(live, there, "banco", house=house, receiving=elsewhere, **keys)
    with pytest.raises(asyncpg.UniqueViolationError, match="institution_account_is_added_once"):
        await live.execute_as_owner("update institution_account set account = '77'")
    await live.execute_without_guards("update institution_account set state = 'closed' where name = 'loja'")
    await live.execute_as_owner("update institution_account set account = '77'")


async def test_a_sandbox_has_none(service: Service) -> None:
    with pytest.raises(errors.BadRequest, match="live mode"):
        await add(service, FakeInstitution(service.clock), house=1)


async def test_only_the_owners_holders_lie_on_it(live: Service, there: FakeInstitution) -> None:
    account = await add(live, there)
    operator = as_operator(live.context)
    sister = structs.replace(a_new_holder(account_number="2"), tax_id="12345678000276", **NO_LIMITS)
    holder = await create_holder_on_account(operator, sister, "loja")
    assert holder.institution_id == account.id
    stranger = structs.replace(a_new_holder(account_number="3"), tax_id="52998224725", **NO_LIMITS)
    with pytest.raises(errors.BadRequest, match="owner"):
        await create_holder_on_account(operator, stranger, "loja")
    assert len(await live.fetch("select from holder")) == 2, "the holder that was refused was not opened either"


async def test_who_has_money_stays_where_it_is(live: Service, there: FakeInstitution) -> None:
    await add(live, there)
    other = await make_owner(live, "2")
    await ledger_usecases.deposit(live.context, other, 1)
    with pytest.raises(errors.BadRequest, match=r"it has had money there.*pixconnect holder succeed"):
        await move_holder(as_operator(live.context), other, "loja")


async def test_the_house_of_an_account_stays_on_it(live: Service, there: FakeInstitution) -> None:
    account = await add(live, there)
    other = dict(keys=["other@test.example"], base_url="https://127.0.0.1:8106")
    await add(live, there, "banco", house=await make_owner(live, "2"), **other)
    with pytest.raises(errors.BadRequest, match="house"):
        await move_holder(as_operator(live.context), account.house_id, "banco")


async def test_pausing_twice_is_one_act(live: Service, there: FakeInstitution) -> None:
    await add(live, there)
    operator = as_operator(live.context)
    for _ in range(2):
        assert (await account_usecases.set_state(operator, "loja", "paused")).state == "paused"
    assert (await account_usecases.set_state(operator, "loja", "active")).state == "active"
    verbs = [row["verb"] for row in await as_operator(live.context).pool.fetch("select verb from audit order by id")]
    assert [verb for verb in verbs if verb.startswith("institution")] == [
        "institution add",
        "institution pause",
        "institution resume",
    ]


async def test_a_rotation_keeps_whose_it_is(live: Service, there: FakeInstitution) -> None:
    before = await add(live, there)
    operator = as_operator(live.context)
    after = await account_usecases.rotate_account(operator, "loja", a_description(poll_s=30))
    assert (after.poll_s, after.revision, after.opened_at) == (30, before.revision + 1, before.opened_at)
    with pytest.raises(errors.BadRequest, match="tax_id"):
        await account_usecases.rotate_account(operator, "loja", a_description(tax_id="52998224725"))


async def test_what_is_used_is_not_removed(live: Service, there: FakeInstitution) -> None:
    await add(live, there)
    with pytest.raises(errors.BadRequest, match="a holder is on it"):
        await account_usecases.remove_account(as_operator(live.context), "loja")
    with pytest.raises(errors.NotFound):
        await account_usecases.remove_account(as_operator(live.context), "nobody")


async def test_a_row_of_an_account_is_of_its_holders(live: Service, there: FakeInstitution) -> None:
    account = await add(live, there)
    await make_owner(live, "2")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
        await live.execute_as_owner(
            "insert into charge (id, holder_id, external_id, fingerprint, txid, amount_cents, key, br_code, status, slot,"
            f" created_at, modified_at, expires_at, institution_id) values (1, 2, 'a', '', repeat('t', 32), 1, 'k', '', "
            f"'PENDING', 1, now(), now(), now(), {account.id})"
        )
    assert caught.value.constraint_name == "what_happens_on_an_account_is_of_its_holders"


async def test_a_credential_is_sealed_again_under_a_new_key(live: Service, there: FakeInstitution) -> None:
    account = await add(live, there)
    new_key = bytes([7]) * 32
    operator = structs.replace(
        as_operator(live.context), secret_box=AesSecretBox(new_key, SystemEntropy(), previous_key=bytes(32))
    )
    assert (await secret_key.reseal(operator)).counts["institution_accounts"] == 1
    assert (await secret_key.reseal(operator)).counts["institution_accounts"] == 0
    alone = structs.replace(operator, secret_box=AesSecretBox(new_key, SystemEntropy()))
    assert (await open_credential(alone, account.id)).client_secret == "not to be seen"


async def test_where_no_balance_is_told_it_is_named(live: Service, there: FakeInstitution) -> None:
    there.traits = structs.replace(there.traits, has_balance=False)
    with pytest.raises(errors.BadRequest, match="opening_balance"):
        await add(live, there)
    house = (await live.fetch("select id from holder"))[0]["id"]
    account = await account_usecases.add_account(as_operator(live.context), there.open, "loja", a_description(), house, 12_345)
    assert account.opening_cents == 12_345


@pytest.mark.parametrize("cents", [-1, 10**12])
async def test_books_do_not_begin_with_a_balance_they_cannot_have(live: Service, there: FakeInstitution, cents: int) -> None:
    there.balance_cents = cents
    with pytest.raises(errors.BadRequest, match=r"opening_balance: must be from 0 .* the institution reports -?R\$ "):
        await add(live, there)
    assert await live.fetch("select from institution_account") == []


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
    account = await account_usecases.add_account(with_sending_key(live), there.open, "loja", said, await make_owner(live))
    new_key = bytes([8]) * 32
    rotated = with_sending_key(live, new_key, SENDING_KEY)
    assert (await secret_key.reseal(rotated)).counts["institution_accounts"] == 1
    assert (await secret_key.reseal(rotated)).counts["institution_accounts"] == 0
    alone = AesSecretBox(new_key, SystemEntropy())
    assert await read_sending_credential(live.context.pool, alone, account.id) == SENDING
    # Without the key nothing is lost, and the error names it.
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
        await account_store.note_certificates(live.context.pool, shop.account.id, there.traits.certificates)

    await ending_in(days=31)
    assert await list_ending(live.context.pool, now) == []
    await check_accounts(shop.context)
    for days, said in ((30, "ends within 30 days"), (7, "ends within 7 days"), (1, "ends within 1 day"), (0, "has ended")):
        await ending_in(days=days)
        with pytest.raises(errors.ServiceUnavailable, match=f"a certificate .* {said}$") as told:
            await check_accounts(shop.context)
        shown = await account_usecases.read_account(as_operator(live.context), "loja")
        assert [(one.used.part, one.text) for one in shown.ending] == [("receiving", said)]
        tried = await try_permissions(as_operator(live.context), there.open, shop.account)
        assert (tried[-1].name, tried[-1].is_given, tried[-1].explanation) == ("certificate receiving", days > 0, said)
    assert quoted("A certificate at an institution has ended") == [f"health: degraded; institutions: {told.value.message}"]
    there.traits = structs.replace(there.traits, certificates=())
    await account_store.note_certificates(live.context.pool, shop.account.id, there.traits.certificates)
    await check_accounts(shop.context)


def test_the_first_that_ends_counts() -> None:
    now = SystemClock().now()
    assert describe_end(now + timedelta(days=30, seconds=1), now) is None
    assert describe_end(now + timedelta(days=7, seconds=1), now) == "ends within 30 days"


async def test_an_account_knows_when_its_own_certificates_end() -> None:
    papers = make_papers("us")
    account = make_account("inter", "https://127.0.0.1:1", authorities=papers.authority)
    credential = Credential(client_id="us", client_secret="x", certificate=papers.client, private_key=papers.client_key)
    institution = make_opener(SystemClock(), SystemEntropy())(account, credential)
    assert {one.part for one in institution.traits.certificates} == {"receiving", "authority"}
    assert all(one.ends_at > SystemClock().now() for one in institution.traits.certificates)
    await institution.close()
