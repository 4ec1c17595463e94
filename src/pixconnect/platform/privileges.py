"""Grants and revokes the service login's rights; the preparation runs it as the owner at each start.

It is no migration, because it depends on the mode, on the login's name, and on whether the tables' owner owns the database too.
"""

from contextlib import suppress
from typing import Final

import asyncpg

from pixconnect.platform.pool import Connection

SERVICE_ROLE: Final = "pixconnect_service"
OPERATOR_ROLE: Final = "pixconnect_operator"
CONSOLE_ROLE: Final = "pixconnect_console"
FUNDING_ROLE: Final = "pixconnect_funding"
SANDBOX_ROLE: Final = "pixconnect_sandbox"
VERIFIER_ROLE: Final = "pixconnect_verifier"

_MEMBERSHIPS: Final = ((OPERATOR_ROLE, SERVICE_ROLE), (CONSOLE_ROLE, SERVICE_ROLE), (OPERATOR_ROLE, CONSOLE_ROLE))
"""Roles that include another: the migrations grant it too, once a database, and another server lacks it."""
_IS_THERE: Final = "select exists (select from pg_roles where rolname = $1)"
_IS_MEMBER: Final = "select pg_has_role($1, $2, 'MEMBER')"


async def make_roles(connection: Connection, *, with_sandbox: bool) -> None:
    """Create the roles that the tables are granted to: roles belong to the server, so a dump of a database has none."""
    for role in (
        SERVICE_ROLE,
        OPERATOR_ROLE,
        CONSOLE_ROLE,
        FUNDING_ROLE,
        VERIFIER_ROLE,
        *([SANDBOX_ROLE] if with_sandbox else []),
    ):
        if not await connection.fetchval(_IS_THERE, role):
            # Another process creates them at the same time, for another database of the server.
            with suppress(asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):
                await _execute(connection, "create role %I nologin", role)
    for member, role in _MEMBERSHIPS:
        if not await connection.fetchval(_IS_MEMBER, member, role):
            await _execute(connection, "grant %I to %I", role, member)


# A login that inherits a role has its rights without taking it.
_MAY_ONLY_SET: Final = """
    select pg_has_role($1, $2, 'SET') and (rolsuper or not pg_has_role($1, $2, 'USAGE')) from pg_roles where rolname = $1
"""


async def grant_role(connection: Connection, login: str, role: str) -> None:
    if not await connection.fetchval(_MAY_ONLY_SET, login, role):
        await _execute(connection, "grant %I to %I with inherit false, set true", role, login)


async def allow_play(connection: Connection, schema: str, login: str) -> None:
    """Permit a sandbox's login to deposit test money, and to make holders for tests."""
    await _execute(connection, "grant insert on %I.deposit to %I", schema, FUNDING_ROLE)
    await _execute(connection, "grant execute on function %I.open_sandbox_holder to %I", schema, FUNDING_ROLE)
    await grant_role(connection, login, FUNDING_ROLE)


async def forbid_play(connection: Connection, schema: str) -> None:
    # Roles belong to the whole server: a sandbox in another of its databases may have granted this one to our login.
    await _execute(connection, "revoke insert on %I.deposit from %I", schema, FUNDING_ROLE)
    await _execute(connection, "revoke execute on function %I.open_sandbox_holder from %I", schema, FUNDING_ROLE)


# Sealed, hashed or secret columns are not readable for comparing. A partition is read by its table's name. Only what is not
# readable yet: each grant would be a commit, and a start would make a hundred of them.
_LIST_GRANTS: Final = """
    select format('grant select (%s) on %I.%I to %I', string_agg(quote_ident(attname), ', ' order by attnum), $1::text,
        relname, $2::text)
    from pg_class join pg_attribute on attrelid = pg_class.oid and attnum > 0 and not attisdropped
    where relnamespace = $1::text::regnamespace and relkind in ('r', 'p', 'v') and not relispartition
        and attname !~ '(^|_)(sealed|secret|hash|hashes)$'
    group by relname having not bool_and(has_column_privilege($2::text, pg_class.oid, attnum, 'select'))
    union all
    select format('grant select on sequence %I.%I to %I', $1::text, relname, $2::text)
    from pg_class
    where relnamespace = $1::text::regnamespace
        and case when relkind = 'S' then not has_sequence_privilege($2::text, oid, 'select') end
"""


async def grant_reading(connection: Connection, schema: str) -> None:
    """Grant the role that verifies the books all columns of tables except secrets."""
    await _execute(connection, "grant usage on schema %I to %I", schema, VERIFIER_ROLE)
    await _execute(connection, "grant execute on function %I.refuse_old_session to %I", schema, VERIFIER_ROLE)
    for (grant,) in await connection.fetch(_LIST_GRANTS, schema, VERIFIER_ROLE):
        await connection.execute(grant)


_OF_LARGE_OBJECTS: Final = tuple(
    f"pg_catalog.{function}" for function in ("lo_creat(integer)", "lo_create(oid)", "lo_from_bytea(oid, bytea)")
)
_WHOLE_LOGIN: Final = """
    select rolsuper or pg_has_role($1, (select relowner from pg_class where oid = to_regclass($2)), 'USAGE')
    from pg_roles where rolname = $1
"""


async def narrow(connection: Connection, schema: str, login: str, service_role: str) -> list[str]:
    """Revoke unneeded default rights of the service; return lines on rights that the operator must revoke."""
    database = await connection.fetchval("select current_database()")
    # If we may not, PostgreSQL only warns.
    await _execute(connection, "revoke temporary on database %I from public", database)
    for function in _OF_LARGE_OBJECTS:
        if await connection.fetchval("select has_function_privilege('public', $1, 'execute')", function):
            await connection.execute(f"revoke execute on function {function} from public")
    if await connection.fetchval(_WHOLE_LOGIN, login, f"{schema}.schema_version"):
        return [
            f"the service logs in as {login}, which may do anything with the tables: give DATABASE_URL a role of its own "
            "that owns nothing, and PIXCONNECT_OWNER_DATABASE_URL the owner"
        ]
    if await connection.fetchval("select has_database_privilege($1, current_database(), 'TEMP')", service_role) or (
        await connection.fetchval("select has_database_privilege($1, current_database(), 'TEMP')", login)
    ):
        return [
            f"the service may make temporary tables: run `revoke temporary on database {database} from public` as the "
            "database's owner"
        ]
    return []


async def _execute(connection: Connection, statement: str, *names: str) -> None:
    # PostgreSQL quotes the names, because statements like these take no parameters.
    quoted = await connection.fetchval(
        f"select format($1, {', '.join(f'${n}::text' for n in range(2, len(names) + 2))})", statement, *names
    )
    await connection.execute(quoted)
