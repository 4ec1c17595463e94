"""A holder stays on the account on which it has had anything, and what processes remember of it decides nothing."""

import asyncio

import asyncpg
import pytest
from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.institutions.account import Credential, InstitutionAccount
from pixconnect.domain.institutions.institution import UnknownOutcome
from pixconnect.domain.money.br_code import parse_br_code
from pixconnect.domain.money.transfer import AccountTransferRequest, KeyTransferRequest
from pixconnect.usecases.institutions import account as account_usecases
from pixconnect.usecases.institutions.holder import move_holder
from pixconnect.usecases.money import kept_report as kept_usecases
from pixconnect.usecases.money import transfer as transfer_usecases
from pixconnect.usecases.proof.case import list_cases, look_for_cases
from support.account_shop import Shop, make_owner, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution, a_description
from support.operators import as_operator
from support.records import own_key
from support.service import Service, read_funds

FORCED = "alter table holder disable trigger keep_account; {}; alter table holder enable trigger keep_account"


async def add_banco(shop: Shop) -> InstitutionAccount:
    house = await make_owner(shop.live, "9")
    said = a_description(
        keys=["banco@test.example"], receiving=Credential(client_id="branch"), base_url="https://127.0.0.1:8106"
    )
    return await account_usecases.add_account(as_operator(shop.live.context), shop.there.open, "banco", said, house)


async def make_tenant(shop: Shop, number: str = "2", on: str | None = "loja") -> Caller:
    holder_id = await make_owner(shop.live, number)
    if on is not None:
        await move_holder(as_operator(shop.live.context), holder_id, on)
    return structs.replace(shop.house, holder_id=holder_id)


async def force(shop: Shop, holder_id: int, account_id: int) -> None:
    """Put a holder elsewhere as older programs did."""
    await shop.live.execute_as_owner(
        FORCED.format(f"update holder set institution_id = {account_id} where id = {holder_id}")
    )


async def send(shop: Shop, caller: Caller, key: str, amount_cents: int = 100) -> str:
    request = KeyTransferRequest(amount_cents=amount_cents, key=key, key_type="EMAIL")
    return (await transfer_usecases.start_transfer(shop.context, caller, request)).transfer.status


async def test_who_has_ever_had_money_stays(shop: Shop) -> None:
    banco, tenant = await add_banco(shop), await make_tenant(shop)
    await shop.receive(900, key=own_key("2"))
    assert await send(shop, tenant, own_key("1"), 900) == "CONFIRMED"
    assert await read_funds(shop.live, tenant) == (0, 0)
    with pytest.raises(errors.BadRequest, match=r"it has had money there.*holder succeed"):
        await move_holder(as_operator(shop.live.context), tenant.holder_id, "banco")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
        await shop.live.execute_as_owner(f"update holder set institution_id = {banco.id} where id = {tenant.holder_id}")
    assert caught.value.constraint_name == "a_holder_stays_on_its_account"


async def test_who_has_made_a_charge_stays(shop: Shop) -> None:
    await add_banco(shop)
    tenant = await make_tenant(shop)
    await structs.replace(shop, house=tenant).charge(key="2")
    shop.live.clock.advance(days=400)
    await shop.live.execute_as_owner("update charge set status = 'EXPIRED'")
    with pytest.raises(errors.BadRequest, match="it has made charges there"):
        await move_holder(as_operator(shop.live.context), tenant.holder_id, "banco")


async def test_who_has_never_had_anything_may_be_put_elsewhere_and_every_process_learns_it(shop: Shop) -> None:
    await add_banco(shop)
    tenant = await make_tenant(shop)
    before = await shop.live.fetch("select revision from access_revision")
    await move_holder(as_operator(shop.live.context), tenant.holder_id, "banco")
    assert await shop.live.fetch("select revision from access_revision") != before


async def test_a_charge_that_is_made_meanwhile_and_the_change_never_wait_for_each_other(shop: Shop) -> None:
    await add_banco(shop)
    operator = as_operator(shop.live.context)
    for number in map(str, range(20, 40)):
        tenant = await make_tenant(shop, number)
        making = structs.replace(shop, house=tenant).charge(key=number)
        moving = move_holder(operator, tenant.holder_id, "banco")
        outcomes = await asyncio.gather(making, moving, return_exceptions=True)
        assert not any(isinstance(one, asyncpg.PostgresError) for one in outcomes), outcomes
    await check_books(shop.live)


async def test_a_payee_put_on_the_account_since_it_was_read_is_paid_by_book(shop: Shop) -> None:
    await shop.receive(1000)
    tenant = await make_tenant(shop, on=None)
    assert (await shop.context.directory.read_account(tenant.holder_id)).institution_id is None
    await move_holder(as_operator(shop.live.context), tenant.holder_id, "loja")
    assert await send(shop, shop.house, own_key("2")) == "CONFIRMED"
    await check_books(shop.live)


async def test_nothing_goes_by_book_to_a_payee_put_elsewhere_since_it_was_read(shop: Shop) -> None:
    await add_banco(shop)
    await shop.receive(1000)
    tenant = await make_tenant(shop)
    party = (await shop.context.directory.read_account(tenant.holder_id)).party
    await move_holder(as_operator(shop.live.context), tenant.holder_id, "banco")
    request = AccountTransferRequest(amount_cents=307, credit_party=party)
    with pytest.raises(errors.ServiceUnavailable, match="between two accounts"):
        await transfer_usecases.start_transfer(shop.context, shop.house, request)
    assert await read_funds(shop.live, shop.house) == (1000, 0)
    await check_books(shop.live)


async def test_a_printed_code_of_a_moved_holder_pays_the_house(live: Service, there: FakeInstitution) -> None:
    shop = await open_shop(live, there, options={"static_fallback": True})
    banco, tenant = await add_banco(shop), await make_tenant(shop)
    shop.there.answers = [UnknownOutcome(reason="silent")]
    charge = await structs.replace(shop, house=tenant).charge(key="2")
    await force(shop, tenant.holder_id, banco.id)
    shop.pay(960, txid=parse_br_code(charge.br_code).txid)
    for _ in range(2):
        await shop.read()
    assert await read_funds(live, shop.house) == (960, 0)


async def test_what_the_schema_refuses_is_the_houses_and_a_case_with_its_sum(shop: Shop) -> None:
    tenant = await make_tenant(shop)
    await shop.live.execute_as_owner(
        "create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no' using "
        "errcode = 'integrity_constraint_violation', constraint = 'some_rule'; end $$; create trigger refuse before insert "
        f"on transfer for each row when (new.holder_id = {tenant.holder_id}) execute function refuse()"
    )
    shop.pay(960, key=own_key("2"))
    for _ in range(3):
        await shop.read()
    assert await read_funds(shop.live, shop.house) == (960, 0)
    (kept,) = await kept_usecases.list_kept(as_operator(shop.live.context), with_closed=False)
    assert (kept.kind, kept.reason, kept.seen_count) == ("credit", "cannot_be_recorded", 1)
    assert "some_rule" in kept.explanation
    await look_for_cases(shop.context)
    (case,) = await list_cases(shop.context)
    assert (case.case.kind, case.case.amount_cents) == ("report", 960)
    await check_books(shop.live)
