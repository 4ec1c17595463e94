"""The demonstration data are created once, even if the creation is interrupted."""

from datetime import timedelta

import pytest

from pixconnect.features.identity.service import access
from pixconnect.features.sandbox.service import clock as clock_usecases
from pixconnect.features.sandbox.service.demonstration import DEPOSIT_CENTS, prepare_demonstration
from pixconnect.kernel.flows import ledger
from pixconnect.kernel.rules.access import SCOPES
from pixconnect.platform.base import errors
from support.operators import as_operator
from support.service import Service


async def test_it_has_a_key_of_each_type_money_and_all_scopes(service: Service) -> None:
    made = await prepare_demonstration(service.context, as_operator(service.context), None)
    (client,) = await access.list_clients(as_operator(service.context), int(made.holder_id))
    assert set(client.scopes) == set(SCOPES)
    types = await service.context.pool.fetch("select key_type from pix_key order by key_type")
    assert [row["key_type"] for row in types] == ["CNPJ", "CPF", "EMAIL", "EVP", "PHONE"]
    balance = await service.context.pool.fetchrow("select available_cents, funding_cents from balance")
    assert balance is not None
    assert (balance["available_cents"], balance["funding_cents"]) == (DEPOSIT_CENTS, -DEPOSIT_CENTS)


async def test_a_second_start_answers_the_same_and_adds_nothing(service: Service) -> None:
    made = await prepare_demonstration(service.context, as_operator(service.context), None)
    assert await prepare_demonstration(service.context, as_operator(service.context), made) == made
    assert await service.context.pool.fetchval("select count(*) from ledger_entry") == 1


async def test_money_that_was_spent_is_not_given_again(service: Service) -> None:
    made = await prepare_demonstration(service.context, as_operator(service.context), None)
    await ledger.deposit(service.context, int(made.holder_id), 1)
    await prepare_demonstration(service.context, as_operator(service.context), made)
    assert await service.context.pool.fetchval("select available_cents from balance") == DEPOSIT_CENTS + 1


async def test_credentials_of_another_database_are_replaced(service: Service) -> None:
    made = await prepare_demonstration(service.context, as_operator(service.context), None)
    async with as_operator(service.context).pool.acquire() as connection:
        await connection.execute("update client set disabled_at = now()")
    again = await prepare_demonstration(service.context, as_operator(service.context), made)
    assert again.client_id != made.client_id
    assert (again.holder_id, again.pix_keys) == (made.holder_id, made.pix_keys)


async def test_a_client_gets_the_scopes_of_today_unless_an_operator_has_chosen_some(service: Service) -> None:
    operator = as_operator(service.context)
    made = await prepare_demonstration(service.context, operator, None)
    for _ in range(2):
        async with operator.pool.acquire() as connection:
            await connection.execute("update client set scopes = array['ledger.read']")
        assert await prepare_demonstration(service.context, operator, made) == made
        (client,) = await access.list_clients(operator, int(made.holder_id))
        assert set(client.scopes) == set(SCOPES)
    await access.set_scopes(operator, made.client_id, ["cob.read"])
    await prepare_demonstration(service.context, operator, made)
    (client,) = await access.list_clients(operator, int(made.holder_id))
    assert client.scopes == ("cob.read",)


async def test_the_clock_begins_where_it_is_told_to_and_only_once(service: Service) -> None:
    operator, clock = as_operator(service.context), service.context.clock
    clock_at = clock.real_now() + timedelta(days=1000)
    made = await prepare_demonstration(service.context, operator, None, clock_at=clock_at)
    begun_at = await service.context.pool.fetchval("select min(created_at) from ledger_entry")
    assert clock_at <= begun_at < clock_at + timedelta(minutes=1)
    await prepare_demonstration(service.context, operator, made, clock_at=clock_at + timedelta(days=1))
    now = await clock_usecases.read_clock(service.context)
    assert now < clock_at + timedelta(minutes=1)


async def test_the_clock_begins_thirty_days_before_real_time_at_most(service: Service) -> None:
    clock_at = service.context.clock.real_now() - timedelta(days=31)
    with pytest.raises(errors.BadRequest, match="PIXCONNECT_SANDBOX_CLOCK_AT"):
        await prepare_demonstration(service.context, as_operator(service.context), None, clock_at=clock_at)
    assert await service.context.pool.fetchval("select count(*) from holder") <= 1
