"""Accounts at institutions: the state of their days, one day's lines, and queries of an institution."""

from collections.abc import Sequence
from datetime import date
from typing import Final

from msgspec import Struct
from starlette.responses import Response

from pixconnect.doors.console.application import OverviewPart, PageRoute
from pixconnect.doors.console.forms import read_field
from pixconnect.doors.console.visit import MenuEntry, Visit
from pixconnect.features.cases.service import pattern as pattern_usecases
from pixconnect.features.cases.service.separation import is_separable, propose_separation
from pixconnect.features.institutions.rules.account import EndingCertificate, InstitutionAccount
from pixconnect.features.institutions.service import day as day_usecases
from pixconnect.features.institutions.service.account import find_account
from pixconnect.features.institutions.service.day import AccountDays, DayLines
from pixconnect.features.institutions.service.inquiry import ask_named
from pixconnect.features.institutions.service.monitoring import count_waiting_transfers, list_late_charges
from pixconnect.features.institutions.service.open_accounts import list_ending
from pixconnect.features.institutions.tables.pending_call import WaitingCharge
from pixconnect.platform import outgoing_text
from pixconnect.platform.base import errors

LATE_SHOWN_MAX: Final = 5
LINES_MAX: Final = 500  # the file has the rest
_OPERATORS: Final = "accounts at institutions are the operators'"


async def show_days(visit: Visit) -> Response:
    visit.refuse_holders(_OPERATORS)
    accounts = await day_usecases.list_accounts_days(visit.context)
    names = [each.account.name for each in accounts]
    patterns = {name: await pattern_usecases.list_patterns(visit.context, name) for name in names}
    return visit.page("days.html", accounts=accounts, patterns=patterns)


async def show_day(visit: Visit) -> Response:
    account, day = await _read(visit)
    separable = list(filter(is_separable, day.items[:LINES_MAX]))
    return visit.page("day.html", account=account, lines=day, shown=day.shown, lines_max=LINES_MAX, separable=separable)


async def propose_to_separate(visit: Visit) -> Response:
    """Propose only, as for an answer about lines."""
    operator, name = visit.begin_act(_OPERATORS), _read_name(visit)
    await propose_separation(operator, name, list(map(str, visit.sent.getlist("line"))))
    return visit.go(f"/days/{name}/{visit.request.path_params['day']}", notice="proposed")


async def forget_pattern(visit: Visit) -> Response:
    operator = visit.begin_act(_OPERATORS)
    await pattern_usecases.forget_pattern(operator, _read_name(visit), visit.path_id())
    return visit.go("/days", notice="saved")


async def export_day(visit: Visit) -> Response:
    account, day = await _read(visit)
    separator = ";" if visit.language.code == "pt" else ","
    heading = ("side", "id", "direction", "amount", "kind", "status", "joined_to", "fee_of", "end_to_end_id", "text")
    rows: list[tuple[str, ...]] = [
        (
            "there", item.item_id, item.direction, visit.language.reais(item.amount_cents), item.kind,
            item.waits or item.joined_by or "", f"{item.joined_kind or ''} {item.joined_id or ''}".strip(),
            f"{item.fee_of_kind or ''} {item.fee_of_id or ''}".strip(), item.end_to_end_id or "", item.text,
        )
        for item in day.items
    ]  # fmt: skip
    rows += [
        (
            "here", str(line.key[1]), line.direction, visit.language.reais(line.amount_cents), line.key[0], "unmatched", "", "",
            line.names[-1] if line.names else "", "",
        )
        for line in day.lines_alone
    ]  # fmt: skip
    name = f"{account.name}_{day.shown.day}.csv"
    content = outgoing_text.in_spreadsheet([heading, *rows], separator)
    return Response(content, media_type="text/csv", headers={"content-disposition": outgoing_text.in_attachment(name)})


async def show_inquiry(visit: Visit) -> Response:
    _check_asker(visit)
    account = await find_account(visit.context.pool, _read_name(visit))
    return visit.page("inquiry.html", name=account.name, asked="", says=None, silence=None)


async def ask(visit: Visit) -> Response:
    """Query the institution about one Pix or charge. Reloading queries again, and records nothing twice."""
    _check_asker(visit)
    name, asked = _read_name(visit), read_field(visit.form(), "asked")
    operator = visit.operator.acting_as(visit.who.audit_name)
    try:
        says = await ask_named(visit.context, operator, name, asked)
    # The operator must see that the institution is unreachable, and not one of our parts.
    except errors.ServiceUnavailable as error:
        return visit.page("inquiry.html", status=503, name=name, asked=asked, says=None, silence=error.message)
    status = 404 if says.is_unknown else 200
    return visit.page("inquiry.html", status=status, name=name, asked=asked, says=says, silence=None)


def _check_asker(visit: Visit) -> None:
    visit.refuse_holders(_OPERATORS)
    if not visit.who.may_act:
        raise errors.Forbidden("a reader changes nothing, and this query records its results")


async def _read(visit: Visit) -> tuple[InstitutionAccount, DayLines]:
    visit.refuse_holders(_OPERATORS)
    try:
        day = date.fromisoformat(visit.request.path_params["day"])
    except ValueError:
        raise errors.NotFound("day: there is no such day") from None
    account = await day_usecases.read_named_account(visit.context, _read_name(visit))
    return account, await day_usecases.read_day(visit.context, account, day)


def _read_name(visit: Visit) -> str:
    name = visit.request.path_params["name"]
    # PostgreSQL rejects NUL: the page would report the database as unreachable.
    if not name.isprintable():
        raise errors.NotFound("name: there is no such account")
    return name


class AccountsNow(Struct, frozen=True, kw_only=True):
    accounts: Sequence[AccountDays]
    ending: Sequence[EndingCertificate]
    late: Sequence[WaitingCharge]


async def find_accounts(visit: Visit) -> AccountsNow | None:
    # In a sandbox there are none.
    if visit.who.kind == "holder" or visit.parts.is_sandbox or visit.chosen_id is not None:
        return None
    context = visit.context
    return AccountsNow(
        accounts=await day_usecases.list_accounts_days(context),
        ending=await list_ending(context.pool, context.clock.real_now()),
        late=await list_late_charges(context, LATE_SHOWN_MAX),
    )


async def count_waiting_at_institutions(visit: Visit) -> int:
    return 0 if visit.who.kind == "holder" else await count_waiting_transfers(visit.context)


MENU: Final = (
    MenuEntry(
        section="account",
        path="/days",
        text="Days",
        is_shown=lambda visit: visit.who.kind != "holder" and not visit.parts.is_sandbox,
    ),
)
OVERVIEW: Final = (
    OverviewPart(template="overview_waiting_there.html", find=count_waiting_at_institutions, is_waiting=True),
    OverviewPart(template="overview_accounts.html", find=find_accounts),
)
ROUTES: Final = (
    PageRoute(path="/days", page=show_days),
    # Before the days, none of which has this name.
    PageRoute(path="/days/{name}/ask", page=show_inquiry),
    PageRoute(path="/days/{name}/ask", page=ask, method="POST"),
    PageRoute(path="/days/{name}/{day}", page=show_day),
    PageRoute(path="/days/{name}/{day}/file", page=export_day, is_file=True),
    PageRoute(path="/days/{name}/{day}/separate", page=propose_to_separate, method="POST"),
    PageRoute(path="/days/{name}/patterns/{id}/forget", page=forget_pattern, method="POST"),
)
