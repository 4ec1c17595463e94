"""The statement in the API: one handler of statements, every format, any length.

::

    head, lines ► lines ► lines ► ... ► tail

A format writes lines in parts as they are read; nothing is buffered. A failure after the first part breaks the answer off: a
chunked answer without its last chunk is known to be incomplete.
"""

import csv
import io
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from pixconnect.doors.api import envelope
from pixconnect.doors.api.document import Document
from pixconnect.doors.api.envelope import Amount, Cents, Id, Instant
from pixconnect.doors.api.operation import Nothing, Request, Section, Services
from pixconnect.doors.api.operation import Operation as Row
from pixconnect.doors.api.routing import NONE
from pixconnect.features.statements import files
from pixconnect.features.statements import rules as statements
from pixconnect.features.statements import service as statement_usecases
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant, to_day
from pixconnect.platform.logging import current_request


class StatementQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which part of the account's history, and in which form."""

    initial_date: Annotated[datetime, Meta(tz=True)]
    """The first instant included. RFC 3339 with an offset."""
    final_date: Annotated[datetime, Meta(tz=True)]
    """The last instant included. RFC 3339 with an offset."""
    format: statements.Format = "json"
    """The answer's format."""
    language: statements.Language = "en"
    """The language of descriptions that we write: English or Portuguese."""


class StatementLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of the account's current funds."""

    id: Id
    """The line's id, the same in every format and export."""
    create_timestamp: Instant
    """When it settled."""
    end_to_end_id: str | None = None
    """The transfer's; of a refund, the original's; others have none."""
    return_identification: str | None = None
    """The refund's; nothing else has one."""
    impact_type: Literal["IN", "OUT"]
    """IN raised the balance, OUT lowered it."""
    amount: Amount
    """How much the balance changed."""
    running_balance: Cents
    """The balance after it."""
    counterparty: statements.Counterparty | None = None
    """The counterparty; deposits, the institution's own movements and repayments of deficits have none."""
    description: Annotated[str, Meta(examples=["Pix received from Maria Silva"])]
    """The text on a refund or of the institution; for any other line its kind and the other side's name, in the `language`."""
    external_id: str | None = None
    """Your own name for the transfer or refund, or for the charge that was paid; others have none."""
    transaction_identification: str | None = None
    """The transfer's txid, if it has one; of a refund, the original's."""


class Statement(Struct, frozen=True, kw_only=True):
    """The account's history: opening balance + lines = closing balance."""

    opening_balance: Cents
    """The balance before the first line."""
    closing_balance: Cents
    """The balance after the last line."""
    lines: list[StatementLine]
    """Oldest first."""


async def retrieve_statement(services: Services, request: Request[None, StatementQuery, Nothing]) -> Document:
    """Export your statement.

    Every change of your current funds in a span of time, oldest first, at any length: as JSON, as CSV for spreadsheets, as OFX
    or camt.053 for accounting programs. A line's `id` is the same in every format. Files have a name with the account and the
    days.
    """
    query = request.query
    context = services.context
    # Everything is checked before the first byte: later failures can only break the answer off.
    found = await statement_usecases.open_statement(
        context, request.caller, query.initial_date, query.final_date, query.language
    )
    parts = statement_usecases.read_parts(context, found)
    days = f"{_day_of(found.initial_at)}_{_day_of(found.final_at)}"
    filename = f"statement_{found.account.account_number}_{days}.{statements.ENDINGS[query.format]}"
    return Document(
        content=FORMATS[query.format].write(found, parts),
        media_type=FORMATS[query.format].media_type,
        # Browsers save files for other programs, and show JSON.
        filename="" if query.format == "json" else filename,
    )


def _day_of(instant: datetime) -> date:
    try:
        # In Brazil's time: a month must not end on the first of the next.
        return to_day(instant)
    except OverflowError:
        return instant.date()


