"""How the days of accounts at institutions closed: the last seven as boxes, and one day line by line."""

from __future__ import annotations

from datetime import date
from typing import Final

from starlette.responses import Response

from pixconnect.console.application import PageRoute
from pixconnect.console.visit import Visit
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.money import format_reais
from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.foundation import outgoing_text
from pixconnect.usecases.institutions import day as day_usecases
from pixconnect.usecases.institutions.day import DayLines

LINES_MAX: Final = 500
"""More are in the file alone."""


async def show_days(visit: Visit) -> Response:
    _refuse_holders(visit)
    return visit.page("days.html", accounts=await day_usecases.list_accounts_days(visit.parts.context))


async def show_day(visit: Visit) -> Response:
    account, day = await _read(visit)
    return visit.page("day.html", account=account, told=day, shown=day.shown, lines_max=LINES_MAX)


async def export_day(visit: Visit) -> Response:
    account, day = await _read(visit)
    separator = ";" if visit.language.code == "pt" else ","
    heading = ("side", "id", "direction", "amount", "kind", "status", "joined_to", "fee_of", "end_to_end_id", "text")
    rows: list[tuple[str, ...]] = [
        (
            "there", item.item_id, item.direction, _reais(visit, item.amount_cents), item.kind,
            item.waits or item.joined_by or "", f"{item.joined_kind or ''} {item.joined_id or ''}".strip(),
            f"{item.fee_of_kind or ''} {item.fee_of_id or ''}".strip(), item.end_to_end_id or "", item.text,
        )
        for item in day.items
    ]  # fmt: skip
    rows += [
        (
            "here", str(line.key[1]), line.direction, _reais(visit, line.amount_cents), line.key[0], "unmatched", "", "",
            line.names[-1] if line.names else "", "",
        )
        for line in day.lines_alone
    ]  # fmt: skip
    name = f"{account.name}_{day.shown.judged.day}.csv"
    content = outgoing_text.in_spreadsheet([heading, *rows], separator)
    return Response(content, media_type="text/csv", headers={"content-disposition": outgoing_text.in_attachment(name)})


def _reais(visit: Visit, cents: int) -> str:
    text = format_reais(cents)
    return text.replace(".", ",") if visit.language.code == "pt" else text


async def _read(visit: Visit) -> tuple[InstitutionAccount, DayLines]:
    _refuse_holders(visit)
    try:
        day = date.fromisoformat(visit.request.path_params["day"])
    except ValueError:
        raise errors.NotFound("day: there is no such day") from None
    account = await day_usecases.read_named_account(visit.parts.context, visit.request.path_params["name"])
    return account, await day_usecases.read_day(visit.parts.context, account, day)


def _refuse_holders(visit: Visit) -> None:
    # An account may have several holders, and its lines are of all of them.
    if visit.who.kind == "holder":
        raise errors.Forbidden("the days of accounts are the operators'")


ROUTES: Final = (
    PageRoute(path="/days", page=show_days),
    PageRoute(path="/days/{name}/{day}", page=show_day),
    PageRoute(path="/days/{name}/{day}/file", page=export_day, is_file=True),
)
