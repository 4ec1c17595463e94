"""Holders and their keys, as the operator sees them."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from pixconnect.kernel.flows import holder
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.holder import HolderChanges
from pixconnect.kernel.rules.holder import PixKey
from pixconnect.platform.base import errors
from support import identity
from support.identity import make_holder
from support.operators import as_operator
from support.postgres import Addresses
from support.service import STARTED_AT, FakeClock


@pytest.fixture
async def context(database: Addresses) -> AsyncIterator[Context]:
    async with identity.open_context(database, FakeClock(monotonic_s=0.0)) as opened:
        yield opened


async def test_a_new_holder_has_an_empty_balance_and_no_limits(context: Context) -> None:
    made = await make_holder(context)
    balance = await context.pool.fetchrow("select * from whole_balance where holder_id = $1", made.id)
    assert balance is not None
    assert (balance["available_cents"], balance["reserved_cents"]) == (0, 0)
    assert (made.may_deposit, made.may_withdraw, made.may_lend) == (True, True, False)
    assert made.transfer_limit_cents is None
    assert await holder.read_holder(as_operator(context), made.id) == made


async def test_a_holder_is_refused_with_the_field_that_is_wrong(context: Context) -> None:
    wrong: list[tuple[dict[str, Any], type[errors.Refusal]]] = [
        ({"name": ""}, errors.BadRequest),
        ({"name": "x" * 256}, errors.BadRequest),
        ({"name": "a\0b"}, errors.BadRequest),
        ({"city": ""}, errors.BadRequest),
        ({"tax_id": "52998224724"}, errors.InvalidTaxId),
        ({"tax_id": "529.982.247-24"}, errors.InvalidTaxId),
        ({"branch": "00001"}, errors.InvalidAccount),
        ({"account_number": "10-1"}, errors.InvalidAccount),
    ]
    for changes, refusal in wrong:
        with pytest.raises(refusal, match=f"^{next(iter(changes))}: "):
            await make_holder(context, **changes)
    assert await context.pool.fetchval("select count(*) from holder") == 0


async def test_an_account_number_is_given_once(context: Context) -> None:
    await make_holder(context, "1001")
    with pytest.raises(errors.InvalidAccount, match=r"^account_number: "):
        await make_holder(context, "1001")
    assert await context.pool.fetchval("select count(*) from balance") == 1


async def test_a_holder_is_dated_by_the_sandbox_clock(context: Context) -> None:
    await context.pool.execute("update clock set offset_us = 86400000000")
    made = await make_holder(context)
    assert made.created_at == STARTED_AT + timedelta(days=1)


async def test_what_is_not_set_stays_as_it_is(context: Context) -> None:
    made = await make_holder(context)
    await holder.set_holder(as_operator(context), made.id, HolderChanges(may_withdraw=False, day_limit_cents=5000))
    await holder.set_holder(as_operator(context), made.id, HolderChanges(transfer_limit_cents=100))
    found = await holder.read_holder(as_operator(context), made.id)
    assert (found.may_deposit, found.may_withdraw) == (True, False)
    assert (found.transfer_limit_cents, found.day_limit_cents) == (100, 5000)
    found = await holder.set_holder(as_operator(context), made.id, HolderChanges(day_limit_cents=None))
    assert found.day_limit_cents is None


async def test_a_limit_that_no_pix_could_reach_is_refused(context: Context) -> None:
    made = await make_holder(context)
    for limit_cents in (-1, 1_000_000_000_000):
        with pytest.raises(errors.AmountOutOfRange, match=r"^night_limit_cents: "):
            await holder.set_holder(as_operator(context), made.id, HolderChanges(night_limit_cents=limit_cents))


async def test_shutting_out_twice_keeps_the_first_instant_and_moves_the_revision_once(context: Context) -> None:
    made = await make_holder(context)
    before = await context.pool.fetchval("select revision from access_revision")
    for _ in range(2):
        made = await holder.set_holder(as_operator(context), made.id, HolderChanges(is_disabled=True))
    assert made.disabled_at == STARTED_AT
    assert await context.pool.fetchval("select revision from access_revision") == before + 1
    made = await holder.set_holder(as_operator(context), made.id, HolderChanges(is_disabled=False))
    assert made.disabled_at is None


async def test_a_limit_moves_no_revision(context: Context) -> None:
    made = await make_holder(context)
    before = await context.pool.fetchval("select revision from access_revision")
    await holder.set_holder(as_operator(context), made.id, HolderChanges(transfer_limit_cents=100))
    assert await context.pool.fetchval("select revision from access_revision") == before


async def test_an_unknown_holder_is_not_found(context: Context) -> None:
    with pytest.raises(errors.NotFound):
        await holder.read_holder(as_operator(context), 404)
    with pytest.raises(errors.NotFound):
        await holder.set_holder(as_operator(context), 404, HolderChanges())
    with pytest.raises(errors.NotFound):
        await holder.add_pix_key(as_operator(context), 404, "EVP", None)


async def test_a_key_is_kept_normalised(context: Context) -> None:
    made = await make_holder(context)
    assert (await holder.add_pix_key(as_operator(context), made.id, "CPF", "529.982.247-25")).key == "52998224725"
    assert (await holder.add_pix_key(as_operator(context), made.id, "EMAIL", "Maria@Shop.Example")).key == "maria@shop.example"
    assert [key.key for key in await holder.list_pix_keys(as_operator(context), made.id)] == [
        "52998224725",
        "maria@shop.example",
    ]


async def test_the_service_makes_random_keys_and_no_others(context: Context) -> None:
    made = await make_holder(context)
    key = await holder.add_pix_key(as_operator(context), made.id, "EVP", None)
    assert await holder.list_pix_keys(as_operator(context), made.id) == [PixKey(key=key.key, key_type="EVP")]
    with pytest.raises(errors.BadRequest, match=r"^key: "):
        await holder.add_pix_key(as_operator(context), made.id, "EMAIL", None)


async def test_a_key_leads_to_one_holder_and_adding_it_twice_changes_nothing(context: Context) -> None:
    first, second = await make_holder(context, "1"), await make_holder(context, "2")
    for _ in range(2):
        await holder.add_pix_key(as_operator(context), first.id, "EMAIL", "shop@pix.example")
    with pytest.raises(errors.InvalidPixKey, match="another holder"):
        await holder.add_pix_key(as_operator(context), second.id, "EMAIL", "shop@pix.example")


async def test_a_key_of_no_form_is_refused(context: Context) -> None:
    made = await make_holder(context)
    with pytest.raises(errors.InvalidPixKey):
        await holder.add_pix_key(as_operator(context), made.id, "CPF", "52998224724")


async def test_the_services_role_cannot_change_who_a_holder_is(context: Context) -> None:
    made = await make_holder(context)
    for column in ("tax_id", "name", "account_number"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await context.pool.execute(f"update holder set {column} = '1' where id = $1", made.id)
