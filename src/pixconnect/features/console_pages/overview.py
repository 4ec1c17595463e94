"""The first page: the money of the day, tasks for people, the service's health, and recent events."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from pixconnect.doors.console.application import OverviewPart, PageRoute
from pixconnect.doors.console.visit import Visit
from pixconnect.doors.console.wanted import Wanted
from pixconnect.features.console_pages.figures import draw_week
from pixconnect.features.finding.service import browse
from pixconnect.features.monitoring.service import overview as overview_usecases
from pixconnect.features.monitoring.service.health import HealthWatch
from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows import holder, kept_report, unresolved

NEWEST_COUNT: Final = 6
HOLDERS_MAX: Final = 50


async def _count_reports(visit: Visit) -> int:
    return 0 if visit.who.kind == "holder" else sum((await kept_report.count_open(visit.context.pool)).values())


async def _count_silent(visit: Visit) -> int:
    return 0 if visit.who.kind == "holder" else await unresolved.count_silent(visit.context)


OVERVIEW: Final = (
    OverviewPart(template="overview_reports.html", find=_count_reports, is_waiting=True),
    OverviewPart(template="overview_silent.html", find=_count_silent, is_waiting=True),
    *gather("overview", OverviewPart),
)


async def show_overview(visit: Visit) -> Response:
    context, viewer = visit.context, visit.viewer
    charges = transfers = None
    if viewer.may("charge.read"):
        charges = await browse.browse(context, viewer, browse.CHARGES, Wanted(), None, NEWEST_COUNT)
    if viewer.may("transfer.read"):
        transfers = await browse.browse(context, viewer, browse.TRANSFERS, Wanted(), None, NEWEST_COUNT)
    endpoints: list[browse.EndpointLine] = []
    if viewer.may("webhook.read"):
        endpoints = await browse.list_endpoint_lines(context, viewer)
    # Only operators may know which holders exist.
    holders = [] if visit.who.kind == "holder" else await holder.list_holders(visit.operator, 0, HOLDERS_MAX)
    holder_ids = [each.id for each, _ in holders] if visit.holder_id is None else [visit.holder_id]
    money = await overview_usecases.read_money(context, viewer, holder_ids)
    parts = [(each, found) for each in OVERVIEW if (found := await each.find(visit))]
    names = await browse.name_charges(context, viewer, transfers.items) if transfers else {}
    return visit.page(
        "overview.html",
        charge_names=names,
        week=await draw_week(visit, holder_ids) if charges else None,
        money={each.holder_id: each for each in money},
        is_first_holders=visit.holder_id is None and len(holders) == HOLDERS_MAX,
        waiting=[each for each in parts if each[0].is_waiting],
        others=[each for each in parts if not each[0].is_waiting],
        service=await visit.parts.of_features[HealthWatch].read_health(),
        charges=charges,
        transfers=transfers,
        failing=[line for line in endpoints if line.state.what in {"failing", "disabled"}],
        endpoints_count=len(endpoints),
        holders=[each for each, _ in holders],
        now=context.clock.now(),
    )


ROUTES: Final = (PageRoute(path="/", page=show_overview),)
