"""A periodic task of a worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from pixconnect.kernel.flows.context import Context


class Chore(Struct, frozen=True, kw_only=True):
    name: str
    run: Callable[[Context], Awaitable[float | None]]
    """Returns the seconds until the next round if that is not its interval."""
    every_s: float
