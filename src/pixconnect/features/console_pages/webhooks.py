"""Webhooks: events, their deliveries, and the endpoints that receive them."""

from typing import Final, Literal, get_args

import msgspec
from starlette.responses import Response

from pixconnect.doors.console.application import PageRoute
from pixconnect.doors.console.forms import read_field, show_list
from pixconnect.doors.console.visit import Visit
from pixconnect.doors.console.wanted import Wanted, read_instants
from pixconnect.features.finding.service import browse, timeline
from pixconnect.features.webhooks.rules.delivery import DeliveryStatus
from pixconnect.features.webhooks.rules.endpoint import Endpoint, EndpointChange, EndpointRequest
from pixconnect.features.webhooks.service import endpoint, redelivery
from pixconnect.kernel.rules.event import EventName
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO, format_instant

DELIVERY_STATUSES: Final[tuple[str, ...]] = get_args(DeliveryStatus)
EVENT_TYPES: Final[tuple[str, ...]] = get_args(EventName)
_SECRET_LENGTH: Final = 43
_STATUSES: Final = dict[str, Literal["active", "inactive"]](active="active", inactive="inactive")


async def list_events(visit: Visit) -> Response:
    amounts = dict[int, int]()

    async def read(wanted: Wanted, after: str | None) -> object:
        page = await browse.browse_events(visit.context, visit.viewer, wanted, after)
        # An event of a charge has no amount.
        amounts.update(await browse.read_charge_amounts(visit.context, visit.viewer, page.items))
        return page

    return await show_list(visit, "events.html", read, event_types=EVENT_TYPES, amounts=amounts)


async def show_event(visit: Visit) -> Response:
    found = await browse.read_event(visit.context, visit.viewer, visit.path_id())
    # The API lists events and has no single one: list what happened in this very microsecond.
    at = format_instant(found.event.created_at)
    return visit.page(
        "event.html",
        curl=f"curl -s '{visit.parts.api_url}/v1/webhook/events?initial_date={at}&final_date={at}' "
        '-H "Authorization: Bearer $TOKEN"',
        event=found.event,
        deliveries=found.deliveries,
        cli=f"pixconnect events show {found.event.id}",
    )


async def list_deliveries(visit: Visit) -> Response:
    async def read(wanted: Wanted, after: str | None) -> object:
        return await browse.browse_deliveries(visit.context, visit.viewer, wanted, after)

    kinds = dict(statuses=DELIVERY_STATUSES, event_types=EVENT_TYPES)
    return await show_list(visit, "deliveries.html", read, **kinds, now=visit.context.clock.now())


async def show_delivery(visit: Visit) -> Response:
    found = await timeline.read_delivery_view(visit.context, visit.viewer, visit.path_id())
    return visit.page(
        "delivery.html",
        delivery=found.delivery,
        event=found.event,
        endpoint=found.endpoint,
        request_headers=found.headers,
        wait=found.waiting,
        now=visit.context.clock.now(),
        curl=f'curl -s {visit.parts.api_url}/v1/webhook/deliveries/{found.delivery.id} -H "Authorization: Bearer $TOKEN"',
        cli=f"pixconnect events resend {found.delivery.event_id}",
    )


async def redeliver_delivery(visit: Visit) -> Response:
    visit.form()
    visit.viewer.require("webhook.write")
    found = await timeline.read_delivery_view(visit.context, visit.viewer, visit.path_id())
    visit = visit.about(found.delivery.holder_id)
    caller, act = visit.act("delivery resend", f"delivery {found.delivery.id}")
    await redelivery.redeliver(visit.acting, caller, found.delivery.id, act)
    waiting = (await timeline.read_delivery_view(visit.context, visit.viewer, found.delivery.id)).waiting
    is_held_back = waiting is not None and waiting.what == "earlier_event"
    return visit.go(f"/deliveries/{found.delivery.id}", notice="resent_later" if is_held_back else "resent")


async def list_endpoints(visit: Visit) -> Response:
    lines = await browse.list_endpoint_lines(visit.context, visit.viewer)
    return visit.page("endpoints.html", lines=lines, event_types=EVENT_TYPES, now=visit.context.clock.now())


async def add_endpoint(visit: Visit) -> Response:
    form = visit.form()
    visit.viewer.require("webhook.write")
    secret = read_field(form, "secret") or visit.context.entropy.token(_SECRET_LENGTH)
    caller, act = visit.act("endpoint add", f"holder {visit.holder_id}", {"url": read_field(form, "url")})
    types = [each for each in form.getlist("type") if isinstance(each, str)] or EVENT_TYPES
    request = EndpointRequest(url=read_field(form, "url"), secret=secret, event_types=types)
    made = await endpoint.create_endpoint(visit.acting, caller, request, act)
    # The one page that shows a secret, and only as the response to its form: no URL ever leads to it again.
    return visit.page("endpoint_secret.html", endpoint=made, secret=secret)


