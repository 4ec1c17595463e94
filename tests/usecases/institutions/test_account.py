"""Accounts at institutions: added with their balance, paused, rotated, removed; and who may lie on one."""

from typing import Any

import asyncpg
import pytest
from msgspec import structs

from pixconnect.adapters.secret_box import AesSecretBox
from pixconnect.adapters.system import SystemEntropy
from pixconnect.domain.frame import errors
from pixconnect.domain.institutions.account import Credential, InstitutionAccount
from pixconnect.usecases.identity import secret_key
from pixconnect.usecases.institutions import account as account_usecases
from pixconnect.usecases.institutions.credential import open_credential
from pixconnect.usecases.institutions.holder import create_holder_there, move_holder
from pixconnect.usecases.money import ledger as ledger_usecases
from support.account_shop import NO_LIMITS, make_owner
from support.fake_institution import FakeInstitution, a_description
from support.operators import as_operator
from support.records import a_new_holder
from support.service import Service


async def add(live: Service, there: FakeInstitution, name: str = "loja", **changes: Any) -> InstitutionAccount:
    house = changes.pop("house", None) or await make_owner(live)
    return await account_usecases.add_account(
        as_operator(live.context), there.open, name, a_description(**changes), house
    )


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
    await live.execute_as_owner("update institution_account set state = 'closed' where name = 'loja'")
    await live.execute_as_owner("update institution_account set account = '77'")


async def test_a_sandbox_has_none(service: Service) -> None:
    with pytest.raises(errors.BadRequest, match="live mode"):
        await add(service, FakeInstitution(service.clock), house=1)


async def test_only_the_owners_holders_lie_on_it(live: Service, there: FakeInstitution) -> None:
    account = await add(live, there)
    operator = as_operator(live.context)
    sister = structs.replace(a_new_holder(account_number="2"), tax_id="12345678000276", **NO_LIMITS)
    holder = await create_holder_there(operator, sister, "loja")
    assert holder.institution_id == account.id
    stranger = structs.replace(a_new_holder(account_number="3"), tax_id="52998224725", **NO_LIMITS)
    with pytest.raises(errors.BadRequest, match="owner"):
        await create_holder_there(operator, stranger, "loja")
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
    assert (await secret_key.reseal(operator)).institution_accounts_count == 1
    assert (await secret_key.reseal(operator)).institution_accounts_count == 0
    alone = structs.replace(operator, secret_box=AesSecretBox(new_key, SystemEntropy()))
    assert (await open_credential(alone, account.id)).client_secret == "not to be seen"


async def test_where_no_balance_is_told_it_is_named(live: Service, there: FakeInstitution) -> None:
    there.traits = structs.replace(there.traits, has_balance=False)
    with pytest.raises(errors.BadRequest, match="opening_balance"):
        await add(live, there)
    house = (await live.fetch("select id from holder"))[0]["id"]
    account = await account_usecases.add_account(
        as_operator(live.context), there.open, "loja", a_description(), house, 12_345
    )
    assert account.opening_cents == 12_345
