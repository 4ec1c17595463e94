"""What ``pixconnect cell check`` says of accounts: a restore may bring one back that another cell has by now."""

from __future__ import annotations

from collections.abc import Collection

from pixconnect.assembly.institutions import read_text_file
from pixconnect.cli.frame import cells
from pixconnect.config import Settings
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.institutions.account_naming import SharedAccount, find_twice, list_compared


async def look_for_twice(
    home: OperatorContext, settings: Settings, faulty: Collection[str], name: str | None
) -> list[tuple[str, str]]:
    """A cell and a line for each account that is here twice, and for each cell of which nobody knows its accounts.

    Args:
        home: The home cell's.
        settings: Lead to all cells.
        faulty: Cells of which something is said already, such as that they give no answer.
        name: Only what concerns this cell; ``None`` is all.
    """
    answers = await cells.ask_cells(settings, home, list_compared)
    twice = [one for one in find_twice(answers.found, read_text_file) if name is None or name in one.cells]
    unknown = [
        (cell, f"its accounts at institutions were not compared with those of the other cells: {why}")
        for cell, why in answers.missing.items()
        if cell not in faulty
    ]
    return [(one.cells[1], _say(one)) for one in twice] + unknown


def _say(one: SharedAccount) -> str:
    (other_cell, _), (other, name) = one.cells, one.names
    return (
        f"its account {name} is one with {other} in the cell {other_cell}, and both may be credited what comes in ({one.why}): "
        "stop the workers, close the one that should not be there (`pixconnect institution close`), and start them again"
    )
