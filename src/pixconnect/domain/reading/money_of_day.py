"""What a holder has, and what the day has brought and taken so far."""

from __future__ import annotations

from msgspec import Struct


class HolderMoney(Struct, frozen=True, kw_only=True):
    holder_id: int
    available_cents: int
    reserved_cents: int
    blocked_cents: int
    in_cents: int
    """What raised current funds since midnight in Sao Paulo, whatever it was."""
    out_cents: int
    is_cut: bool
    """Whether there were more lines than are added up: what came in and left is of the newest alone."""
