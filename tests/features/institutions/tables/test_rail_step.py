"""Calls to an institution are never forgotten, and the daily allowance is never exceeded, with any number of writers."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from pixconnect.features.institutions.rules.institution import InstitutionTraits
from pixconnect.platform.base import errors
from support.account_shop import Shop, open_shop
from support.fake_institution import FakeInstitution
from support.postgres import Addresses, make_live
from support.service import open_service

REFUSED = asyncpg.IntegrityConstraintViolationError
_CALLING = "update rail_step set state = 'calling', called_at = now()"
_ASKED = "update rail_step set state = 'asked', may_be_done = true"


@pytest.fixture
async def shop(database: Addresses) -> AsyncIterator[Shop]:
    """An account with one refund that its memory has named."""
    await make_live(database)
    async with open_service(database, is_sandbox=False, has_rail=False) as live:
        shop = await open_shop(live, FakeInstitution(live.clock, InstitutionTraits(repeats_refunds=True)))
        await shop.allow(1000)
        pix = await shop.receive(1000)
        refund = await shop.give_back(pix, 600)
        assert await shop.memory.open([refund.return_id])
        yield shop


@pytest.mark.parametrize(
    ("allowed", "refused"),
    [
        ((), "update rail_step set state = 'asked', may_be_done = true, called_at = now()"),
        ((), "update rail_step set name_there = 'another'"),
        ((), "update rail_step set state = 'closed'"),
        ((_CALLING,), "update rail_step set state = 'closed', outcome = 'never'"),
        ((_CALLING,), "update rail_step set called_at = now() + interval '1 hour'"),
        ((_CALLING, _ASKED), "update rail_step set may_be_done = false"),
        ((_CALLING, _ASKED), "update rail_step set state = 'minted', called_at = null"),
        ((_CALLING, _ASKED, "update rail_step set state = 'calling'"), "update rail_step set state = 'minted'"),
        (("update rail_step set state = 'closed', outcome = 'never'",), _CALLING),
        ((), "update rail_step set code_there = 'a-code'"),
        ((_CALLING, _ASKED, "update rail_step set code_there = 'a-code'"), "update rail_step set code_there = 'another'"),
        ((_CALLING, f"{_ASKED}, code_there = 'a-code'"), "update rail_step set code_there = null"),
    ],
)
async def test_no_call_is_forgotten(shop: Shop, allowed: tuple[str, ...], refused: str) -> None:
    for statement in allowed:
        await shop.live.execute_as_owner(statement)
    with pytest.raises(REFUSED):
        await shop.live.execute_as_owner(refused)


async def test_a_call_that_was_turned_away_is_none(shop: Shop) -> None:
    await shop.live.execute_as_owner(_CALLING)
    await shop.live.execute_as_owner("update rail_step set state = 'minted', called_at = null")
    await shop.live.execute_as_owner(_CALLING)


async def test_nothing_is_called_over_an_account_after_a_loss(shop: Shop) -> None:
    """A process that opened the account before cannot take the step, and so does not call."""
    await shop.live.execute_as_owner(
        "update institution_account set state = 'paused', paused_because = 'a loss', lost_at = now()"
    )
    await shop.live.execute_as_owner(_CALLING)
    assert await shop.live.fetchval("select state from rail_step") == "minted"
    with pytest.raises(REFUSED):
        await shop.live.execute_as_owner("update institution_account set state = 'active', paused_because = null")
    await shop.live.execute_as_owner("update institution_account set lost_at = null")
    await shop.live.execute_as_owner(_CALLING)


async def test_an_order_over_an_account_is_a_refund_of_a_pix_there_and_counts(shop: Shop) -> None:
    assert await shop.live.fetchval("select cents from refund_day") == 600
    names = "holder_id, resource_id, slot, ordered_at, due_at, give_up_at"
    with pytest.raises(REFUSED):
        await shop.live.execute_as_owner(
            f"insert into open_order (name, {names}, institution_id) "
            f"select 'D' || repeat('x', 31), {names}, institution_id from open_order"
        )


async def test_the_trigger_holds_the_days_sum_where_the_service_would_not(shop: Shop) -> None:
    # Lowered between the judgement and the writing of a refund.
    await shop.live.execute_as_owner(
        "create function lower_first() returns trigger language plpgsql as "
        "$$ begin update institution_allowance set refunds_day_cents = 700; return null; end $$"
    )
    await shop.live.execute_as_owner(
        "create trigger a_lower after insert on open_order for each row execute function lower_first()"
    )
    with pytest.raises(errors.PixConnectError):
        await shop.give_back(shop.there.received[0], 300)
    assert await shop.live.fetchval("select cents from refund_day") == 600


async def test_orders_of_accounts_have_an_index_of_their_own(shop: Shop) -> None:
    rows = await shop.live.fetch("select indexdef from pg_indexes where indexname = 'open_order_due_there'")
    assert "WHERE (institution_id IS NOT NULL)" in rows[0]["indexdef"]
