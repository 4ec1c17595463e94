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
from pixconnect.domain.frame.cell import HOME
from pixconnect.domain.frame.errors import NotFound, PixConnectError, ServiceUnavailable
from pixconnect.domain.running.known_cell import HOME_NAME, KnownCell
from pixconnect.store.running import cell as cell_store
from pixconnect.usecases.frame.operator import OperatorContext

Result = TypeVar("Result")


class CellAnswers(Struct, Generic[Result], frozen=True, kw_only=True):
    found: Sequence[tuple[str, Result]]
    """By the cells' names, the home cell's first, then by number."""
    missing: Mapping[str, str]
    """The cells that do not answer, and why."""

    is_alone: bool
    """Whether there is the home cell only."""

    @property
    def results(self) -> list[Result]:
        return [result for _, result in self.found]

    def name(self, cell: str) -> dict[str, str]:
        """What a printed row says of its cell: nothing where there is only one."""
        return {} if self.is_alone else {"cell": cell}

    def refuse_missing(self, what: str = "what these have is missing") -> None:
        """Raise ``CommandError`` for the cells that do not answer; call it after all else was printed."""
        if self.missing:
            said = "; ".join(f"cell {name}: {why}" for name, why in self.missing.items())
            raise CommandError(f"{what}: {said}", status=ExitStatus.UNAVAILABLE)

    def refuse_undone(self) -> None:
        """As ``refuse_missing``, where something was to be done in each."""
        self.refuse_missing("not done in these, so run it again")


class _Silence(Struct, frozen=True):
    """A cell has raised this. What it answers may be an error too, which is no silence."""

    error: Exception


async def ask_cells(
    settings: Settings,
    home: OperatorContext,
    ask: Callable[[OperatorContext], Awaitable[Result]],
    *,
    compares_key: bool = True,
) -> CellAnswers[Result]:
    """Ask the home cell, then all others at once; what the home cell raises is raised, and so is what any of them refuses.

    Args:
        compares_key: As for ``operating.run``.
    """
    from pixconnect.assembly import operators  # noqa: PLC0415  it imports everything; help and wrong options need not
    from pixconnect.assembly.cell_settings import settings_of  # noqa: PLC0415

    async def ask_there(known: KnownCell) -> Result | _Silence:
        try:
            async with operators.open_operator(
                settings_of(settings, known), known=known, compares_key=compares_key
            ) as operator:
                return await ask(operator)
        except Exception as error:  # noqa: BLE001  what is no silence is raised again
            return _Silence(error=error)

    found = [(HOME_NAME, await ask(home))]
    missing = dict[str, str]()
    others = await cell_store.list_open_cells(home.pool)
    for known, answer in zip(others, await asyncio.gather(*map(ask_there, others)), strict=True):
        if isinstance(answer, _Silence):
            missing[known.name] = say_why_missing(answer.error)
        else:
            found.append((known.name, answer))
    return CellAnswers(found=found, missing=missing, is_alone=not others)


async def ask_others(
    settings: Settings, context: OperatorContext, ask: Callable[[OperatorContext], Awaitable[None]]
) -> dict[str, str]:
    """Ask every cell but the context's, one after the other; answers which do not answer, and why; raises what one refuses."""
    from pixconnect.assembly import operators  # noqa: PLC0415  as in ``ask_cells``
    from pixconnect.assembly.cell_settings import settings_of  # noqa: PLC0415

    own, missing = context.policy.cell, dict[str, str]()
    others = await cell_store.list_open_cells(context.home or context.pool)
    for known in (None, *others):
        name, number = (HOME_NAME, HOME) if known is None else (known.name, known.number)
        if number == own:
            continue
        reached = settings if known is None else settings_of(settings, known)
        try:
            async with operators.open_operator(reached, known=known) as operator:
                await ask(operator)
        except Exception as error:  # noqa: BLE001  what is no silence is raised again
            missing[name] = say_why_missing(error)
    return missing


def drop_unknowing(answers: CellAnswers[Result | NotFound]) -> CellAnswers[Result]:
    """The answers of the cells that know what was asked for.

    Raises:
        NotFound: All have answered, and none knows it.
        CommandError: None that has answered knows it, and one has not.
    """
    found = [(name, answer) for name, answer in answers.found if not isinstance(answer, NotFound)]
    if not found:
        answers.refuse_missing()
        raise next(answer for answer in answers.results if isinstance(answer, NotFound))
    return CellAnswers(found=found, missing=answers.missing, is_alone=answers.is_alone)


def say_why_missing(error: BaseException) -> str:
    """Why a cell does not answer; what it refuses, and a defect of ours, is raised."""
    is_refusal = isinstance(error, PixConnectError) and not isinstance(error, ServiceUnavailable)
    why = None if is_refusal else failures.explain(error, failures.CELL_ADDRESS)
    if why is None:
        raise error
    return why
