"""An operator at work beside a test service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from pixconnect.foundation.pool import Connection, Pool
from pixconnect.usecases.frame.context import Context, Operator

OPERATOR = "tests"


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


def as_operator(context: Context, operator: str = OPERATOR) -> Operator:
    """An operator on the database of a context, with its clock."""
    return Operator(
        pool=cast(Any, _OperatorsPool(context.pool)),
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
