"""A key moves between holders of an account: each payment goes to the holder at the time of its settlement."""

import asyncpg
import pytest
from msgspec import structs

from pixconnect.features.institutions.rules.institution import NotSent
from pixconnect.features.institutions.rules.sweep import Pace
from pixconnect.features.institutions.service import sweep as sweep_usecases
from pixconnect.features.institutions.service.proposals import propose_release
from pixconnect.features.institutions.service.succession import move_holder
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.flows.charge import create_charge
from pixconnect.kernel.flows.holder import add_pix_key, remove_pix_key
from pixconnect.kernel.rules.br_code import parse_br_code
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.platform.base import errors
from support.account_shop import Shop, make_owner, open_banco, open_shop
from support.books import check_books
from support.fake_institution import FakeInstitution
from support.operators import as_operator
from support.proposals import confirm_waiting
from support.service import Service

KEY = "moved@test.example"


@pytest.fixture
async def shop(live: Service, there: FakeInstitution) -> Shop:
    return await open_shop(live, there, options={"static_fallback": True})


@pytest.fixture
async def tenants(shop: Shop) -> tuple[int, int]:
    """Two holders on the account; the first has the key."""
    operator = as_operator(shop.live.context)
    first, second = await make_owner(shop.live, "2"), await make_owner(shop.live, "3")
    for tenant in (first, second):
        await move_holder(operator, tenant, "loja")
    await give(shop, first)
    return first, second


async def give(shop: Shop, holder_id: int) -> None:
    await add_pix_key(as_operator(shop.live.context), holder_id, "EMAIL", KEY)


async def remove(shop: Shop, holder_id: int) -> None:
    await remove_pix_key(as_operator(shop.live.context), holder_id, KEY)
    now = shop.live.clock.real_now()
    await shop.live.execute_without_guards(
        f"update removed_pix_key set removed_at = '{now}' where removed_at > clock_timestamp() - interval '1 minute';"
        f" update audit set at = '{now}' where verb = 'key remove' and at > clock_timestamp() - interval '1 minute'"
    )


async def read(shop: Shop, *paces: Pace) -> None:
    for pace in paces:
        await sweep_usecases.sweep(shop.at, shop.there, pace)


async def funds(shop: Shop, holder_id: int) -> int:
    return await shop.live.fetchval(f"select available_cents from balance where holder_id = {holder_id}")


async def kept(shop: Shop) -> list[tuple[str, str]]:
    found = await kept_usecases.list_kept(as_operator(shop.live.context), with_closed=False)
    return [(one.reason, one.name) for one in found]


async def test_a_key_is_free_once_a_whole_reading_ends_after_days(shop: Shop, tenants: tuple[int, int]) -> None:
    first, second = tenants
    await remove(shop, first)
    for hours, paces in ((1, ("near", "wide")), (70, ("near", "wide")), (1, ("near",))):
        shop.live.clock.advance(hours=hours)
        await read(shop, *paces)
        with pytest.raises(errors.InvalidPixKey, match=f"led to holder {first} on the account loja"):
            await give(shop, second)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
        await shop.live.execute_as_owner(
            f"insert into pix_key (key, key_type, holder_id, created_at) values ('{KEY}', 'EMAIL', {second}, now())"
        )
    assert caught.value.constraint_name == "a_removed_key_is_in_quarantine"
    await read(shop, "wide")
    await give(shop, second)
    pix = shop.pay(500, key=KEY)
    await read(shop, "near")
    assert (await funds(shop, second), await kept(shop)) == (500, [])
    assert pix.key == KEY
    await check_books(shop.live)


async def test_its_holder_gets_it_back_at_once(shop: Shop, tenants: tuple[int, int]) -> None:
    first, _ = tenants
    await remove(shop, first)
    shop.live.clock.advance(minutes=1)
    shop.pay(100, key=KEY)
    await give(shop, first)
    await read(shop, "near")
    assert await funds(shop, first) == 100


