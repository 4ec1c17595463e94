"""The account of a holder: its balance now and at an instant, its statement, and its export."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from msgspec import structs
from starlette.responses import Response, StreamingResponse

from pixconnect.doors.console import wanted
from pixconnect.doors.console.application import PageRoute
from pixconnect.doors.console.exports import LONG_MIN, Export, Parts
from pixconnect.doors.console.visit import Visit
from pixconnect.features.statements import service as statement
from pixconnect.features.statements.rules import Statement, StatementLine
from pixconnect.kernel.flows import ledger
from pixconnect.kernel.rules.access import Caller
from pixconnect.platform import outgoing_text
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO

SHOWN_MAX: Final = 200
_LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MONTH: Final = timedelta(days=30)


async def show_ledger(visit: Visit) -> Response:
    visit.viewer.require_sight("ledger entry")
    if visit.holder_id is None:
        return visit.page("ledger.html", balance=None, extent=None, lines=[], is_cut=False)
    caller = _caller(visit)
    balance = await ledger.read_balance(visit.context, caller)
    found = await _open(visit, caller)
    # The newest that fit on a page; the file has all of them.
    first = max(found.extent.first_number, found.extent.last_number - SHOWN_MAX + 1)
    shown = structs.replace(found, extent=structs.replace(found.extent, first_number=first))
    lines = [line async for part in statement.read_parts(visit.context, shown) for line in part]
    totals = dict.fromkeys(("in", "returned", "out", "held", "freed"), 0)
    for line in lines:
        names = ("held", "freed") if line.is_suspect else ("in", "returned" if line.return_id else "out")
        totals[names[line.direction == "OUT"]] += line.amount_cents
    return visit.page(
        "ledger.html",
        balance=balance,
        extent=found.extent,
        lines=lines[::-1],
        totals=totals,
        is_cut=first > found.extent.first_number,
        is_long=found.extent.lines_count > LONG_MIN,
        initial_at=found.initial_at,
        curl=f"curl -s '{visit.parts.api_url}/v1/connect/ledger/statement?initial_date={found.initial_at:%Y-%m-%dT%H:%M:%SZ}"
        f'&final_date={found.final_at:%Y-%m-%dT%H:%M:%SZ}&format=csv\' -H "Authorization: Bearer $TOKEN"',
        cli="pixconnect statement",
    )


async def export_ledger(visit: Visit) -> Response:
    """Export exactly the page's lines, as a file for spreadsheets or for programs; written while they are read."""
    name, media_type, _, parts = await _open_file(visit)
    return _attach(name, media_type, (content async for _, content in parts))


async def begin_export(visit: Visit) -> Response:
    """Begin an export that takes long: it is written first, while a page shows its progress."""
    visit.form()
    exports = visit.parts.exports
    name, media_type, lines_count, parts = await _open_file(visit)
    exports.begin(visit.who.session_id, lambda: Export(name, media_type, lines_count, parts), visit.who.holder_id)
    return visit.go("/ledger/saving")


async def show_export(visit: Visit) -> Response:
    return visit.page("saving.html", export=visit.parts.exports.find(visit.who.session_id))


async def take_export(visit: Visit) -> Response:
    found = visit.parts.exports.find(visit.who.session_id)
    if not found.is_done:
        raise errors.NotFound("this file is not whole")
    return _attach(found.name, found.media_type, found.read(), size=found.size)


async def _open_file(visit: Visit) -> tuple[str, str, int, Parts]:
    """Return name, media type, the number of lines, and the contents."""
    visit.viewer.require_sight("ledger entry")
    if visit.holder_id is None:
        raise errors.BadRequest("holder: choose a holder first")
    kind = visit.query("format") or "csv"
    if kind not in _FORMATS:
        raise errors.BadRequest("format: csv or json")
    media_type, write = _FORMATS[kind]
    found = await _open(visit, _caller(visit))
    days = f"{found.initial_at.astimezone(SAO_PAULO):%Y-%m-%d}_{found.final_at.astimezone(SAO_PAULO):%Y-%m-%d}"
    parts = visit.parts.exports.in_turn(visit.who.party, write(visit, found))
    return f"ledger_{visit.holder_id}_{days}.{kind}", media_type, found.extent.lines_count, parts


def _attach(name: str, media_type: str, content: AsyncIterator[bytes], size: int | None = None) -> Response:
    headers = {"content-disposition": outgoing_text.in_attachment(name)}
    if size is not None:
        headers["content-length"] = str(size)
    return StreamingResponse(content, media_type=media_type, headers=headers)


async def _open(visit: Visit, caller: Caller) -> Statement:
    now = visit.context.clock.now()
    initial_at, final_at = wanted.read_instants(visit.when, now) if visit.when else (now - _MONTH, None)
    return await statement.open_statement(
        visit.context, caller, initial_at or _LONG_AGO, final_at or now + timedelta(days=1), visit.language.code
    )


async def _write_csv(visit: Visit, found: Statement) -> Parts:
    # Spreadsheets separate cells by the character that is not the decimal separator of their language.
    separator = ";" if visit.language.code == "pt" else ","
    heading = ("when", "what", "id", "end_to_end_id", "external_id", "amount", "balance")
    yield 0, outgoing_text.in_spreadsheet([heading], separator)
    async for part in statement.read_parts(visit.context, found):
        yield len(part), outgoing_text.in_spreadsheet([_row(visit, line, found) for line in part], separator)


async def _write_json(visit: Visit, found: Statement) -> Parts:
    opening = b"[\n"
    async for part in statement.read_parts(visit.context, found):
        yield len(part), opening + b",\n".join(map(msgspec.json.encode, part))
        opening = b",\n"
    # A file without its end is no valid JSON, so readers detect a truncated one.
    yield 0, b"\n]\n" if opening == b",\n" else b"[]\n"


def _row(visit: Visit, line: StatementLine, found: Statement) -> tuple[str, ...]:
    signed = line.amount_cents if line.direction == "IN" else -line.amount_cents
    return (
        visit.language.instant(line.created_at),
        line.describe(found.language),
        str(line.id),
        line.end_to_end_id or "",
        line.external_id or "",
        visit.language.reais(signed),
        visit.language.reais(line.running_balance_cents),
    )


def _caller(visit: Visit) -> Caller:
    holder_id = errors.require(visit.holder_id, "looked at before")
    return Caller(client_id=visit.who.name, holder_id=holder_id, scopes=visit.who.scopes)


_FORMATS: Final = dict(csv=("text/csv", _write_csv), json=("application/json", _write_json))

ROUTES: Final = (
    PageRoute(path="/ledger", page=show_ledger, may_be_old=True),
    PageRoute(path="/ledger/export", page=export_ledger, is_file=True, may_be_old=True),
    PageRoute(path="/ledger/saving", page=begin_export, method="POST", may_be_old=True),
    PageRoute(path="/ledger/saving", page=show_export),
    PageRoute(path="/ledger/saving/file", page=take_export, is_file=True),
)
