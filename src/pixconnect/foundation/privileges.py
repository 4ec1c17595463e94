"""What the service's login may do in the database: granted and revoked by the preparation, as the owner, at each start.

A migration cannot say it: it depends on the mode, on the login's name, and on whether the tables' owner owns the database too.
"""

from __future__ import annotations

from typing import Final

from pixconnect.foundation.pool import Connection

SERVICE_ROLE: Final = "pixconnect_service"
OPERATOR_ROLE: Final = "pixconnect_operator"
FUNDING_ROLE: Final = "pixconnect_funding"

_MAY_TAKE: Final = "select pg_has_role($1, $2, 'SET')"


async def let_take(connection: Connection, login: str, role: str) -> None:
    if not await connection.fetchval(_MAY_TAKE, login, role):
        await _execute(connection, "grant %I to %I", role, login)


async def allow_deposits(connection: Connection, schema: str, login: str) -> None:
    """Let the login of a sandbox put play money into accounts."""
    await _execute(connection, "grant insert on %I.deposit to %I", schema, FUNDING_ROLE)
    await let_take(connection, login, FUNDING_ROLE)


async def forbid_deposits(connection: Connection, schema: str) -> None:
    """Let nobody put money into accounts, whatever roles a login may have taken in other databases of the server."""
    await _execute(connection, "revoke insert on %I.deposit from %I", schema, FUNDING_ROLE)


_WHOLE_LOGIN: Final = """
    select rolsuper or pg_has_role($1, (select relowner from pg_class where oid = to_regclass($2)), 'USAGE')
    from pg_roles where rolname = $1
"""


async def narrow(connection: Connection, schema: str, login: str, service_role: str) -> list[str]:
    """Take from the service what it has by PostgreSQL's defaults and does not need.

    Returns:
        What could not be taken, each as a line that says what to do.
    """
    database = await connection.fetchval("select current_database()")
    # Where we may not, PostgreSQL warns and does nothing.
    await _execute(connection, "revoke temporary on database %I from public", database)
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
    quoted = await connection.fetchval(
        f"select format($1, {', '.join(f'${n}::text' for n in range(2, len(names) + 2))})", statement, *names
    )
    await connection.execute(quoted)
