"""Statements: their extent is fixed in one query, their lines are read in parts."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from pixconnect.features.statements import tables as statement_store
from pixconnect.features.statements.rules import Language, Statement, StatementLine
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform.base import errors
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.pool import Pool

LINES_A_PART: Final = 100  # lines per part: few enough that other requests of the process hardly wait for them


async def open_statement(
    context: Context, caller: Caller, initial_at: datetime, final_at: datetime, language: Language = "en"
) -> Statement:
    """Fix which lines a statement has, both instants included; entries made later are not in it."""
    account = await context.directory.read_account(caller.holder_id)
    extent = await statement_store.find_extent(context.pool, caller.holder_id, initial_at, final_at)
    return Statement(
        holder_id=caller.holder_id,
        account=account.party,
        initial_at=initial_at,
        final_at=final_at,
        made_at=context.clock.now(),
        extent=extent,
        language=language,
    )


async def read_lines(context: Context, statement: Statement, first_number: int, last_number: int) -> Sequence[StatementLine]:
    first, last = max(first_number, statement.extent.first_number), min(last_number, statement.extent.last_number)
    if last < first:
        return []
    return await statement_store.read_lines(context.pool, statement.holder_id, first, last)


async def read_parts(
    context: Context, statement: Statement, lines_a_part: int = LINES_A_PART
) -> AsyncIterator[Sequence[StatementLine]]:
    extent = statement.extent
    # Each part takes its own connection from the pool: a slow reader holds none between two parts.
    for first_number in range(extent.first_number, extent.last_number + 1, lines_a_part):
        last_number = min(first_number + lines_a_part - 1, extent.last_number)
        yield await _read_part(context.pool, statement.holder_id, first_number, last_number)


async def _read_part(pool: Pool, holder_id: int, first_number: int, last_number: int) -> Sequence[StatementLine]:
    lines_count = last_number - first_number + 1
    if pool is not pool.primary:
        # A standby may be gone by now; and if its name leads to several, another one may lag behind the first.
        with suppress(*DATABASE_FAILED):
            lines = await statement_store.read_lines(pool, holder_id, first_number, last_number)
            if len(lines) == lines_count:
                return lines
    lines = await statement_store.read_lines(pool.primary, holder_id, first_number, last_number)
    errors.ensure(len(lines) == lines_count, "numbers have no gaps")
    return lines
