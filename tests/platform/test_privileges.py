"""Rights that the preparation revokes from the service's login, and its message if it may not."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import asyncpg
import pytest

from pixconnect.kernel.tables.installation import list_inherited
from pixconnect.platform import privileges
from pixconnect.platform.config import Settings
from pixconnect.platform.local.postgres_placement import LOGIN_ROLE
from pixconnect.running import migrate
from support import postgres

if TYPE_CHECKING:
    from pixconnect.platform.pool import Connection


@pytest.fixture
async def owner(database: postgres.Addresses) -> AsyncIterator["Connection"]:
    connection = await asyncpg.connect(database.owner_url)
    yield connection
    await connection.execute("reset role; reset session authorization")
    await connection.close()


async def may_be_temporary(connection: "Connection") -> bool:
    return await connection.fetchval(f"select has_database_privilege('{LOGIN_ROLE}', current_database(), 'TEMP')")


async def test_the_service_makes_no_temporary_tables(owner: "Connection", database: postgres.Addresses) -> None:
    name = await owner.fetchval("select current_database()")
    await owner.execute(f"grant temporary on database {name} to public")
    assert await may_be_temporary(owner)
    await migrate.bring_up_to_date(Settings(database_url=database.service_url, owner_database_url=database.owner_url))
    assert not await may_be_temporary(owner)


async def test_the_service_writes_no_large_objects(database: postgres.Addresses) -> None:
    async with postgres.kept_pools.take(database.service_url, role=None, connections_max=1, name="test") as pool:
        for call in ("lo_creat(-1)", "lo_create(0)", "lo_from_bytea(0, 'a')"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await pool.fetchval(f"select {call}")


async def test_where_the_tables_owner_does_not_own_the_database_it_is_said_who_has_to_act(owner: "Connection") -> None:
    name = await owner.fetchval("select current_database()")
    await owner.execute(f"grant temporary on database {name} to public")
    transaction = owner.transaction()
    await transaction.start()
    try:
        await owner.execute(
            "create role lesser_owner; grant usage on schema pixconnect to lesser_owner; set local role lesser_owner"
        )
        [line] = await privileges.narrow(owner, "pixconnect", LOGIN_ROLE, "pixconnect_service")
    finally:
        await transaction.rollback()
    assert line == (
        f"the service may make temporary tables: run `revoke temporary on database {name} from public` as the database's owner"
    )
    await owner.execute(f"revoke temporary on database {name} from public")


async def test_a_login_that_owns_the_tables_is_named(owner: "Connection") -> None:
    login = await owner.fetchval("select current_user")
    [line] = await privileges.narrow(owner, "pixconnect", login, "pixconnect_service")
    assert f"logs in as {login}, which may do anything with the tables" in line


async def test_a_login_that_inherits_a_role_is_found_and_granted_again(owner: "Connection") -> None:
    transaction = owner.transaction()
    await transaction.start()
    try:
        await owner.execute("create role heir login; grant pixconnect_operator to heir; create role plain login")
        [statement] = await list_inherited(owner)
        user = await owner.fetchval("select current_user")
        assert statement == f"grant pixconnect_operator to heir with inherit false granted by {user}"
        for login in "heir", "plain":
            await privileges.grant_role(owner, login, "pixconnect_operator")
            assert await owner.fetchval(f"select pg_has_role('{login}', 'pixconnect_operator', 'SET')")
        assert await list_inherited(owner) == []
    finally:
        await transaction.rollback()


async def test_only_a_sandbox_can_be_given_deposits(owner: "Connection", database: postgres.Addresses) -> None:
    question = "select has_table_privilege('pixconnect_funding', 'pixconnect.deposit', 'insert')"
    assert await owner.fetchval(question)
    await privileges.forbid_play(owner, "pixconnect")
    assert not await owner.fetchval(question)
    assert not await owner.fetchval(question.replace("pixconnect_funding", "pixconnect_service"))
    await privileges.allow_play(owner, "pixconnect", LOGIN_ROLE)


async def test_a_start_grants_again_only_what_the_verifier_may_not_read(owner: "Connection") -> None:
    await owner.execute(
        "revoke select (name) on pixconnect.holder from pixconnect_verifier; "
        "revoke select on sequence pixconnect.holder_id from pixconnect_verifier; create table pixconnect.later (a int)"
    )
    for expected in (["pixconnect.holder", "pixconnect.later", "sequence pixconnect.holder_id"], []):
        grants = [grant for (grant,) in await owner.fetch(privileges._LIST_GRANTS, "pixconnect", "pixconnect_verifier")]
        assert sorted(grant.partition(" on ")[2].partition(" to ")[0] for grant in grants) == expected
        await privileges.grant_reading(owner, "pixconnect")
