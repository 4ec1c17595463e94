"""Sending many deliveries again: what the filter of the list matches, counted first, and how far it has come."""

from __future__ import annotations

from typing import Final, get_args

import msgspec
from starlette.responses import Response

from pixconnect.console.application import PageRoute
from pixconnect.console.filtering import read_wanted
from pixconnect.console.visit import Visit
from pixconnect.console.webhooks import DELIVERY_STATUSES, EVENT_TYPES
from pixconnect.domain.webhooks.delivery import DeliveryStatus
from pixconnect.domain.webhooks.redelivery import RedeliveryFilter
from pixconnect.usecases.webhooks import redelivery_job

_STATUSES: Final[tuple[DeliveryStatus, ...]] = get_args(DeliveryStatus)


async def list_redeliveries(visit: Visit) -> Response:
    jobs = await redelivery_job.list_redeliveries(visit.context, visit.viewer)
    return visit.page("redeliveries.html", jobs=jobs)


async def ask_redelivery(visit: Visit) -> Response:
    wanted = _read_filter(visit)
    counted = await redelivery_job.count_matching(visit.context, visit.viewer, wanted)
    # The form has this page's own query: it sends exactly what we counted.
    query = visit.request.url.query
    return visit.page("redelivery_new.html", wanted=wanted, counted=counted, action=f"/resends?{query}")


async def start_redelivery(visit: Visit) -> Response:
    visit.form()
    wanted = _read_filter(visit)
    # Counted anew, not read from the form, which may be old or sent twice.
    counted = await redelivery_job.count_matching(visit.context, visit.viewer, wanted)
    shown = {name: value for name, value in msgspec.structs.asdict(wanted).items() if value not in (None, ())}
    _, act = visit.act("resend start", f"holder {wanted.holder_id}", shown)
    job = await redelivery_job.start_redelivery(
        visit.acting, visit.viewer, wanted, asked_by=visit.who.audit_name, expected_count=counted.count, act=act
    )
    return visit.go(f"/resends/{job.id}", said="started")


async def show_redelivery(visit: Visit) -> Response:
    job = await redelivery_job.read_redelivery(visit.context, visit.viewer, visit.path_id())
    return visit.page("redelivery.html", job=job)


async def stop_redelivery(visit: Visit) -> Response:
    visit.form()
    job = await redelivery_job.read_redelivery(visit.context, visit.viewer, visit.path_id())
    visit = visit.about(job.holder_id)
    _, act = visit.act("resend stop", f"resend {job.id}")
    await redelivery_job.cancel_redelivery(visit.acting, visit.viewer, job.id, act)
    return visit.go(f"/resends/{job.id}", said="stopped")


def _read_filter(visit: Visit) -> RedeliveryFilter:
    wanted = read_wanted(visit, DELIVERY_STATUSES, EVENT_TYPES)
    return RedeliveryFilter(
        holder_id=visit.holder_id,
        endpoint_id=wanted.endpoint_id,
        statuses=tuple(status for status in _STATUSES if not wanted.statuses or status in wanted.statuses),
        event_types=wanted.event_types,
        initial_at=wanted.initial_at,
        final_at=wanted.final_at,
    )


ROUTES: Final = (
    PageRoute(path="/resends", page=list_redeliveries),
    PageRoute(path="/resends", page=start_redelivery, method="POST"),
    PageRoute(path="/resends/new", page=ask_redelivery),
    PageRoute(path="/resends/{id}", page=show_redelivery),
    PageRoute(path="/resends/{id}/stop", page=stop_redelivery, method="POST"),
)
