"""``pixconnect events``: the stored events, the newest first, each as its webhook would be posted."""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import count, islice
from typing import Annotated, Any, Final

from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.doors.cli import output, records
from pixconnect.doors.cli.failures import CommandError, ExitStatus
from pixconnect.doors.cli.integrator.charge import find as find_charge
from pixconnect.doors.cli.integrator.session import open_session
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.records import MONEY, Limit
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.features.webhooks.cli import listeners
from pixconnect.kernel.rules.event import EventName
from pixconnect_client import Client

FoundEvent = dict[str, Any]
"""The fields of a webhook's body in their order: a receiver verifies the signature over exactly these octets."""

_PAGE_SIZE: Final = 100
_SEARCHED_MAX: Final = 10_000
_ASKED_AGAIN_AFTER_S: Final = 0.2


def list_events(client: Client, since: datetime | None = None, until: datetime | None = None) -> Iterator[FoundEvent]:
    """List all events of an interval, newest first."""
    for page in count(1):
        query = {"page": page, "page_size": _PAGE_SIZE, "initial_date": since, "final_date": until}
        # Not by its typed operation, which would reformat instants.
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


def wait_for_event(client: Client, since: datetime, is_meant: Callable[[FoundEvent], bool], timeout_s: float) -> FoundEvent:
    """Wait for an event."""
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


app = App(name="events", help="List, show and resend events.")

EndpointId = Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1, lt=2**53))]
EventId = Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1, lt=2**53), help="The event's id.")]
_COLUMNS = ("id", "create_timestamp", "name", "payload.id", "payload.external_id", "payload.amount")
_MONEY = tuple(f"payload.{name}" for name in MONEY)


@app.command(name="list")
def list_(
    *,
    charge: str | None = None,
    name: Annotated[Sequence[EventName], Parameter(negative=(), show_default=False)] = (),
    since: str | None = None,
    until: str | None = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """Print events, newest first, with or without a webhook.

    Args:
        charge: Only those of the charge with this id, external_id or txid, among the newest 10000.
        name: Only those of this name; repeat the option for each.
        since: The first day (2026-11-20, in Sao Paulo) or instant included.
        until: The last day or instant included.
    """
    first, last = records.parse_span(since, until)
    with open_session() as session:
        events = (event for event in list_events(session.client, first, last) if not name or event["name"] in name)
        if charge is not None:
            txid = find_charge(session.client, charge, is_external_id=False).transaction_identification
            newest = islice(events, _SEARCHED_MAX)
            events = (event for event in newest if event["payload"].get("transaction_identification") == txid)
        found = [*islice(events, limit)]
    output.show_list("events", found, as_json=json, columns=_COLUMNS, money=_MONEY)


@app.command
def show(event_id: EventId, *, json: Json = False) -> None:
    """Print one event, in the form of its webhook."""
    with open_session() as session:
        output.show(find_recent_event(session.client, event_id), as_json=json, money=_MONEY)


@app.command
def resend(event_id: EventId, *, endpoint_id: EndpointId | None = None, json: Json = False) -> None:
    """Send an event again: to each of its endpoints, and to each `pixconnect listen` of this user.

    Args:
        endpoint_id: To this endpoint only.
    """
    with open_session() as session:
        event = find_recent_event(session.client, event_id)
        sent = _redeliver(session.client, event, endpoint_id)
    if endpoint_id is None:
        resent = listeners.resend(session.credentials, event)
        sent += [{"to": f"listen {name}", "answer": answer} for name, answer in resent]
    if not sent:
        # An endpoint that was off, or had not subscribed, has no delivery of it.
        at, to = event["create_timestamp"], f"endpoint {endpoint_id}" if endpoint_id else "any endpoint"
        raise CommandError(
            f"the event {event_id} was not sent to {to} when it happened"
            f"{'' if endpoint_id else ', and no `pixconnect listen` runs'}: "
            f"`pixconnect endpoint replay {endpoint_id or 'ID'} --since {at} --until {at}` sends it to an endpoint of its type"
        )
    output.show_list("sent", sent, as_json=json, columns=("to", "delivery_id", "answer"))


def _redeliver(client: Client, event: FoundEvent, endpoint_id: int | None) -> list[output.Shown]:
    at = records.parse_instant("create_timestamp", event["create_timestamp"])
    sent: list[output.Shown] = []
    for endpoint in client.endpoints.list():
        if endpoint_id not in {None, endpoint.id}:
            continue
        # An event's deliveries are made with it.
        for delivery in client.deliveries.list(endpoint.id, initial_date=at, final_date=at):
            if delivery.event_id == event["id"]:
                again = client.deliveries.redeliver(delivery.id)
                answer = "is on its way" if endpoint.status == "active" else f"waits: it is {endpoint.status}"
                sent.append(dict(to=f"endpoint {endpoint.id}", delivery_id=again.id, answer=answer))
    return sent
