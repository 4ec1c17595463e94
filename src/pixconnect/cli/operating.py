"""What the operator's verbs share: a way to the database, and how results are printed.

A result is lines of ``name: value`` for people, or with ``--json`` one object on standard output for scripts.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number
from msgspec import Struct

from pixconnect.adapters.secret_box import AesSecretBox, read_secret_key
from pixconnect.adapters.system import SystemClock, SystemEntropy
from pixconnect.cli import terminal
from pixconnect.cli.failures import CommandError
from pixconnect.cli.settings import read_settings
from pixconnect.config import Settings
from pixconnect.domain.clock import format_instant
from pixconnect.foundation.logging import set_up_logging
from pixconnect.foundation.pool import open_pool
from pixconnect.usecases.context import Policy

if TYPE_CHECKING:
    from pixconnect.foundation.pool import Pool
    from pixconnect.usecases.operator import OperatorContext

Result = TypeVar("Result")
Item = TypeVar("Item")

Json = Annotated[bool, Parameter(negative=(), show_default=False)]
"""``--json``, without a ``--no-json`` beside it."""
HolderId = Annotated[int, Parameter(validator=Number(gte=1, lt=2**53))]
"""An id that could exist."""
Many = Annotated[Sequence[Item], Parameter(negative=(), show_default=False)]
"""An option that may be given several times."""
Shown = dict[str, str | int | bool | datetime | None]
"""What is printed of one thing; what has no value is left out of lines and of JSON."""


class Operator(Struct, frozen=True, kw_only=True):
    """An ``OperatorContext`` of the command line's own.

    Attributes:
        pool: Connections as ``pixconnect_service``.
        clock: Time.
        entropy: Chance.
        policy: The operator's rules.
        secret_box: Seals what is secret at rest.
    """

    pool: "Pool"
    clock: SystemClock
    entropy: SystemEntropy
    policy: Policy
    secret_box: AesSecretBox


def run(use_case: "Callable[[OperatorContext], Awaitable[Result]]") -> Result:
    """Do one thing with the database of a running service, or of ``DATABASE_URL``.

    Raises:
        CommandError: There is no database.
        SettingsError: A setting cannot be what it says.
        PixConnectError: The use case refuses.
    """
    settings = read_settings()
    set_up_logging(settings.log_format, "warning")

    async def do() -> Result:
        async with _open_operator(settings) as operator:
            return await use_case(operator)

    return asyncio.run(do())


def show(shown: Shown, *, as_json: bool) -> None:
    """Print one thing."""
    if as_json:
        terminal.say(msgspec.json.encode(_present(shown)).decode())
        return
    for name, value in _present(shown).items():
        terminal.say(f"{name}: {_text(value)}")


def show_list(name: str, items: Sequence[Shown], *, as_json: bool) -> None:
    """Print several things: in JSON one object with a list under this name."""
    if as_json:
        terminal.say(msgspec.json.encode({name: [_present(item) for item in items]}).decode())
        return
    for number, item in enumerate(items):
        if number:
            terminal.say("")
        show(item, as_json=False)


@asynccontextmanager
async def _open_operator(settings: Settings) -> AsyncGenerator[Operator]:
    if not settings.database_url:
        raise CommandError(
            "there is no database: set DATABASE_URL, or PIXCONNECT_HOME to the home of a running `pixconnect run`"
        )
    from pixconnect import assembly  # noqa: PLC0415  it imports everything; help and wrong options need not

    entropy = SystemEntropy()
    key = read_secret_key(settings.secret_key, settings.home_path)
    pool = await open_pool(
        settings.database_url, role="pixconnect_service", schema="pixconnect", connections_max=1, name="pixconnect cli"
    )
    try:
        yield Operator(
            pool=pool,
            clock=SystemClock(),
            entropy=entropy,
            policy=assembly.make_policy(settings),
            secret_box=AesSecretBox(key, entropy),
        )
    finally:
        await pool.close()


def _present(shown: Shown) -> Mapping[str, str | int | bool]:
    return {
        name: format_instant(value) if isinstance(value, datetime) else value
        for name, value in shown.items()
        if value is not None
    }


def _text(value: str | int | bool) -> str:  # noqa: FBT001  it is what is printed, not a switch
    return str(value).lower() if isinstance(value, bool) else str(value)
