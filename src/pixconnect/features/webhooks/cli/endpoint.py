"""``pixconnect endpoint``: where webhooks are posted."""

import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Annotated, Final, get_args

from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.doors.cli import output, records, terminal
from pixconnect.doors.cli.failures import CommandError, ExitStatus
from pixconnect.doors.cli.integrator import recipes
from pixconnect.doors.cli.integrator.session import open_sandbox, open_session
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.features.webhooks.rules.endpoint import SECRET_LENGTH, make_standard_secret
from pixconnect.kernel.rules.event import EventName
from pixconnect_client import Delivery, Forbidden

app = App(name="endpoint", help="Where webhooks are posted.")

EndpointId = Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1, lt=2**53), help="The endpoint's id.")]
_COLUMNS = ("id", "status", "url", "event_types")
_SUMMARY = ("id", "event_id", "status", "attempts", "answer", "duration")
_LOOKED_AT: Final = 10
_ASKED_AGAIN_AFTER_S: Final = 0.1


@app.command
def add(
    url: str, *, event: Annotated[Sequence[EventName], Parameter(negative=(), show_default=False)] = (), json: Json = False
) -> None:
    """Register an endpoint for events; prints the secret that signs them, which is shown only once.

    Args:
        url: A public https address; the sandbox also posts to this machine.
        event: Events of this name; repeat the option for each. By default all.
    """
    with open_session() as session:
        records.show(session.client.endpoints.create(url, event or get_args(EventName)), as_json=json)


@app.command(name="list")
def list_endpoints(*, json: Json = False) -> None:
    """Print the endpoints."""
    with open_session() as session:
        records.show_items("endpoints", [*session.client.endpoints.list()], _COLUMNS, as_json=json)


@app.command
def show(endpoint_id: EndpointId, *, json: Json = False) -> None:
    """Print an endpoint, and the results of its newest deliveries."""
    with open_session() as session:
        found = session.client.endpoints.get(endpoint_id)
        newest = session.client.deliveries.list(endpoint_id, page_size=_LOOKED_AT)
        deliveries = [_summarise(delivery) for delivery in islice(newest, _LOOKED_AT)]
    if json:
        output.show_json({**records.shown(found), "deliveries": deliveries})
        return
    output.show(records.shown(found), as_json=False)
    terminal.print_line("")
    output.show_list("deliveries", deliveries, as_json=False, columns=_SUMMARY)


@app.command
def rotate(endpoint_id: EndpointId, *, json: Json = False) -> None:
    """Replace an endpoint's secret; prints the new one. For a day webhooks are signed by both."""
    secret = make_standard_secret(secrets.token_bytes(SECRET_LENGTH))
    with open_session() as session:
        changed = session.client.endpoints.change(endpoint_id, secret=secret)
    output.show({**records.shown(changed), "secret": secret}, as_json=json)


@app.command
def pause(endpoint_id: EndpointId, *, json: Json = False) -> None:
    """Stop posting to an endpoint; after the pause, `endpoint replay` sends the events of it."""
    _set_status(endpoint_id, "inactive", as_json=json)


@app.command
def resume(endpoint_id: EndpointId, *, json: Json = False) -> None:
    """Make a paused or disabled endpoint active; its pending deliveries go out at once."""
    _set_status(endpoint_id, "active", as_json=json)


def _set_status(endpoint_id: int, status: str, *, as_json: bool) -> None:
    before = None
    with open_session() as session:
        # A client may change endpoints and not read them.
        with suppress(Forbidden):
            before = session.client.endpoints.get(endpoint_id).status
        output.show(records.shown(session.client.endpoints.change(endpoint_id, status=status)), as_json=as_json)
    if before == status:
        terminal.notice(f"the endpoint {endpoint_id} was {status} already: nothing is changed")


@app.command
def replay(endpoint_id: EndpointId, *, since: str, until: str | None = None, json: Json = False) -> None:
    """Send the events of an interval to an endpoint again; prints how many. Receivers recognise them by id.

    Args:
        since: The first day (in Sao Paulo) or instant included: 2026-11-20 or 2026-11-20T12:00:00-03:00.
        until: The last day or instant included; now if you leave it out.
    """
    first_at = records.parse_instant("--since", since)
    last_at = None if until is None else records.parse_instant("--until", until, is_end=True)
    with open_session() as session:
        last_at = last_at or session.read_now()
        replayed = session.client.endpoints.replay(endpoint_id, initial_date=first_at, final_date=last_at)
    output.show(dict(replayed=replayed.replayed), as_json=json)


@app.command
def remove(endpoint_id: EndpointId, *, json: Json = False) -> None:
    """Remove an endpoint, so that it receives nothing more."""
    with open_session() as session:
        removed = session.client.endpoints.delete(endpoint_id)
    output.show({**records.shown(removed), "status": "removed"}, as_json=json)


@app.command(name="test")
def try_out(endpoint_id: EndpointId, *, key: str | None = None, timeout_s: float = 30, json: Json = False) -> None:
    """Cause an event in the sandbox that the endpoint subscribes to, and print the receiver's answer.

    Args:
        key: Your Pix key that is paid; by default one of the profile's or the demonstration's.
        timeout_s: Give up after so many seconds.
    """
    with open_sandbox() as session:
        client = session.client
        endpoint = client.endpoints.get(endpoint_id)
        if endpoint.status != "active":
            remedy = f"pixconnect endpoint resume {endpoint_id} makes it active"
            raise CommandError(f"the endpoint {endpoint_id} is {endpoint.status}: nothing is posted to it; {remedy}")
        # The clock may have been set back since: then others' deliveries are newer.
        now, around = session.read_now(), timedelta(seconds=60 + min(timeout_s, 600))
        find = partial(client.deliveries.list, endpoint_id, initial_date=now - around, final_date=now + around)
        before = {delivery.id for delivery in find()}
        # Any of its events: the first of the specification need the least.
        event = next(name for name in get_args(EventName) if name in endpoint.event_types)
        recipes.follow(event, recipes.Chosen(client=client, key=session.own_key(key)))
        deadline_s = time.monotonic() + timeout_s
        # The newest since then that has a result.
        while not (tried := next((each for each in find() if each.id not in before and each.attempts), None)):
            if time.monotonic() >= deadline_s:
                break
            time.sleep(_ASKED_AGAIN_AFTER_S)
    if tried is None:
        raise CommandError(f"the service posted nothing to it within {timeout_s:g} s", status=ExitStatus.ENDED_BADLY)
    output.show(_summarise(tried), as_json=json)
    if tried.status != "delivered":
        raise CommandError(f"{endpoint.url} did not accept it", status=ExitStatus.ENDED_BADLY)


def _summarise(delivery: Delivery) -> output.Shown:
    last = delivery.attempts[-1] if delivery.attempts else None
    return {
        "id": delivery.id,
        "event_id": delivery.event_id,
        "status": delivery.status.value,
        "attempts": len(delivery.attempts),
        "answer": last and (last.status_code or last.error),
        "duration": last and last.duration,
    }
