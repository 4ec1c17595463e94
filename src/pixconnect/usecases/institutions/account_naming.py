"""One account at an institution is in one cell, under one name: two that read it would credit everything twice.

::

    locked ────── at the home cell: nobody else adds an account in any cell, or changes by what one is known there
    compared ──── with the accounts of every other cell; one that gives no answer may have it
    claimed ───── its name, as that of a key (``usecases/frame/name_claim.py``), where the cell is not the home cell
    written ───── in the cell, with those of which it is compared once more; only while the lock is held, and under one of
                  that cell, which lasts until the COMMIT is over: whoever compares waits for that

Killed anywhere, nothing is left but a name that the sweep forgets, and whoever adds the account again goes on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import combinations
from typing import Final

import asyncpg
from msgspec import Struct, structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.cell import HOME
from pixconnect.domain.institutions.account import Environment, InstitutionAccount
from pixconnect.domain.institutions.account_file import ReadFile
from pixconnect.foundation.database_failure import DATABASE_AWAY
from pixconnect.foundation.pool import Connection
from pixconnect.store.institutions import account as account_store
from pixconnect.store.running import cell as cell_store
from pixconnect.store.running import name_cell as name_store
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.usecases.frame.name_claim import NameClaim, check_claim, claim_name
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.institutions.credential import (
    KnownAccount,
    find_shared,
    list_known,
    read_no_file,
    refuse_same_account,
)

AskOthers = Callable[[Callable[[OperatorContext], Awaitable[None]]], Awaitable[Mapping[str, str]]]
"""Asks each other cell, and answers which of them give no answer, and why; what one of them refuses is raised."""


async def nobody(ask: Callable[[OperatorContext], Awaitable[None]]) -> Mapping[str, str]:
    """Where there is the home cell only."""
    return {}


class CellAccounts(Struct, frozen=True, kw_only=True):
    """What an account is compared with beside those of its own cell."""

    ask_others: AskOthers = nobody
    read_file: ReadFile = read_no_file
    """Reads the secrets that stay in files."""


ALONE: Final = CellAccounts()


class AccountNaming(Struct, kw_only=True):
    """What nobody else does meanwhile."""

    context: OperatorContext
    lock: Connection
    claimed: NameClaim | None = None

    async def claim(self, account: InstitutionAccount) -> None:
        """Claim the name of an account that is about to be added, and the environment that all of them are of."""
        taken = errors.BadRequest(f"name: there is an account {account.name} in another cell")
        self.claimed = await claim_name(self.context, "institution", account.name, taken)
        if self.context.home is not None:
            async with write_alone(self.context.home) as connection:
                environment = await account_store.take_environment(connection, account.environment)
                refuse_other_environment(account.environment, environment)

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[Connection]:
        """A transaction in the account's cell; ``ServiceUnavailable`` at its end if somebody else may do the same by now."""
        async with write_alone(self.context.pool) as connection:
            await _wait_for_others(connection)
            yield connection
            await self._check()

    async def _check(self) -> None:
        check_claim(self.claimed)
        try:
            await self.lock.execute("select 1")
        except DATABASE_AWAY as error:
            raise errors.ServiceUnavailable("the home cell was lost meanwhile; nothing was done") from error


@asynccontextmanager
async def naming_alone(context: OperatorContext) -> AsyncGenerator[AccountNaming]:
    """Lock out everybody else who adds an account, or changes by what it is known.

    Raises:
        ServiceUnavailable: Somebody does.
    """
    home = context.home or context.pool
    async with home.acquire() as connection, cell_store.naming_accounts(connection) as is_alone:
        if not is_alone:
            raise errors.ServiceUnavailable(
                "somebody else is adding or changing an account at an institution; nothing was done: try again in a moment"
            )
        yield AccountNaming(context=context, lock=connection)


async def _wait_for_others(connection: Connection) -> None:
    """Wait for an account that is about to be there, also where whoever adds it has died, and its COMMIT goes on."""
    try:
        await account_store.name_alone(connection)
    except asyncpg.LockNotAvailableError:
        raise errors.ServiceUnavailable("an account is being added or changed there") from None


