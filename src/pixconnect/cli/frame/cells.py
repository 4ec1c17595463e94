"""One question of an operator's verb to all cells: each answers for its own holders, and one that does not is named."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from pixconnect.cli.frame import failures
from pixconnect.cli.frame.exit_status import ExitStatus
from pixconnect.cli.frame.failures import CommandError
from pixconnect.config import Settings
from pixconnect.domain.frame.errors import PixConnectError, ServiceUnavailable
from pixconnect.domain.running.known_cell import HOME_NAME, KnownCell
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.running.known_cells import list_cells

Result = TypeVar("Result")


class CellAnswers(Struct, Generic[Result], frozen=True, kw_only=True):
    found: Sequence[tuple[str, Result]]
    """By the cells' names, the home cell's first, then by number."""
    missing: Mapping[str, str]
    """The cells that do not answer, and why."""

    def refuse_missing(self) -> None:
        """Raise ``CommandError`` for what is missing, after all else was printed."""
        if self.missing:
            said = "; ".join(f"cell {name}: {why}" for name, why in self.missing.items())
            raise CommandError(f"what these have is missing: {said}", status=ExitStatus.UNAVAILABLE)


async def list_open_cells(home: OperatorContext) -> list[KnownCell]:
    """Those beside the home cell; one whose tables are being made has nothing yet."""
    return [known for known in await list_cells(home) if known.state == "OPEN"]


async def ask_cells(
    settings: Settings, home: OperatorContext, ask: Callable[[OperatorContext], Awaitable[Result]]
) -> CellAnswers[Result]:
    """Ask the home cell, then all others at once; what the home cell raises is raised."""
    from pixconnect.assembly import operators  # noqa: PLC0415  it imports everything; help and wrong options need not
    from pixconnect.assembly.cell_settings import settings_of  # noqa: PLC0415

    async def ask_there(known: KnownCell) -> Result:
        async with operators.open_operator(settings_of(settings, known), known=known) as there:
            return await ask(there)

    found = [(HOME_NAME, await ask(home))]
    missing = dict[str, str]()
    others = await list_open_cells(home)
    for known, answer in zip(
        others, await asyncio.gather(*map(ask_there, others), return_exceptions=True), strict=True
    ):
        if isinstance(answer, BaseException):
            missing[known.name] = say_why_missing(answer)
        else:
            found.append((known.name, answer))
    return CellAnswers(found=found, missing=missing)


def say_why_missing(error: BaseException) -> str:
    """Why a cell does not answer; what it refuses, and a defect of ours, is raised."""
    is_refusal = isinstance(error, PixConnectError) and not isinstance(error, ServiceUnavailable)
    why = None if is_refusal else failures.explain(error)
    if why is None:
        raise error
    return why