async def test_a_charge_is_paid_to_its_holder_wherever_its_key_leads(shop: Shop, tenants: tuple[int, int]) -> None:
    first, second = tenants
    caller, house = structs.replace(shop.house, holder_id=first), shop.house.holder_id
    asked = [ChargeRequest(amount_cents=cents, key=KEY) for cents in (1_000, 2_000)]
    dynamic = await create_charge(shop.context, caller, asked[0])
    shop.there.answers = [NotSent(reason="no connection")]
    reference = parse_br_code((await create_charge(shop.context, caller, asked[1])).br_code).txid
    shop.pay(500, key=KEY)
    shop.live.clock.advance(seconds=10)
    await remove(shop, first)
    shop.live.clock.advance(seconds=10)
    shop.pay(30, key=KEY)
    shop.pay(1_000, key=KEY, txid=dynamic.txid)
    await read(shop, "near")
    assert (await funds(shop, first), await funds(shop, house)) == (1_500, 30)
    shop.live.clock.advance(hours=73)
    await read(shop, "near", "wide")
    await give(shop, second)
    shop.live.clock.advance(seconds=1)
    # A static code may be paid again; another code with the key names no charge.
    for cents, txid in ((2_000, reference), (2_000, reference), (7, "printed"), (9, None)):
        shop.pay(cents, key=KEY, txid=txid)
    await read(shop, "near")
    assert (await funds(shop, first), await funds(shop, second), await funds(shop, house)) == (5_500, 16, 30)
    assert await shop.live.fetchval("select count(*) from charge where status = 'APPROVED'") == 2
    await check_books(shop.live)


async def test_a_key_that_leads_to_another_account_leaves_a_case_here(shop: Shop, tenants: tuple[int, int]) -> None:
    first, _ = tenants
    await open_banco(shop)
    await move_holder(as_operator(shop.live.context), there := await make_owner(shop.live, "4"), "banco")
    await remove(shop, first)
    shop.live.clock.advance(hours=73)
    await read(shop, "near", "wide")
    await give(shop, there)
    shop.live.clock.advance(seconds=1)
    pix = shop.pay(500, key=KEY)
    await read(shop, "near")
    assert (await funds(shop, shop.house.holder_id), await kept(shop)) == (500, [("two_holders", pix.end_to_end_id)])


async def test_late_news_go_by_the_keys_owner_and_in_doubt_to_the_house(shop: Shop, tenants: tuple[int, int]) -> None:
    first, second = tenants
    before = shop.pay(500, key=KEY)
    shop.live.clock.advance(hours=1)
    await remove(shop, first)
    shop.live.clock.advance(hours=1)
    between = shop.pay(70, key=KEY)
    shop.there.received = []
    shop.live.clock.advance(hours=72)
    await read(shop, "near", "wide")
    await give(shop, second)
    shop.live.clock.advance(seconds=1)
    after = shop.pay(9, key=KEY)
    shop.there.received = [before, between, after]
    for _ in range(2):
        await sweep_usecases.record_page(shop.at, shop.there.received)
    house = shop.house.holder_id
    assert (await funds(shop, first), await funds(shop, second), await funds(shop, house)) == (500, 9, 70)
    assert await kept(shop) == [("two_holders", between.end_to_end_id)]
    await check_books(shop.live)


async def test_two_operators_release_a_key_of_an_unread_account(shop: Shop, tenants: tuple[int, int]) -> None:
    first, second = tenants
    maria, joana = (as_operator(shop.live.context, name) for name in ("maria", "joana"))
    with pytest.raises(errors.BadRequest, match="does not wait for a reading"):
        await propose_release(maria, "loja", KEY)
    await remove(shop, first)
    await read(shop, "near", "wide")
    shop.live.clock.advance(hours=71)
    with pytest.raises(errors.BadRequest, match="loja is read"):
        await propose_release(maria, "loja", KEY)
    shop.live.clock.advance(hours=2)
    proposed = await propose_release(maria, "loja", KEY)
    with pytest.raises(errors.Forbidden):
        await confirm_waiting(maria, shop.context, "loja", "release", proposed.code)
    with pytest.raises(errors.InvalidPixKey):
        await give(shop, second)
    await confirm_waiting(joana, shop.context, "loja", "release", proposed.code)
    await give(shop, second)
    # A release is of one removal.
    shop.live.clock.advance(hours=1)
    await remove(shop, second)
    shop.live.clock.advance(hours=1)
    with pytest.raises(errors.InvalidPixKey, match=f"led to holder {second}"):
        await give(shop, first)
