"""How long an order's name is good: the network takes it only close to the minute that stands in it."""

from __future__ import annotations

from datetime import datetime, timedelta

from pixconnect.domain.frame.identifiers import minute_of_name
from pixconnect.domain.rules.register import ARRANGEMENT


def find_name_window(named_at: datetime) -> timedelta:
    """How far the network's time may be from the minute in a name."""
    return ARRANGEMENT.find("name_window", named_at).duration


def is_outside_window(text: str, now: datetime) -> bool:
    """Whether the network refuses an order of this name because of its time (FF08)."""
    instant = minute_of_name(text)
    return instant is not None and abs(now - instant) > find_name_window(instant)
