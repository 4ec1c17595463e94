"""One search field for any id or other known fact; and holders, with their resources."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from pixconnect.doors.console import wanted as wanted_rules
from pixconnect.doors.console.application import PageRoute
from pixconnect.doors.console.paces import SEARCHES, SUGGESTIONS
from pixconnect.doors.console.visit import SEARCH_PATH, Visit
from pixconnect.features.finding.service import browse, overview, search, timeline
from pixconnect.features.finding.service.search import Found
from pixconnect.kernel.feature import list_lookups
from pixconnect.kernel.flows import holder
from pixconnect.platform.base import errors

LISTED_MAX: Final = 50
_ASKING: Final = (
    *("/", "/charges", "/transfers", "/refunds", "/events"),
    *("/deliveries", "/endpoints", "/ledger", "/figures", "/sandbox"),
)
"""Pages that may ask for the holder."""

_PATHS: Final = dict[str, str](
    charge="/charges/{id}",
    transfer="/transfers/{id}",
    refund="/refunds/{id}",
    event="/events/{id}",
    delivery="/deliveries/{id}",
    endpoint="/endpoints/{id}",
) | {each.kind: each.path for each in list_lookups() if each.path}


async def find(visit: Visit) -> Response:
    text = visit.query("q")
    nothing = dict[str, Any](found=[], text=text, lists=[], searched_to=None, amounts=[], asked={})
    if not text:
        return visit.page("found.html", **nothing)
    # A person who got an id does not know its owner: an operator searches all holders.
    viewer = visit.who.viewer()
    try:
        result = await search.find_known(visit.context, viewer, text)
    except errors.BadRequest as error:
        return visit.page("found.html", status=400, complaint=str(error), **nothing)
    numbered = [(one.kind, int(one.id), one.holder_id) for one in result.found if one.holder_id and one.id.isdecimal()]
    marks = await browse.read_marks(visit.context, viewer, numbered)
    # A charge and what has paid it are one line.
    payments = {one.payment.id for one in result.found if one.payment is not None}
    lines = [(one, _place(visit, one)) for one in result.found if one.kind != "transfer" or one.id not in payments]
    amounts = wanted_rules.list_possible_amounts(text)
    # A single result leads directly to its page, but not if digits alone were taken as an amount.
    if len(lines) == 1 and lines[0][1] and result.searched_to is None and result.asked.get("amount") not in amounts:
        return RedirectResponse(lines[0][1], 303)
    # The lists continue after the last result here.
    kept = _kept_in(visit, visit.chosen_id)
    lists = [
        (kind, visit.link(f"/{kind}s", **result.asked, **kept))
        for kind in ("charge", "transfer", "refund")
        if result.asked and visit.viewer.may_see(kind)
    ]
    amounts = [each for each in amounts if each != result.asked.get("amount")]
    shown = dict[str, Any](found=lines, text=text, lists=lists, amounts=amounts, marks=marks, place=partial(_place, visit))
    shown["time"] = wanted_rules.find_time(text)
    unpaid = [(int(one.id), one.holder_id or 0) for one in result.found if one.kind == "charge" and not one.settled_at]
    shown["refused"] = await timeline.find_refused(visit.context.pool, viewer, unpaid)
    return visit.page("found.html", searched_to=result.searched_to, asked=result.asked, **shown)


async def suggest(visit: Visit) -> Response:
    """What the search field offers while one types, as options: names and ids, by indexes alone."""
    found = await search.suggest(visit.context, visit.who.viewer(), visit.query("q"))
    return visit.page("suggestions.html", found=found)


def _place(visit: Visit, found: Found) -> str:
    """Return the address of its page; empty for resources without a page."""
    if found.kind in {"holder", "key", "client"}:
        # A holder's visitor has no such page.
        return f"/holders/{found.holder_id}" if visit.who.kind != "holder" else ""
    form = _PATHS.get(found.kind)
    return "" if form is None else visit.link(form.format(id=found.id), **_kept_in(visit, found.holder_id))


def _kept_in(visit: Visit, holder_id: int | None) -> dict[str, object]:
    """Return the address without the chosen holder if the found resource is another's."""
    return {} if holder_id is not None and holder_id == visit.chosen_id else dict(holder="")


async def list_holders(visit: Visit) -> Response:
    """List holders by id, or by a part of their names; each leads to its page, or back to the page that asked."""
    visit.refuse_holders("these pages are for operators")
    name, after_id = visit.query("name"), wanted_rules.read_id(visit.query("after")) or 0
    if name:
        listed = [(each, None) for each in await overview.list_named_holders(visit.operator, name)]
    else:
        listed = [*await holder.list_holders(visit.operator, after_id, LISTED_MAX + 1)]
    to = visit.query("to")
    is_more = len(listed) > LISTED_MAX and not name
    return visit.page(
        "holders.html",
        listed=listed[:LISTED_MAX],
        next=listed[LISTED_MAX - 1][0].id if is_more else None,
        form="{to}?holder={id}" if to in _ASKING else "/holders/{id}",
        to=to if to in _ASKING else "",
    )


async def show_holder(visit: Visit) -> Response:
    visit.refuse_holders("these pages are for operators")
    page = await overview.read_holder_page(visit.operator, visit.path_id())
    return visit.page("holder.html", shown=page, now=visit.context.clock.now())


ROUTES: Final = (
    PageRoute(path=SEARCH_PATH, page=find, pace=SEARCHES, may_be_old=True),
    PageRoute(path=f"{SEARCH_PATH}/suggestions", page=suggest, pace=SUGGESTIONS, may_be_old=True),
    PageRoute(path="/holders", page=list_holders, may_be_old=True),
    PageRoute(path="/holders/{id}", page=show_holder),
)
