"""``pixconnect operator endpoint``: operators' verbs for holders' webhook endpoints."""

from typing import Annotated, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.doors.cli import operating, output, terminal
from pixconnect.doors.cli.operating import HolderId
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.records import parse_instant
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.features.webhooks.rules.endpoint import Endpoint, EndpointStatus
from pixconnect.features.webhooks.service import endpoint as endpoint_usecases
from pixconnect.features.webhooks.service import redelivery as redelivery_usecases

app = App(name="endpoint", help="Manage holders' webhook endpoints.")

EndpointId = Annotated[int, WHOLE_NUMBER, Parameter(name=("--endpoint-id", "--id"), validator=Number(gte=1, lt=2**53))]


@app.command(name="list")
def list_endpoints(
    *, holder_id: HolderId | None = None, status: EndpointStatus | Literal["failing"] | None = None, json: Json = False
) -> None:
    """Print webhook endpoints by id, at most 1000.

    Args:
        holder_id: Only this holder's endpoints.
        status: Only endpoints with this status: `disabled` are those that failed for too long, `failing` active ones
            without a success since `first_failure_at`.
    """
    found = operating.run(endpoint_usecases.list_all_endpoints, holder_id, status)
    shown = [_shown(endpoint) | {"last_error": last_error} for endpoint, last_error in found]
    output.show_list("endpoints", shown, as_json=json)


@app.command
def resume(endpoint_id: EndpointId, *, json: Json = False) -> None:
    """Make an endpoint's pending deliveries due at once, as after an outage; a disabled endpoint becomes active.

    Only its owner can resume an endpoint that the owner has made inactive.

    Args:
        endpoint_id: The endpoint.
    """
    endpoint, was_active = operating.run(endpoint_usecases.resume_endpoint, endpoint_id)
    output.show(_shown(endpoint), as_json=json)
    if was_active:
        terminal.notice(f"the endpoint {endpoint_id} was active already; its pending deliveries are due now")


@app.command
def allow(host: str, *, json: Json = False) -> None:
    """Permit several holders to have webhooks at a host that already gets one holder's key webhooks; this is permanent.

    In live mode that is refused otherwise: a receiver that does not compare keys would credit others' payments to its own.

    Args:
        host: Its name, such as hooks.example.com.
    """
    allowed = operating.run(endpoint_usecases.allow_host, host)
    output.show(dict(host=allowed), as_json=json)


@app.command
def replay(endpoint_id: EndpointId, *, since: str, until: str | None = None, json: Json = False) -> None:
    """Send the events of an interval to an endpoint again, as after an outage; prints how many.

    This is the replay that its owner can request, for key webhooks too: of the endpoint's event types. Events that already
    wait become due at once, and are not counted. If the endpoint is not active, they wait. Receivers recognise repeated events
    by id. If the command is interrupted, run it again: it sends the rest.

    Args:
        endpoint_id: The endpoint.
        since: The first day (in Sao Paulo) or instant included: 2026-11-20 or 2026-11-20T12:00:00-03:00.
        until: The last day or instant included; now if you leave it out.
    """
    initial_at = parse_instant("--since", since)
    final_at = None if until is None else parse_instant("--until", until, is_end=True)
    count = operating.run(redelivery_usecases.redeliver_events_as_operator, endpoint_id, initial_at, final_at)
    output.show(dict(replayed=count), as_json=json)


def _shown(endpoint: Endpoint) -> output.Shown:
    types = {"event_types": " ".join(endpoint.event_types)}
    rest = "status status_reason first_failure_at created_at"
    return output.pick(endpoint, "id holder_id url pix_key") | types | output.pick(endpoint, rest)
