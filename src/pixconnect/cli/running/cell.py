"""``pixconnect cell``: the databases beside the home cell's, over which holders are spread."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import Annotated, Final, TypeVar

from cyclopts import App, Parameter
from msgspec import structs

from pixconnect.assembly import operators
from pixconnect.assembly.cell_settings import settings_of
from pixconnect.cli.frame import operating, output, terminal
from pixconnect.cli.frame.exit_status import ExitStatus
from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.frame.output import Json
from pixconnect.cli.running import cell_accounts, cell_moving, cell_opening
from pixconnect.config import Settings
from pixconnect.domain.frame.cell import HOME
from pixconnect.domain.running.known_cell import HOME_NAME, SEEN_WITHIN_S, KnownCell, parse_address, parse_name
from pixconnect.usecases.frame import cell_figures
from pixconnect.usecases.frame.operator import Operator
from pixconnect.usecases.running import cell_check, known_cells
from pixconnect.usecases.running.cell_check import CellLook

Result = TypeVar("Result")

# One holds the lock of whoever adds a cell, while the other reads and writes.
_CONNECTIONS_MAX: Final = 2
_HOME: Final[output.Shown] = {"number": HOME, "name": HOME_NAME, "state": "OPEN"}

app = App(
    name="cell",
    help="Databases beside the home cell's, over which holders are spread.",
)

Name = Annotated[str, Parameter(help="The cell.")]


@app.command
def add(name: Name, *, database_url: str, json: Json = False) -> None:
    """Make a cell of an empty database, in which holders and their accounts at institutions are opened from then on.

    Its tables are made, say their number for ever, and are kept in step by `migrate` from then on. Every process logs in there
    as it does to the home cell, so its server must have the same logins. Run it again after whatever kept it from its end.

    Args:
        database_url: Where that database is, as `postgresql://HOST:PORT/DATABASE`, without user and password.
    """
    wanted = _parsed("NAME", parse_name, name), _parsed("--database-url", parse_address, database_url)
    known = _run(lambda operator, settings: cell_opening.add_cell(operator, settings, *wanted))
    output.show(structs.asdict(known), as_json=json)
    # A worker that does not know it yet would take what is reported of its holders for the home cell's.
    time.sleep(SEEN_WITHIN_S)


@app.command
def move(
    name: Name,
    *,
    to: str | None = None,
    cancel: Annotated[bool, Parameter(negative=())] = False,
    take_over: Annotated[bool, Parameter(negative=())] = False,
    json: Json = False,
) -> None:
    """Move a cell to an empty database while it is served; its holders wait for two seconds at most.

    Run it again after whatever kept it from its end: until it is open there, it is served where it was.

    Args:
        name: The cell; the home cell is moved by a restore.
        to: Where that database is, as `postgresql://HOST:PORT/DATABASE`, without user and password.
        cancel: Take a move back that was begun.
        take_over: Open the copy although the cell's server is lost, once that is fenced: what it had last is forgotten.
    """
    end = cell_moving.choose_end(to, cancels=cancel, takes_over=take_over)

    async def do(operator: Operator, settings: Settings) -> KnownCell:
        with cell_moving.stopped_by_signals():
            return await end(cell_moving.prepare_move(operator, settings), name)

    known = _run(do)
    output.show(structs.asdict(known), as_json=json)


@app.command(name="set")
def set_address(
    name: Name,
    *,
    database_url: str,
    fenced: Annotated[bool, Parameter(negative=())] = False,
    json: Json = False,
) -> None:
    """Say that a cell's database is at another address: restored there, or called otherwise. Nothing is copied.

    It is refused while another database of this cell answers at the former address. Unless the very same server answers at
    both, the services count a loss. Tables of before an upgrade are brought up to date, as `migrate` does.

    Args:
        database_url: Where it is now, as `postgresql://HOST:PORT/DATABASE`, without user and password; `?cluster=NAME` says of
            which cluster its servers are.
        fenced: You have kept a former server that gives no answer from ever giving one again.
    """
    address = _parsed("--database-url", parse_address, database_url)
    known = _run(
        lambda operator, settings: cell_opening.set_address(operator, settings, name, address, is_fenced=fenced)
    )
    output.show(structs.asdict(known), as_json=json)


@app.command(name="list")
def list_cells(*, json: Json = False) -> None:
    """Print all cells, the home cell first."""
    known = operating.run(known_cells.list_cells)
    answers = operating.run_everywhere(cell_figures.read_cell_figures)
    sizes = {name: structs.asdict(size) for name, size in answers.found}
    shown = [row | sizes.get(str(row["name"]), {}) for row in (_HOME, *map(structs.asdict, known))]
    columns = ("number", "name", "state", "address", "octets", "drained_at", "added_at", "other_address")
    output.show_list("cells", shown, as_json=json, columns=columns)
    for name, why in answers.missing.items():
        terminal.notice(f"how much the cell {name} has is not known: {why}")


@app.command
def drain(name: Name, *, cancel: Annotated[bool, Parameter(negative=())] = False, json: Json = False) -> None:
    """Let no holder be opened in a cell any more; those who are there stay, and work as ever.

    Args:
        name: The cell, the home cell too.
        cancel: Let holders be opened there again.
    """
    size = operating.run_in(name, lambda context: cell_figures.drain_cell(context, name, is_over=cancel))
    output.show({"name": name} | structs.asdict(size), as_json=json)


@app.command
def show(name: Name, *, json: Json = False) -> None:
    """Print a cell, and what its database says of itself."""

    async def look(operator: Operator, settings: Settings) -> tuple[KnownCell | None, CellLook]:
        known = await _find(operator, name)
        reached = settings if known is None else settings_of(settings, known)
        with nullcontext() if known is None else known_cells.reaching(known):
            async with cell_opening.connected_as_operator(reached) as connection:
                return known, await cell_check.look_at_cell(connection)

    known, found = _run(look)
    output.show((dict(_HOME) if known is None else structs.asdict(known)) | {"found": _shown(found)}, as_json=json)


async def _find(operator: Operator, name: str) -> KnownCell | None:
    """What the home cell knows of a cell; ``None`` for itself."""
    return None if name == HOME_NAME else await known_cells.read_known_cell(operator, name)


def _shown(found: CellLook) -> output.Shown:
    claim = found.claim
    return structs.asdict(found) | {"claim": None if claim is None else structs.asdict(claim)}


@app.command
def check(name: Name | None = None, *, json: Json = False) -> None:
    """Compare each cell with what the home cell knows of it, and in live mode the accounts at institutions of all cells.

    A line for each thing that is wrong says what to do; the exit status is 6 then.

    Args:
        name: This cell only; otherwise all, the home cell too.
    """

    async def look(operator: Operator, settings: Settings) -> Sequence[output.Shown]:
        every = [None, *await known_cells.list_cells(operator)] if name is None else [await _find(operator, name)]
        faults = [
            (HOME_NAME if known is None else known.name, line)
            for known in every
            for line in await cell_opening.look_for_faults(operator, settings, known)
        ]
        if settings.mode == "live":
            faults += await cell_accounts.look_for_twice(operator, settings, {cell for cell, _ in faults}, name)
        return [{"cell": cell, "finding": line} for cell, line in faults]

    found = _run(look)
    if json:
        output.show_list("findings", found, as_json=True)
    else:
        for each in found:
            terminal.say(f"{each['cell']}: {each['finding']}")
        if not found:
            terminal.say("all is well")
    if found:
        raise CommandError(f"things to mend: {len(found)}", status=ExitStatus.FOUND)


def _parsed(word: str, parse: Callable[[str], str], text: str) -> str:
    try:
        return parse(text)
    except ValueError as error:
        raise CommandError(f"{word}: {error}") from None


def _run(do: Callable[[Operator, Settings], Awaitable[Result]]) -> Result:
    """As ``operating.run``, for what reaches other cells than the home cell."""

    async def do_as_operator(settings: Settings) -> Result:
        async with operators.open_operator(settings, connections_max=_CONNECTIONS_MAX) as operator:
            return await do(operator, settings)

    return operating.run_with_settings(do_as_operator)
