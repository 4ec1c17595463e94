"""PostgreSQL refuses these statements to the service's role, even if the program sends them."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from pixconnect.features.identity.service import access
from pixconnect.kernel.flows.context import Context
from support import identity, operators
from support.operators import as_operator
from support.postgres import Addresses
from support.service import FakeClock


@pytest.fixture
async def context(database: Addresses) -> AsyncIterator[Context]:
    async with identity.open_context(database, FakeClock(monotonic_s=0.0)) as opened:
        owner = await identity.make_holder(opened)
        await access.create_client(as_operator(opened), owner.id, "shop", ["charge.read"])
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
        "update certificate_authority set certificate = ''",
        "delete from certificate_authority",
        "update signing_key set signs_from = now()",
        "update signing_key set public_jwk = ''",
        "update signing_key set kid = ''",
        "alter table client disable trigger all",
    ]
    for statement in statements:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await context.pool.execute(statement)


async def test_a_client_with_scopes_that_are_no_names_is_refused(context: Context) -> None:
    for scopes in ("{}", "{everything}", "{charge.read,everything}", '{charge.read,""}', "{NULL}"):
        with pytest.raises(asyncpg.CheckViolationError):
            await operators.execute(
                context,
                "insert into client (client_id, holder_id, name, scopes, secret_hash, created_at)"
                f" select 'new', holder_id, name, '{scopes}'::text[], secret_hash, created_at from client",
            )


async def test_every_change_of_who_is_out_moves_the_revision(context: Context) -> None:
    async def revision() -> int:
        return await context.pool.fetchval("select revision from access_revision")

    before = await revision()
    await operators.execute(context, "update client set disabled_at = now()")
    await operators.execute(context, "update holder set disabled_at = now()")
    await operators.execute(context, "update client set disabled_at = null")
    assert await revision() == before + 3
    await operators.execute(context, "update client set disabled_at = null")
    assert await revision() == before + 3


async def test_tokens_that_were_ended_and_keys_that_were_revoked_stay_so(context: Context) -> None:
    await identity.start_keyring(context)
    before = await context.pool.fetchval("select revision from access_revision")
    await operators.execute(context, "update client set tokens_from = now()")
    await operators.execute(context, "update signing_key set private_sealed = null, revoked_at = now()")
    assert await context.pool.fetchval("select revision from access_revision") == before + 2
    for statement, constraint in (
        ("update client set tokens_from = null", "tokens_stay_ended"),
        ("update client set tokens_from = now() - interval '1 minute'", "tokens_stay_ended"),
        ("update signing_key set revoked_at = null", "keys_stay_revoked"),
        ("update signing_key set private_sealed = '\\x01'", "revoked_key_has_no_private_part"),
    ):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError) as refusal:
            await operators.execute(context, statement)
        assert refusal.value.constraint_name == constraint
