"""A readable line for each event that was written, on the terminal of a sandbox."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from pixconnect.domain.frame.event import Event
from pixconnect.domain.frame.money import format_reais
from pixconnect.foundation import logging as our_logging


def tell_events(events: Iterable[Event]) -> None:
    for event in events:
        level = logging.WARNING if event.name.endswith(".error") else logging.INFO
        our_logging.tell(f"event  {describe_event(event.body)}", level=level)


def describe_event(body: str) -> str:
    """The name of an event, and of the thing that it concerns: the amount and its owner's name for it."""
    event: dict[str, Any] = msgspec.json.decode(body)
    payload = event.get("payload", {})
    words = [str(event.get("name", ""))]
    if "amount" in payload:
        words.append(f"R$ {format_reais(payload['amount'])}")
    named = payload.get("external_id") or payload.get("end_to_end_id") or payload.get("return_identification")
    return "  ".join([*words, *([str(named)] if named else [])])
