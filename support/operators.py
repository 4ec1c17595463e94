"""Operators at work beside a test service; those who confirm use another database login than those who propose."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from pixconnect.kernel.flows.context import Context, Operator
from pixconnect.kernel.rules.proposal import name_person
from pixconnect.platform.pool import Connection, Pool
from support.kept_pools import kept_pools
from support.postgres import log_in_second

OPERATOR = "tests"
_WHO_CONFIRM = ("bia", "eva", "joana", "rui")


def has_second_login(operator: str) -> bool:
    return name_person(operator) in _WHO_CONFIRM


class _OperatorsPool:
    """The service's connections, with the operators' role."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Connection]:
        async with self._pool.acquire() as connection:
            await connection.execute("set role pixconnect_operator")
            try:
                yield connection
            finally:
                await connection.execute("set role pixconnect_service")

    async def fetch(self, statement: str, *arguments: object) -> list[Any]:
        async with self.acquire() as connection:
            return await connection.fetch(statement, *arguments)

    async def fetchrow(self, statement: str, *arguments: object) -> Any:
        async with self.acquire() as connection:
            return await connection.fetchrow(statement, *arguments)


class _SecondPool(_OperatorsPool):
    """Connections by the second login, which end with their use."""

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Connection]:
        url = log_in_second(kept_pools.urls[self._pool])
        taken = kept_pools.take(url, role="pixconnect_operator", connections_max=4, name="test operator")
        async with taken as pool, pool.acquire() as connection:
            yield connection


def as_operator(context: Context, operator: str = OPERATOR) -> Operator:
    """An operator on the database of a context, with its clock."""
    return Operator(
        pool=cast(Any, (_SecondPool if has_second_login(operator) else _OperatorsPool)(context.pool)),
        clock=context.clock,
        entropy=context.entropy,
        policy=context.policy,
        secret_box=context.secret_box,
        operator=operator,
    )


async def execute(context: Context, statement: str) -> None:
    """Run a statement that the service has no permission for."""
    async with as_operator(context).pool.acquire() as connection:
        await connection.execute(statement)
