"""Events as the service keeps them: the newest first, each as its webhook would be posted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import count
from typing import Any, Final

from pixconnect.cli.frame.exit_status import ExitStatus
from pixconnect.cli.frame.failures import CommandError
from pixconnect_client import Client

FoundEvent = dict[str, Any]
"""The fields of a webhook's body in their order: a receiver verifies the signature over exactly these octets."""

_PAGE_SIZE: Final = 100
_SEARCHED_MAX: Final = 10_000
_ASKED_AGAIN_AFTER_S: Final = 0.2


def list_events(client: Client, since: datetime | None = None, until: datetime | None = None) -> Iterator[FoundEvent]:
    """All events of that time, the newest first."""
    for page in count(1):
        query = {"page": page, "page_size": _PAGE_SIZE, "initial_date": since, "final_date": until}
        # Not by its typed operation, which would write instants in another way than they came.
        found: list[FoundEvent] = client.request("GET", "/v1/webhook/events", query=query)
        yield from found
        if len(found) < _PAGE_SIZE:
            return


def find_recent_event(client: Client, event_id: int) -> FoundEvent:
    for number, event in enumerate(list_events(client)):
        if event["id"] == event_id:
            return event
        if number == _SEARCHED_MAX:
            break
    raise CommandError(f"there is no event {event_id} among the newest {_SEARCHED_MAX} of this holder")


def wait_for_event(
    client: Client, since: datetime, is_meant: Callable[[FoundEvent], bool], timeout_s: float
) -> FoundEvent:
    """Wait until something has happened."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        for event in list_events(client, since):
            if is_meant(event):
                return event
        if time.monotonic() >= deadline_s:
            raise CommandError(
                f"it did not happen within {timeout_s:g} s: rules may be in its way (`pixconnect faults list`)",
                status=ExitStatus.ENDED_BADLY,
            )
        time.sleep(_ASKED_AGAIN_AFTER_S)
