"""Runs operators' use cases on the database and returns their results."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Concatenate, ParamSpec, TypeVar

from cyclopts import Parameter
from cyclopts.validators import Number

from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.settings import complaining_of_home, read_database_settings
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.kernel.flows.context import Operator, Writer
from pixconnect.kernel.rules.access import IN_FORCE_AFTER_S
from pixconnect.platform.config import Settings
from pixconnect.platform.environment import read_named_file
from pixconnect.platform.logging import set_up_logging

Given = ParamSpec("Given")
Result = TypeVar("Result")
Item = TypeVar("Item")

HolderId = Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1, lt=2**53))]  # an id that could exist
TheHolder = Annotated[HolderId, Parameter(help="The holder.")]
Many = Annotated[Sequence[Item], Parameter(negative=(), show_default=False)]  # an option that the operator may repeat


def run(
    use_case: Callable[Concatenate[Operator, Given], Awaitable[Result]], *args: Given.args, **kwargs: Given.kwargs
) -> Result:
    """Run a use case on the database of a running service, or of ``DATABASE_URL``.

    Raises:
        CommandError: There is no database, or no service runs on the home that was to have one.
        SettingsError: A setting has an invalid value.
        SealBroken: The secret key is another one.
        PixConnectError: The use case refuses.
    """
    return _run(lambda operator: use_case(operator, *args, **kwargs), compares_key=True)


def run_with_other_key(use_case: Callable[[Operator], Awaitable[Result]]) -> Result:
    """As ``run``, for a use case that introduces another secret key than that of the tables."""
    return _run(use_case, compares_key=False)


def _run(use_case: Callable[[Operator], Awaitable[Result]], *, compares_key: bool) -> Result:
    async def do(settings: Settings) -> Result:
        from pixconnect.assembly import operators  # noqa: PLC0415  it imports everything; help and wrong options need not

        async with operators.open_operator(settings, compares_key=compares_key) as operator:
            return await use_case(operator)

    return run_with_settings(do)


def run_with_settings(do: Callable[[Settings], Coroutine[object, object, Result]]) -> Result:
    """Run a coroutine that opens a database by itself; raises as ``run``."""
    settings = read_database_settings()
    # Beside a result only errors are worth a line.
    set_up_logging(settings.log_format, "warning")
    with complaining_of_home(settings):
        return asyncio.run(do(settings))


def run_writing(
    use_case: Callable[Concatenate[Operator, Writer, Given], Awaitable[Result]], *args: Given.args, **kwargs: Given.kwargs
) -> Result:
    """As ``run``, for a use case that also writes money, through queues as the service does."""

    async def do(settings: Settings) -> Result:
        from pixconnect.assembly import operators  # noqa: PLC0415  as in ``run``

        async with operators.open_operator_who_writes(settings) as (operator, writes):
            return await use_case(operator, writes, *args, **kwargs)

    return run_with_settings(do)


def wait_until_in_force() -> None:
    """Wait until every process refuses the revoked access, so that callers can rely on our exit status.

    Call it last: the verb has then printed its result, such as a new secret, even if the operator interrupts the wait.
    """
    time.sleep(IN_FORCE_AFTER_S)


def load_file(file: Path, length_max: int) -> bytes:
    """Read a regular file of a limited length.

    Raises:
        CommandError: It cannot be read, is something else, or is longer.
    """
    try:
        return read_named_file(file, length_max)
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from error
