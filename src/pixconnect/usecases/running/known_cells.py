"""Cells are added by steps, each of which may be the last before the process dies; whoever runs them again goes on.

::

    the database is looked at       nothing is written where it is not empty, or not one to be a cell
    a row OPENING in the home cell  number, name, address, and an identity that nobody else has
    its tables are made             by the migrations, as for any database
    they say which cell they are    mode, number and identity in one transaction: from now on the database is this cell
    it is looked at once more       as ``pixconnect cell check`` does
    the row is OPEN                 processes may serve it

All that can be seen of a run that was cut off is a row ``OPENING``, and a database that is empty, has some tables, or says that
row's identity. A database that says anything else is somebody else's. Until a row is ``OPEN``, another database may be named
for it: it gets another identity, so that the former one is the cell no more.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager

from pixconnect.domain.frame import cell, errors
from pixconnect.domain.running.known_cell import HOME_NAME, KnownCell
from pixconnect.foundation.database_failure import DATABASE_AWAY
from pixconnect.foundation.pool import Connection
from pixconnect.store.running import cell as cell_store
from pixconnect.store.running import cell_copy
from pixconnect.store.running import installation as installation_store
from pixconnect.store.running.cell import Claim
from pixconnect.store.running.installation import Mode
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.context import HasPool
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.running.installation import InstallationError


async def list_cells(context: HasPool) -> list[KnownCell]:
    """The cells beside the home cell, by number."""
    return await cell_store.list_all(context.pool)


async def read_known_cell(context: OperatorContext, name: str) -> KnownCell:
    found = await cell_store.find(context.pool, name)
    if found is None:
        raise errors.NotFound(f"there is no cell {name!r}: `pixconnect cell list` names them")
    return found


async def find_cell_to_open_in(home: OperatorContext, name: str | None, account_in: int | None = None) -> int | None:
    """The number of the cell in which a holder is to be opened; ``None`` where it may be any, so the emptiest is best.

    Args:
        home: The home cell's.
        name: The cell that the operator has chosen.
        account_in: The cell of the account at an institution on which the holder's money is to lie.

    Raises:
        BadRequest: Another cell than the account's was chosen.
        NotFound: The home cell knows none of this name.
    """
    chosen = None
    if name is not None:
        chosen = cell.HOME if name == HOME_NAME else (await read_known_cell(home, name)).number
    # An account and all its holders are in one cell, since who pays whom by book shares a transaction.
    if account_in is not None:
        if chosen not in (None, account_in):
            where = await name_cell(home, account_in)
            raise errors.BadRequest(f"cell: the account is in the cell {where}, and all its holders with it")
        return account_in
    if chosen is None and not home.policy.is_sandbox:
        # Who has no account yet is the first of one that is about to be added, and of two cells an operator chooses the second.
        return cell.HOME
    return chosen


async def name_cell(home: OperatorContext, number: int) -> str:
    """The name of a cell by its number."""
    names = {known.number: known.name for known in await list_cells(home)}
    return HOME_NAME if number == cell.HOME else names.get(number, str(number))


def find_open_cell(known: Sequence[KnownCell], number: int) -> KnownCell:
    """The one of this number among those that the home cell knows; ``ServiceUnavailable`` if it is not open."""
    for each in known:
        if each.number == number and each.is_open:
            return each
    raise errors.ServiceUnavailable(f"there is no open cell {number}: look at `pixconnect cell list`")


@contextmanager
def reaching(known: KnownCell) -> Generator[None]:
    """Ask a cell's database in the block; ``ServiceUnavailable``, which names the cell, if it gives no answer."""
    try:
        yield
    except DATABASE_AWAY as error:
        raise errors.ServiceUnavailable(
            f"the cell {known.name} gives no answer at {known.address} ({str(error) or type(error).__name__})"
        ) from error


def refuse_cell_as_home(number: int) -> None:
    """Raise ``InstallationError`` where the settings name the database of another cell in the place of the home cell's."""
    if number != cell.HOME:
        raise InstallationError(
            f"this is the database of cell {number}: DATABASE_URL and the other addresses must name the home cell's, which "
            "leads to all others"
        )


class CellsLockedError(InstallationError):
    """Somebody else is adding or moving a cell, or has died so lately that the server has not noticed."""


@asynccontextmanager
async def adding_alone(context: OperatorContext) -> AsyncGenerator[Connection]:
    """Lock out everybody else who adds or moves cells; ``CellsLockedError`` where somebody is about to.

    Yields the connection that has the lock: what is written by it is not written once somebody else may have the lock.
    """
    async with context.pool.acquire() as connection, cell_store.adding_cells(connection) as is_alone:
        if not is_alone:
            raise CellsLockedError("somebody else is adding or moving a cell: wait until that has ended, and try again")
        yield connection