async def show_endpoint(visit: Visit) -> Response:
    line = await _find_line(visit)
    wanted = Wanted(endpoint_id=line.endpoint.id)
    page = await browse.browse_deliveries(visit.context, visit.viewer, wanted, None, page_size=20)
    only_failed = msgspec.structs.replace(wanted, statuses=("failed",))
    failed = await browse.browse_deliveries(visit.context, visit.viewer, only_failed, None, page_size=20)
    # A disabled endpoint missed what failed before, too.
    since = line.endpoint.first_failure_at or line.state.since
    return visit.page(
        "endpoint.html",
        line=line,
        since=since and f"{since.astimezone(SAO_PAULO):%Y-%m-%dT%H:%M:%S}",
        page=page,
        failed=failed,
        event_types=EVENT_TYPES,
        now=visit.context.clock.now(),
        changes=await timeline.list_acts(visit.acting, line.endpoint, is_operator=visit.who.kind != "holder"),
    )


async def change_endpoint(visit: Visit) -> Response:
    visit, before = await _begin_change(visit)
    form = visit.form()
    change = EndpointChange(
        url=read_field(form, "url") or None,
        event_types=[each for each in form.getlist("type") if isinstance(each, str)] or None,
        status=_STATUSES.get(read_field(form, "status")),
    )
    shown = {name: value for name, value in msgspec.structs.asdict(change).items() if value is not None}
    # Events of the time while it is off made no deliveries.
    since = f">={text}" if (text := read_field(form, "since")) and change.status == "active" else ""
    initial_at, _ = read_instants(since, visit.context.clock.now()) if since else (None, None)
    caller, act = visit.act(
        "endpoint set", f"endpoint {before.id}", shown | ({"replay_since": initial_at} if initial_at else {})
    )
    await endpoint.change_endpoint(visit.acting, caller, before.id, change, act)
    if initial_at:
        await redelivery.redeliver_events(visit.acting, caller, before.id, initial_at, visit.context.clock.now())
    return visit.go(f"/endpoints/{before.id}", notice="saved")


async def replay_events(visit: Visit) -> Response:
    visit, before = await _begin_change(visit)
    now = visit.context.clock.now()
    initial_at, _ = read_instants(f">={read_field(visit.form(), 'since')}", now)
    if initial_at is None or initial_at > now:
        raise errors.BadRequest("since: must be an instant of the past")
    caller, act = visit.act("endpoint replay", f"endpoint {before.id}", {"since": initial_at, "until": now})
    await redelivery.redeliver_events(visit.acting, caller, before.id, initial_at, now, act)
    return visit.go(f"/endpoints/{before.id}", notice="replayed")


async def send_waiting(visit: Visit) -> Response:
    visit, before = await _begin_change(visit)
    caller, act = visit.act("endpoint send", f"endpoint {before.id}")
    await redelivery.send_waiting(visit.acting, caller, before.id, act)
    return visit.go(f"/endpoints/{before.id}", notice="sending")


async def rotate_secret(visit: Visit) -> Response:
    visit, before = await _begin_change(visit)
    secret = visit.context.entropy.token(_SECRET_LENGTH)
    caller, act = visit.act("endpoint rotate", f"endpoint {before.id}")
    change = EndpointChange(secret=secret)
    changed = await endpoint.change_endpoint(visit.acting, caller, before.id, change, act)
    return visit.page("endpoint_secret.html", endpoint=changed, secret=secret)


async def remove_endpoint(visit: Visit) -> Response:
    visit, before = await _begin_change(visit)
    caller, act = visit.act("endpoint remove", f"endpoint {before.id}", {"url": before.url})
    await endpoint.delete_endpoint(visit.acting, caller, before.id, act)
    return visit.go("/endpoints", notice="saved")


async def _begin_change(visit: Visit) -> tuple[Visit, Endpoint]:
    """Return the visit for the endpoint's owner, if the visitor may change it, and the endpoint."""
    visit.form()
    line = await _find_line(visit)
    visit.viewer.require("webhook.write")
    return visit.about(line.endpoint.holder_id), line.endpoint


async def _find_line(visit: Visit) -> browse.EndpointLine:
    (line,) = await browse.list_endpoint_lines(visit.context, visit.viewer, visit.path_id())
    return line


_CHANGES: Final = dict(
    change=change_endpoint, replay=replay_events, send=send_waiting, rotate=rotate_secret, remove=remove_endpoint
)
ROUTES: Final = (
    PageRoute(path="/events", page=list_events, may_be_old=True),
    PageRoute(path="/events/{id}", page=show_event),
    PageRoute(path="/deliveries", page=list_deliveries, may_be_old=True),
    PageRoute(path="/deliveries/{id}", page=show_delivery),
    PageRoute(path="/deliveries/{id}/resend", page=redeliver_delivery, method="POST"),
    PageRoute(path="/endpoints", page=list_endpoints),
    PageRoute(path="/endpoints", page=add_endpoint, method="POST"),
    PageRoute(path="/endpoints/{id}", page=show_endpoint),
    *(PageRoute(path=f"/endpoints/{{id}}/{name}", page=page, method="POST") for name, page in _CHANGES.items()),
)
