"""What verbs about accounts at institutions share: they go to the account's cell, open the account and ask there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, TypeVar

from cyclopts import Parameter

from pixconnect.cli.frame import cells, operating
from pixconnect.cli.frame.settings import read_database_settings
from pixconnect.domain.frame.cell import HOME
from pixconnect.domain.institutions.recording import TakenExchange
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.institutions import account_naming
from pixconnect.usecases.institutions.account_naming import CellAccounts
from pixconnect.usecases.institutions.credential import OpenInstitution
from pixconnect.usecases.institutions.statement import SettlingContext

Result = TypeVar("Result")
AccountName = Annotated[str, Parameter(help="The account, by the name that it was added under.")]


def run_at_account(name: str, use_case: Callable[[OperatorContext], Awaitable[Result]]) -> Result:
    """As ``operating.run``, in the cell of the account of this name."""
    return operating.run_at(find_cell_of(name), use_case)


def run_at_institution(name: str, use_case: Callable[[OperatorContext, OpenInstitution], Awaitable[Result]]) -> Result:
    """The same with what opens the account."""
    opener = make_opener()
    return run_at_account(name, lambda context: use_case(context, opener))


def run_writing_at_account(
    name: str, use_case: Callable[[OperatorContext, SettlingContext], Awaitable[Result]]
) -> Result:
    """As ``operating.run_writing``, in the cell of the account of this name."""
    return operating.run_writing(find_cell_of(name), use_case)


def find_cell_of(name: str) -> Callable[[OperatorContext], Awaitable[int]]:
    """Finds the cell of an account; the home cell's for a name that all cells have answered to have none of.

    A home cell that was put back may not know yet what another cell has, so all are asked then.
    """

    async def find(home: OperatorContext) -> int:
        number = await account_naming.find_cell_of(home, name)
        if number is not None:
            return number
        answers = await cells.ask_cells(read_database_settings(), home, has_account)
        having = [number for number, has_it in answers.results if has_it]
        if not having:
            answers.refuse_missing(f"name: there is no account {name} in any cell that answers")
        return having[0] if having else HOME

    async def has_account(context: OperatorContext) -> tuple[int, bool]:
        return context.policy.cell, await account_naming.has_account(context, name)

    return find


def make_others(context: OperatorContext) -> CellAccounts:
    """How an account in the context's cell is compared with those of all other cells."""
    from pixconnect.assembly.institutions import read_text_file  # noqa: PLC0415  help needs none of it

    ask_others = partial(cells.ask_others, read_database_settings(), context)
    return CellAccounts(ask_others=ask_others, read_file=read_text_file)


def make_opener(note: Callable[[TakenExchange], None] | None = None) -> OpenInstitution:
    """What opens accounts; ``note`` is shown each exchange, with all that is secret in it."""
    from pixconnect.adapters.system import SystemClock, SystemEntropy  # noqa: PLC0415  help needs none of it
    from pixconnect.assembly import institutions  # noqa: PLC0415

    return institutions.make_opener(SystemClock(), SystemEntropy(), note)
