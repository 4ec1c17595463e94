"""One field that finds anything by any id."""

from __future__ import annotations

from typing import Final

from starlette.responses import RedirectResponse, Response

from pixconnect.console.application import PageRoute
from pixconnect.console.visit import Visit
from pixconnect.domain.frame import wanted as wanted_rules
from pixconnect.usecases.reading import search
from pixconnect.usecases.reading.search import Found

_PATHS: Final = dict(
    charge="/charges/{id}",
    transfer="/transfers/{id}",
    refund="/refunds/{id}",
    event="/events/{id}",
    delivery="/deliveries/{id}",
    endpoint="/endpoints/{id}",
)


async def find(visit: Visit) -> Response:
    text = visit.query("q")
    if not text:
        return visit.page("found.html", found=[], text="", lists=[])
    # A person who got an id does not know its owner: an operator searches all holders.
    found = await search.find_anything(visit.parts.context, visit.who.viewer(), text)
    lines = [(one, _place(visit, one)) for one in found]
    # If only one thing has the id, go there directly.
    if len(lines) == 1 and lines[0][1]:
        return RedirectResponse(lines[0][1], 303)
    return visit.page("found.html", found=lines, text=text, lists=_list_where(visit, text))


def _list_where(visit: Visit, text: str) -> list[tuple[str, str]]:
    """Where a text that is no id may be looked for: an amount with or without a day, a tax id, or a part of a name."""
    asked = wanted_rules.read_known(text)
    return [(kind, visit.link(f"/{kind}s", **asked)) for kind in ("charge", "transfer", "refund")] if asked else []


def _place(visit: Visit, found: Found) -> str:
    """The address of its page; empty for things without a page."""
    if found.kind == "holder":
        return f"/charges?holder={found.id}"
    form = _PATHS.get(found.kind)
    return "" if form is None else visit.link(form.format(id=found.id))


ROUTES: Final = (PageRoute(path="/search", page=find),)