async def _write_json(
    found: statements.Statement, parts: AsyncIterable[Sequence[statements.StatementLine]]
) -> AsyncIterator[bytes]:
    """The envelope of a ``Statement``, written while its lines are read."""
    request = errors.require(current_request.get(), "the application names every request")
    extent = found.extent
    # By hand, since the lines of a long account are never all in memory.
    yield b'%b{"opening_balance":%d,"closing_balance":%d,"lines":[' % (
        envelope.SUCCESS_HEAD,
        extent.opening_cents,
        extent.closing_cents,
    )
    separator = b""
    async for lines in parts:
        yield separator + b",".join(msgspec.json.encode(_on_wire(line, found.language)) for line in lines)
        separator = b","
    # The time is that of the snapshot, as in every other format.
    yield b"]}" + envelope.write_success_tail(request[0], found.made_at)


def _on_wire(line: statements.StatementLine, language: statements.Language) -> StatementLine:
    return StatementLine(
        id=line.id,
        create_timestamp=format_instant(line.created_at),
        end_to_end_id=line.end_to_end_id,
        return_identification=line.return_id,
        impact_type=line.direction,
        amount=line.amount_cents,
        running_balance=line.running_balance_cents,
        counterparty=line.counterparty,
        description=line.describe(language),
        external_id=line.external_id,
        transaction_identification=line.txid,
    )


CSV_COLUMNS: Final = (
    "id",
    "create_timestamp",
    "end_to_end_id",
    "return_identification",
    "impact_type",
    "amount",
    "running_balance",
    "counterparty_name",
    "counterparty_tax_id",
    "counterparty_ispb",
    "description",
    # Later columns come last, so that programs may keep counting.
    "external_id",
    "transaction_identification",
    "local_timestamp",
)


async def write_csv(
    found: statements.Statement, parts: AsyncIterable[Sequence[statements.StatementLine]]
) -> AsyncIterator[bytes]:
    """Write unsigned cents, and an empty cell for an absent value (RFC 4180).

    Cells are exact, even if they begin like a formula: a program that reads them must get the ledger's contents. Names and
    descriptions are outside text, and a spreadsheet may take ``=1+1`` for a formula; the reference page describes how to open
    the file safely.
    """
    yield _write_rows([CSV_COLUMNS])
    async for lines in parts:
        yield _write_rows([_list_cells(line, found.language) for line in lines])


def _list_cells(line: statements.StatementLine, language: statements.Language) -> tuple[str | int | None, ...]:
    other = line.counterparty
    return (
        line.id,
        format_instant(line.created_at),
        line.end_to_end_id,
        line.return_id,
        line.direction,
        line.amount_cents,
        line.running_balance_cents,
        # Deposits, movements and repayments have no counterparty: three empty cells.
        *((None, None, None) if other is None else (other.name, other.tax_id, other.ispb)),
        line.describe(language),
        line.external_id,
        line.txid,
        line.created_at.astimezone(files.BRAZIL).isoformat(timespec="microseconds"),
    )


def _write_rows(rows: Sequence[Sequence[str | int | None]]) -> bytes:
    # The writer ends lines with CRLF itself, as RFC 4180 requires; another translation would double it.
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


class Format(NamedTuple):
    media_type: str
    write: Callable[[statements.Statement, AsyncIterable[Sequence[statements.StatementLine]]], AsyncIterator[bytes]]
    schema: str = ""  # its name in the OpenAPI document, if it is no record there
    about: str = ""


FORMATS: Final[Mapping[str, Format]] = {
    "json": Format("application/json", _write_json),
    "csv": Format("text/csv; charset=utf-8", write_csv, "CsvFile", "CSV (RFC 4180), in UTF-8."),
    "ofx": Format("application/x-ofx", files.write_ofx, "OfxFile", "OFX 2."),
    "camt053": Format("application/xml", files.write_camt053, "Camt053File", "ISO 20022 `camt.053`."),
}


# fmt: off
SECTIONS: Final = (
    Section(
        title="Ledger",
        operations=(
            Row("retrieve_statement", "GET", "/v1/connect/ledger/statement", "ledger.read",
                NONE, StatementQuery, Nothing, Statement, retrieve_statement,
                media_types=tuple(form.media_type for form in FORMATS.values()), may_be_old=True),
        ),
    ),
)
# fmt: on
