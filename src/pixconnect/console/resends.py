"""Sending many deliveries again: what the filter of the list matches, counted first, and how far it has come."""

from __future__ import annotations

from typing import Final, get_args

import msgspec
from starlette.responses import Response

from pixconnect.console.application import PageRoute
from pixconnect.console.filtering import read_wanted
from pixconnect.console.visit import Visit
from pixconnect.console.webhooks import DELIVERY_STATUSES, EVENT_TYPES
from pixconnect.domain.frame import errors
from pixconnect.domain.webhooks.delivery import DeliveryStatus
from pixconnect.domain.webhooks.resend import ResendFilter
from pixconnect.usecases.webhooks import resend

_STATUSES: Final[tuple[DeliveryStatus, ...]] = get_args(DeliveryStatus)


async def list_resends(visit: Visit) -> Response:
    jobs = await resend.list_resends(visit.parts.context, visit.viewer)
    return visit.page("resends.html", jobs=jobs)


async def ask_resend(visit: Visit) -> Response:
    wanted = _read_filter(visit)
    counted = await resend.count_resend(visit.parts.context, visit.viewer, wanted)
    # The form has this page's own query: it sends exactly what we counted.
    query = visit.request.url.query
    return visit.page("resend_new.html", wanted=wanted, counted=counted, action=f"/resends?{query}")


async def start_resend(visit: Visit) -> Response:
    visit.form()
    wanted = _read_filter(visit)
    # Counted anew, not read from the form, which may be old or sent twice.
    counted = await resend.count_resend(visit.parts.context, visit.viewer, wanted)
    shown = {name: value for name, value in msgspec.structs.asdict(wanted).items() if value not in (None, ())}
    _, act = visit.act("resend start", f"holder {wanted.holder_id}", shown)
    job = await resend.start_resend(
        visit.acting, visit.viewer, wanted, asked_by=visit.who.audit_name, expected_count=counted.count, act=act
    )
    return visit.go(f"/resends/{job.id}", said="started")


async def show_resend(visit: Visit) -> Response:
    job = await resend.read_resend(visit.parts.context, visit.viewer, visit.path_id())
    return visit.page("resend.html", job=job)


async def stop_resend(visit: Visit) -> Response:
    visit.form()
    job = await resend.read_resend(visit.parts.context, visit.viewer, visit.path_id())
    visit = visit.about(job.holder_id)
    _, act = visit.act("resend stop", f"resend {job.id}")
    await resend.cancel_resend(visit.acting, visit.viewer, job.id, act)
    return visit.go(f"/resends/{job.id}", said="stopped")


def _read_filter(visit: Visit) -> ResendFilter:
    if visit.holder_id is None:
        raise errors.BadRequest("holder: choose one first; you cannot resend for all holders at once")
    wanted = read_wanted(visit, DELIVERY_STATUSES, EVENT_TYPES)
    return ResendFilter(
        holder_id=visit.holder_id,
        endpoint_id=wanted.endpoint_id,
        statuses=tuple(status for status in _STATUSES if not wanted.statuses or status in wanted.statuses),
        event_types=wanted.event_types,
        initial_at=wanted.initial_at,
        final_at=wanted.final_at,
    )


ROUTES: Final = (
    PageRoute(path="/resends", page=list_resends),
    PageRoute(path="/resends", page=start_resend, method="POST"),
    PageRoute(path="/resends/new", page=ask_resend),
    PageRoute(path="/resends/{id}", page=show_resend),
    PageRoute(path="/resends/{id}/stop", page=stop_resend, method="POST"),
)
