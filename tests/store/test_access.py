"""What PostgreSQL itself refuses to the service's role, whatever the program does."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from pixconnect.usecases import access
from pixconnect.usecases.context import Context
from support import identity
from support.identity import SetClock
from support.postgres import Addresses


@pytest.fixture
async def context(database: Addresses) -> AsyncIterator[Context]:
    async with identity.open_context(database.service_url, SetClock()) as opened:
        owner = await identity.make_holder(opened)
        await access.create_client(opened, owner.id, "shop", ["charge.read"])
        yield opened


async def test_the_services_role_may_do_nothing_that_it_need_not(context: Context) -> None:
    statements = [
        "update access_revision set revision = revision - 1",
        "delete from access_revision",
        "insert into access_revision default values",
        "delete from client",
        "update client set holder_id = 1",
        "update client set scopes = array['charge.write']",
        "update client set client_id = 'other'",
        "update token_failure set failed_at = '-infinity'",
        "truncate token_failure",
        "update certificate_authority set private_sealed = ''",
        "delete from certificate_authority",
        "update signing_key set signs_from = now()",
        "update signing_key set public_jwk = ''",
        "alter table client disable trigger all",
    ]
    for statement in statements:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await context.pool.execute(statement)


async def test_a_client_with_scopes_that_do_not_exist_is_refused(context: Context) -> None:
    for scopes in ("{}", "{everything}", "{charge.read,everything}", "{NULL}"):
        with pytest.raises(asyncpg.CheckViolationError):
            await context.pool.execute(
                "insert into client (client_id, holder_id, name, scopes, secret_hash, created_at)"
                f" select 'new', holder_id, name, '{scopes}'::text[], secret_hash, created_at from client"
            )


async def test_every_change_of_who_is_out_moves_the_revision(context: Context) -> None:
    async def revision() -> int:
        return await context.pool.fetchval("select revision from access_revision")

    before = await revision()
    await context.pool.execute("update client set disabled_at = now()")
    await context.pool.execute("update holder set disabled_at = now()")
    await context.pool.execute("update client set disabled_at = null")
    assert await revision() == before + 3
    await context.pool.execute("update client set disabled_at = null")
    assert await revision() == before + 3