async def refuse_elsewhere(others: CellAccounts, one: KnownAccount) -> None:
    """Refuse an account that another cell has, by its name or by what it is there.

    Raises:
        BadRequest: One has it, or its accounts are of another environment.
        ServiceUnavailable: One gives no answer.
    """
    account = one.account
    # Each cell numbers its accounts for itself.
    stranger = structs.replace(one, account=structs.replace(account, id=0))

    async def compare(there: OperatorContext) -> None:
        async with there.pool.acquire() as connection, connection.transaction():
            await _wait_for_others(connection)
            if await account_store.find_named(connection, account.name) is not None:
                raise errors.BadRequest(f"name: there is an account {account.name} in another cell")
            refuse_other_environment(account.environment, await account_store.read_environment(connection))
            await refuse_same_account(connection, there.secret_box, stranger, others.read_file)

    missing = await others.ask_others(compare)
    if missing:
        said = "; ".join(f"{cell}: {why}" for cell, why in missing.items())
        raise errors.ServiceUnavailable(
            f"a cell that may have this account gives no answer, so nothing was done: {said}; do it again once all answer"
        )


async def refuse_brought_back(context: OperatorContext, others: CellAccounts, name: str) -> None:
    """Refuse to let money leave an account that another cell has too: a restore may have brought back one of the two.

    Raises:
        BadRequest: Another cell has it.
        ServiceUnavailable: A loss has paused it, and a cell gives no answer.
    """
    one = next((known for known in await list_compared(context) if known.account.name == name), None)
    if one is None:
        return  # closed, or there is none
    try:
        await refuse_elsewhere(others, one)
    except errors.BadRequest as refusal:
        raise errors.BadRequest(
            f"name: another cell has {name} too, and both are credited what comes in: {refusal.message}. `pixconnect cell "
            "check` names both and says what to do"
        ) from None
    except errors.ServiceUnavailable:
        # Nobody waits for a cell that is away, but what a restore may have brought back.
        if one.account.lost_at is not None:
            raise


class SharedAccount(Struct, frozen=True, kw_only=True):
    """Two accounts here that are one at the institution, or may be."""

    cells: tuple[str, str]
    names: tuple[str, str]
    why: str
    """What both have, or why nobody knows."""


async def list_compared(context: OperatorContext) -> list[KnownAccount]:
    """The accounts of a cell that are not closed."""
    async with context.pool.acquire() as connection:
        return await list_known(connection, context.secret_box)


def find_twice(found: Sequence[tuple[str, Sequence[KnownAccount]]], read_file: ReadFile) -> list[SharedAccount]:
    """Those that are here twice, in two cells or in one, and those of which nobody can tell."""
    every = [(cell, known) for cell, accounts in found for known in accounts]
    twice = list[SharedAccount]()
    for (cell, one), (other_cell, other) in combinations(every, 2):
        try:
            why = find_shared(one, other, read_file)
        except errors.BadRequest as error:
            why = error.message
        if why is not None:
            names = one.account.name, other.account.name
            twice.append(SharedAccount(cells=(cell, other_cell), names=names, why=why))
    return twice


def refuse_other_environment(environment: Environment, taken: Environment | None) -> None:
    if taken not in (None, environment):
        raise errors.BadRequest(
            f"environment: this installation is of {taken}, and all its accounts are: begin with another database"
        )


async def find_cell_of(home: OperatorContext, name: str) -> int | None:
    """The cell of an account as the home cell knows it; ``None`` for a name that it does not know."""
    async with home.pool.acquire() as connection:
        if await account_store.find_named(connection, name) is not None:
            return HOME
        return (await name_store.find_cells(connection, "institution", [name])).get(name)


async def has_account(context: OperatorContext, name: str) -> bool:
    """Whether this very cell has one of this name."""
    async with context.pool.acquire() as connection:
        return await account_store.find_named(connection, name) is not None
