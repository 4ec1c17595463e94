"""Transfers that wait for an operator's approval."""

from functools import partial
from typing import Final

from starlette.responses import Response

from pixconnect.doors.console.application import OverviewPart, PageRoute
from pixconnect.doors.console.visit import MenuEntry, Visit
from pixconnect.features.approvals import service as approval_usecases

APPROVALS_MAX: Final = 100
_OPERATORS: Final = "the audit is the operators'"


async def show_approvals(visit: Visit) -> Response:
    visit.refuse_holders(_OPERATORS)
    waiting = await approval_usecases.list_waiting_transfers(visit.context, visit.chosen_id, APPROVALS_MAX)
    return visit.page("approvals.html", waiting=waiting, now=visit.context.clock.now())


async def decide_waiting(visit: Visit, *, is_approved: bool) -> Response:
    operator = visit.begin_act(_OPERATORS)
    await approval_usecases.decide_transfer(operator, visit.path_id(), is_approved=is_approved)
    return visit.go("/audit/approvals", notice="approved" if is_approved else "not_approved")


async def count_waiting(visit: Visit) -> int:
    """For operators, on the first page."""
    return 0 if visit.who.kind == "holder" else await approval_usecases.count_waiting(visit.context)


MENU: Final = (MenuEntry(section="audit", path="/audit/approvals", text="To approve", count=count_waiting),)
OVERVIEW: Final = (OverviewPart(template="overview_approvals.html", find=count_waiting, is_waiting=True),)
ROUTES: Final = (
    PageRoute(path="/audit/approvals", page=show_approvals),
    PageRoute(path="/audit/approvals/{id}/approve", page=partial(decide_waiting, is_approved=True), method="POST"),
    PageRoute(path="/audit/approvals/{id}/refuse", page=partial(decide_waiting, is_approved=False), method="POST"),
)
