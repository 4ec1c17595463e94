"""Deadlines on service time: the rows at which the sandbox's clock stops, and which it moves back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import LiteralString, TypeAlias

from msgspec import Struct

from pixconnect.platform.pool import Connection

MoveBack: TypeAlias = Callable[[Connection, datetime, timedelta], Awaitable[object]]
"""Adjusts rows after the clock was moved back to an instant, by a period."""


class Deadline(Struct, frozen=True, kw_only=True):
    """The deadlines in one feature's rows."""

    first: LiteralString | None = None
    """Selects the earliest open instant, or null."""
    last: LiteralString | None = None
    """Selects the latest open instant up to ``$1``, or null."""
    is_undone: LiteralString | None = None
    """Selects whether undated work is pending."""
    move_back: MoveBack | None = None
