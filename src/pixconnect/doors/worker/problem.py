"""Problems for a person: a feature finds each, and a health check reports it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from pixconnect.kernel.flows.context import Context
from pixconnect.platform.base import errors


class HealthCheck(NamedTuple):
    """A check that every process runs; it raises ``ServiceUnavailable``."""

    name: str
    check: Callable[[Context], Awaitable[None]]


class Problem(Struct, frozen=True, kw_only=True):
    check: str
    """The name of the health check that reports it: ``rail``, or one that only live mode runs."""
    find: Callable[[Context], Awaitable[str | None]]
    """Describes the problem for the public; ``None`` if there is none."""


def counted(check: str, count: Callable[[Context], Awaitable[int]], one: str, many: str, rest: str) -> Problem:
    """Describe a problem with its number of items: the number, ``one`` or ``many``, and ``rest``."""

    async def find(context: Context) -> str | None:
        found = await count(context)
        return f"{found} {one if found == 1 else many} {rest}" if found else None

    return Problem(check=check, find=find)


async def find_problems(context: Context, problems: Sequence[Problem]) -> list[str]:
    return [said for problem in problems if (said := await problem.find(context)) is not None]


async def check_problems(context: Context, problems: Sequence[Problem]) -> None:
    """Raise ``ServiceUnavailable`` with all of them."""
    if found := await find_problems(context, problems):
        raise errors.ServiceUnavailable("; ".join(found))
