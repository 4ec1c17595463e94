"""The acts of operators, on the command line and in the console, and of everyone who acted in the console."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from pixconnect.console.application import PageRoute
from pixconnect.console.visit import Visit
from pixconnect.domain.frame import errors, wanted
from pixconnect.usecases.frame import audit

PAGE_SIZE: Final = 50


async def show_audit(visit: Visit) -> Response:
    # It tells of all holders, so it is for operators alone.
    if visit.who.kind == "holder":
        raise errors.Forbidden("the audit is the operators'")
    before_id = wanted.read_id(visit.query("before"))
    entries = await audit.list_entries(visit.parts.operator, before_id=before_id, count_max=PAGE_SIZE)
    return visit.page("audit.html", entries=entries, page_size=PAGE_SIZE)


ROUTES: Final = (PageRoute(path="/audit", page=show_audit),)
