"""Console pages of contests, holders' answers, and blocked money."""

from datetime import datetime
from typing import Final

from starlette.responses import Response

from pixconnect.doors.console.application import OverviewPart, PageRoute
from pixconnect.doors.console.forms import read_field, show_list
from pixconnect.doors.console.visit import MenuEntry, Visit
from pixconnect.doors.console.wanted import Wanted
from pixconnect.features.contests.service import defence, infraction_page
from pixconnect.features.contests.service.infraction_page import STATES
from pixconnect.features.movements.service import browse_blocks
from pixconnect.kernel.rules.block_report import BLOCK_KINDS
from pixconnect.platform.base import errors


async def list_infractions(visit: Visit) -> Response:
    async def read(wanted: Wanted, after: str | None) -> object:
        return await infraction_page.browse_infractions(visit.context, visit.viewer, wanted, after)

    return await show_list(visit, "infractions.html", read, statuses=STATES, now=visit.context.clock.now())


async def defend_infraction(visit: Visit) -> Response:
    visit.form()
    visit.viewer.require("infraction.write")
    shown = await infraction_page.read_infraction_page(visit.context, visit.viewer, visit.path_id())
    visit, contested = visit.about(shown.infraction.holder_id), shown.infraction
    if (text := _read_text(visit)).split() == read_field(visit.sent, "draft").split() != []:
        raise errors.BadRequest("text: add what was delivered, when and to whom: this is the draft alone")
    # The text is stored with the infraction, and erased with it: the audit is for ever.
    caller, act = visit.act("infraction defend", f"infraction {contested.id}", {"characters": len(text)})
    await defence.defend(visit.acting, caller, contested.id, text, act)
    return visit.go(f"/infractions/{contested.id}", notice="defended")


async def refuse_defence(visit: Visit, refusal: errors.PixConnectError, status: int) -> Response:
    return await show_infraction(visit, status=status, complaint=str(refusal), typed=_read_text(visit))


def _read_text(visit: Visit) -> str:
    # A browser ends each line of a form with two characters; the institution counts one.
    return read_field(visit.sent, "text").replace("\r\n", "\n").replace("\0", "\N{REPLACEMENT CHARACTER}")


async def show_infraction(visit: Visit, *, status: int = 200, complaint: str = "", typed: str | None = None) -> Response:
    shown = await infraction_page.read_infraction_page(visit.context, visit.viewer, visit.path_id())
    contested = shown.infraction
    return visit.page(
        "infraction.html",
        status=status,
        shown=shown,
        contested=contested,
        complaint=complaint,
        typed=typed,
        may_answer=visit.who.may_act and visit.viewer.may("infraction.write"),
        curl=f'curl -s {visit.parts.api_url}/v1/connect/infraction/id/{contested.id} -H "Authorization: Bearer $TOKEN"',
        cli=f"pixconnect infraction show {contested.id}",
    )


async def list_blocks(visit: Visit) -> Response:
    """List blocks at institutions, and their reasons: for operators only, since holders are not warned."""
    visit.refuse_holders("these pages are for operators")
    kinds = tuple(kind for kind in BLOCK_KINDS if kind in visit.request.query_params.getlist("kind"))
    page = await browse_blocks(visit.context, visit.holder_id, kinds, visit.query("after") or None)
    return visit.page("blocks.html", page=page, kinds=BLOCK_KINDS, chosen=kinds)


async def count_unanswered(visit: Visit) -> int:
    return (await infraction_page.count_unanswered(visit.context, visit.viewer))[0]


async def count_blocks(visit: Visit) -> int:
    """Those on the first page of the list."""
    return len((await browse_blocks(visit.context, visit.holder_id, ())).items)


async def count_contested(visit: Visit) -> tuple[int, datetime | None] | None:
    found = await infraction_page.count_unanswered(visit.context, visit.viewer)
    return found if found[0] else None


MENU: Final = (
    MenuEntry(section="payments", path="/infractions", text="Infractions", count=count_unanswered),
    MenuEntry(section="audit", path="/blocks", text="Blocks", count=count_blocks),
)
OVERVIEW: Final = (OverviewPart(template="overview_infractions.html", find=count_contested, is_waiting=True),)
ROUTES: Final = (
    PageRoute(path="/infractions", page=list_infractions, may_be_old=True),
    PageRoute(path="/infractions/{id}", page=show_infraction),
    PageRoute(path="/infractions/{id}/defend", page=defend_infraction, method="POST", refused=refuse_defence),
    PageRoute(path="/blocks", page=list_blocks, may_be_old=True),
)
