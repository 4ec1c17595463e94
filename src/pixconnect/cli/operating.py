"""What operators' verbs share: a use case is run on the database, and its result is printed.

A result is lines of ``name: value`` for people, or with ``--json`` one object on standard output for scripts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, TypeVar

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from pixconnect.cli import terminal
from pixconnect.cli.settings import complaining_of_home, read_database_settings
from pixconnect.domain.access import IN_FORCE_AFTER_S
from pixconnect.domain.clock import format_instant
from pixconnect.foundation.logging import set_up_logging
from pixconnect.usecases.operator import OperatorContext

Result = TypeVar("Result")
Item = TypeVar("Item")

Json = Annotated[bool, Parameter(negative=(), show_default=False, help="Print one JSON object.")]
"""``--json``, without a ``--no-json`` beside it."""
HolderId = Annotated[int, Parameter(validator=Number(gte=1, lt=2**53))]
"""An id that could exist."""
TheHolder = Annotated[HolderId, Parameter(help="The holder.")]
Many = Annotated[Sequence[Item], Parameter(negative=(), show_default=False)]
"""An option that may be given several times."""
Shown = dict[str, str | int | bool | datetime | None]
"""What is printed of one thing; ``None`` is left out of lines and of JSON."""


def run(use_case: Callable[[OperatorContext], Awaitable[Result]]) -> Result:
    """Run a use case on the database of a running service, or of ``DATABASE_URL``.

    Raises:
        CommandError: There is no database, or nothing runs on the home that was to have one.
        SettingsError: A setting has a value that it cannot have.
        PixConnectError: The use case refuses.
    """
    settings = read_database_settings()
    # Beside a result only complaints are worth a line.
    set_up_logging(settings.log_format, "warning")
    from pixconnect import assembly  # noqa: PLC0415  it imports everything; help and wrong options need not

    async def do() -> Result:
        async with assembly.open_operator(settings) as operator:
            return await use_case(operator)

    with complaining_of_home(settings):
        return asyncio.run(do())


def wait_until_in_force() -> None:
    """Wait until every process refuses what was just shut out, so that whoever reads our exit status may rely on it.

    Call it last: what was printed, such as a new secret, is not lost where somebody cannot wait.
    """
    time.sleep(IN_FORCE_AFTER_S)


def show(shown: Shown, *, as_json: bool) -> None:
    if as_json:
        terminal.say(msgspec.json.encode(_present(shown)).decode())
        return
    for name, value in _present(shown).items():
        terminal.say(f"{name}: {_text(value)}")


def show_list(name: str, items: Sequence[Shown], *, as_json: bool) -> None:
    """Print several things: in JSON one object with a list under this name."""
    show_lists({name: items}, as_json=as_json)


def show_lists(lists: Mapping[str, Sequence[Shown]], *, as_json: bool) -> None:
    """Print things of several kinds: in JSON one object with a list under each name."""
    if as_json:
        shown = {name: [_present(item) for item in items] for name, items in lists.items()}
        terminal.say(msgspec.json.encode(shown).decode())
        return
    if not any(lists.values()):
        terminal.say("there is none")
    # For people the kinds are not told apart: each item names itself, with an empty line between two.
    for number, item in enumerate(item for items in lists.values() for item in items):
        if number:
            terminal.say("")
        show(item, as_json=False)


def _present(shown: Shown) -> Mapping[str, str | int | bool]:
    return {
        name: format_instant(value) if isinstance(value, datetime) else value
        for name, value in shown.items()
        if value is not None
    }


def _text(value: str | int | bool) -> str:  # noqa: FBT001  it is what is printed, not a switch
    return str(value).lower() if isinstance(value, bool) else str(value)
