"""The first page: the money of the day, what waits for people, how the service is, and what happens now."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from pixconnect.console.application import PageRoute
from pixconnect.console.visit import Visit
from pixconnect.domain.frame.wanted import Wanted
from pixconnect.usecases.institutions import day as day_usecases
from pixconnect.usecases.institutions.credential import list_ending
from pixconnect.usecases.money import holder
from pixconnect.usecases.money.unresolved import list_late_charges
from pixconnect.usecases.reading import browse, infraction_page
from pixconnect.usecases.reading import overview as overview_usecases

NEWEST_COUNT: Final = 6
HOLDERS_MAX: Final = 50
LATE_SHOWN_MAX: Final = 5


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
    # In a sandbox there are none.
    shows_days = visit.who.kind != "holder" and not visit.parts.is_sandbox and visit.chosen_id is None
    accounts = await day_usecases.list_accounts_days(context) if shows_days else []
    ending = await list_ending(context.pool, context.clock.real_now()) if shows_days else []
    late = await list_late_charges(context, LATE_SHOWN_MAX if shows_days else 0)
    contested_count, first_ends_at = await infraction_page.count_unanswered(context, viewer)
    return visit.page(
        "overview.html",
        money={each.holder_id: each for each in money},
        is_first_holders=visit.holder_id is None and len(holders) == HOLDERS_MAX,
        waiting=None if visit.who.kind == "holder" else await overview_usecases.read_waiting_work(context),
        contested_count=contested_count,
        first_ends_at=first_ends_at,
        service=await visit.parts.health.read_health(),
        accounts=accounts,
        ending=ending,
        late=late,
        charges=charges,
        transfers=transfers,
        failing=[line for line in endpoints if line.state.what in {"failing", "disabled"}],
        endpoints_count=len(endpoints),
        holders=[each for each, _ in holders],
        now=context.clock.now(),
    )


ROUTES: Final = (PageRoute(path="/", page=show_overview),)
