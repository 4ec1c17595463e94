"""What becomes due by the service's time: the rows that the sandbox's clock stops at and moves back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import LiteralString, TypeAlias

from msgspec import Struct

from pixconnect.platform.pool import Connection

MoveBack: TypeAlias = Callable[[Connection, datetime, timedelta], Awaitable[object]]
"""Adjusts rows once the clock was moved back to an instant, by so much."""


class Deadline(Struct, frozen=True, kw_only=True):
    """What becomes due in the rows of one feature."""

    first: LiteralString | None = None
    """Selects the earliest open instant, or null."""
    last: LiteralString | None = None
    """Selects the latest open instant up to ``$1``, or null."""
    is_undone: LiteralString | None = None
    """Selects whether something is to be done at once that has no instant."""
    move_back: MoveBack | None = None
