"""Money lies on the account on which it moves: the schema refuses anything else, even if a program omits a check."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from inspect import isfunction

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.institutions.accounts import AccountSource
from pixconnect.features.institutions.rules.account import Credential, InstitutionAccount
from pixconnect.features.institutions.service import account as account_usecases
from pixconnect.features.institutions.service.succession import move_holder
from pixconnect.features.institutions.source import InstitutionSource
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.flows.credit import CreditSource
from pixconnect.kernel.flows.source import Source
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors
from support.account_shop import Shop, make_owner, open_shop
from support.fake_institution import FakeInstitution, a_description
from support.operators import as_operator
from support.postgres import Addresses, as_owner, make_live
from support.records import own_key
from support.service import open_service


@pytest.mark.parametrize(("own", "account"), [(Source, InstitutionSource), (CreditSource, AccountSource)])
def test_an_account_decides_everything_itself(own: type, account: type) -> None:
    decisions = {name for name, value in vars(own).items() if isfunction(value) and not name.startswith("_")}
    assert {"find_payee", "find_credited"} & decisions
    assert decisions <= vars(account).keys()


@pytest.fixture
async def shop(database: Addresses) -> AsyncIterator[Shop]:
    await make_live(database)
    async with open_service(database, is_sandbox=False, has_rail=False) as live:
        yield await open_shop(live, FakeInstitution(live.clock))


async def add_banco(shop: Shop) -> InstitutionAccount:
    said = a_description(
        keys=["banco@test.example"], receiving=Credential(client_id="branch"), base_url="https://127.0.0.1:8106"
    )
    house = await make_owner(shop.live, "9")
    return await account_usecases.add_account(as_operator(shop.live.context), shop.there.open, "banco", said, house)


async def force(shop: Shop, holder_id: int, account_id: int) -> None:
    await shop.live.execute_as_owner(
        f"alter table holder disable trigger keep_account; update holder set institution_id = {account_id} "
        f"where id = {holder_id}; alter table holder enable trigger keep_account"
    )


async def find_refusal(act: Awaitable[object]) -> str | None:
    with pytest.raises((errors.InternalError, asyncpg.IntegrityConstraintViolationError)) as caught:
        await act
    error = caught.value
    cause = error if isinstance(error, asyncpg.PostgresError) else error.__cause__
    assert isinstance(cause, asyncpg.IntegrityConstraintViolationError)
    return cause.constraint_name


async def make_tenant(shop: Shop) -> Caller:
    holder_id = await make_owner(shop.live, "2")
    await move_holder(as_operator(shop.live.context), holder_id, "loja")
    return structs.replace(shop.house, holder_id=holder_id)


async def send(shop: Shop) -> Transfer:
    return await shop.send(300, own_key("2"))


async def test_both_legs_of_a_book_transfer_lie_on_one_account(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    banco, tenant = await add_banco(shop), await make_tenant(shop)
    await shop.receive(1000)
    await shop.context.directory.read_account(tenant.holder_id)
    await force(shop, tenant.holder_id, banco.id)
    monkeypatch.setattr(transfer_usecases, "check_way", lambda *_: None)
    assert await find_refusal(send(shop)) == "both_legs_lie_on_one_account"


async def test_both_legs_of_a_book_refund_lie_on_one_account(shop: Shop) -> None:
    banco, tenant = await add_banco(shop), await make_tenant(shop)
    await shop.receive(1000)
    sent = await send(shop)
    await force(shop, tenant.holder_id, banco.id)
    request = RefundRequest(end_to_end_id=sent.end_to_end_id, amount_cents=100)
    refund = refund_usecases.start_refund(shop.context, tenant, request)
    assert await find_refusal(refund) == "both_legs_lie_on_one_account"


async def test_a_refund_is_of_the_account_of_its_transfer(shop: Shop) -> None:
    banco, tenant = await add_banco(shop), await make_tenant(shop)
    await shop.allow()
    pix = await shop.receive(1000, key=own_key("2"))
    await force(shop, tenant.holder_id, banco.id)
    refund = structs.replace(shop, house=tenant).give_back(pix)
    assert await find_refusal(refund) == "what_happens_on_an_account_is_of_its_holders"


@pytest.mark.parametrize(
    "statement",
    [
        "insert into block (id, holder_id, institution_id, kind, reference, wanted_cents, held_cents, covered_cents, source,"
        " state, reported_at, created_at, modified_at) values (1, {holder}, {account}, 'judicial', 'r', 1, 0, 0, 's', 'open',"
        " now(), now(), now())",
        "insert into infraction (id, holder_id, institution_id, name, transfer_id, end_to_end_id, amount_cents, taken_cents,"
        " reason, situation, state, opened_at, respond_by, reported_at, slot, created_at, modified_at) select 1, holder_id,"
        " {account}, 'i', id, end_to_end_id, 1, 0, 'fraud', 'scam', 'open', now(), now(), now(), 1, now(), now() from transfer",
    ],
    ids=["block", "infraction"],
)
async def test_what_an_account_tells_of_is_of_its_holders(shop: Shop, statement: str) -> None:
    banco = await add_banco(shop)
    await shop.receive(1000)
    done = shop.live.execute_as_owner(statement.format(holder=shop.house.holder_id, account=banco.id))
    assert await find_refusal(done) == "what_happens_on_an_account_is_of_its_holders"


async def test_a_charge_made_while_its_holder_is_put_elsewhere_keeps_it_where_it_is(shop: Shop) -> None:
    banco, tenant = await add_banco(shop), await make_tenant(shop)
    async with as_owner(shop.live.database) as maker:
        async with maker.transaction():
            await maker.execute(
                "insert into charge (id, holder_id, external_id, fingerprint, txid, amount_cents, key, br_code, status, slot, "
                "created_at, modified_at, expires_at, institution_id) values (1, $1, 'a', '', repeat('t', 32), 1, 'k', 'b', "
                "'PENDING', 1, now(), now(), now(), $2)",
                tenant.holder_id,
                shop.account.id,
            )
            moving = asyncio.ensure_future(
                find_refusal(
                    shop.live.execute_as_owner(f"update holder set institution_id = {banco.id} where id = {tenant.holder_id}")
                )
            )
            await asyncio.sleep(0.3)
            assert not moving.done(), "it waits for the charge"
        assert await moving == "a_holder_stays_on_its_account"
