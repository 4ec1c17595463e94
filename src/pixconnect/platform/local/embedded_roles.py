"""The database and the roles of an embedded PostgreSQL, made by its owner at the first start."""

from typing import Final
from urllib.parse import urlsplit

import asyncpg

from pixconnect.platform.local.postgres_placement import CONSOLE_LOGIN_ROLE, DATABASE, FEW_ITERATIONS, LOGIN_ROLE, Placement
from pixconnect.platform.privileges import OPERATOR_ROLE, SANDBOX_ROLE, SERVICE_ROLE

GROUP_ROLES: Final = (SERVICE_ROLE, SANDBOX_ROLE)
_TIMEOUT_S: Final = 30


async def make(owner_url: str, placement: Placement) -> None:
    """Make what is missing; may be run again."""
    try:
        connection = await asyncpg.connect(owner_url, timeout=_TIMEOUT_S)
    except asyncpg.InvalidCatalogNameError:
        await _make_all(owner_url, placement)
        return
    # The database is made last: if it exists, so does everything else.
    try:
        # Homes from before the console lack its login.
        await _make_login(connection, CONSOLE_LOGIN_ROLE, placement.console_password)
    finally:
        await connection.close()


async def _make_all(owner_url: str, placement: Placement) -> None:
    connection = await asyncpg.connect(urlsplit(owner_url)._replace(path="/postgres").geturl(), timeout=_TIMEOUT_S)
    try:
        await _make_login(connection, CONSOLE_LOGIN_ROLE, placement.console_password)
        for role in (*GROUP_ROLES, OPERATOR_ROLE):
            if not await connection.fetchval("select 1 from pg_roles where rolname = $1", role):
                await connection.execute(f"create role {role} nologin")
        await _make_login(connection, LOGIN_ROLE, placement.login_password)
        await connection.execute(f"grant {', '.join(GROUP_ROLES)} to {LOGIN_ROLE}")
        await connection.execute(f"create database {DATABASE} template template0")
    finally:
        await connection.close()


async def _make_login(connection: asyncpg.Connection, role: str, password: str) -> None:
    if not await connection.fetchval("select 1 from pg_roles where rolname = $1", role):
        await connection.execute(FEW_ITERATIONS)
        # We made the password ourselves, without quotes.
        await connection.execute(f"create role {role} login noinherit password '{password}'")