async def refuse_unfit(
    connection: Connection, home: tuple[int, int], known: KnownCell | None, ours: Sequence[str]
) -> None:
    """Raise ``InstallationError`` for a database that cannot become a cell; nothing is written.

    Args:
        connection: To that database, with our schema as its path.
        home: Which database of which server the home cell is, as ``read_database`` answers it.
        known: What the home cell says of a database at this address, if that was to become a cell before.
        ours: The schemas that our tables are in.
    """
    if await connection.fetchval("select pg_is_in_recovery()"):
        raise InstallationError("that database only reads: it is a standby; name the server that it follows")
    if await installation_store.read_database(connection) == home:
        raise InstallationError("that is the home cell's own database: a cell needs one of its own")
    # Tables that we have not made stay untouched, and never share a backup with money.
    if (other := await cell_store.find_other_relation(connection, ours)) is not None:
        raise InstallationError(f"that database has tables of something else ({other}): a cell needs one of its own")
    claim = await cell_store.find_claim(connection)
    if claim is not None:
        if known is None or not claim.is_of(known):
            raise InstallationError(f"{_say_claim(claim)}: a cell begins with an empty database")
    elif known is None and await cell_store.find_other_relation(connection, ()) is not None:
        raise InstallationError("that database has tables of pixconnect already: a cell begins with an empty one")


def _say_claim(claim: Claim) -> str:
    if claim.number == cell.HOME:
        return "that database is an installation of its own"
    return f"that database is a cell already, number {claim.number} of this installation or of another one"


async def begin_cell(context: OperatorContext, name: str, address: str) -> KnownCell:
    """Know a cell that is about to be made of the database at this address; the same again where that had begun."""
    async with write_alone(context.pool) as connection:
        before = await cell_store.find(connection, name)
        if before is None:
            after = await cell_store.insert(connection, name, address)
            if after is None:
                raise InstallationError("there are as many cells as can be numbered")
        elif before.address == address:
            return before
        else:
            after = await cell_store.begin_elsewhere(connection, before.number, address)
        await audit.record(context, connection, "cell add", f"cell {name}", before=before, after=after)
    return after


async def refuse_taken(context: OperatorContext, name: str, address: str) -> KnownCell | None:
    """What is known of a cell of this name, which may be added at this address; ``InstallationError`` if it may not."""
    known = await cell_store.list_all(context.pool)
    for each in known:
        if each.name == name and each.is_open and each.address != address:
            raise InstallationError(
                f"the cell {name} is open at {each.address}: `pixconnect cell move {name} --to URL` moves it elsewhere, and "
                "`pixconnect cell set` says that it is there already"
            )
        if each.name != name and address in {each.address, each.other_address}:
            raise InstallationError(f"the database at {address} is that of the cell {each.name}")
    return next((each for each in known if each.name == name), None)


async def claim_tables(connection: Connection, mode: Mode, known: KnownCell) -> None:
    """Let the tables of a database say which cell they are, for ever.

    Args:
        connection: As their owner.

    Raises:
        InstallationError: They say something else: somebody else has taken that database meanwhile.
    """
    async with connection.transaction():
        if await cell_store.become(connection, mode, known):
            return
    await refuse_other_claim(connection, known)


async def refuse_other_claim(connection: Connection, known: KnownCell) -> Claim | None:
    """What a database says of itself; ``InstallationError`` if that is another cell than the home cell knows it as."""
    claim = await cell_store.find_claim(connection)
    if claim is not None and not claim.is_of(known):
        raise InstallationError(f"{_say_claim(claim)}: it is not the cell {known.name} that the home cell knows")
    return claim


async def refuse_other_cell(connection: Connection, known: KnownCell) -> None:
    """As ``refuse_other_claim``, and where nobody has said yet which cell it is: its ids would be the home cell's."""
    if await refuse_other_claim(connection, known) is None:
        raise InstallationError(
            f"the database of the cell {known.name} does not say that it is this cell: run `pixconnect cell check`"
        )


async def refuse_while_copied(connection: Connection) -> None:
    """Raise ``InstallationError`` where the tables are being copied to another server: only rows are, and no other tables."""
    name = await cell_copy.find_publication(connection)
    if name is not None:
        raise InstallationError(
            "the cell is being moved, and its copy has the tables that it has: end that with the version that began it, or "
            "take it back (`pixconnect cell move NAME --cancel`); where `pixconnect cell list` shows it OPEN, drop the "
            f"publication {name}, which was left there"
        )


async def open_cell(context: OperatorContext, known: KnownCell) -> KnownCell:
    """Let processes serve a cell whose database says that it is."""
    async with write_alone(context.pool) as connection:
        after = await cell_store.open_known(connection, known)
        if after is None:
            raise InstallationError(f"the cell {known.name} was added by somebody else meanwhile: look at `cell list`")
        await audit.record(context, connection, "cell add", f"cell {known.name}", before=known, after=after)
    return after
