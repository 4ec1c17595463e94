"""Use cases that only read the caller's own data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform.pool import Pool

Asked = ParamSpec("Asked")
Read = TypeVar("Read")


def of_caller(
    read: Callable[Concatenate[Pool, int, Asked], Awaitable[Read]],
) -> Callable[Concatenate[Context, Caller, Asked], Awaitable[Read]]:
    """Make a use case from a store function that takes the pool and the holder first."""

    def read_of_caller(context: Context, caller: Caller, /, *args: Asked.args, **more: Asked.kwargs) -> Awaitable[Read]:
        return read(context.pool, caller.holder_id, *args, **more)

    return read_of_caller
